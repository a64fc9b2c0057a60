"""The root of the hierarchy."""

from __future__ import annotations


class EzGraphError(Exception):
    """`except EzGraphError` catches what this library raises, and nothing else."""

    def __init__(self, *args: object) -> None:  # else a built-in class's, which has no signature
        super().__init__(*args)
