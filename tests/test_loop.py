"""The rounds of a model's loop: its limit, how it ends, and cleanups, each exactly once.  Rules G3, G4 and table C."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest
from desk import Ledger, Note, calls, check_valid, history, spoken
from kept import kept_journals

from ezgraph import (
    Conversation,
    Direct,
    Finish,
    Graph,
    ModelStopped,
    OutputError,
    RoundLimit,
    StageContext,
    Stay,
    StepFailed,
    ToolCall,
    UnfinishedWork,
    direct,
    finish,
    stay,
    tool,
)
from ezgraph.models import ModelReply, ModelRequest, ScriptedModel, call
from ezgraph.runtime.compiled import CompiledGraph

# ------------------------------------------------------------------------------------------------ G3, rounds and limits


class Loops(Conversation[Note]):
    """Never satisfied."""

    @tool
    def again(self, ctx: StageContext[Note]) -> Stay:
        """Again."""
        ctx.save(Note("staged"))
        return stay("again")

    @tool
    def done(self, ctx: StageContext[Note]) -> Direct:
        """Done."""
        return direct("done")


class Loops2(Loops):
    rounds = 2


@pytest.mark.parametrize(("kind", "limit"), [(Loops, 8), (Loops2, 2)])
def test_g3_the_loop_has_a_round_limit(kind: Any, limit: int) -> None:
    model = ScriptedModel(*[call("again")] * limit)
    app = Graph("g", entry=kind).compile(model=model)
    told = rf"{kind.__name__}: the model called tools in {limit} messages without an answer or a route\. Set `rounds`"
    with model, pytest.raises(RoundLimit, match=told) as caught:
        app.invoke("hi", session="s")
    assert caught.value.limit == limit
    assert (app.load("s").cells, app.load("s").histories) == ({}, {})


@pytest.mark.parametrize("last", ["spoken", call("done")], ids=["text", "route"])
def test_g3_the_last_round_may_answer(last: Any) -> None:
    with ScriptedModel(call("again"), last) as model:
        assert Graph("g", entry=Loops2).compile(model=model).invoke("hi", session="s").status == "idle"


@pytest.mark.parametrize("reason", ["length", "filtered"])
def test_g3_what_a_model_broke_off_is_no_answer(reason: Any) -> None:
    reply = ModelReply("half an ans", (ToolCall("a", "done"),), stop=reason)
    app = Graph("g", entry=Loops).compile(model=ScriptedModel(reply))
    with pytest.raises(ModelStopped, match=rf"Loops: the model stopped early \({reason}\)\. Nothing was published"):
        app.invoke("hi", session="s")
    assert app.load("s").histories == {}


def test_g3_neither_text_nor_calls_is_an_error() -> None:
    app = Graph("g", entry=Loops).compile(model=ScriptedModel(ModelReply(" \n")))
    with pytest.raises(OutputError, match=r"Loops: the model gave neither text nor calls\. Try again\."):
        app.invoke("hi", session="s")


def test_g4_what_a_model_raises_fails_the_step() -> None:
    """Rule G4: the input is not in the history and may be sent again."""
    app = Graph("g", entry=Loops).compile(model=ScriptedModel(call("again"), TimeoutError("provider"), "spoken"))
    with pytest.raises(StepFailed, match="Loops raised TimeoutError: provider") as caught:
        app.invoke("hi", session="s")
    assert (caught.value.tool, caught.value.call) == (None, None)
    assert app.load("s").histories == {}
    assert app.invoke("hi", session="s").reply == "spoken"
    assert history(app) == ["user: hi", "assistant: spoken"]


# --------------------------------------------------------------------------------------------------- with_cleanup, once


class Cleans(Conversation[Note]):
    """Its tools leave cleanups behind."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.entered, self.release = asyncio.Event(), asyncio.Event()

    def _clean(self, name: str) -> Callable[[], object]:
        async def later() -> None:
            await asyncio.sleep(0)
            self.done.append(name)

        def now() -> None:
            self.done.append(name)

        return later if name.startswith("async") else now

    @tool
    def leave(self, ctx: StageContext[Note], name: str) -> Stay:
        """Leave something to clean up."""
        self.done.append("call")
        return stay("left").with_cleanup(self._clean(name))

    @tool
    def broken(self, ctx: StageContext[Note]) -> Stay:
        """Leave a cleanup that raises."""

        def clean() -> None:
            self.done.append("broken")
            raise ValueError("cannot clean")

        return stay("left").with_cleanup(clean)

    @tool
    async def stuck(self, ctx: StageContext[Note]) -> Stay:
        """Leave a cleanup that waits."""

        async def clean() -> None:
            self.entered.set()
            await self.release.wait()

        return stay("left").with_cleanup(clean)

    @tool
    async def wait(self, ctx: StageContext[Note]) -> Stay:
        """Wait for ever."""
        ctx.save(Note("waiting"))
        self.entered.set()
        await self.release.wait()
        return stay("waited")

    @tool
    def fail(self, ctx: StageContext[Note]) -> Finish:
        """Fail."""
        raise ValueError("boom")

    @tool
    def out(self, ctx: StageContext[Note]) -> Finish:
        """Finish."""
        return finish("out").with_cleanup(self._clean("out"))


def cleans(*script: Any, **options: Any) -> tuple[CompiledGraph, Cleans]:
    node = Cleans()
    return Graph("g", entry=Cleans).stages(node).compile(model=ScriptedModel(*script), **options), node


LEFT = (call("leave", name="a"), call("leave", name="async b"))


@pytest.mark.parametrize(
    ("script", "error"),
    [
        ((LEFT, "spoken"), None),
        ((LEFT, call("out")), None),
        (((*LEFT, call("out")),), None),
        (((*LEFT, call("fail")),), StepFailed),
        ((LEFT, ValueError("provider")), StepFailed),
        ((LEFT, ModelReply("half", stop="length")), ModelStopped),
        ((LEFT, *[call("nothing")] * 7), RoundLimit),
    ],
)
def test_c2_a_cleanup_runs_exactly_once(script: Any, error: Any) -> None:
    """Table C: after the model has seen the result, or before the step stops or fails."""
    app, node = cleans(*script)
    if error is None:
        app.invoke("hi", session="s")
    else:
        with pytest.raises(error):
            app.invoke("hi", session="s")
    assert node.done == ["call", "call", "a", "async b"] + ["out"] * (node.done[-1] == "out")


def test_c2_a_cleanup_comes_after_the_model_has_seen_the_result() -> None:
    node = Cleans()

    def look(request: ModelRequest) -> ModelReply:
        assert spoken(request.messages)[-1] == "tool#s1.1: left"
        assert node.done == ["call"]
        return ModelReply("spoken")

    app = Graph("g", entry=Cleans).stages(node).compile(model=ScriptedModel(call("leave", name="a"), look))
    app.invoke("hi", session="s")
    assert node.done == ["call", "a"]


def test_c2_a_cleanup_that_raises_is_told_and_stops_nothing(caplog: pytest.LogCaptureFixture) -> None:
    app, node = cleans((call("broken"), call("leave", name="a")), "spoken")
    with caplog.at_level(logging.ERROR, "ezgraph"):
        assert app.invoke("hi", session="s").reply == "spoken"
    assert node.done == ["call", "broken", "a"]
    assert [record.getMessage() for record in caplog.records] == ["Cleans: a cleanup raised in session s"]
    assert caplog.records[0].exc_info is not None


async def _cancelled(app: CompiledGraph, node: Cleans, times: int = 1) -> None:
    """Run a turn, and cancel it where it waits, as often as told."""
    turn = asyncio.create_task(app.ainvoke("hi", session="s"))
    await node.entered.wait()
    for _ in range(times):
        turn.cancel()
        await asyncio.sleep(0)
    with pytest.raises(asyncio.CancelledError):
        await turn
    assert asyncio.all_tasks() == {asyncio.current_task()}


def test_g3_a_cancelled_step_cleans_up_and_publishes_nothing() -> None:
    """Rules C2, G3: the cancellation reaches the caller, the session stays, no task leaks."""

    async def main() -> None:
        ledger = Ledger()
        app, node = cleans((*LEFT, call("wait")), "spoken", store=ledger, durability="step")
        await _cancelled(app, node)
        assert node.done == ["call", "call", "a", "async b"]
        assert ledger.deltas == []
        assert (await app.ainvoke("hi", session="s")).reply == "spoken"

    asyncio.run(main())


def test_g3_a_cancelled_step_leaves_its_finished_calls_in_the_journal() -> None:
    """Rules F2, G3, G6: nothing is published; recovery begins with the call that had not ended, its input included."""

    async def main() -> None:
        ledger = Ledger()
        app, node = cleans((*LEFT, call("wait")), "spoken", store=ledger)
        await _cancelled(app, node)
        assert node.done == ["call", "call", "a", "async b"], "cleanups do not wait for the recovery"
        stopped = await app.aload("s")
        assert (stopped.cells, stopped.histories, stopped.usage) == ({}, {}, {})
        assert [len(delta.notes) > 0 for delta in ledger.deltas] == [True, True], "one write for each finished call"
        with pytest.raises(UnfinishedWork, match="Cleans was entered and has not finished"):
            await app.ainvoke("again", session="s")
        node.release.set()
        assert (await app.arecover("s")).reply == "spoken"
        assert node.done == ["call", "call", "a", "async b"], "neither a finished body nor its cleanup runs again"
        ended = await app.aload("s")
        assert (ended.cells, await kept_journals(app)) == ({"Cleans": Note("waiting")}, {})
        assert spoken(ended.histories["default"]) == [
            "user: hi",
            "assistant:  +leave#s1.1 +leave#s1.2 +wait#s1.3",
            "tool#s1.1: left",
            "tool#s1.2: left",
            "tool#s1.3: waited",
            "assistant: spoken",
        ]

    asyncio.run(main())


@pytest.mark.parametrize("last", [(), (call("out"),)], ids=["in the loop", "at the end"])
def test_c2_a_cancelled_cleanup_holds_up_no_other(last: Any) -> None:
    """Table C: exactly once, also where the cancellation comes while one of them waits."""

    async def main() -> None:
        batch = (call("leave", name="a"), call("stuck"), call("leave", name="async b"))
        app, node = cleans((*batch, *last), "spoken")
        await _cancelled(app, node)
        assert node.done == ["call", "call", "a", "async b", *["out"] * len(last)]

    asyncio.run(main())


@pytest.mark.parametrize("durability", ["call", "step"])
def test_h10_after_a_cancellation_the_next_turn_starts_from_a_valid_history(durability: Any) -> None:
    """FIELD H10; rules F2, G3: with or without what the journal kept of the cancelled step."""

    async def main() -> None:
        node, seen = Cleans(), asyncio.Event()

        class Slow:
            calls = 0

            async def respond(self, request: ModelRequest, /) -> ModelReply:
                check_valid(request.messages)
                self.calls += 1
                if self.calls == 1:
                    return calls(("a", "leave"), arguments='{"name": "a"}')
                if self.calls == 2:
                    seen.set()
                    await node.release.wait()
                return ModelReply("spoken")

        app = Graph("g", entry=Cleans).stages(node).compile(model=Slow(), durability=durability)
        turn = asyncio.create_task(app.ainvoke("hi", session="s"))
        await seen.wait()
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turn
        assert node.done == ["call", "a"]
        before: list[str] = []
        if durability == "call":
            with pytest.raises(UnfinishedWork):
                await app.ainvoke("hi again", session="s")
            node.release.set()
            assert (await app.arecover("s")).reply == "spoken"
            before = ["user: hi", "assistant:  +leave#a", "tool#a: left", "assistant: spoken"]
        await app.ainvoke("hi again", session="s")
        assert spoken((await app.aload("s")).histories["default"]) == [*before, "user: hi again", "assistant: spoken"]
        assert node.done == ["call", "a"], "the finished call's body ran once"

    asyncio.run(main())
