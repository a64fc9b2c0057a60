"""What `compile()` costs a node, by the size and the shape of a graph: `python benchmarks/compiling.py`.

Shapes: a chain of workers, a fan that one worker joins, layers of diamonds, and a ring of stages with a fan-out each.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from large import SHAPES

SIZES = (100, 1_000, 10_000)


def main() -> None:
    """Print a line for each shape."""
    for name, shape in SHAPES.items():
        spent = []
        for size in SIZES:
            graph = shape(size)
            began = time.perf_counter()
            graph.compile()
            spent.append(f"{(time.perf_counter() - began) / size * 1e6:6.0f} at {size}")
        print(f"{name:8} µs a node: {', '.join(spent)}")


if __name__ == "__main__":
    main()
