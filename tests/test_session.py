"""A session as a value: histories that share what they hold, and what equality counts.  Rules F7, G4, L7."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from ezgraph import Message, user
from ezgraph.activations import Activation, Row, Rows
from ezgraph.histories import History
from ezgraph.notes import Note
from ezgraph.session import Delta, ErrorRecord, Head, Limits, Session, apply


def said(*texts: str) -> tuple[Message, ...]:
    return tuple(map(user, texts))


def test_f7_a_longer_view_changes_no_shorter_one() -> None:
    one = History(said("a", "b"))
    longer, other = one.extended(said("c")), one.extended(said("d", "e"))
    assert [list(one), list(longer), list(other)] == [
        list(said("a", "b")),
        list(said("a", "b", "c")),
        list(said("a", "b", "d", "e")),
    ]
    assert list(longer.extended(said("x"), drop=1)) == list(said("a", "b", "x"))
    assert list(longer) == list(said("a", "b", "c"))


def test_f7_the_longest_view_grows_in_place() -> None:
    """The same cost for every length: nothing that is there is copied."""
    history = History(said(*"abc"))
    assert history.extended(said("d"))._items is history._items


def test_f7_threads_that_extend_one_view_do_not_mix() -> None:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as pool:
            for _ in range(200):
                one = History(said("a"))
                made = list(pool.map(lambda n, one=one: one.extended(said(str(n), "z")), range(8)))
                assert [[m.text for m in history] for history in made] == [["a", str(n), "z"] for n in range(8)]
    finally:
        sys.setswitchinterval(before)


def test_f7_a_history_is_a_sequence() -> None:
    history = History(said(*"abcd")).extended((), drop=1)
    assert (len(history), history[0], history[-1], history[1:]) == (3, user("a"), user("c"), said("b", "c"))
    assert user("d") not in history
    for index in (3, -4):
        with pytest.raises(IndexError, match=str(index)):
            history[index]
    assert history == History(said(*"abc"))
    assert hash(history) == hash(History(said(*"abc")))
    assert history != History(said(*"abx"))
    assert history != list(history)
    assert repr(History(said("a"))).startswith("History([Message(role='user', text='a'")


def test_g4_l7_equality_counts_what_is_held_and_not_how_often_it_was_tried() -> None:
    """Rules F2, G4, L7: nor what an unfinished step has done so far, which nobody reads."""
    rows = Rows([Row("W", 3, 2)])
    one = Session("s", "g", 4, Head("A", run=3), activation=Activation(3, "A", ("W", "V"), 1, rows))
    tried = Session(
        "s",
        "g",
        7,
        Head("A", run=9),
        Limits(2, 5),
        activation=Activation(8, "A", ("W", "V"), 1, rows),
        errors=(ErrorRecord(3, "W", "ValueError", "no"),),
        journal={("W", None): (Note("W", None, "enter"),)},
    )
    assert one == tried
    assert hash(one) == hash(tried)
    assert one != Session("s", "g", 4, Head("B", run=3), activation=one.activation)
    assert one != Session("s", "g", 4, Head("A", run=3), activation=Activation(3, "A", ("W", "V"), 1))
    scattered = Activation(3, "A", ("W", "V"), 1, rows, inputs=())
    assert one != Session("s", "g", 4, Head("A", run=3), activation=scattered)
    assert one != Session("s", "g", 4, Head("A", run=3), activation=one.activation, series={"W": (1,)})
    assert one != "s"


def note(text: str, node: str = "A", item: int | None = None) -> Note:
    return Note(node, item, "reply 0", text)


def journal_of(session: Session) -> dict[tuple[str, int | None], list[str]]:
    return {place: [one.text for one in noted] for place, noted in session.journal.items()}


def test_f2_a_journal_is_kept_by_place_until_its_step_publishes() -> None:
    """Rule F2: a row drops its own journal; what moves the cursor says that all are dropped."""
    opened = Activation(1, "A", ("W",), 1, inputs=(1, 2))
    session = apply(Session("s", "g", 0, Head("A")), Delta("s", "g", 1, opened=opened, notes=(note("a"),)))
    assert journal_of(session) == {("A", None): ["a"]}
    notes = (note("w0", "W", 0), note("w1", "W", 1), note("more", "W", 0))
    session = apply(session, Delta("s", "g", 2, notes=notes, forgets=True))
    assert journal_of(session) == {("W", 0): ["w0", "more"], ("W", 1): ["w1"]}
    assert journal_of(apply(session, Delta("s", "g", 3, notes=(note("again", "W", 1),))))["W", 1] == ["w1", "again"]
    rowed = apply(session, Delta("s", "g", 3, rows=(Row("W", 7, 2, item=0),)))
    assert journal_of(rowed) == {("W", 1): ["w1"]}
    marked = apply(session, Delta("s", "g", 3, marks=(("W", 0),)))
    assert journal_of(marked) == journal_of(session), "a failed branch goes on from its journal"
    assert apply(session, Delta("s", "g", 3, forgets=True)).journal == {}
    assert journal_of(session) == {("W", 0): ["w0", "more"], ("W", 1): ["w1"]}, "a session never changes"


def test_e2_series_change_where_results_do() -> None:
    session = Session("s", "g", 0, Head("A"), results={"V": 1}, series={"W": (1, 2)})
    assert apply(session, Delta("s", "g", 1)).series == {"W": (1, 2)}
    both = apply(session, Delta("s", "g", 1, results=(), series=("X",)))
    assert (both.results, both.series) == ({}, {"X": ()}), "a scatter over nothing, opened and closed at once"
    assert apply(session, Delta("s", "g", 1, results=())).series == {}


def test_e2_the_write_that_closes_says_whose_outputs_stay_and_not_again_what_they_are() -> None:
    """Rules E6, L6: outputs are written once, in their rows."""
    rows = Rows([Row("W", "b", 1, item=1), Row("W", "a", 1, item=0)])
    session = Session("s", "g", 4, Head("A"), activation=Activation(3, "A", ("W",), 1, rows, inputs=(7, 8)))
    closing = Delta("s", "g", 5, rows=(Row("V", "c", 2),), closed=True, results=("V",), series=("W",))
    after = apply(session, closing)
    assert (after.activation, after.results, after.series) == (None, {"V": "c"}, {"W": ("a", "b")})
