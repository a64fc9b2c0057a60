"""The root of the hierarchy."""

from __future__ import annotations


class EzGraphError(Exception):
    """`except EzGraphError` catches what this library raises, and nothing else."""
