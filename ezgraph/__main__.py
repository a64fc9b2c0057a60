"""`python -m ezgraph`: the command line of `ezgraph.cli`."""

import sys

from ezgraph.cli import main

if __name__ == "__main__":
    sys.exit(main())
