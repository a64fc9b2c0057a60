"""Table B, cell by cell: what each origin may return in each placement, in real graphs, down to the bytes of the file.

Every test iterates `TABLE` and the closed union of responses: a new row or a new response without a case here fails.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import NoneType
from typing import Any, TypeAlias, get_args, get_origin

import pytest
from attrs import frozen
from desk import Joined, Ledger, Left, Note, Other, Right, body, file_rows, published, ran
from hypothesis import given, settings, strategies as st

import ezgraph
from ezgraph import (
    END,
    BranchFailed,
    Context,
    Conversation,
    DefinitionError,
    Direct,
    DirectTo,
    Fanout,
    Finish,
    Go,
    Graph,
    GraphNode,
    InvalidResponse,
    NodeError,
    OutputError,
    OwnershipError,
    StageContext,
    StateTypeError,
    Stay,
    StepFailed,
    TaskResult,
    UndeclaredRoute,
    UnknownTarget,
    Usage,
    Worker,
    direct,
    direct_to,
    fanout,
    finish,
    go,
    stay,
    task_result,
    tool,
    user,
)
from ezgraph.algebra import ownership
from ezgraph.algebra.ownership import TABLE, check_ownership, permits
from ezgraph.models import ModelReply, ModelRequest, ScriptedModel, call
from ezgraph.responses import (
    RESPONSES,
    Origin,
    Placement,
    Response,
    StageHook,
    StageRun,
    StageTool,
    WorkerHook,
    WorkerRun,
    WorkerTool,
)
from ezgraph.runtime.compiled import CompiledGraph
from ezgraph.runtime.events import Event
from ezgraph.stores.sqlite import SQLiteStore

KINDS: tuple[type, ...] = (*RESPONSES, str, NoneType)
"""Whatever a handler can return: the closed union, text, and nothing."""

VALUES: dict[type, Callable[[], Any]] = {
    Go: lambda: go(Other),
    DirectTo: lambda: direct_to(Other, "directed"),
    Fanout: lambda: fanout(Left, Right),
    Stay: lambda: stay("look again"),
    Direct: lambda: direct("direct"),
    Finish: lambda: finish("finished"),
    TaskResult: lambda: task_result("seven"),
    str: lambda: "a text",
    NoneType: lambda: None,
}

CELLS = [(origin, placement, kind) for origin, placement in TABLE for kind in KINDS]
ALLOWED = [cell for cell in CELLS if permits(*cell)]
REFUSED = [cell for cell in CELLS if not permits(*cell)]

# ------------------------------------------------------------- nodes whose annotations are lawful, and values are not

Answers: TypeAlias = Iterator[Any]
"""What a handler returns, turn by turn."""

LawfulTool: TypeAlias = (
    Go[Other] | DirectTo[Other] | Fanout[Left | Right] | Stay | Direct | Finish | TaskResult[str]
)  # fmt: skip
LawfulRun: TypeAlias = Go[Other] | DirectTo[Other] | Fanout[Left | Right] | Direct | Finish | None
LawfulHook: TypeAlias = Go[Other] | DirectTo[Other] | Fanout[Left | Right] | Direct | Finish | str | None


class TalkingProbe(Conversation[Note]):
    id = "Probe"

    def __init__(self, answers: Answers) -> None:
        self.answers = answers

    @tool
    def act(self, ctx: StageContext[Note]) -> LawfulTool:
        """Act."""
        ctx.save(Note("staged"))
        ctx.write(Aside, Note("staged"))
        answer: LawfulTool = next(self.answers)
        return answer


class RunningProbe(GraphNode[Note]):
    id = "Probe"

    def __init__(self, answers: Answers) -> None:
        self.answers = answers

    def run(self, ctx: StageContext[Note]) -> LawfulRun:
        ctx.save(Note("staged"))
        ctx.write(Aside, Note("staged"))
        answer: LawfulRun = next(self.answers)
        return answer


class HookedProbe(Conversation[Note]):
    id = "Probe"

    def __init__(self, answers: Answers) -> None:
        self.answers = answers

    def on_response(self, ctx: StageContext[Note], output: object) -> LawfulHook:
        ctx.save(Note("staged"))
        ctx.write(Aside, Note("staged"))
        answer: LawfulHook = next(self.answers)
        return answer


class Aside(GraphNode[Note]):
    """Only written to."""

    def run(self, ctx: StageContext[Note]) -> Finish:
        return finish("aside")


class ToolWorker(Worker[Note, str]):
    id = "Probe"

    def __init__(self, answers: Answers) -> None:
        self.answers = answers

    @tool
    def act(self, ctx: Context[Note]) -> Stay | Direct | TaskResult[str]:
        """Act."""
        ctx.save(Note("staged"))
        answer: Stay | Direct | TaskResult[str] = next(self.answers)
        return answer


class RunWorker(Worker[Note, str]):
    id = "Probe"

    def __init__(self, answers: Answers) -> None:
        self.answers = answers

    def run(self, ctx: Context[Note]) -> Direct | TaskResult[str]:
        ctx.save(Note("staged"))
        answer: Direct | TaskResult[str] = next(self.answers)
        return answer


class SilentWorker(Worker[Note, None]):
    id = "Probe"

    def __init__(self, answers: Answers) -> None:
        self.answers = answers

    def run(self, ctx: Context[Note]) -> None:
        ctx.save(Note("staged"))
        answer: None = next(self.answers)
        return answer


class HookedWorker(Worker[Note, str]):
    id = "Probe"

    def __init__(self, answers: Answers) -> None:
        self.answers = answers

    @tool
    def done(self, ctx: Context[Note]) -> TaskResult[str]:
        """Be done."""
        return task_result("done")

    def on_response(self, ctx: Context[Note], output: str) -> Direct | TaskResult[str] | str | None:
        ctx.save(Note("staged"))
        answer: Direct | TaskResult[str] | str | None = next(self.answers)
        return answer


PROBES: dict[tuple[Origin, Placement], Any] = {
    ("tool", "conversation"): TalkingProbe,
    ("tool", "internal"): ToolWorker,
    ("run", "conversation"): RunningProbe,
    ("run", "internal"): RunWorker,
    ("response hook", "conversation"): HookedProbe,
    ("response hook", "internal"): HookedWorker,
}
HANDLERS: dict[Origin, str] = {"tool": "act", "run": "run", "response hook": "on_response"}


def script(origin: Origin) -> ScriptedModel:
    """A model that calls the tool once a turn and then talks; for a hook it only talks."""

    def act(request: ModelRequest) -> ModelReply:
        acted = request.messages[-1].role == "tool"
        return ModelReply("again") if acted else ModelReply(calls=(ezgraph.ToolCall("c1", "act"),))

    step = act if origin == "tool" else "spoken"
    return ScriptedModel(*[step] * 4)


class Opener(GraphNode[None]):
    """Greets, and on the word `open` fans out to the worker under test and a sibling."""

    def __init__(self, probe: type[Worker[Any, Any]]) -> None:
        self.probe: Any = probe

    def run(self, ctx: StageContext[None]) -> Direct | Fanout[Mate | AnyProbe]:
        if ctx.incoming == user("open"):
            return fanout(Mate, self.probe)
        return direct("hello")


class AnyProbe(Worker[None, None]):
    """Stands for the worker under test in the annotation; replaced in `graph_of`."""


class Mate(Worker[None, str]):
    def run(self, ctx: Context[None]) -> TaskResult[str]:
        return task_result("mate")


def opener(probe: type[Worker[Any, Any]]) -> tuple[type[Any], type[Any]]:
    """A stage that fans out to `probe`, declared in its annotation, and the stage that reads what it yields."""

    class Opens(GraphNode[None]):
        id = "Opener"

        def run(self, ctx: StageContext[None]) -> Any:
            return fanout(Mate, probe) if ctx.incoming == user("open") else direct("hello")

    class Reads(GraphNode[None]):
        id = "Reader"

        def run(self, ctx: StageContext[None]) -> Finish:
            return finish(f"{ctx.result(Mate)}, {ctx.result(probe)!r}")

    Opens.run.__annotations__["return"] = Direct | Fanout[Mate | probe]  # type: ignore[valid-type]
    return Opens, Reads


def app_of(
    origin: Origin, placement: Placement, kind: type, answers: Iterable[Any], path: Path, events: list[Event]
) -> tuple[CompiledGraph, SQLiteStore]:
    """The graph of one cell; in internal placement the entry opens it on the word `open`."""
    probe = PROBES[origin, placement]
    store = SQLiteStore(path)
    if placement == "conversation":
        graph = Graph("cell", entry=probe).stages(probe(iter(answers)), Other, Joined, Aside).workers(Left, Right)
        graph = graph.join((Left, Right), to=Joined).stages(Lead)
    else:
        probe = SilentWorker if (origin, kind) == ("run", NoneType) else probe
        entry, reader = opener(probe)
        graph = Graph("cell", entry=entry).stages(reader).workers(probe(iter(answers)), Mate)
        graph = graph.join((probe, Mate), to=reader)
    return graph.compile(store=store, model=script(origin), max_branches=1, listener=events.append), store
