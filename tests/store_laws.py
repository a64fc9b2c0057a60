"""The laws of the store contract, for any store.  `tests/test_stores.py` runs them over all of ours.

A law is handed an `Opener`: each call opens the same stored sessions once more, as another process would.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from inspect import isawaitable
from threading import Barrier, Thread
from typing import Any, TypeAlias, TypeVar, get_args

import pytest
from msgspec.structs import replace
from strategies import Kept, exactly

from ezgraph.errors import CorruptSession, NoSuchSession, RevisionConflict, SessionExists, WrongGraph
from ezgraph.histories import Addition
from ezgraph.messages import user
from ezgraph.session import CONTEXT, END, Delta, Head, Session, Standing, apply
from ezgraph.stores.codec import Codec
from ezgraph.stores.contract import Archive, Entry, Query, Store

Answer = TypeVar("Answer")

Opener: TypeAlias = Callable[[], AbstractContextManager[Archive]]

CODEC = Codec("claims", {"Intake": int | None, CONTEXT: None}, {})


def now(answer: Answer | Awaitable[Answer]) -> Answer:
    """What a store answers, at once or later."""
    if not isawaitable(answer):
        return answer

    async def wait() -> Answer:
        return await answer

    return asyncio.run(wait())


def load(store: Store, session: str, codec: Codec = CODEC) -> Session | None:
    """What a store has."""
    return now(store.load(session, codec))


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
    now(store.commit(after, delta, codec))
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
        assert {n: exactly(v) for n, v in found.cells.items()} == {n: exactly(v) for n, v in session.cells.items()}


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
    ids = ["c-17", "C-17", "c-17 ", "", "a\0b", "a", "ä", "日本", "'; DROP TABLE session; --", "1", "1.0", "%", "*"]
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


def law_what_is_exported_and_added_elsewhere_loads_equal(opened: Opener) -> None:
    """Rules L1, L4: plain JSON, the caller's own; and no id is taken twice."""
    with opened() as store:
        first = commit(store, None, following(None, "one"))
        second = commit(store, first, following(first, "two"))
        document = now(store.export("c-17"))
        assert json.loads(json.dumps(document)) == document
        assert {key: document[key] for key in ("format", "graph", "version", "revision")} == {
            "format": 1,
            "graph": "claims",
            "version": 1,
            "revision": 2,
        }
        now(store.add({"c-18": document}))
        now(store.copy("c-17", "c-19"))
        document["cells"]["Intake"] = 99
        for other in ("c-18", "c-19"):
            assert load(store, other) == replace(second, id=other)
            with pytest.raises(SessionExists, match=rf"there is a session '{other}' in .* already"):
                now(store.add({"free": document, other: document}))
            with pytest.raises(SessionExists, match="take another id"):
                now(store.copy("c-17", other))
        grown = commit(store, load(store, "c-18"), following(second, "three", "c-18"))
        assert load(store, "c-18") == grown
        assert load(store, "c-17") == second
        for answer in (lambda: store.export("c-20"), lambda: store.copy("c-20", "c-21")):
            with pytest.raises(NoSuchSession, match="there is no session 'c-20'"):
                now(answer())


BAD: tuple[tuple[Any, str, str], ...] = (
    ([], "$", "is not an object"),
    ({}, "$.format", "is None, and this version reads format 1"),
    ({"format": 2}, "$.format", "is 2, and this version reads format 1"),
    ({"format": 1}, "$.graph", "is not the name of a graph"),
    ({"format": 1, "graph": "claims"}, "$.version", "is not a whole number"),
    ({"format": 1, "graph": "claims", "version": 0}, "$.version", "is not a whole number"),
    ({"format": 1, "graph": "claims", "version": 1, "revision": 1.5}, "$.revision", "is not a whole number"),
    ({"format": 1, "graph": "claims", "version": 1, "revision": 1, "head": {}}, "$.head.cursor", "is not the id"),
)


def nested(depth: int) -> list[Any]:
    made: list[Any] = []
    for _ in range(depth):
        made = [made]
    return made


HEAD: dict[str, Any] = {"format": 1, "graph": "claims", "version": 1, "revision": 1, "head": {"cursor": "Intake"}}
BAD_PARTS: tuple[tuple[Any, str, str], ...] = (
    ({"more": 1}, "$.more", "is unknown"),
    ({"limits": 7}, "$.limits", "is not an object"),
    ({"cells": []}, "$.cells", "is not an object"),
    ({"histories": {"default": {}}}, "$.histories.default", "is not a list"),
    ({"journal": {}}, "$.journal", "is not a list"),
    ({"journal": [{}]}, "$", "has no place"),
    ({"activation": {"rows": 7}}, "$.rows", "is not a list"),
    ({"activation": {"marks": ["x"]}}, "$", "has no place"),
    ({"cells": {"Intake": "\ud800"}}, "$", "text that UTF-8 cannot encode"),
    ({"cells": {"Intake": nested(100_000)}}, "$", "nested more than 208 deep"),
    ({"cells": {"Intake": nested(300)}}, "$", "nested more than 208 deep"),
)


def law_what_is_no_document_is_not_added(opened: Opener) -> None:
    """Rules L4, M2."""
    with opened() as store:
        for document, path, problem in BAD + tuple(({**HEAD, **more}, at, why) for more, at, why in BAD_PARTS):
            with pytest.raises(CorruptSession, match=problem) as caught:
                now(store.add({"ok": HEAD, "c-17": document}))
            assert (caught.value.path, caught.value.session) == (path, "c-17")
        assert load(store, "c-17") is None
        assert now(store.find(Query())) == []
        assert now(store.add({})) is None


def law_sessions_are_found_by_what_they_are(opened: Opener) -> None:
    """Rule L1: each condition alone and all together, a page at a time."""
    orders = Codec("orders", {"Basket": str}, {})
    with opened() as store:
        waiting = commit(store, None, following(None, session="a"))
        commit(store, None, Delta("b", "claims", 1, Head(END)))
        commit(store, None, Delta("c", "claims", 1, Head("Intake", owed=True)))
        commit(store, None, Delta("d", "orders", 1, Head("Basket")), orders)
        commit(store, None, Delta("e", "orders", 1, Head("Basket", owed=True, raised=True)), orders)
        commit(store, waiting, following(waiting, session="a"))

        def found(**query: Any) -> list[str]:
            return [entry.session for entry in now(store.find(Query(**query)))]

        (first, *_) = now(store.find(Query()))
        assert first == Entry("a", "claims", 1, 2, "Intake", "idle", first.created, first.updated, first.idle)
        assert first.created < first.updated
        again = now(store.entry("a"))
        assert again is not None
        assert (again.session, again.updated) == ("a", first.updated)
        assert again.idle >= first.idle >= 0
        assert now(store.entry("f")) is None
        assert found() == ["a", "b", "c", "d", "e"]
        assert found(graph="claims") == ["a", "b", "c"]
        assert found(cursor="Intake") == ["a", "c"]
        assert [found(status=one) for one in get_args(Standing)] == [["a", "d"], ["e"], ["c"], ["b"]]
        assert (found(idle=0), found(idle=3600)) == (["a", "b", "c", "d", "e"], [])
        assert (found(limit=2), found(limit=2, after="b"), found(limit=0)) == (["a", "b"], ["c", "d"], [])
        assert found(graph="claims", status="idle", cursor="Basket") == []


def law_what_is_deleted_leaves_nothing(opened: Opener) -> None:
    """Rules L1, L6: and its id is free."""
    with opened() as store:
        for session in ("a", "b", "c"):
            commit(store, None, following(None, session=session))
        assert now(store.delete("b")) is True
        assert now(store.delete("b")) is False
        assert load(store, "b") is None
        with pytest.raises(RevisionConflict, match="the store has 0"):
            commit(store, Session("b", "claims", 1, Head("Intake")), Delta("b", "claims", 2))
        commit(store, None, following(None, "again", "b"))
        assert now(store.prune(Query(limit=2))) == 2
        assert [entry.session for entry in now(store.find(Query()))] == ["c"]
        assert now(store.prune(Query(graph="orders"))) == 0
        assert now(store.prune(Query())) == 1
        assert now(store.find(Query())) == []


def law_a_late_commit_never_reaches_a_session_begun_anew(opened: Opener) -> None:
    """Rule L2: begun again, or back from a backup, at the very revision that the late commit builds on."""
    with opened() as store, opened() as other:
        for session in ("begun", "added", "copied"):
            life = Session(session, "claims", 0, Head(""), incarnation=1)
            late = commit(store, life, following(None, "late", session))
            document = now(other.export(session))
            assert load(store, session) == late
            assert now(other.delete(session)) is True
            with pytest.raises(RevisionConflict, match=r"the store has 0. The session was deleted meanwhile; nothing"):
                commit(store, late, following(late, "late", session))
            assert load(other, session) is None
            if session == "begun":
                commit(other, replace(life, incarnation=2), following(None, "anew", session))
            elif session == "added":
                now(other.add({session: document}))
            else:
                now(other.add({"backup": document}))
                now(other.copy("backup", session))
            anew = now(other.export(session))
            with pytest.raises(RevisionConflict, match="was deleted meanwhile, and begun anew; nothing") as caught:
                commit(store, late, following(late, "late", session))
            assert (caught.value.session, caught.value.expected, caught.value.found) == (session, 1, 1)
            assert now(store.export(session)) == anew
            found = load(store, session)
            assert found is not None
            commit(store, found, following(found, "on", session))
            with pytest.raises(RevisionConflict):
                commit(store, replace(late, revision=2), following(replace(late, revision=2), "late", session))


LAWS: tuple[Callable[[Opener], Any], ...] = (
    law_an_unknown_session_is_none,
    law_a_taken_revision_is_a_conflict_and_changes_nothing,
    law_a_gap_is_a_conflict_and_changes_nothing,
    law_sessions_do_not_mix,
    law_one_store_serves_many_graphs,
    law_a_session_that_was_handed_out_never_changes,
    law_of_two_writers_one_wins,
    law_what_is_exported_and_added_elsewhere_loads_equal,
    law_what_is_no_document_is_not_added,
    law_sessions_are_found_by_what_they_are,
    law_what_is_deleted_leaves_nothing,
    law_a_late_commit_never_reaches_a_session_begun_anew,
)
"""Those that need nothing drawn."""
