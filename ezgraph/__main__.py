"""`python -m ezgraph`: the command line of `ezgraph.cli`."""

import sys

from ezgraph.cli import main

sys.exit(main())
