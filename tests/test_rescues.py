"""`on_error` as `compile()` reads it, and what is named like a hook and is none.

Rules B1, B2, G1: the error hook's rows of the table, for nodes of every kind, whoever drives them.
"""

from types import NoneType
from typing import Any

import pytest
from cast import End, Other, Talk, V, compiled, only, refused

from ezgraph import (
    END,
    Context,
    Conversation,
    Direct,
    DirectTo,
    Fanout,
    Finish,
    Go,
    Graph,
    GraphNode,
    StageContext,
    Stay,
    TaskResult,
    Worker,
    direct,
    finish,
    go,
    stay,
    task_result,
    tool,
)
from ezgraph.plan import Handler


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
    assert rescue(graph, "Sturdy").ways == {(Go, Other)}
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
