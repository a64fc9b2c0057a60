"""What the store of a compiled graph has, which a reader does not see whole."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from ezgraph.activations import Place
from ezgraph.notes import Note
from ezgraph.runtime.compiled import CompiledGraph


async def kept_journals(app: CompiledGraph, session: str = "s") -> Mapping[Place, tuple[Note, ...]]:
    """The journals of a session's unfinished steps, as they are in the store."""
    found = await app._executor.load(session)
    assert found is not None
    return found.journal


def journals(app: CompiledGraph, session: str = "s") -> Mapping[Place, tuple[Note, ...]]:
    """As `kept_journals`, blocking."""
    return asyncio.run(kept_journals(app, session))
