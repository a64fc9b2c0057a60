"""Transitions side by side, as ratios to the floor: `python benchmarks/run.py`.

W1 is 1,000 transitions round a ring of ten nodes, W2 a self-loop that appends one message a transition.  Every peer
runs the same bodies and must return the count it reached.  Peers take turns within a round; what counts is the ratio to
the floor in the same run, never a single figure.  A peer that is not installed is left out, by name.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import importlib
import statistics
import time
from collections.abc import Awaitable, Callable

PEERS = ("floor", "ezgraph", "transitions")
CASES = {
    "W1 async": ("ring", 1000),
    "W1 sync": ("ring_sync", 1000),
    "W2 N=100": ("messages", 100),
    "W2 N=500": ("messages", 500),
    "W2 N=2000": ("messages", 2000),
}


async def sample(job: Callable[[], Awaitable[int]], size: int, seconds: float) -> float:
    """Microseconds a transition."""
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


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.2, help="of each sample")
    given = parser.parse_args()
    modules = {}
    for peer in PEERS:
        try:
            modules[peer] = importlib.import_module(f"peer_{peer}")
        except ImportError as error:
            print(f"{peer}: left out ({error})")
    for case, (name, size) in CASES.items():
        jobs = {peer: getattr(module, name)(size) for peer, module in modules.items() if hasattr(module, name)}
        samples: dict[str, list[float]] = {peer: [] for peer in jobs}
        for turn in range(given.rounds):
            order = list(jobs)[turn % len(jobs) :] + list(jobs)[: turn % len(jobs)]
            for peer in order:
                samples[peer].append(await sample(jobs[peer], size, given.seconds))
        floor = statistics.median(samples["floor"])
        for peer, found in samples.items():
            ratios = sorted(mine / low for mine, low in zip(found, samples["floor"], strict=True))
            middle = statistics.median(found)
            print(
                f"{case:10} {peer:12} {middle:8.2f} us/transition  {middle / floor:6.1f} floors"
                f"  (in a round: {ratios[0]:.1f} to {ratios[-1]:.1f})"
            )


if __name__ == "__main__":
    asyncio.run(main())
