"""A step's journal while it runs: what an earlier run finished is read, what finishes now is appended.  Rule F2."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, final

from ezgraph.errors import RevisionConflict, StoreError
from ezgraph.notes import Note

if TYPE_CHECKING:
    from ezgraph.runtime.context import Context


@final
class Journal:
    """The journal of one run of a step, or of a worker that it called: then with a prefix to every place.

    Attributes:
        ctx: What the step was handed.
    """

    def __init__(self, ctx: Context[Any, Any], notes: Mapping[str, Note], prefix: str = "") -> None:
        self.ctx, self._notes, self._prefix = ctx, notes, prefix
        self._held: list[Note] = []

    @classmethod
    def of(cls, ctx: Context[Any, Any]) -> Journal:
        """The journal of a step, with what an earlier run of it has noted."""
        noted = ctx._drive.session.journal.get(ctx._step.place, ())
        return cls(ctx, {note.at: note for note in noted})

    def found(self, at: str) -> Note | None:
        """What an earlier run noted there."""
        return self._notes.get(self._prefix + at)

    def within(self, at: str) -> Journal:
        """The journal of a worker that is called there."""
        return Journal(self.ctx, self._notes, f"{self._prefix}{at}/")

    def hold(self, at: str, **parts: Any) -> None:
        """Append with the next write: what is cheap to find again is not worth a write of its own."""
        self._held.append(Note(*self.ctx._step.place, self._prefix + at, **parts))

    async def write(self, at: str, **parts: Any) -> None:
        """Append now, with all that was held.  Rule L3.

        Raises:
            RevisionConflict: Another turn committed first.
            StoreError: The store cannot be written.
        """
        self.hold(at, **parts)
        drive = self.ctx._drive
        if not drive.journals:
            return
        notes, self._held = tuple(self._held), []
        try:
            await drive.note(self.ctx._step, notes)
        except (RevisionConflict, StoreError) as error:
            self.ctx._fault = error
            raise
