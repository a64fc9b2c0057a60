"""The in-process executor: what loads, commits and drives the sessions of one compiled graph."""

from __future__ import annotations

from typing import final

from attrs import frozen

from ezgraph.plan import Plan
from ezgraph.runtime.driver import Drive
from ezgraph.runtime.events import Listener
from ezgraph.session import Delta, Session, Turn
from ezgraph.stores.codec import Codec
from ezgraph.stores.contract import Store


@final
@frozen(eq=False)
class Executor:
    """Drives one turn at a time for any number of sessions; keeps nothing between turns.

    Attributes:
        plan: The compiled graph.
        store: Where sessions are kept.
        codec: How their values become bytes.
    """

    plan: Plan
    store: Store
    codec: Codec

    async def load(self, session: str) -> Session | None:
        """The session as it was last committed."""
        found = self.store.load(session, self.codec)
        return found if found is None or isinstance(found, Session) else await found

    async def commit(self, session: Session, delta: Delta) -> Session:
        """The session after `delta`, once the store has it."""
        drive = Drive(self.plan, self.store, self.codec, session, None)
        await drive.commit(delta)
        return drive.session

    async def drive(self, session: Session, listener: Listener | None) -> Turn:
        """Run what is ready until nothing is, and say what the turn came to.  Raises what `Drive.run` does."""
        return await Drive(self.plan, self.store, self.codec, session, listener).run()
