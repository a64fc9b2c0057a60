"""The laws of the store contract, for any store.  `tests/test_stores.py` runs them over all of ours.

A law is handed an `Opener`: each call opens the same stored sessions once more, as another process would.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from inspect import isawaitable
from threading import Barrier, Thread
from typing import Any, TypeAlias

import pytest
from strategies import Kept, exactly

from ezgraph.errors import RevisionConflict, WrongGraph
from ezgraph.histories import Addition
from ezgraph.messages import user
from ezgraph.session import CONTEXT, END, Delta, Head, Session, apply
from ezgraph.stores.codec import Codec
from ezgraph.stores.contract import Store

Opener: TypeAlias = Callable[[], AbstractContextManager[Store]]

CODEC = Codec("claims", {"Intake": int | None, CONTEXT: None}, {})


def load(store: Store, session: str, codec: Codec = CODEC) -> Session | None:
    """What a store that answers at once has."""
    found = store.load(session, codec)
    assert not isawaitable(found)
    return found


def following(before: Session | None, text: str = "hi", session: str = "c-17") -> Delta:
    """A delta that builds on a session, or makes one."""
    revision = before.revision if before else 0
    return Delta(
        session,
        "claims",
        revision + 1,
        Head("Intake", run=revision),
        cells={"Intake": revision},
        messages={"default": Addition((user(text),))},
    )


def commit(store: Store, before: Session | None, delta: Delta, codec: Codec = CODEC) -> Session:
    """Commit a delta, and give the session after it."""
    after = apply(before or Session(delta.session, delta.graph, 0, Head("")), delta)
    assert not isawaitable(store.commit(after, delta, codec))
    return after


def law_an_unknown_session_is_none(opened: Opener) -> None:
    """Rule L1."""
    with opened() as store:
        assert load(store, "c-17") is None


def law_a_session_loads_as_the_fold_of_its_deltas(opened: Opener, of: Kept, deltas: tuple[Delta, ...]) -> None:
    """Rules L1, L3, L4: after each commit, and however often it is opened."""
    session: Session | None = None
    for delta in deltas:
        with opened() as store:
            session = commit(store, session, delta, of.codec)
        with opened() as store:
            found = load(store, "c-17", of.codec)
        assert found is not None
        assert found == session
        assert (found.limits, found.errors, found.journal) == (session.limits, session.errors, session.journal)
        assert [exactly(value) for value in found.cells.values()] == [exactly(v) for v in session.cells.values()]


def law_a_taken_revision_is_a_conflict_and_changes_nothing(opened: Opener) -> None:
    """Rule L2."""
    with opened() as store:
        first = commit(store, None, following(None, "mine"))
        second = commit(store, first, following(first, "mine"))
        for before in (None, first):
            with pytest.raises(RevisionConflict, match="Another turn committed first") as caught:
                commit(store, before, following(before, "theirs"))
            assert (caught.value.session, caught.value.found) == ("c-17", 2)
            assert caught.value.expected == (before.revision if before else 0)
        assert load(store, "c-17") == second
        commit(store, second, following(second))


def law_a_gap_is_a_conflict_and_changes_nothing(opened: Opener) -> None:
    """Rule L2."""
    with opened() as store:
        for revision in (0, 2, 3, -1):
            with pytest.raises(RevisionConflict, match="the store has 0"):
                commit(store, None, Delta("c-17", "claims", revision, Head(END)))
        assert load(store, "c-17") is None
        first = commit(store, None, following(None))
        with pytest.raises(RevisionConflict, match="built on revision 2, and the store has 1"):
            commit(store, first, Delta("c-17", "claims", 3, Head(END)))
        assert load(store, "c-17") == first


def law_sessions_do_not_mix(opened: Opener) -> None:
    """Rule L1, FIELD X3."""
    ids = ["c-17", "C-17", "c-17 ", "", "a\0b", "a", "ä", "日本", "'; DROP TABLE delta; --", "1", "1.0", "%", "*"]
    with opened() as store:
        for session in ids:
            commit(store, None, following(None, session, session))
    with opened() as store:
        for session in ids:
            found = load(store, session)
            assert found is not None
            assert [message.text for message in found.histories["default"]] == [session]


def law_one_store_serves_many_graphs(opened: Opener) -> None:
    """Rule L5."""
    orders = Codec("orders", {"Basket": str}, {})
    with opened() as store:
        mine = commit(store, None, following(None))
        theirs = commit(store, None, Delta("o-1", "orders", 1, Head("Basket"), cells={"Basket": "x"}), orders)
        assert load(store, "c-17") == mine
        assert load(store, "o-1", orders) == theirs
        with pytest.raises(WrongGraph, match=r"session 'c-17' in .* belongs to graph 'claims', not to 'orders'"):
            load(store, "c-17", orders)


def law_a_session_that_was_handed_out_never_changes(opened: Opener) -> None:
    """Rule F3, FIELD S7."""
    with opened() as store:
        first = commit(store, None, following(None, "one"))
        earlier = load(store, "c-17")
        assert earlier is not None
        commit(store, first, following(first, "two"))
        assert (earlier.revision, earlier.cells, len(earlier.histories["default"])) == (1, {"Intake": 0}, 1)


def law_of_two_writers_one_wins(opened: Opener, racers: int = 4, rounds: int = 15) -> None:
    """Rule L2, FIELD X1: each on its own opening, all at one revision at once."""
    won: list[int] = []
    wrong: list[BaseException] = []
    barrier = Barrier(racers)

    def race(name: int) -> None:
        try:
            with opened() as store:
                for _ in range(rounds):
                    before = load(store, "c-17")
                    barrier.wait()
                    try:
                        commit(store, before, following(before, str(name)))
                        won.append(name)
                    except RevisionConflict:
                        pass
                    barrier.wait()
        except BaseException as error:  # noqa: BLE001  told by the thread that waits
            wrong.append(error)
            barrier.abort()

    threads = [Thread(target=race, args=(name,)) for name in range(racers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == [], [repr(error) for error in wrong]
    with opened() as store:
        found = load(store, "c-17")
    assert found is not None
    assert found.revision == len(won) == rounds
    assert [message.text for message in found.histories["default"]] == [str(name) for name in won]


LAWS: tuple[Callable[[Opener], Any], ...] = (
    law_an_unknown_session_is_none,
    law_a_taken_revision_is_a_conflict_and_changes_nothing,
    law_a_gap_is_a_conflict_and_changes_nothing,
    law_sessions_do_not_mix,
    law_one_store_serves_many_graphs,
    law_a_session_that_was_handed_out_never_changes,
    law_of_two_writers_one_wins,
)
"""Those that need nothing drawn."""
