"""What a session writes, turn by turn: `python benchmarks/growth.py`.

For messages of some sizes: bytes in the write-ahead log around turn 50 and turn 500, and the file after 200 messages,
when it is closed, by their bytes as JSON.
"""

from __future__ import annotations

import json
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path
from statistics import mean

from ezgraph import Direct, Graph, GraphNode, StageContext, direct
from ezgraph.stores.sqlite import SQLiteStore

SIZES = (100, 250, 1000, 4000)


class Echo(GraphNode[int]):
    """Counts, and says back what it was told."""

    def run(self, ctx: StageContext[int]) -> Direct:
        ctx.save(ctx.state + 1)
        return direct(ctx.incoming.text if ctx.incoming else "")


def turns(path: Path, size: int, count: int) -> list[int]:
    """The bytes that each turn but the first adds to the log."""
    log = Path(f"{path}-wal")
    written = []
    with SQLiteStore(path) as store, closing(sqlite3.connect(path)) as reader:
        app = Graph("echo", entry=Echo).compile(store=store)
        app.invoke("x" * size, session="s")
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM session").fetchone()  # who reads the first turn keeps the log as it is
        for _ in range(count - 1):
            before = log.stat().st_size
            app.invoke("x" * size, session="s")
            written.append(log.stat().st_size - before)
    return written


def main() -> None:
    """Print a line for the file and a line for the turns of each size."""
    for size in SIZES:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "short.db"
            turns(path, size, 100)
            with SQLiteStore(path) as store:
                messages = store.export("s")["histories"]["default"]
            raw = sum(len(json.dumps(message)) for message in messages)
            print(f"{size:5} B a message: the file is {path.stat().st_size / raw:.2f} of its {len(messages)} messages")
            written = turns(Path(folder) / "long.db", size, 511)
            early, late = mean(written[40:60]), mean(written[490:510])
            print(f"        turn 50 writes {early:.0f} B, turn 500 {late:.0f} B: {late / early:.2f} of it")


if __name__ == "__main__":
    main()
