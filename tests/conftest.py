"""Profiles of the property tests (`default` for every run, `heavy` for `scripts/hypothesis-heavy`), and the stores."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from ezgraph.stores.contract import Store
from ezgraph.stores.memory import MemoryStore
from ezgraph.stores.sqlite import SQLiteStore

settings.register_profile("default", deadline=None, derandomize=True, max_examples=40, stateful_step_count=12)
settings.register_profile(
    "heavy",
    deadline=None,
    derandomize=False,
    max_examples=int(os.environ.get("HYPOTHESIS_EXAMPLES", "1000")),
    stateful_step_count=40,
    suppress_health_check=list(HealthCheck),
    print_blob=True,
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """A store that keeps a session's value, and one that loads it anew each time."""
    return MemoryStore() if request.param == "memory" else SQLiteStore(tmp_path / "s.db", keep=0)
