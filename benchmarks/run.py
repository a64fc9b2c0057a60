"""Transitions side by side, as ratios to the floor: `python benchmarks/run.py`.

W1 is 1,000 transitions round a ring of ten nodes, W2 a self-loop that appends one message a transition, W3 a fan-out to
async workers that do nothing, with all outputs joined: in memory, and on SQLite with a row for each branch.  W4 is 300
transitions of W1, each a commit of 1 KB to SQLite (crash safe, and power-loss safe); W4h has one more message of 100
bytes in the place of that.  What a session's file grows by is for `growth.py`.

Every peer runs the same bodies and must return the count it reached.  Peers take turns within a round; what counts is
the ratio to the floor in the same run, never a single figure.  A peer that is not installed is left out, by name.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import importlib
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import ModuleType

PEERS = ("floor", "ezgraph", "transitions")
CASES = {
    "W1 async": ("ring", 1000),
    "W1 sync": ("ring_sync", 1000),
    "W2 N=100": ("messages", 100),
    "W2 N=500": ("messages", 500),
    "W2 N=2000": ("messages", 2000),
    "W3 W=16": ("fan", 16),
    "W3 W=128": ("fan", 128),
    "W3 W=512": ("fan", 512),
    "W3 W=2048": ("fan", 2048),
    "W3 disk W=16": ("fan_sqlite", 16),
    "W3 disk W=128": ("fan_sqlite", 128),
    "W3 disk W=512": ("fan_sqlite", 512),
    "W3 disk W=2048": ("fan_sqlite", 2048),
    "W4 process": ("ring_sqlite", 300),
    "W4 commit": ("ring_full_sqlite", 300),
    "W4h N=50": ("messages_sqlite", 50),
    "W4h N=100": ("messages_sqlite", 100),
    "W4h N=200": ("messages_sqlite", 200),
    "W4h N=400": ("messages_sqlite", 400),
}
Job = Callable[[], Awaitable[int]]


async def sample(job: Job, size: int, seconds: float) -> float:
    """Microseconds a transition; of a fan-out, a worker."""
    gc.collect()
    runs, began = 0, time.perf_counter()
    while True:
        reached = await job()
        runs += 1
        spent = time.perf_counter() - began
        if reached != size:
            raise AssertionError(f"reached {reached}, not {size}")
        if spent >= seconds:
            return spent / runs / size * 1e6


def job_of(module: ModuleType, name: str, size: int, folder: Path) -> Job:
    """A peer's job; one that writes is given a folder."""
    make = getattr(module, name)
    job: Job = make(size, folder) if name.endswith("_sqlite") else make(size)
    return job


async def measure(case: str, modules: dict[str, ModuleType], rounds: int, seconds: float) -> None:
    """Run a case by every peer that has it, and print the medians and the ratios to the floor."""
    name, size = CASES[case]
    with tempfile.TemporaryDirectory() as folder:
        jobs = {p: job_of(module, name, size, Path(folder)) for p, module in modules.items() if hasattr(module, name)}
        samples: dict[str, list[float]] = {peer: [] for peer in jobs}
        for turn in range(rounds):
            order = list(jobs)[turn % len(jobs) :] + list(jobs)[: turn % len(jobs)]
            for peer in order:
                samples[peer].append(await sample(jobs[peer], size, seconds))
    floor = statistics.median(samples["floor"])
    for peer, found in samples.items():
        ratios = sorted(mine / low for mine, low in zip(found, samples["floor"], strict=True))
        middle = statistics.median(found)
        print(
            f"{case:14} {peer:12} {middle:8.2f} us/{'worker' if case.startswith('W3') else 'transition'}"
            f"  {middle / floor:6.1f} floors  (in a round: {ratios[0]:.1f} to {ratios[-1]:.1f})"
        )


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.2, help="of each sample")
    parser.add_argument("--only", default="", metavar="CASE", help="the cases that begin so: --only W3")
    given = parser.parse_args()
    modules = {}
    for peer in PEERS:
        try:
            modules[peer] = importlib.import_module(f"peer_{peer}")
        except ImportError as error:
            print(f"{peer}: left out ({error})")
    for case in CASES:
        if case.startswith(given.only):
            await measure(case, modules, given.rounds, given.seconds)


if __name__ == "__main__":
    asyncio.run(main())
