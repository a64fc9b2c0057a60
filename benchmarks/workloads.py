"""What every peer shares: the state, the node bodies and the sizes.  No peer may do less work."""

from __future__ import annotations

from typing import NamedTuple

NODES = 10  # on the ring of W1


class Rec(NamedTuple):
    """The small immutable record that a node replaces on every transition."""

    seq: int
    label: str
    score: float


START = Rec(0, "start", 0.5)


def advance(count: int, rec: Rec) -> tuple[int, Rec]:
    """The body of every node of W1."""
    count += 1
    return count, Rec(count, rec.label, rec.score)


TEXT = "x" * 64  # W2 appends about 100 bytes a step
PAD = "x" * 44  # W3 on disk writes rows of one size, a few bytes more or less
KILO = "x" * 900  # W4 writes about 1 KB a step
