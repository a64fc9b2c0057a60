"""A step's journal while it runs: what an earlier run finished is read, what finishes now is appended.  Rule F2."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, final

from ezgraph.algebra.scheduling import Step
from ezgraph.errors import RevisionConflict, StepLimit, StoreError
from ezgraph.notes import Note

if TYPE_CHECKING:
    from ezgraph.runtime.driver import Drive


NO_FAULT: Final = (StepLimit, RevisionConflict, StoreError)
"""What can be raised inside a step and is not the step's failure: it is told as it is, and nothing is logged of it."""


@final
class Journal:
    """The journal of one run of a step."""

    def __init__(self, drive: Drive, step: Step) -> None:
        self._drive, self._step = drive, step
        self._notes = {note.at: note for note in drive.session.journal.get(step.place, ())}
        self._held: list[Note] = []
        self._ordinals: dict[str, int] = {}

    def found(self, at: str) -> Note | None:
        """What an earlier run noted there."""
        return self._notes.get(at)

    def numbered(self, section: str) -> str:
        """The place of the next worker that is called in a section of the step."""
        ordinal = self._ordinals[section] = self._ordinals.get(section, -1) + 1
        return f"{section}/{ordinal}"

    def hold(self, at: str, **parts: Any) -> None:
        """Append with the next write: what is cheap to find again is not worth a write of its own."""
        self._held.append(Note(*self._step.place, at, **parts))

    async def write(self, at: str, **parts: Any) -> None:
        """Append now, with all that was held.  Rule L3.

        Raises:
            RevisionConflict: Another turn committed first.
            StoreError: The store cannot be written.
        """
        self.hold(at, **parts)
        if self._drive.journals:
            notes, self._held = tuple(self._held), []
            await self._drive.note(self._step, notes)
