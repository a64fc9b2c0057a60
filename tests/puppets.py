"""One graph whose nodes do what a test tells them: every shape of route, edge, fan-out and join that a graph can have.

A --edge--> B --edges--> W1, W3     J --edge--> END     D has no edge
join((W1, W2, W4), to=J)     W3 --edge--> W4     X1, X2 --edge--> END     C is driven by a model
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from attrs import frozen

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
    task_result,
    tool,
)
from ezgraph.models import ModelReply, ModelRequest
from ezgraph.runtime.compiled import CompiledGraph


@frozen
class Note:
    """A number that somebody wrote."""

    n: int = 0


Act: TypeAlias = Callable[[Any], Any]
"""What a node does in one run: a function of its context, sync or async."""


class Play:
    """What every node does, run by run; the last act of a node is repeated.

    Attributes:
        runs: How often each node ran.
        order: The nodes in the order in which they began.
    """

    def __init__(self, **acts: Act | Sequence[Act]) -> None:
        self.acts: dict[str, list[Act]] = {}
        self.runs: Counter[str] = Counter()
        self.order: list[str] = []
        self.requests: list[ModelRequest] = []
        self.let(**acts)

    def let(self, **acts: Act | Sequence[Act]) -> None:
        """Tell nodes what to do from now on."""
        for node, given in acts.items():
            self.acts[node] = [given] if callable(given) else list(given)

    def next(self, node: str) -> Act:
        acts = self.acts.get(node, [])
        if len(acts) > 1:
            return acts.pop(0)
        return acts[0] if acts else _DEFAULTS.get(node, _reply)

    def run(self, node: str, ctx: Any) -> Any:
        self.runs[node] += 1
        self.order.append(node)
        return self.next(node)(ctx)

    async def respond(self, request: ModelRequest, /) -> ModelReply:
        """The model of C: its acts are functions of the request."""
        self.requests.append(request)
        reply: ModelReply | str = self.next(request.node)(request)
        return ModelReply(reply) if isinstance(reply, str) else reply


def _reply(ctx: Any) -> Direct:
    return direct("ok")


def _done(ctx: Any) -> TaskResult[int]:
    return task_result(0)


_DEFAULTS: dict[str, Act] = {
    **dict.fromkeys(("W1", "W2", "W3", "W4", "X1", "X2"), _done),
    "C": lambda request: "ok",
    "prompt": lambda ctx: "Talk.",
}


class Puppet:
    """Does what the play says under its class's name."""

    def __init__(self, play: Play) -> None:
        self.play = play

    def act(self, ctx: Any) -> Any:
        return self.play.run(type(self).__name__, ctx)


class A(Puppet, GraphNode[Note]):
    def run(
        self, ctx: StageContext[Note]
    ) -> Go[A | B | C | D | J] | DirectTo[A | B | C | D | J] | Fanout[W1 | W2 | W3] | Direct | Finish | None:
        return self.act(ctx)  # type: ignore[no-any-return]


class B(Puppet, GraphNode[Note]):
    def run(self, ctx: StageContext[Note]) -> Go[A | C | J] | DirectTo[A] | Fanout[X1 | X2] | Direct | Finish | None:
        return self.act(ctx)  # type: ignore[no-any-return]


class C(Puppet, Conversation[Note]):
    """Talks."""

    def prompt(self, ctx: StageContext[Note]) -> str:
        return self.play.run("prompt", ctx)  # type: ignore[no-any-return]

    @tool
    async def do(
        self, ctx: StageContext[Note], k: int
    ) -> Go[A | B | D] | DirectTo[A | B | C | D | J] | Fanout[W1 | W2 | W3] | Direct | Finish | Stay | TaskResult[int]:
        """Do the k-th thing."""
        answer = self.play.run(f"C{k}", ctx)
        return answer if not hasattr(answer, "__await__") else await answer  # type: ignore[no-any-return]


class D(Puppet, GraphNode[Note]):
    def run(self, ctx: StageContext[Note]) -> Go[A | B] | Direct | Finish | None:
        return self.act(ctx)  # type: ignore[no-any-return]


class J(Puppet, GraphNode[Note]):
    history = "side"

    def run(
        self, ctx: StageContext[Note]
    ) -> Go[A | B | J] | DirectTo[A | J] | Fanout[W1 | W2 | W3] | Direct | Finish | None:
        return self.act(ctx)  # type: ignore[no-any-return]


class W1(Puppet, Worker[Note, int]):
    def run(self, ctx: Context[Note]) -> TaskResult[int]:
        return self.act(ctx)  # type: ignore[no-any-return]


class W2(Puppet, Worker[Note, int]):
    def run(self, ctx: Context[Note]) -> TaskResult[int]:
        return self.act(ctx)  # type: ignore[no-any-return]


class W3(Puppet, Worker[Note, int]):
    def run(self, ctx: Context[Note]) -> TaskResult[int]:
        return self.act(ctx)  # type: ignore[no-any-return]


class W4(Puppet, Worker[Note, int]):
    def run(self, ctx: Context[Note]) -> TaskResult[int]:
        return self.act(ctx)  # type: ignore[no-any-return]


class X1(Puppet, Worker[Note, int]):
    def run(self, ctx: Context[Note]) -> TaskResult[int]:
        return self.act(ctx)  # type: ignore[no-any-return]


class X2(Puppet, Worker[Note, int]):
    def run(self, ctx: Context[Note]) -> TaskResult[int]:
        return self.act(ctx)  # type: ignore[no-any-return]


class Stranger(GraphNode[None]):
    """A stage that the graph does not have."""

    def run(self, ctx: StageContext[None]) -> Direct:
        return direct("never")


STAGES = {cls.__name__: cls for cls in (A, B, C, D, J)}
WORKERS = {cls.__name__: cls for cls in (W1, W2, W3, W4, X1, X2)}


def graph(play: Play) -> Graph[Note]:
    """The graph of this module, played by `play`."""
    return (
        Graph("puppets", entry=A, context=Note())
        .stages(*(cls(play) for cls in STAGES.values()))
        .workers(*(cls(play) for cls in WORKERS.values()))
        .edge(A, B)
        .edge(B, W1)
        .edge(B, W3)
        .edge(J, END)
        .edge(W3, W4)
        .edge(X1, END)
        .edge(X2, END)
        .join((W1, W2, W4), to=J)
    )


def app(play: Play, **options: Any) -> CompiledGraph:
    """The same, compiled; `options` are those of `compile`."""
    return graph(play).compile(model=options.pop("model", play), **options)
