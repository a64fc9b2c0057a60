"""A session as a value: histories that share what they hold, and what equality counts.  Rules F7, G4, L7."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from ezgraph import Message, user
from ezgraph.session import Activation, Head, History, Limits, Row, Session


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
    row = Row("W", 3, 2)
    one = Session("s", "g", 4, Head("A", run=3), activation=Activation(3, "A", ("W", "V"), 1, {"W": row}))
    tried = Session(
        "s", "g", 7, Head("A", run=9), Limits(2, 5), activation=Activation(8, "A", ("W", "V"), 1, {"W": row})
    )
    assert one == tried
    assert hash(one) == hash(tried)
    assert one != Session("s", "g", 4, Head("B", run=3), activation=one.activation)
    assert one != Session("s", "g", 4, Head("A", run=3), activation=Activation(3, "A", ("W", "V"), 1))
    assert one != "s"
