"""Workers called inside a step, and what ends a run that is not the node's: rules E9, E11, F2, G1, G3, L3."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from attrs import frozen
from kept import journals, kept_journals

from ezgraph import (
    END,
    BranchFailed,
    Context,
    Conversation,
    Direct,
    Fanout,
    Finish,
    Graph,
    GraphNode,
    InvalidResponse,
    ModelStopped,
    NodeError,
    NoResult,
    OutputError,
    OwnershipError,
    ReplayMismatch,
    RevisionConflict,
    RoundLimit,
    StageContext,
    Stay,
    StepFailed,
    StepLimit,
    StepTimeout,
    StoreError,
    TaskResult,
    ToolCall,
    Usage,
    Worker,
    direct,
    fanout,
    finish,
    scatter,
    stay,
    task_result,
    tool,
)
from ezgraph.algebra.journalling import raised, recalled
from ezgraph.models import ModelReply, ModelRequest
from ezgraph.runtime.compiled import CompiledGraph
from ezgraph.stores.memory import MemoryStore
from ezgraph.stores.sqlite import SQLiteStore


class Killed(BaseException):
    """The process ends here."""


ENTERED: Counter[str] = Counter()
ACTS: dict[str, Callable[[Any], Any]] = {}
"""What the bodies do, by node."""


@pytest.fixture(autouse=True)
def _fresh() -> None:
    ENTERED.clear()
    ACTS.clear()


@frozen
class Tally:
    """How often something was done."""

    count: int = 0


async def act(ctx: Any, node: object, default: Any) -> Any:
    name = type(node).__name__
    ENTERED[name] += 1
    return await ACTS[name](ctx) if name in ACTS else default


class Probe(Worker[Tally, int]):
    """Gives its count, after as many turns of the loop as `ACTS` says, and leaves one more."""

    async def run(self, ctx: Context[Tally]) -> TaskResult[int]:
        ENTERED[f"Probe {ctx.state.count}"] += 1
        await act(ctx, self, None)
        ctx.save(Tally(ctx.state.count + 10))
        return task_result(ctx.state.count - 10).with_usage(Usage(requests=1))


class Spare(Worker[Tally, int]):
    async def run(self, ctx: Context[Tally]) -> TaskResult[int]:
        return task_result(100 + await act(ctx, self, 0))


class Calls(GraphNode[Tally]):
    """Does what `ACTS` says, and replies with what that gives."""

    async def run(self, ctx: StageContext[Tally]) -> Direct:
        return direct(str(await act(ctx, self, "-")))


class Branch(Worker[None, int]):
    async def run(self, ctx: Context[None]) -> TaskResult[int]:
        return task_result(await act(ctx, self, 1))


class Other(Worker[None, int]):
    async def run(self, ctx: Context[None]) -> TaskResult[int]:
        return task_result(await act(ctx, self, 2))


class Opens(GraphNode[None]):
    def run(self, ctx: StageContext[None]) -> Fanout[Branch | Other]:
        return fanout(Branch, Other)


class Ends(GraphNode[None]):
    def run(self, ctx: StageContext[None]) -> Finish:
        return finish(f"{ctx.result(Branch)} {ctx.result(Other)}")


def a_stage(store: Any = None, **options: Any) -> CompiledGraph:
    return Graph("g", entry=Calls).workers(Probe, Spare).compile(store=store, **options)


def two_branches(store: Any = None, **options: Any) -> CompiledGraph:
    graph = Graph("g", entry=Opens).stages(Ends).workers(Branch, Other, Probe, Spare)
    return graph.join((Branch, Other), to=Ends, **options).compile(store=store)


async def ticks(number: int) -> None:
    for _ in range(number):
        await asyncio.sleep(0)


def waiting(*numbers: int) -> Callable[[Any], Any]:
    """Wait as many turns of the loop as stand at the place of the state's count."""

    async def wait(ctx: Any) -> None:
        await ticks(numbers[ctx.state.count])

    return wait


def only_this_task() -> bool:
    return asyncio.all_tasks() == {asyncio.current_task()}


# ------------------------------------------------------------------------------------------- a limit ends its run


@pytest.mark.parametrize("caught", ["not", "except", "group"])
def test_e9_a_limit_inside_a_branch_ends_the_turn_and_holds_the_branch(store: Any, caught: str) -> None:
    """Rule E9: stays recoverable, whatever the branch's own code makes of the error; the other branch is kept."""

    async def deep(ctx: Any) -> int:
        if caught == "except":
            try:
                return int(await ctx.call(Probe, Tally(3)))
            except Exception:  # noqa: BLE001  as a careful author would
                return 0
        if caught == "group":
            async with asyncio.TaskGroup() as group:
                task = group.create_task(ctx.call(Probe, Tally(3)))
            return int(task.result())
        return int(await ctx.call(Probe, Tally(3)))

    ACTS["Branch"] = deep
    app = two_branches(store)
    with pytest.raises(StepLimit, match="Probe did not start: the turn reached its limit of 2 steps") as error:
        app.invoke("go", session="s", step_limit=2)
    assert (error.value.held, error.value.depth) == (("Probe",), 3)
    assert ENTERED == {"Branch": 1, "Other": 1}
    assert app.unfinished(app.load("s")) == (
        "branch Branch, opened by Opens, has not finished",
        "Ends waits to be joined",
    )
    assert app.recover("s", step_limit=4).reply == "3 2"
    assert ENTERED["Other"] == 1


@pytest.mark.parametrize("caught", ["not", "except"])
def test_e9_a_limit_inside_a_stage_is_not_swallowed(caught: str) -> None:
    async def deep(ctx: Any) -> str:
        try:
            return str(await ctx.call(Probe, Tally(3)))
        except StepLimit:
            if caught == "except":
                return "never mind"
            raise

    ACTS["Calls"] = deep
    app = a_stage()
    with pytest.raises(StepLimit, match="Probe did not start"):
        app.invoke("go", session="s", step_limit=1)
    assert app.unfinished(app.load("s")) == ("Calls was entered and has not finished",)
    assert app.recover("s", step_limit=2).reply == "3"


def _act(part: str) -> Callable[[Any], Any]:
    return ACTS.get(part, lambda _: ticks(0))


class Minds(Conversation[Tally]):
    """Its model calls one tool, and answers; its hooks do what `ACTS` says."""

    def __init__(self) -> None:
        self.model = self

    async def respond(self, request: ModelRequest) -> ModelReply:
        ENTERED["asked"] += 1
        if request.messages[-1].role == "user":
            return ModelReply(calls=(ToolCall("1", "look"),))
        return ModelReply(text=f"seen: {request.messages[-1].text}")

    async def on_enter(self, ctx: StageContext[Tally], message: Any) -> None:
        await _act("on_enter")(ctx)

    async def prompt(self, ctx: StageContext[Tally]) -> str:
        await _act("prompt")(ctx)
        return "Look."

    @tool
    async def look(self, ctx: StageContext[Tally]) -> Stay:
        """Look."""
        await _act("look")(ctx)
        return stay("looked")

    async def on_response(self, ctx: StageContext[Tally], output: str) -> None:
        await _act("on_response")(ctx)

    async def on_exit(self, ctx: StageContext[Tally], outcome: Any) -> None:
        await _act("on_exit")(ctx)


PARTS = ("on_enter", "prompt", "look", "on_response", "on_exit")


@pytest.mark.parametrize("part", PARTS)
def test_e9_a_limit_is_not_swallowed_in_any_part_of_a_loop(store: Any, part: str) -> None:
    async def deep(ctx: Any) -> None:
        try:
            await ctx.call(Probe, Tally(3))
        except StepLimit:
            ENTERED["swallowed"] += 1

    ACTS[part] = deep
    app = Graph("g", entry=Minds).workers(Probe).compile(store=store)
    with pytest.raises(StepLimit, match="Probe did not start"):
        app.invoke("go", session="s", step_limit=1)
    assert ENTERED["swallowed"] == 1
    turn = app.recover("s", step_limit=2)
    assert turn.reply == "seen: looked"
    assert app.read(app.load("s"), Probe) == Tally(13), "what the call left is in the session"


def test_e9_the_limit_of_another_session_is_an_error_like_any() -> None:
    """A branch runs a turn of its own somewhere else: what that comes to is the branch's matter."""
    inner = a_stage()

    async def deep(ctx: Any) -> str:
        return str(await ctx.call(Probe, Tally(3)))

    async def elsewhere(ctx: Any) -> int:
        await inner.ainvoke("go", session="inner", step_limit=1)
        return 1

    ACTS.update(Calls=deep, Branch=elsewhere)
    app = two_branches()
    with pytest.raises(BranchFailed, match="Branch raised StepLimit: session 'inner'") as error:
        app.invoke("go", session="s")
    assert isinstance(error.value.failures[0], StepFailed)
    assert ENTERED["Other"] == 1


# ------------------------------------------------------------------------------------- a call does not outlive its step


async def both(ctx: Any) -> Any:
    return await asyncio.gather(ctx.call(Probe, Tally(0)), ctx.call(Spare, Tally(0)))


async def fails(ctx: Any) -> Any:
    raise ValueError("down")


def test_g3_a_call_that_a_failed_stage_left_running_ends_with_it(store: Any) -> None:
    """Rules E11, F2, G3: no task is left, and nothing is written once the turn has raised."""

    async def main() -> None:
        ACTS.update(Calls=both, Probe=fails, Spare=lambda _: ticks(30))
        app = a_stage(store)
        with pytest.raises(StepFailed, match="Calls raised StepFailed: Probe raised ValueError: down"):
            await app.ainvoke("go", session="s")
        assert ENTERED["Spare"] == 1, "it was under way"
        assert only_this_task()
        revision = (await app.aload("s")).revision
        await ticks(40)
        assert (await app.aload("s")).revision == revision
        del ACTS["Calls"]
        assert (await app.ainvoke("again", session="s")).reply == "-"

    asyncio.run(main())


def test_g3_a_call_that_a_failed_branch_left_running_ends_with_it(store: Any) -> None:
    async def main() -> None:
        ACTS.update(Branch=both, Probe=fails, Spare=lambda _: ticks(30))
        app = two_branches(store)
        with pytest.raises(BranchFailed, match="Probe raised ValueError: down"):
            await app.ainvoke("go", session="s")
        assert only_this_task()
        ACTS.clear()
        assert (await app.arecover("s")).reply == "1 2"

    asyncio.run(main())


@pytest.mark.parametrize("wins", [0, 1])
def test_f2_the_slower_of_two_calls_writes_nothing_after_its_step(store: Any, wins: int) -> None:
    """Rule L7: and a later turn does not find its note."""
    slow = [30, 30]
    slow[wins] = 0

    async def race(ctx: Any) -> str:
        tasks = [asyncio.create_task(ctx.call(Probe, Tally(n))) for n in (0, 1)]
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        return str([task.result() for task in done])

    async def main() -> None:
        ACTS.update(Calls=race, Probe=waiting(*slow))
        app = a_stage(store)
        turn = await app.ainvoke("go", session="s")
        assert turn.reply == f"[{wins}]"
        await ticks(2)
        assert only_this_task()
        await ticks(40)
        assert (await app.aload("s")).revision == turn.revision
        assert await kept_journals(app) == {}

    asyncio.run(main())


def test_e11_a_call_begun_by_a_plain_function_is_refused() -> None:
    """Its step is over before the call can begin."""
    begun: list[asyncio.Task[int]] = []

    class Plain(GraphNode[None]):
        def run(self, ctx: StageContext[None]) -> Finish:
            begun.append(asyncio.ensure_future(ctx.call(Probe, Tally(0))))
            return finish("done")

    async def main() -> None:
        app = Graph("g", entry=Plain).workers(Probe).compile()
        assert (await app.ainvoke("go", session="s")).reply == "done"
        with pytest.raises(NodeError, match="this context's step is over"):
            await begun[0]
        assert ENTERED == {}

    asyncio.run(main())


@pytest.mark.parametrize("delays", [(0, 3), (3, 0), (2, 2)])
@pytest.mark.parametrize("life", ["whole", "killed"])
def test_e4_the_last_call_of_a_worker_leaves_its_state(store: Any, delays: tuple[int, int], life: str) -> None:
    """Rules E4, L3: in the order in which the calls were made, whatever the timing, and the same when recovered."""

    async def parallel(ctx: Any) -> str:
        outputs = await asyncio.gather(ctx.call(Probe, Tally(0)), ctx.call(Probe, Tally(1)))
        if life == "killed" and ENTERED["Calls"] == 1:
            raise Killed
        return str(outputs)

    ACTS.update(Calls=parallel, Probe=waiting(*delays))
    app = a_stage(store)
    if life == "killed":
        with pytest.raises(Killed):
            app.invoke("go", session="s")
        turn = app.recover("s")
    else:
        turn = app.invoke("go", session="s")
    assert turn.reply == "[0, 1]"
    assert app.load("s").cells == {"Probe": Tally(11)}
    assert app.load("s").usage == {"Probe": Usage(requests=2)}
    assert ENTERED["Probe"] == 2


def test_e5_a_cancelled_branch_calls_nothing_more() -> None:
    """Rule E5: nothing new starts, also where a branch swallows its cancellation."""

    async def stubborn(ctx: Any) -> int:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return int(await ctx.call(Probe, Tally(0)))
        return 1

    ACTS.update(Branch=stubborn, Other=fails)
    app = two_branches(on_failure="cancel_siblings")
    with pytest.raises(BranchFailed, match="Other raised ValueError: down"):
        app.invoke("go", session="s")
    assert ENTERED == {"Branch": 1, "Other": 1}
    ACTS.clear()
    assert app.recover("s").reply == "1 2"


# ----------------------------------------------------------------------------- what a recovery finds of a called worker


class Clerk(Worker[Tally, str]):
    """A called worker with a model of its own."""

    def __init__(self) -> None:
        self.model = self

    def prompt(self, ctx: Context[Tally]) -> str:
        return "Charge once."

    async def respond(self, request: ModelRequest) -> ModelReply:
        ENTERED["asked"] += 1
        if request.messages and request.messages[-1].role == "tool":
            if ENTERED["asked"] == 2:
                raise Killed
            return ModelReply(text="charged", usage=Usage(requests=1))
        return ModelReply(calls=(ToolCall("1", "charge"),), usage=Usage(requests=1))

    @tool
    async def charge(self, ctx: Context[Tally]) -> Stay:
        """Charge."""
        ENTERED[f"charge {ctx.state.count}"] += 1
        ctx.save(Tally(ctx.state.count + 1))
        return stay("done")


@pytest.mark.parametrize(("durability", "times"), [("call", 1), ("step", 2)])
def test_l3_a_finished_call_inside_a_called_worker_is_not_made_again(store: Any, durability: Any, times: int) -> None:
    class Desk(GraphNode[None]):
        async def run(self, ctx: StageContext[None]) -> Finish:
            await ctx.call(Probe, Tally(0))
            return finish(await ctx.call(Clerk, Tally(5)))

    app = Graph("g", entry=Desk).workers(Probe, Clerk).compile(store=store, durability=durability)
    with pytest.raises(Killed):
        app.invoke("go", session="s")
    turn = app.recover("s") if durability == "call" else app.invoke("go", session="s")
    assert turn.reply == "charged"
    assert (ENTERED["charge 5"], ENTERED["Probe"]) == (times, times)
    loaded = app.load("s")
    assert loaded.cells == {"Probe": Tally(10), "Clerk": Tally(6)}
    assert loaded.usage == {"Probe": Usage(requests=1), "Clerk": Usage(requests=2)}
    assert journals(app) == {}


@pytest.mark.parametrize("part", PARTS)
def test_f2_what_a_part_of_the_loop_staged_is_there_after_a_recovery(store: Any, part: str) -> None:
    """Rules F2, L3: a part that has finished is read from the journal with what it saved, added and spent."""

    async def stages(ctx: Any) -> None:
        ENTERED[part] += 1
        ctx.save(Tally(await ctx.call(Probe, Tally(1))))

    def life(stop_at: str) -> tuple[Any, Any]:
        ENTERED.clear()
        ACTS.clear()
        app = Graph("g", entry=Minds).workers(Probe).compile(store=MemoryStore() if stop_at == "" else store)

        async def stops(ctx: Any) -> None:
            if part == stop_at:
                await stages(ctx)
            if ENTERED["stopped"] == 0:
                ENTERED["stopped"] += 1
                raise Killed

        ACTS[part] = stages
        if stop_at:
            ACTS[stop_at] = stops
            with pytest.raises(Killed):
                app.invoke("go", session="s")
            app.recover("s")
        else:
            app.invoke("go", session="s")
        return app.load("s"), ENTERED["Probe"]

    assert life("on_exit") == life("")


def test_e11_a_fallback_is_read_with_what_it_was_for(store: Any) -> None:
    """Rule E11: the k-th call gets the k-th record, also where one raised and the step went on with another."""

    async def careful(ctx: Any) -> str:
        try:
            given = await ctx.call(Probe, Tally(0))
        except StepFailed as error:
            told = f"{error.node}: {error}"
            given = f"{await ctx.call(Spare, Tally(0))} ({told})"
        if ENTERED["Calls"] == 1:
            raise Killed
        return str(given)

    ACTS.update(Calls=careful, Probe=fails)
    app = a_stage(store)
    with pytest.raises(Killed):
        app.invoke("go", session="s")
    del ACTS["Probe"]  # it is up again
    assert app.recover("s").reply == "100 (Probe: Probe raised ValueError: down)"
    assert (ENTERED["Probe"], ENTERED["Spare"]) == (1, 1)


def test_e11_a_failure_that_ended_its_step_is_tried_again(store: Any) -> None:
    """Rule G6: nothing was decided by it."""

    async def careless(ctx: Any) -> int:
        await ctx.call(Spare, Tally(0))
        return int(await ctx.call(Probe, Tally(0)))

    ACTS.update(Branch=careless, Probe=fails)
    app = two_branches(store)
    with pytest.raises(BranchFailed, match="Probe raised ValueError: down"):
        app.invoke("go", session="s")
    del ACTS["Probe"]
    assert app.recover("s").reply == "0 2"
    assert (ENTERED["Probe"], ENTERED["Spare"]) == (2, 1)


@pytest.mark.parametrize(
    "error",
    [
        StepTimeout("Probe", 2.5, "look"),
        RoundLimit("Probe", 8),
        OutputError("Probe", "Probe gave nothing"),
        ModelStopped("Probe", "length"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_e11_an_error_comes_back_as_what_it_was(error: NodeError) -> None:
    again = recalled(raised(error))
    assert type(again) is type(error)
    assert (str(again), vars(again)) == (str(error), vars(error))


def test_e11_an_error_of_a_workers_own_code_comes_back_as_its_text() -> None:
    again = recalled(raised(StepFailed("Probe", KeyError("\ud800"), "look", "c1")))
    assert isinstance(again, StepFailed)
    assert (again.node, again.tool, again.call) == ("Probe", "look", "c1")
    assert str(again) == str(again.error) == "Probe.look (call c1) raised KeyError: '\\ud800'"

    class OwnError(NodeError):
        pass

    assert type(recalled(raised(OwnError("Probe", "mine")))) is StepFailed


def test_e11_what_a_failed_call_spent_is_accounted_where_its_step_goes_on(store: Any) -> None:
    class Spends(Worker[Tally, int]):
        def __init__(self) -> None:
            self.model = self

        def prompt(self, ctx: Context[Tally]) -> str:
            return "Say."

        async def respond(self, request: ModelRequest) -> ModelReply:
            return ModelReply(text="no number", usage=Usage(requests=1))

        def on_response(self, ctx: Context[Tally], output: object) -> TaskResult[int]:
            return task_result(int(str(output)))

    async def careful(ctx: Any) -> str:
        try:
            return str(await ctx.call(Spends, Tally(0)))
        except NodeError:
            return str(await ctx.call(Spare, Tally(0)))

    ACTS["Calls"] = careful
    app = Graph("g", entry=Calls).workers(Spends, Spare).compile(store=store)
    turn = app.invoke("go", session="s")
    assert (turn.reply, turn.usage) == ("100", Usage(requests=1))
    assert app.load("s").usage == {"Spends": Usage(requests=1)}


# ---------------------------------------------------------------------------------------- what a node awaits, and hooks


async def cancelled(ctx: Any) -> Any:
    future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    future.cancel()
    return await future


def test_e5_a_branch_that_awaits_something_cancelled_fails_by_itself(store: Any) -> None:
    """Nobody has cancelled the turn: the other branch is kept, and the caller is told which one failed."""
    ACTS["Branch"] = cancelled
    app = two_branches(store)
    with pytest.raises(BranchFailed, match=r"1 of its branches failed: Branch raised CancelledError\. Call"):
        app.invoke("go", session="s")
    ACTS.clear()
    assert app.recover("s").reply == "1 2"
    assert ENTERED == {"Branch": 2, "Other": 1}


def test_g4_a_stage_that_awaits_something_cancelled_fails() -> None:
    ACTS["Calls"] = cancelled
    app = a_stage()
    with pytest.raises(StepFailed, match=r"^Calls raised CancelledError$"):
        app.invoke("go", session="s")
    assert [record.error for record in app.load("s").errors] == ["StepFailed"]


class Rescued(Conversation[None]):
    """Its tool does what `ACTS` says; its error hook is asked, and gives the error back as it came."""

    def __init__(self) -> None:
        self.model = self

    def prompt(self, ctx: StageContext[None]) -> str:
        return "Look."

    async def respond(self, request: ModelRequest) -> ModelReply:
        return ModelReply(calls=(ToolCall("c1", "look"),))

    @tool
    async def look(self, ctx: StageContext[None]) -> Stay:
        """Look."""
        await ACTS["look"](ctx)
        return stay("looked")

    def on_error(self, ctx: StageContext[None], error: Exception) -> Finish:
        ENTERED[type(error).__name__] += 1
        raise error


def test_d6_an_error_that_its_hook_gives_back_is_told_as_it_was() -> None:
    ACTS["look"] = fails
    app = Graph("g", entry=Rescued).compile()
    with pytest.raises(StepFailed, match=r"^Rescued.look \(call c1\) raised ValueError: down$") as error:
        app.invoke("go", session="s")
    assert (error.value.tool, error.value.call) == ("look", "c1")
    assert ENTERED == {"ValueError": 1}


class Breaches(Worker[None, int]):
    def run(self, ctx: Context[None]) -> TaskResult[int]:
        answer: Any = finish("out of my way")
        return answer  # type: ignore[no-any-return]


def test_g1_the_error_hook_is_not_asked_about_a_called_workers_breach() -> None:
    class Asks(GraphNode[None]):
        async def run(self, ctx: StageContext[None]) -> Finish:
            return finish(str(await ctx.call(Breaches, None)))

        def on_error(self, ctx: StageContext[None], error: Exception) -> Finish:
            ENTERED["asked"] += 1
            return finish("rescued")

    app = Graph("g", entry=Asks).workers(Breaches).compile()
    with pytest.raises(StepFailed, match=r"Asks raised OwnershipError: Breaches\.run returned Finish") as error:
        app.invoke("go", session="s")
    assert isinstance(error.value.error, OwnershipError)
    assert ENTERED == {}


def test_f2_a_tool_that_was_renamed_is_a_mismatch_and_not_a_corrupt_session(tmp_path: Any) -> None:
    def named(name: str) -> CompiledGraph:
        async def looks(self: Any, ctx: Context[None]) -> TaskResult[int]:
            """Look."""
            return task_result(7)

        looks.__name__ = looks.__qualname__ = name

        class Body(Conversation[None]):
            def __init__(self) -> None:
                self.model = self

            def prompt(self, ctx: StageContext[None]) -> str:
                return "Look."

            async def respond(self, request: ModelRequest) -> ModelReply:
                return ModelReply(calls=(ToolCall("1", "look"),))

            async def on_exit(self, ctx: StageContext[None], outcome: Any) -> None:
                raise Killed

        desk = type("Desk", (Body,), {name: tool(looks), "__orig_bases__": (Conversation[None],)})
        return Graph("g", entry=desk).compile(store=SQLiteStore(tmp_path / "s.db"))

    with pytest.raises(Killed):
        named("look").invoke("go", session="s")
    app = named("glance")
    assert app.unfinished(app.load("s")) == ("Desk was entered and has not finished",)
    with pytest.raises(ReplayMismatch, match=r"at call 0.0 it now calls no tool of that name, where .* Desk.look"):
        app.recover("s")
    with pytest.raises(Killed):
        named("look").invoke("go", session="s")
    named("glance").abandon("s")
    assert app.unfinished(app.load("s")) == ()


# ------------------------------------------------------------------------------------------------------ a store's fault


class Fragile:
    """A store that refuses one journal, as a full disk does."""

    def __init__(self, error: type[Exception]) -> None:
        self.inner, self.error = MemoryStore(), [error]

    def load(self, session: str, codec: Any, /) -> Any:
        return self.inner.load(session, codec)

    def commit(self, after: Any, delta: Any, codec: Any, /) -> None:
        if delta.notes and self.error:
            made = self.error.pop()
            raise RevisionConflict("s", 0, 1) if made is RevisionConflict else StoreError("disk", "it is full")
        self.inner.commit(after, delta, codec)


@pytest.mark.parametrize("error", [StoreError, RevisionConflict])
def test_l3_a_journal_that_cannot_be_written_ends_the_run_whatever_the_node_makes_of_it(error: type[Exception]) -> None:
    async def careful(ctx: Any) -> str:
        try:
            return str(await ctx.call(Probe, Tally(0)))
        except Exception:  # noqa: BLE001  as a careful author would
            return "never mind"

    ACTS["Calls"] = careful
    app = a_stage(Fragile(error))
    with pytest.raises(error):
        app.invoke("go", session="s")
    assert app.invoke("go", session="s").reply == "0"


def test_e5_a_store_that_fails_under_one_branch_loses_nothing_of_the_other() -> None:
    """Rule E5: what ended by the turn of the loop in which the branch did is written before the turn raises."""
    entered = []
    for number in range(8):
        ENTERED.clear()
        ACTS.update(Branch=lambda ctx: ctx.call(Probe, Tally(0)), Other=_two_after(number))
        app = two_branches(Fragile(StoreError))
        with pytest.raises(StoreError, match="it is full"):
            app.invoke("go", session="s")
        assert app.recover("s").reply == "0 2"
        assert (ENTERED["Branch"], app.unfinished(app.load("s"))) == (2, ())
        entered.append(ENTERED["Other"])
    assert entered == [1, 1, 1, 2, 2, 2, 2, 2], "the second and the third end with it"


def _two_after(number: int) -> Callable[[Any], Any]:
    async def gives(ctx: Any) -> int:
        await ticks(number)
        return 2

    return gives


def test_e11_a_worker_that_calls_is_told_to_call_from_the_step() -> None:
    async def nested(ctx: Any) -> int:
        return int(await ctx.call(Probe, Tally(0)))

    async def outer(ctx: Any) -> str:
        return str(await ctx.call(Spare, Tally(0)))

    ACTS.update(Calls=outer, Spare=nested)
    with pytest.raises(StepFailed, match="Spare was called itself, and calls Probe") as error:
        a_stage().invoke("go", session="s")
    cause = error.value.error
    assert isinstance(cause, StepFailed)
    assert isinstance(cause.error, InvalidResponse)


def test_e12_a_job_that_awaits_something_cancelled_fails() -> None:
    ACTS["Branch"] = cancelled
    app = Graph("g", entry=Branch).edge(Branch, END).compile()
    with pytest.raises(StepFailed, match=r"^Branch raised CancelledError$"):
        app.invoke(session="s")


# ------------------------------------------------------------------------------------------------ what is asked wrongly


@pytest.mark.parametrize(
    ("states", "told"),
    [
        (None, "call_all: None cannot be iterated. Pass a list of inputs"),
        ("ab", "call_all: one str was given"),
        ({Tally(1), Tally(2)}, "call_all: a set has no order"),
        ([Tally(1), 2], "Calls wrote input 1 of Probe: . must be Tally, and is int"),
    ],
)
def test_e11_call_all_takes_inputs_in_order(states: Any, told: str) -> None:
    async def wrong(ctx: Any) -> Any:
        return await ctx.call_all(Probe, states)

    ACTS["Calls"] = wrong
    with pytest.raises(NodeError, match=told):
        a_stage().invoke("go", session="s")
    assert ENTERED == {"Calls": 1}


class Many(GraphNode[None]):
    def run(self, ctx: StageContext[None]) -> Fanout[Probe]:
        return scatter(Probe, [Tally(n) for n in range(8)])


class Sums(GraphNode[None]):
    def run(self, ctx: StageContext[None]) -> Finish:
        return finish(str(ctx.result(Probe, default=0)))


def test_m2_many_failures_are_told_in_short_and_each_knows_its_item() -> None:
    app = Graph("g", entry=Many).stages(Sums).workers(Probe).join((Probe,), to=Sums).compile()
    ACTS["Probe"] = fails
    with pytest.raises(BranchFailed, match=r"8 of its .* \(item 4\); and 3 more\. Call") as error:
        app.invoke("go", session="s")
    assert [one.item for one in error.value.failures] == list(range(8))
    assert str(error.value).count("down") == 5


def test_e6_a_default_is_for_what_did_not_run() -> None:
    """Rule E2: not for a worker that ran once for each item."""
    app = Graph("g", entry=Many).stages(Sums).workers(Probe).join((Probe,), to=Sums).compile()
    with pytest.raises(NoResult, match=r"It ran once for each item: write ctx.results\(Probe\)"):
        app.invoke("go", session="s")


@pytest.mark.parametrize("hook", ["on_enter", "prompt", "on_response", "on_exit"])
def test_m2_an_error_says_in_which_hook_it_was_raised(hook: str) -> None:
    ACTS[hook] = fails
    with pytest.raises(StepFailed, match=rf"^Minds raised ValueError: down\nin {hook}$"):
        Graph("g", entry=Minds).compile().invoke("go", session="s")
