"""One model of state: cells, histories, steps that publish whole.  Rules F1, F2, F5, and E9 in the depth."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import frozen
from desk import Ledger, calls, history

from ezgraph import (
    Context,
    Conversation,
    Fanout,
    Finish,
    Go,
    Graph,
    GraphNode,
    InvalidResponse,
    StageContext,
    Stay,
    StepFailed,
    StepLimit,
    TaskResult,
    Worker,
    fanout,
    finish,
    go,
    stay,
    task_result,
    tool,
    user,
)
from ezgraph.models import ScriptedModel, call
from ezgraph.session import CONTEXT


@frozen
class Count:
    n: int = 0


class Start(GraphNode[Count, Count]):
    """Writes wherever a turn owner may."""

    def run(self, ctx: StageContext[Count, Count]) -> Go[Opens]:
        assert (ctx.read(Opens), ctx.read(Left), ctx.shared) == (Count(), Count(), Count(7))
        ctx.save(Count(1))
        ctx.write(Opens, Count(2))
        ctx.write(Left, Count(3))
        ctx.share(Count(4))
        assert (ctx.state, ctx.read(Opens), ctx.read(Left), ctx.shared) == (Count(1), Count(2), Count(3), Count(4))
        return go(Opens)


class Opens(GraphNode[Count, Count]):
    def run(self, ctx: StageContext[Count, Count]) -> Fanout[Left | Right]:
        assert (ctx.read(Start), ctx.state, ctx.shared) == (Count(1), Count(2), Count(4))
        return fanout(Left, Right)


class Left(Worker[Count, int]):
    def run(self, ctx: Context[Count]) -> TaskResult[int]:
        seen = ctx.state.n + ctx.read(Start).n
        ctx.save(Count(seen * 10))
        return task_result(seen)


class Right(Worker[Count, int]):
    def run(self, ctx: Context[Count]) -> TaskResult[int]:
        return task_result(ctx.read(Left).n)


class Joined(GraphNode[None]):
    def run(self, ctx: StageContext[None]) -> Finish:
        return finish(f"{ctx.result(Left)} {ctx.result(Right)} {ctx.read(Left).n}")


def deep() -> Graph[Count]:
    graph = Graph("g", entry=Start, context=Count(7)).stages(Opens, Joined).workers(Left, Right)
    return graph.join((Left, Right), to=Joined)


def test_f1_f5_one_map_of_cells_read_by_all_and_written_by_turn_owners() -> None:
    """Rules F1, F5: a branch reads what stood when its activation opened, never its sibling's write."""
    ledger = Ledger()
    app = deep().compile(store=ledger)
    assert app.invoke("go", session="s").reply == "4 3 40"
    cells = {"Start": Count(1), "Opens": Count(2), "Left": Count(40), CONTEXT: Count(4)}
    assert app.load("s").cells == cells


def test_f2_a_step_writes_once() -> None:
    """Rule F2: one commit a step, whatever it writes; the last branch closes the activation in its own."""
    ledger = Ledger()
    app = deep().compile(store=ledger)
    app.invoke("go", session="s")
    assert app.load("s").revision == 5  # Start, Opens, Left, Right, Joined


@pytest.mark.parametrize(("limit", "held"), [(3, ("Joined",)), (2, ("Left", "Right"))])
def test_e9_a_fan_out_that_opens_deep_in_a_chain_counts_from_there(limit: int, held: tuple[str, ...]) -> None:
    app = deep().compile()
    with pytest.raises(StepLimit, match=f"its limit of {limit} steps") as caught:
        app.invoke("go", session="s", step_limit=limit)
    assert (caught.value.held, caught.value.depth) == (held, limit + 1)
    assert app.recover("s", step_limit=4).reply == "4 3 40"


def test_e9_exactly_the_limit_finishes() -> None:
    assert deep().compile().invoke("go", session="s", step_limit=4).reply == "4 3 40"


class Files(Conversation[None]):
    """Attaches what it is told to."""

    def __init__(self) -> None:
        self.cleaned: list[str] = []

    @tool
    def attach(self, ctx: StageContext[None], name: str) -> Stay:
        """Attach."""
        note = stay("ok").with_messages([user(f"file {name}")])
        return note.with_cleanup(lambda: self.cleaned.append(name)).with_cleanup(lambda: self.cleaned.append("closed"))

    @tool
    def leave(self, ctx: StageContext[None], name: str) -> Go[Done] | Go[Over]:
        """Leave."""
        way: Go[Done] | Go[Over] = go(Done) if name == "done" else go(Over)
        return way.with_messages([user(f"file of {name}")])


class Done(GraphNode[None]):
    def run(self, ctx: StageContext[None]) -> Finish:
        return finish("done")


class Over(Done):
    """The other way out."""


def test_d4_a_refused_route_attaches_nothing() -> None:
    """Rule D4: what its builder would write is dropped; what other calls attach stands."""
    batch = calls(("a", "leave"), ("b", "leave"), arguments='{"name": "done"}')
    both = type(batch)(calls=(batch.calls[0], type(batch.calls[1])("b", "leave", '{"name": "over"}')))
    model = ScriptedModel(both, call("attach", name="x"), "bye")
    app = Graph("g", entry=Files).stages(Done, Over).compile(model=model, on_conflict="feedback")
    assert app.invoke("hi", session="s").reply == "bye"
    assert [line for line in history(app) if "file" in line] == ["user: file x"]


def test_d5_beside_the_end_of_the_session_a_route_attaches_nothing() -> None:
    batch = calls(("a", "leave"), ("b", "end_session"), arguments='{"name": "done"}')
    ends = type(batch)(calls=(batch.calls[0], type(batch.calls[1])("b", "end_session", '{"farewell": "bye"}')))
    app = Graph("g", entry=Files).stages(Done, Over).compile(model=ScriptedModel(ends), end_session=[Files])
    assert app.invoke("hi", session="s").reply == "bye"
    assert not [line for line in history(app) if "file" in line]


def test_c2_every_cleanup_of_a_response_runs_once_in_order() -> None:
    node = Files()
    app = Graph("g", entry=Files).stages(node, Done, Over).compile(model=ScriptedModel(call("attach", name="x"), "bye"))
    app.invoke("hi", session="s")
    assert node.cleaned == ["x", "closed"]


class Other(Worker[None, int]):
    def run(self, ctx: Context[None]) -> TaskResult[int]:
        return task_result(1)


class Idle(Worker[None, int]):
    def run(self, ctx: Context[None]) -> TaskResult[int]:
        return task_result(2)


class Appends(GraphNode[None]):
    def run(self, ctx: StageContext[None]) -> Fanout[Other | Idle]:
        worker: Any = Other
        ctx.append(worker, user("lost"))
        return fanout(Other, Idle)


class Meets(GraphNode[None]):
    def run(self, ctx: StageContext[None]) -> Finish:
        return finish("met")


def test_f4_a_worker_has_no_history_to_append_to() -> None:
    """Rules F4, B3: a message that nobody could read is refused."""
    app = Graph("g", entry=Appends).stages(Meets).workers(Other, Idle).join((Other, Idle), to=Meets).compile()
    with pytest.raises(StepFailed, match="append: Other is a worker, whose messages are private to a run") as caught:
        app.invoke("go", session="s")
    assert isinstance(caught.value.error, InvalidResponse)


class Mute(Conversation[None]):
    def prompt(self, ctx: StageContext[None]) -> str:
        silent: Any = None
        return silent  # type: ignore[no-any-return]


def test_g1_a_prompt_is_a_text() -> None:
    with pytest.raises(StepFailed, match=r"Mute\.prompt gave None: return a str"):
        Graph("g", entry=Mute).compile(model=ScriptedModel()).invoke("hi", session="s")
