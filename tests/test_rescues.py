"""`on_error` as `compile()` reads it, what it is asked about, and what is named like a hook and is none.

Rules B1, B2, G1: the error hook's rows of the table, for nodes of every kind, whoever drives them.
"""

from collections.abc import Awaitable, Callable
from types import NoneType
from typing import Any

import pytest
from cast import End, Other, Talk, V, W, compiled, only, refused
from faults import Crash

from ezgraph import (
    END,
    BranchFailed,
    ConflictError,
    Context,
    Conversation,
    Direct,
    DirectTo,
    Fanout,
    Finish,
    Go,
    Graph,
    GraphNode,
    NodeError,
    OwnershipError,
    ReplayMismatch,
    RoundLimit,
    StageContext,
    Stay,
    StepFailed,
    TaskResult,
    ToolCall,
    UndeclaredRoute,
    UnknownTarget,
    Usage,
    Worker,
    direct,
    fanout,
    finish,
    go,
    stay,
    task_result,
    tool,
)
from ezgraph.models import ModelReply, ModelRequest
from ezgraph.plan import Handler
from ezgraph.runtime.compiled import CompiledGraph
from ezgraph.stores.sqlite import SQLiteStore


class Sturdy(GraphNode[None]):
    def run(self, ctx: StageContext[None]) -> Finish:
        return finish("done")

    def on_error(self, ctx: StageContext[None], error: Exception) -> Go[Other] | None:
        return go(Other)


class Patient(Conversation[None]):
    """Waits."""

    async def on_error(self, ctx: StageContext[None], error: BaseException) -> DirectTo[End] | TaskResult[int]:
        return task_result(1)


class Count(Worker[None, int]):
    def run(self, ctx: Context[None]) -> TaskResult[int]:
        return task_result(1)

    def on_error(self, ctx: Context[None], error: object) -> TaskResult[int] | None:
        return task_result(0)


class Speak(Worker[None, str]):
    """Speaks."""

    async def on_error(self, ctx: Context[None], error: Any) -> Direct:
        return direct("nothing")


def rescue(graph: Any, node: str) -> Handler:
    found = compiled(graph).nodes[node].rescue
    assert found is not None
    return found


def stood_in(cls: Any, returns: Any, error: Any = Exception) -> Any:
    """A subclass whose `on_error` has those annotations."""

    def on_error(self: object, ctx: Any, error: Any) -> None: ...

    on_error.__annotations__.update({"error": error, "return": returns})
    return type("Wrong", (cls,), {"on_error": on_error, "__module__": __name__})


def whole(cls: Any) -> Any:
    """A graph around it, with what Talk leads to."""
    return only(cls).stages(End) if issubclass(cls, Talk) else only(cls)


# ------------------------------------------------------------ read like any handler


def test_g1_an_error_hook_is_read_from_every_kind_of_node() -> None:
    """Whether code or a model drives it; async or not."""

    class Open(GraphNode[None]):
        def run(self, ctx: StageContext[None]) -> Fanout[Count | Speak] | Go[Patient | Sturdy]:
            return go(Sturdy)

    graph: Any = Graph("g", entry=Open).stages(Sturdy, Other, Patient, End).workers(Count, Speak)
    graph = graph.edge(Count, END).edge(Speak, END)
    assert rescue(graph, "Sturdy").kinds == {Go, NoneType}
    assert rescue(graph, "Sturdy").goes == {Other}
    assert not rescue(graph, "Sturdy").directs
    assert rescue(graph, "Patient").kinds == {DirectTo, TaskResult}
    assert rescue(graph, "Count").kinds == {TaskResult, NoneType}
    assert rescue(graph, "Speak").kinds == {Direct}
    assert [rescue(graph, n).awaits for n in ("Sturdy", "Patient", "Count", "Speak")] == [False, True, False, True]
    assert {rescue(graph, n).origin for n in ("Sturdy", "Patient", "Count", "Speak")} == {"error hook"}
    assert compiled(graph).nodes["Open"].rescue is None
    assert compiled(graph).nodes["End"].rescue is None


def test_g1_where_an_error_hook_leads_is_drawn_and_reached() -> None:
    plan = compiled(Graph("g", entry=Sturdy).stages(Other))
    assert ("Sturdy", "Other", "go", "on_error") in [(a.source, a.target, a.kind, a.label) for a in plan.arrows]
    match = r"(?s)Sturdy.on_error: may lead to Other, which the graph does not have.*Add \.stages\(Other\)"
    refused(Graph("g", entry=Sturdy), "unknown-target", "Sturdy.on_error", match)


# ------------------------------------------------------------ what it may return


@pytest.mark.parametrize(
    ("cls", "returns", "kind"),
    [
        (Sturdy, Fanout[Count | V], "Fanout"),
        (Sturdy, Stay, "Stay"),
        (Talk, str, "str"),
        (Count, Go[End], "Go"),
        (Count, Stay, "Stay"),
        (Speak, str, "str"),
    ],
)
def test_b2_what_an_error_hook_may_not_return(cls: Any, returns: Any, kind: str) -> None:
    where, may = ("internal", "direct, task_result") if issubclass(cls, Worker) else ("conversation", "go, direct, ")
    match = rf"(?s)may return {kind}, which an error hook in {where} placement may not.*It may return: {may}"
    graph = whole(stood_in(cls, returns))
    if kind == "Fanout":
        graph = graph.workers(Count, V).edge(Count, END).edge(V, END)
    refused(graph, "placement", "Wrong.on_error", match)
    compiled(whole(stood_in(cls, Direct if cls is Speak else TaskResult[int] | None)))


def test_a6_the_output_that_an_error_hook_gives_is_the_workers() -> None:
    match = r"(?s)Wrong.on_error: may give TaskResult\[str\], and the output of the worker is int.*`TaskResult\[int\]`"
    refused(only(stood_in(Count, TaskResult[str])), "output-type", "Wrong.on_error", match)
    compiled(only(stood_in(Count, TaskResult[int])))


def test_g1_the_response_hook_is_not_called_for_a_substitute() -> None:
    """Rule A6: so a text is an output only where the output is a text, whatever `on_response` would make of it."""

    class Hooked(Worker[None, int]):
        """Works."""

        def on_response(self, ctx: Context[None], output: str | int) -> TaskResult[int]:
            return task_result(1)

    match = r"(?s)Wrong.on_error: may give a text, and the output of the worker is int.*Give a task_result\.$"
    refused(only(stood_in(Hooked, Direct)), "output-type", "Wrong.on_error", match)
    compiled(only(stood_in(Speak, Direct)))


def test_a6_an_error_hook_alone_yields_no_output() -> None:
    class Idle(Worker[None, int]):
        """Works."""

    refused(
        only(stood_in(Idle, TaskResult[int])), "output-type", "Wrong", r"Wrong: nothing of it yields its output int"
    )
    compiled(only(stood_in(Count, None)))  # to delegate is not to give nothing as the output


# ------------------------------------------------------------ what it is handed


def test_g1_an_error_hook_takes_any_error() -> None:
    match = r"(?s)Wrong.on_error: takes error: ValueError, and may be handed Exception.*Write `error: Exception`"
    refused(only(stood_in(Count, None, ValueError)), "override", "Wrong.on_error", match)
    compiled(only(stood_in(Count, None, ValueError | Exception)))


def test_g1_an_error_hook_is_handed_a_context_and_an_error() -> None:
    class Short(GraphNode[None]):
        def run(self, ctx: StageContext[None]) -> Finish:
            return finish("done")

        def on_error(self, error: Exception) -> None:  # type: ignore[override]
            return None

    class Wide(Count):
        def on_error(self, ctx: StageContext[None], error: object) -> None:  # type: ignore[override]
            return None

    match = r"(?s)Short.on_error: takes .* and is called with ctx, error: .*Write `def on_error\(self, ctx, error\)`"
    refused(Graph("g", entry=Short), "signature", "Short.on_error", match)
    match = r"(?s)Wide.on_error: takes StageContext\[None, object\], and a worker may not write.*`ctx: Context\[None\]`"
    refused(only(Wide), "wrong-context", "Wide.on_error", match)


def test_g1_an_error_hook_says_what_it_returns() -> None:
    class Silent(GraphNode[None]):
        def run(self, ctx: StageContext[None]) -> Finish:
            return finish("done")

        def on_error(self, ctx: StageContext[None], error: Exception):  # type: ignore[no-untyped-def]  # noqa: ANN202
            return go(End)

    match = r"Silent.on_error: there is no return annotation"
    refused(Graph("g", entry=Silent).stages(End), "missing-annotation", "Silent.on_error", match)


def test_g1_an_optional_argument_of_a_handler_takes_what_it_likes() -> None:
    class More(GraphNode[None]):
        def run(self, ctx: StageContext[None], more: int = 1) -> Finish:
            return finish(str(more))

    compiled(Graph("g", entry=More))


# ------------------------------------------------------------ what is named like a hook


def named(cls: Any, name: str, **more: Any) -> Any:
    def method(self: object, ctx: Any, value: Any) -> None: ...

    return type("Odd", (cls,), {name: method, "__module__": __name__, **more})


@pytest.mark.parametrize(
    ("cls", "name", "near"),
    [
        (Talk, "on_respond", "Write on_response"),
        (Talk, "on_errors", "Write on_error"),
        (Sturdy, "onExit", "Write on_exit"),
        (Talk, "on_entry", "Write on_enter"),
        (Speak, "onresponse", "Write on_response"),
        (Count, "on_exits", "Write on_exit"),
        (Talk, "on_sale", "Its hooks are on_enter, on_response, on_exit, on_error"),
        (Count, "on_message", "Its hooks are on_exit, on_error"),
    ],
)
def test_e8_a_method_that_is_named_like_a_hook_is_told(cls: Any, name: str, near: str) -> None:
    """Nothing would ever call it, and nothing would say so."""
    match = (
        rf"(?s)Odd.{name}: is named like a hook, and nothing calls it \[unknown-hook\].*{near}; a method of your own"
    )
    graph = whole(named(cls, name))
    refused(graph.stages(Other) if cls is Sturdy else graph, "unknown-hook", f"Odd.{name}", match)
    compiled(whole(cls).stages(Other) if cls is Sturdy else whole(cls))


def test_e8_what_is_not_named_like_a_hook() -> None:
    """Private methods, other words, values, tools, and what comes from a class that is no node."""

    class Mixed:
        def on_event(self) -> None:
            return None

    class Fine(Talk, Mixed):
        on_hold = False

        def _on_sale(self) -> None:
            return None

        def once(self) -> None:
            return None

        def only(self) -> None:
            return None

        @tool
        def on_demand(self, ctx: StageContext[None]) -> Stay:
            """Ask."""
            return stay("no")

        def on_exit(self, ctx: StageContext[None], outcome: object) -> None:
            return None

    plan = compiled(Graph("g", entry=Fine).stages(End))
    assert list(plan.nodes["Fine"].tools) == ["end", "on_demand"]


def test_e8_a_static_method_and_a_tools_lost_override() -> None:
    """One problem each: an override of a tool that is none is told as that."""

    class Asked(Talk):
        @tool
        def on_demand(self, ctx: StageContext[None]) -> Stay:
            """Ask."""
            return stay("no")

    class Lost(Asked):
        def on_demand(self, ctx: StageContext[None]) -> Stay:
            return stay("no")

    class Static(Talk):
        @staticmethod
        def on_start() -> None:
            return None

    refused(Graph("g", entry=Lost).stages(End), "lost-tool", "Lost.on_demand", "overrides a tool and is none")
    refused(Graph("g", entry=Static).stages(End), "unknown-hook", "Static.on_start", "is named like a hook")


# ------------------------------------------------------------ what is spent before it, and by it

ASKED: list[Exception] = []
"""What the error hooks below were asked about."""


@pytest.fixture(autouse=True)
def _fresh() -> None:
    ASKED.clear()


class Costs(Worker[int, int]):
    """Called: spends as many tokens as its state says."""

    def run(self, ctx: Context[int]) -> TaskResult[int]:
        cost = ctx.state
        ctx.save(cost + 1)
        return task_result(1).with_usage(Usage(output_tokens=cost))


class Spends:
    """A model that spends, and calls a tool that spends and one that raises; then the error hook spends."""

    async def respond(self, request: ModelRequest) -> ModelReply:
        calls = (ToolCall("1", "pay"), ToolCall("2", "fail"))
        return ModelReply(calls=calls, usage=Usage(input_tokens=10, requests=1))


class Buys(Conversation[int]):
    model = Spends()

    def prompt(self, ctx: StageContext[int]) -> str:
        return "Fail."

    @tool
    async def pay(self, ctx: StageContext[int]) -> Stay:
        """Pay."""
        ctx.save(await ctx.call(Costs, 100))
        return stay("paid").with_usage(Usage(input_tokens=1_000))

    @tool
    async def fail(self, ctx: StageContext[int]) -> Stay:
        """Fail."""
        raise ValueError("down")

    async def on_error(self, ctx: StageContext[int], error: Exception) -> Direct:
        assert ctx.state == 0, "what the step staged is discarded"
        await ctx.call(Costs, 10_000)
        return direct("instead").with_usage(Usage(input_tokens=100_000))


class Hires(Worker[int, str]):
    model = Spends()

    def prompt(self, ctx: Context[int]) -> str:
        return "Fail."

    @tool
    async def pay(self, ctx: Context[int]) -> Stay:
        """Pay."""
        ctx.save(await ctx.call(Costs, 100))
        return stay("paid").with_usage(Usage(input_tokens=1_000))

    @tool
    async def fail(self, ctx: Context[int]) -> Stay:
        """Fail."""
        raise ValueError("down")

    async def on_error(self, ctx: Context[int], error: Exception) -> TaskResult[str]:
        assert ctx.state == 0, "what the step staged is discarded"
        await ctx.call(Costs, 10_000)
        return task_result("instead").with_usage(Usage(input_tokens=100_000))


class Opens(GraphNode[None]):
    def run(self, ctx: StageContext[None]) -> Fanout[Hires | V]:
        return fanout(Hires, V)


class Closes(GraphNode[None]):
    def run(self, ctx: StageContext[None]) -> Finish:
        return finish(ctx.result(Hires))


SPENT = Usage(input_tokens=101_010, requests=1), Usage(output_tokens=10_100)
"""By a node that was rescued, and by the worker that it and its error hook called."""


def test_g1_what_a_stage_spent_before_its_error_hook_and_what_the_hook_gives_is_accounted() -> None:
    """Rules G1, C: what was staged is discarded; what was spent was spent."""
    app = Graph("g", entry=Buys).workers(Costs).compile()
    turn = app.invoke("go", session="s")
    assert (turn.reply, turn.usage) == ("instead", SPENT[0] + SPENT[1])
    session = app.load("s")
    assert session.usage == {"Buys": SPENT[0], "Costs": SPENT[1]}
    assert session.cells == {"Costs": 10_001}, "of the call that the error hook made"


def test_g1_what_a_worker_spent_before_its_error_hook_and_what_the_hook_gives_is_accounted() -> None:
    graph = Graph("g", entry=Opens).stages(Closes).workers(Hires, V, Costs)
    app = graph.join((Hires, V), to=Closes).compile()
    turn = app.invoke("go", session="s")
    assert (turn.reply, turn.usage) == ("instead", SPENT[0] + SPENT[1])
    assert app.load("s").usage == {"Hires": SPENT[0], "Costs": SPENT[1]}


def test_g1_what_a_called_worker_spent_before_its_error_hook_is_its_callers_to_account() -> None:
    """Rule E11."""

    class Thrifty(Worker[int, str]):
        model = Spends()

        def prompt(self, ctx: Context[int]) -> str:
            return "Fail."

        @tool
        async def fail(self, ctx: Context[int]) -> Stay:
            """Fail."""
            raise ValueError("down")

        def on_error(self, ctx: Context[int], error: Exception) -> TaskResult[str]:
            return task_result("instead").with_usage(Usage(input_tokens=100_000))

    class Caller(GraphNode[None]):
        async def run(self, ctx: StageContext[None]) -> Finish:
            return finish(await ctx.call(Thrifty, 0))

    app = Graph("g", entry=Caller).workers(Thrifty).compile()
    assert app.invoke("go", session="s").reply == "instead"
    assert app.load("s").usage == {"Thrifty": Usage(input_tokens=100_010, requests=1)}


# ------------------------------------------------------------ what it is asked about

Act = Callable[[Any], Any]


class Stranger(GraphNode[None]):
    """A stage that no graph here has."""

    def run(self, ctx: StageContext[None]) -> Finish:
        return finish("never")


def _owns(ctx: Any) -> Any:
    return stay("a run may not")


def _leads(ctx: Any) -> Any:
    return go(End)


def _names(ctx: Any) -> Any:
    return go(Stranger)


def _reads(ctx: Any) -> Any:
    return ctx.read(Stranger)


def _fails(ctx: Any) -> Any:
    raise ValueError("down")


class Body:
    """A node that does as it is told."""

    def __init__(self, act: Act) -> None:
        self.act = act


class Onward(GraphNode[None]):
    def run(self, ctx: StageContext[None]) -> Go[End]:
        return go(End)


class Runs(Body, GraphNode[None]):
    def run(self, ctx: StageContext[None]) -> Go[Onward] | Finish:
        return self.act(ctx)  # type: ignore[no-any-return]

    def on_error(self, ctx: StageContext[None], error: Exception) -> Finish:
        ASKED.append(error)
        return finish("rescued")


class Works(Body, Worker[None, int]):
    def run(self, ctx: Context[None]) -> TaskResult[int]:
        return self.act(ctx)  # type: ignore[no-any-return]


class Rescues(Works):
    def on_error(self, ctx: Context[None], error: Exception) -> TaskResult[int]:
        ASKED.append(error)
        return task_result(7)


class Torn(Conversation[None]):
    """Its model asks for two routes that exclude each other."""

    def __init__(self) -> None:
        self.model = self

    def prompt(self, ctx: StageContext[None]) -> str:
        return "Both."

    async def respond(self, request: ModelRequest) -> ModelReply:
        return ModelReply(calls=(ToolCall("1", "left"), ToolCall("2", "right")))

    @tool
    async def left(self, ctx: StageContext[None]) -> Go[Other]:
        """Left."""
        return go(Other)

    @tool
    async def right(self, ctx: StageContext[None]) -> Go[End]:
        """Right."""
        return go(End)

    def on_error(self, ctx: StageContext[None], error: Exception) -> Finish:
        ASKED.append(error)
        return finish("rescued")


class TornWorker(Worker[None, int]):
    """The same of a worker: two results."""

    def __init__(self) -> None:
        self.model = self

    def prompt(self, ctx: Context[None]) -> str:
        return "Both."

    async def respond(self, request: ModelRequest) -> ModelReply:
        return ModelReply(calls=(ToolCall("1", "left"), ToolCall("2", "right")))

    @tool
    async def left(self, ctx: Context[None]) -> TaskResult[int]:
        """Left."""
        return task_result(1)

    @tool
    async def right(self, ctx: Context[None]) -> TaskResult[int]:
        """Right."""
        return task_result(2)


@pytest.mark.parametrize(
    ("act", "error", "told"),
    [
        (_owns, OwnershipError, "Runs.run returned Stay"),
        (_leads, UndeclaredRoute, "Runs.run returned"),
        (_names, UnknownTarget, "Runs names Stranger"),
        (_reads, UnknownTarget, "Runs names Stranger"),
    ],
)
def test_g1_the_error_hook_of_a_stage_is_not_asked_about_its_breach(
    act: Act, error: type[NodeError], told: str
) -> None:
    app = Graph("g", entry=Runs).stages(Runs(act), Onward, End).compile()
    with pytest.raises(error, match=told):
        app.invoke("go", session="s")
    assert ASKED == []
    assert [record.error for record in app.load("s").errors] == [error.__name__]


def test_g1_the_error_hook_of_a_stage_is_not_asked_about_a_conflict() -> None:
    """Rule D4."""
    app = Graph("g", entry=Torn).stages(Other, End).compile(on_conflict="raise")
    with pytest.raises(ConflictError, match=r"left \(1\) gave .*right \(2\) gave"):
        app.invoke("go", session="s")
    assert ASKED == []


@pytest.mark.parametrize(("act", "error"), [(_owns, OwnershipError), (_leads, OwnershipError), (_reads, UnknownTarget)])
def test_g1_the_error_hook_of_a_worker_is_not_asked_about_its_breach(act: Act, error: type[NodeError]) -> None:
    class Start(GraphNode[None]):
        def run(self, ctx: StageContext[None]) -> Fanout[Rescues | V]:
            return fanout(Rescues, V)

    graph = Graph("g", entry=Start).stages(End).workers(Rescues(act), V)
    with pytest.raises(BranchFailed, match="Rescues") as failed:
        graph.join((Rescues, V), to=End).compile().invoke("go", session="s")
    assert [type(one) for one in failed.value.failures] == [error]
    assert ASKED == []


def test_g1_the_error_hook_is_not_asked_about_a_replay_that_does_not_fit() -> None:
    """Rules E11, G1: of a step that goes on from its journal and calls another worker than it did."""
    lives: list[int] = []

    async def fickle(ctx: Any) -> Any:
        lives.append(await ctx.call(W if lives else V, None))
        raise Crash

    class Replays(GraphNode[None]):
        async def run(self, ctx: StageContext[None]) -> Finish:
            return finish(str(await fickle(ctx)))

        def on_error(self, ctx: StageContext[None], error: Exception) -> Finish:
            ASKED.append(error)
            return finish("rescued")

    app = Graph("g", entry=Replays).workers(V, W).compile()
    with pytest.raises(Crash):
        app.invoke("go", session="s")
    with pytest.raises(ReplayMismatch, match="Replays goes on from its journal"):
        app.recover("s")
    assert ASKED == []
    assert lives == [1]


class Asks(Body, GraphNode[None]):
    """Calls a worker, or does whatever else it is told."""

    async def run(self, ctx: StageContext[None]) -> Finish:
        return finish(str(await self.act(ctx)))

    def on_error(self, ctx: StageContext[None], error: Exception) -> Finish:
        ASKED.append(error)
        return finish("rescued")


class AsksInTool(Conversation[None]):
    """The same, from a tool."""

    def __init__(self, act: Act) -> None:
        self.act, self.model = act, self

    def prompt(self, ctx: StageContext[None]) -> str:
        return "Ask."

    async def respond(self, request: ModelRequest) -> ModelReply:
        return ModelReply(calls=(ToolCall("1", "ask"),))

    @tool
    async def ask(self, ctx: StageContext[None]) -> Finish:
        """Ask."""
        return finish(str(await self.act(ctx)))

    def on_error(self, ctx: StageContext[None], error: Exception) -> Finish:
        ASKED.append(error)
        return finish("rescued")


def calling(worker: Any) -> Callable[[Any], Awaitable[Any]]:
    async def call(ctx: Any) -> Any:
        return await ctx.call(worker, None)

    return call


@pytest.mark.parametrize("caller", [Asks, AsksInTool])
@pytest.mark.parametrize(
    ("worker", "error"),
    [
        (Works(_owns), OwnershipError),
        (Works(_reads), UnknownTarget),
        (TornWorker(), ConflictError),
    ],
    ids=["ownership", "routing", "conflict"],
)
def test_g1_the_error_hook_is_not_asked_about_the_breach_of_a_called_worker(
    caller: Any, worker: Any, error: type[NodeError]
) -> None:
    """Rules E11, G1: it is its author's to mend, whoever ran into it."""
    graph = Graph("g", entry=caller).stages(caller(calling(type(worker)))).workers(worker)
    with pytest.raises(StepFailed, match=type(worker).__name__) as failed:
        graph.compile(on_conflict="raise").invoke("go", session="s")
    assert type(failed.value.error) is error
    assert ASKED == []


@pytest.mark.parametrize("caller", [Asks, AsksInTool])
def test_g1_the_error_hook_is_asked_about_the_failure_of_a_called_worker(caller: Any) -> None:
    """So that what stands above is of breaches alone; it is handed the worker's error as the call raised it."""
    graph = Graph("g", entry=caller).stages(caller(calling(Works))).workers(Works(_fails))
    assert graph.compile().invoke("go", session="s").reply == "rescued"
    (asked,) = ASKED
    assert isinstance(asked, StepFailed)
    assert (asked.node, repr(asked.error)) == ("Works", "ValueError('down')")


def test_g1_the_error_hook_is_asked_about_what_the_engine_says_of_its_loop() -> None:
    """Rule G3: a round limit is no breach."""

    class Talks(AsksInTool):
        rounds = 1

        @tool
        async def ask(self, ctx: StageContext[None]) -> Stay:  # type: ignore[override]
            """Ask."""
            return stay("again")

    app = Graph("g", entry=Talks).stages(Talks(_fails)).compile()
    assert app.invoke("go", session="s").reply == "rescued"
    assert [type(one) for one in ASKED] == [RoundLimit]


def test_g1_the_error_hook_is_not_asked_where_a_called_workers_replay_does_not_fit(tmp_path: Any) -> None:
    """Rules F2, G1: a tool of the worker has another name than when the process ended."""

    def named(name: str) -> CompiledGraph:
        async def looks(self: Any, ctx: Context[None]) -> TaskResult[int]:
            """Look."""
            return task_result(7)

        class Looker(Worker[None, int]):
            def __init__(self) -> None:
                self.model = self

            def prompt(self, ctx: Context[None]) -> str:
                return "Look."

            async def respond(self, request: ModelRequest) -> ModelReply:
                return ModelReply(calls=(ToolCall("1", "look"),))

            def on_exit(self, ctx: Context[None], output: object) -> None:
                raise Crash

        looks.__name__ = looks.__qualname__ = name
        looker = type("Looks", (Looker,), {name: tool(looks), "__orig_bases__": (Worker[None, int],)})
        graph = Graph("g", entry=Asks).stages(Asks(calling(looker))).workers(looker)
        return graph.compile(store=SQLiteStore(tmp_path / "s.db"))

    with pytest.raises(Crash):
        named("look").invoke("go", session="s")
    with pytest.raises(StepFailed, match="Looks goes on from its journal") as failed:
        named("glance").recover("s")
    assert isinstance(failed.value.error, ReplayMismatch)
    assert ASKED == []
