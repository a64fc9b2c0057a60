"""Nodes for small graphs, and what `compile()` says of a graph: for the tests of definitions."""

from typing import Any

import pytest
from attrs import frozen

from ezgraph import (
    Context,
    Conversation,
    DefinitionError,
    Fanout,
    Finish,
    Go,
    Graph,
    GraphNode,
    Problem,
    StageContext,
    Stay,
    TaskResult,
    Worker,
    fanout,
    finish,
    go,
    task_result,
    tool,
)
from ezgraph.compilation import plan_of
from ezgraph.models import ScriptedModel
from ezgraph.plan import Plan, Wiring

AnyGraph: Any = Graph  # what no checker would let stand is told through these
AnyTool: Any = tool
AnyGo: Any = Go
AnyStageContext: Any = StageContext
AnyFanout: Any = Fanout
AnyTaskResult: Any = TaskResult


@frozen
class Note:
    text: str = ""


class End(GraphNode[None]):
    def run(self, ctx: StageContext[None]) -> Finish:
        return finish("done")


class Other(GraphNode[None]):
    def run(self, ctx: StageContext[None]) -> Finish:
        return finish("other")


class V(Worker[None, int]):
    def run(self, ctx: Context[None]) -> TaskResult[int]:
        return task_result(1)


class W(Worker[None, int]):
    def run(self, ctx: Context[None]) -> TaskResult[int]:
        return task_result(2)


class X(Worker[None, int]):
    def run(self, ctx: Context[None]) -> TaskResult[int]:
        return task_result(3)


class Split(GraphNode[None]):
    """Opens V and W."""

    def run(self, ctx: StageContext[None]) -> Fanout[V | W]:
        return fanout(V, W)


class Pass(GraphNode[None]):
    """Continues along its edges."""

    def run(self, ctx: StageContext[None]) -> None:
        return None


class Send(GraphNode[None]):
    """Leads to Pass."""

    def run(self, ctx: StageContext[None]) -> Go[Pass]:
        return go(Pass)


class Talk(Conversation[None]):
    """Talks."""

    @tool
    def end(self, ctx: StageContext[None]) -> Go[End] | Stay:
        """End."""
        return go(End)


MODEL = ScriptedModel()


def problems(graph: Any, *, model: Any = MODEL, **wiring: Any) -> list[Problem]:
    """What is wrong with a graph; empty where it compiles."""
    try:
        plan_of(graph.definition, Wiring(model=model, **wiring))
    except DefinitionError as error:
        return list(error.problems)
    return []


def told(graph: Any, **wiring: Any) -> list[tuple[str, str, str, str]]:
    return [(p.kind, p.place, p.what, p.mend) for p in problems(graph, **wiring)]


def kinds(graph: Any, **wiring: Any) -> list[tuple[str, str]]:
    return [(p.kind, p.place) for p in problems(graph, **wiring)]


def compiled(graph: Any) -> Plan:
    return plan_of(graph.definition, Wiring(model=MODEL))


def only(cls: Any) -> Any:
    """A graph in which a class stands where its kind stands: as the entry, or as a worker for `ctx.call`."""
    return Graph("g", entry=End).workers(cls) if issubclass(cls, Worker) else Graph("g", entry=cls)


def refused(graph: Any, kind: str, place: str, match: str, *, model: Any = MODEL, **wiring: Any) -> None:
    """Exactly one problem, of that kind and at that place, told in those words."""
    with pytest.raises(DefinitionError, match=match) as wrong:
        plan_of(graph.definition, Wiring(model=model, **wiring))
    assert [(p.kind, p.place) for p in wrong.value.problems] == [(kind, place)], str(wrong.value)
