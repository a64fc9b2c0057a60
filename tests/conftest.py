"""Profiles of the property tests: `default` for every run, `heavy` for `scripts/hypothesis-heavy`."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

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
