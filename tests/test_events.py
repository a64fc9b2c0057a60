"""The event stream: in order, not built without a listener, cancelled by closing, harmless when it fails.  Rule G8."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Generator
from typing import Any

import pytest
from faults import idle, no_other_task
from puppets import W1, W2, W3, A, C, Note, Play, app
from transcripts import told

from ezgraph import BranchFailed, EzGraphError, StepFailed, ToolCall, UnknownSession, direct, fanout, go, stay
from ezgraph.models import ModelReply
from ezgraph.runtime.events import (
    Event,
    ModelReplied,
    StepPublished,
    StepRaised,
    StepStarted,
    ToolAnswered,
    ToolCalled,
    TurnEnded,
    TurnStarted,
)


def raising(ctx: Any) -> Any:
    raise LookupError("on purpose")


def talk() -> Play:
    """A hands over to C, whose tool stays once and then opens branches."""
    return Play(
        A=lambda ctx: go(C),
        C=[
            lambda request: ModelReply(calls=(ToolCall("c1", "do", '{"k": 1}'),)),
            lambda request: ModelReply(calls=(ToolCall("c2", "do", '{"k": 2}'),)),
        ],
        C1=lambda ctx: stay("once more"),
        C2=lambda ctx: fanout(W1, W3),
        J=lambda ctx: direct("joined"),
    )


def test_g8_a_turn_tells_everything_in_order() -> None:
    seen = list(app(talk(), max_branches=1).stream("hello", session="s"))
    assert [type(event).__name__ + ":" + getattr(event, "node", "") for event in seen] == [
        "TurnStarted:",
        "StepStarted:A",
        "StepPublished:A",
        "StepStarted:C",
        "ModelReplied:C",
        "ToolCalled:C",
        "ToolAnswered:C",
        "ModelReplied:C",
        "ToolCalled:C",
        "ToolAnswered:C",
        "StepPublished:C",
        "StepStarted:W1",
        "StepPublished:W1",
        "StepStarted:W3",
        "StepPublished:W3",
        "StepStarted:W4",
        "StepPublished:W4",
        "StepStarted:J",
        "StepPublished:J",
        "TurnEnded:",
    ]
    assert [event.result for event in seen if isinstance(event, ToolAnswered)] == ["once more", "Done."]
    # Each of C's two finished calls makes a revision of its own, of which nothing is told: rule F2.
    assert [event.revision for event in seen if isinstance(event, StepPublished)] == [1, 4, 5, 6, 7, 8]
    last = seen[-1]
    assert isinstance(last, TurnEnded)
    assert (last.turn.reply, last.turn.revision) == ("joined", 8)
    assert all(event.session == "s" for event in seen if not isinstance(event, TurnEnded))


def test_g8_what_was_published_can_be_loaded_when_it_is_told() -> None:
    """The commit comes first, then the event."""
    revisions: list[tuple[int, int]] = []

    async def main() -> None:
        graph = app(talk())
        async with graph.astream("hello", session="s") as events:
            async for event in events:
                if isinstance(event, StepPublished):
                    stored = await graph.aload("s")
                    revisions.append((event.revision, stored.revision))

    asyncio.run(main())
    assert revisions
    assert all(told_of <= stored for told_of, stored in revisions)


@pytest.mark.parametrize(
    "kind",
    [TurnStarted, StepStarted, ModelReplied, ToolCalled, ToolAnswered, StepPublished, StepRaised, TurnEnded],
)
def test_g8_no_event_is_built_without_a_listener(kind: type, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each event class is made to raise; only a turn that somebody listens to notices."""

    def refuse(*args: object, **kwargs: object) -> None:
        raise AssertionError(f"{kind.__name__} was built")

    runtime = [module for name, module in sys.modules.items() if name.startswith("ezgraph.runtime.")]
    patched = [module for module in runtime if hasattr(module, kind.__name__)]
    assert len(patched) > 1, "where it is defined, and where it is told"
    for module in patched:
        monkeypatch.setattr(module, kind.__name__, refuse)
    assert app(talk()).invoke("hello", session="s").reply == "joined"
    with pytest.raises(StepFailed):
        app(Play(A=raising)).invoke("hello", session="s")
    with pytest.raises(BranchFailed):
        app(Play(A=lambda ctx: fanout(W1, W2), W1=raising)).invoke("hello", session="s")
    listened = app(Play(A=raising) if kind is StepRaised else talk(), listener=lambda event: None)
    with pytest.raises((AssertionError, EzGraphError), match="was built"):
        listened.invoke("hello", session="s")


def test_g8_a_listener_that_raises_is_reported_and_harms_nothing(caplog: pytest.LogCaptureFixture) -> None:
    heard: list[Event] = []

    def fails(event: Event) -> None:
        heard.append(event)
        raise RuntimeError("the listener's own fault")

    quiet, loud = app(talk()), app(talk(), listener=fails)
    with caplog.at_level(logging.ERROR, logger="ezgraph"):
        assert loud.invoke("hello", session="s") == quiet.invoke("hello", session="s")
        loud_seen = list(app(talk(), listener=fails).stream("hello", session="s"))
    assert loud.load("s") == quiet.load("s")
    assert len(heard) == 2 * len(loud_seen)
    assert len(caplog.records) == len(heard)
    assert caplog.records[0].getMessage() == "a listener raised on TurnStarted"
    assert caplog.records[0].exc_info is not None


def test_g8_the_listener_and_the_stream_hear_the_same() -> None:
    heard: list[Event] = []
    graph = app(talk(), listener=heard.append)
    assert list(graph.stream("hello", session="s")) == heard


def test_g8_a_failed_turn_tells_the_failure_and_then_raises() -> None:
    graph = app(Play(A=lambda ctx: fanout(W1, W2), W1=raising), max_branches=1)
    seen: list[Event] = []
    with pytest.raises(BranchFailed):
        seen.extend(graph.stream("hello", session="s"))
    kinds = [type(event).__name__ for event in seen]
    assert kinds[-4:] == ["StepStarted", "StepRaised", "StepStarted", "StepPublished"]
    raised = next(event for event in seen if isinstance(event, StepRaised))
    assert (raised.node, type(raised.error)) == ("W1", StepFailed)


# ------------------------------------------------------------------------------------------------------------- closing


def stalled() -> tuple[Play, asyncio.Event]:
    """A publishes and hands over to B, which waits until it is let."""
    door = asyncio.Event()

    async def waits(ctx: Any) -> Any:
        ctx.save(Note(9))
        await door.wait()
        return direct("through")

    calls = (ToolCall("c", "do", '{"k": 1}'),)
    return Play(A=lambda ctx: go(C), C=lambda request: ModelReply(calls=calls), C1=waits), door


def test_g8_closing_a_stream_cancels_the_turn_at_its_last_commit() -> None:
    async def main() -> None:
        play, _ = stalled()
        graph = app(play)
        async with graph.astream("hello", session="s") as events:
            async for event in events:
                if isinstance(event, ToolCalled):
                    break
        assert no_other_task()
        session = await graph.aload("s")
        assert (session.head.cursor, session.revision, dict(session.cells)) == ("C", 1, {})
        assert graph.unfinished(session) == ("C was entered and has not finished",)

    asyncio.run(main())


def test_g8_a_detached_turn_runs_on_when_its_stream_is_closed() -> None:
    async def main() -> None:
        play, door = stalled()
        graph = app(play)
        async with graph.astream("hello", session="s") as events:
            task = events.detach()
            async for event in events:
                if isinstance(event, ToolCalled):
                    break
        assert not task.done()
        door.set()
        assert (await task).reply == "through"
        assert told(await graph.aload("s"))[-1] == ("assistant", "through")

    asyncio.run(main())


def test_g8_an_error_inside_the_block_cancels_the_turn_and_is_not_hidden() -> None:
    async def main() -> None:
        play, _ = stalled()
        graph = app(play)

        async def fails() -> None:
            async with graph.astream("hello", session="s") as events:
                async for event in events:
                    if isinstance(event, ToolCalled):
                        raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await fails()
        assert no_other_task()

    asyncio.run(main())


def test_g8_cancelling_the_reader_cancels_the_turn() -> None:
    async def main() -> None:
        play, _ = stalled()
        graph = app(play)
        reached = asyncio.Event()

        async def reads() -> None:
            async with graph.astream("hello", session="s") as events:
                async for event in events:
                    if isinstance(event, ToolCalled):
                        reached.set()

        task = asyncio.ensure_future(reads())
        await reached.wait()
        await idle()
        task.cancel()
        await asyncio.wait({task})
        assert task.cancelled()
        assert no_other_task()
        assert (await graph.aload("s")).revision == 1

    asyncio.run(main())


def test_g8_a_closed_stream_is_over() -> None:
    """Closed in the middle, asked again: it ends, and starts nothing."""

    async def main() -> None:
        play, _ = stalled()
        graph = app(play)
        events = graph.astream("hello", session="s")
        async for event in events:
            if isinstance(event, ToolCalled):
                break
        await events.aclose()
        assert [event async for event in events] == []
        await events.aclose()

        unopened = graph.astream("hello", session="s2")
        await unopened.aclose()
        assert [event async for event in unopened] == []
        with pytest.raises(UnknownSession, match="'s2'"):
            await graph.aload("s2")
        assert no_other_task()

    asyncio.run(main())


def test_g3_closing_a_stream_may_itself_be_cancelled_and_still_leaves_no_task() -> None:
    async def main() -> None:
        entered, may_end = asyncio.Event(), asyncio.Event()

        async def reluctant(ctx: Any) -> Any:
            entered.set()
            try:
                await asyncio.Event().wait()
            finally:
                await may_end.wait()

        graph = app(Play(A=reluctant))
        events = graph.astream("hello", session="s")
        await anext(events)
        await entered.wait()
        closing = asyncio.ensure_future(events.aclose())
        await idle()
        closing.cancel()
        await idle()
        assert not closing.done()
        may_end.set()
        await asyncio.wait({closing})
        assert closing.cancelled()
        assert no_other_task()

    asyncio.run(main())


def test_g8_a_stream_that_was_read_to_its_end_stays_at_its_end() -> None:
    async def main() -> None:
        events = app(Play()).astream("hello", session="s")
        assert isinstance([event async for event in events][-1], TurnEnded)
        assert [event async for event in events] == []

    asyncio.run(main())


def test_g8_closing_a_blocking_stream_cancels_the_turn() -> None:
    play = Play(A=lambda ctx: go(A), B=lambda ctx: direct("never"))
    graph = app(play)
    events = graph.stream("hello", session="s")
    for event in events:
        if isinstance(event, StepPublished):
            break
    assert isinstance(events, Generator)
    events.close()
    assert list(events) == []
    assert graph.unfinished(graph.load("s")) == ("A was entered and has not finished",)
