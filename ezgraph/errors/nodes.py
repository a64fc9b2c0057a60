"""What the author of a node must mend: a response, a route, a value or a failure of its own code."""

# ruff: noqa: N818  an error is named for what happened, and its root says that it is one

from __future__ import annotations

from collections.abc import Sequence

from ezgraph.errors.root import EzGraphError
from ezgraph.errors.words import quoted, said


class NodeError(EzGraphError):
    """A node did what it may not, or failed.

    Attributes:
        node: The node's id, empty where no node is known yet (a response that could not be built).
        item: The index of the item in which a branch of a scatter failed, else None.
    """

    item: int | None = None

    def __init__(self, node: str, text: str) -> None:
        self.node = node
        super().__init__(text)


class InvalidResponse(NodeError):
    """A response or a message was built wrongly.  Rules A3, A4.

    Attributes:
        call: The builder that was called, such as `fanout`.
        problem: What is wrong.
        mend: What to write instead.
    """

    def __init__(self, call: str, problem: str, mend: str) -> None:
        self.call, self.problem, self.mend = call, problem, mend
        super().__init__("", f"{call}: {problem}. {mend}")


class OwnershipError(NodeError):
    """A node returned what its placement does not allow.  Nothing of the step was published.  Rule B6.

    Attributes:
        placement: Where the node stands: `conversation` or `internal`.
        origin: Where the response came from: `tool`, `run` or `response hook`.
        handler: The method that returned it.
        response: What was returned.
        allowed: The names of what may be returned there.
    """

    def __init__(  # noqa: PLR0913, PLR0917  facts of one breach
        self,
        node: str,
        placement: str,
        origin: str,
        handler: str,
        response: object,
        allowed: Sequence[str],
        mend: str,
    ) -> None:
        self.placement, self.origin, self.handler = placement, origin, handler
        self.response, self.allowed = response, tuple(allowed)
        an = "an" if origin.startswith("error") else "a"
        super().__init__(
            node,
            f"{node}.{handler} returned {quoted(response)}: {an} {origin} in {placement} placement may return "
            f"{', '.join(allowed)}. {mend}",
        )


class ConflictError(NodeError):
    """The calls of one model message chose routes that exclude each other; nothing was published.  Rule D4.

    Attributes:
        outcomes: Every call of the batch with its outcome, in call order: (call id, tool name, response).
    """

    def __init__(self, node: str, outcomes: Sequence[tuple[str, str, object]]) -> None:
        self.outcomes = tuple(outcomes)
        calls = "; ".join(f"{name} ({call}) gave {quoted(response)}" for call, name, response in outcomes)
        super().__init__(
            node,
            f"{node}: the tool calls of one message exclude each other: {calls}. Let one tool decide, or compile with "
            'on_conflict="feedback" so that the model chooses again.',
        )


class RoutingError(NodeError):
    """A route leads where it may not."""


class UnknownTarget(RoutingError):
    """A node that the graph does not have was named.  Rule A3.

    Attributes:
        target: The name that is not there.
        known: The names that are, in registration order.
    """

    def __init__(self, node: str, target: str, known: Sequence[str]) -> None:
        self.target, self.known = target, tuple(known)
        super().__init__(
            node,
            f"{node} names {target}, which this graph does not have. It has {', '.join(known)}. "
            f"Register {target} with stages() or workers(), or name one of these.",
        )


class UndeclaredRoute(RoutingError):
    """A handler took a route that its return annotation does not declare, so that no drawing shows it.

    Attributes:
        handler: The method that returned it.
        route: What it returned.
        declared: The routes its annotation declares.
    """

    def __init__(self, node: str, handler: str, route: str, declared: Sequence[str]) -> None:
        self.handler, self.route, self.declared = handler, route, tuple(declared)
        ways = ", ".join(declared) or "no route"
        forgotten = 'Did you forget "return"? Else add' if route == "None" else "Add"
        super().__init__(
            node,
            f"{node}.{handler} returned {route}, but its return annotation declares {ways}. "
            f"{forgotten} {route} to the annotation.",
        )


class StateTypeError(NodeError):
    """A value is not of the type that its cell declares; nothing was written.  Rule F3.

    Attributes:
        place: The cell, in words: `the state of Intake`, `the graph's context`.
        path: Where in the value, from `$`.
        expected: The declared type there, as text.
        found: The type that stands there, as text.
    """

    def __init__(self, node: str, place: str, path: str, expected: str, found: str) -> None:
        self.place, self.path, self.expected, self.found = place, path, expected, found
        super().__init__(node, f"{node} wrote {place}: {path} must be {expected}, and is {found}. Nothing was written.")


class NoState(NodeError):
    """An absent state was read, and its type cannot be built with no arguments.  Rule F8.

    Attributes:
        owner: The node whose state is absent.
        writers: What could write it.
    """

    def __init__(self, node: str, owner: str, writers: Sequence[str]) -> None:
        self.owner, self.writers = owner, tuple(writers)
        super().__init__(
            node,
            f"{node} read the state of {owner}, which nothing has written yet. "
            f"Give its fields defaults, or write it first: {', '.join(writers)}.",
        )


class NoResult(NodeError):
    """There is no result of that worker here.  Rules E2, E6.

    Attributes:
        worker: The worker that was asked for.
        available: The workers whose one result can be read here, with `ctx.result`.
        series: The workers whose results, one for each item, can be read here, with `ctx.results`.
    """

    def __init__(self, node: str, worker: str, available: Sequence[str], series: Sequence[str] = ()) -> None:
        self.worker, self.available, self.series = worker, tuple(available), tuple(series)
        here = ", ".join((*available, *(f"{one} (once per item)" for one in series))) or "none"
        mend = f"Join {worker} into {node}, or pass default=."
        if worker in series:
            mend = f"It ran once for each item: write ctx.results({worker})."
        elif worker in available:
            mend = f"It ran once: write ctx.result({worker})."
        super().__init__(
            node, f"{node} asked for the result of {worker}; results that can be read here: {here}. {mend}"
        )


class OutputError(NodeError):
    """A worker did not yield a value of its output type.  Rule A6."""


class RoundLimit(NodeError):
    """The model went on calling tools past the node's round limit.  Rule G3.

    Attributes:
        limit: Model messages allowed in one run of the node.
    """

    def __init__(self, node: str, limit: int) -> None:
        self.limit = limit
        super().__init__(
            node,
            f"{node}: the model called tools in {limit} messages without an answer or a route. "
            "Set `rounds` on the node, or let a tool route. A branch goes on with more rounds; aabandon(...) drops it.",
        )


class StepTimeout(NodeError):
    """A node or a tool took longer than its timeout; what it staged was discarded.  Rule G7.

    Attributes:
        seconds: The timeout.
        tool: The tool's name, or None where the whole node was timed.
    """

    def __init__(self, node: str, seconds: float, tool: str | None = None) -> None:
        self.seconds, self.tool = seconds, tool
        where = f"{node}.{tool}" if tool else node
        super().__init__(node, f"{where} took longer than its timeout of {seconds:g} s. Nothing was published.")


class StepOver(NodeError):
    """A context was used after its step had ended (a thread that outlived its timeout, a context that was kept)."""

    def __init__(self, node: str) -> None:
        super().__init__(node, f"{node}: this context's step is over. Nothing was written; do not keep a context.")


class ReplayMismatch(NodeError):
    """A step that goes on from its journal does something else than it did before.  Rules E11, I6.

    Attributes:
        at: Where in the step.
        now: What it does now.
        before: What it did, as the journal has it.
    """

    def __init__(self, node: str, at: str, now: str, before: str) -> None:
        self.at, self.now, self.before = at, now, before
        super().__init__(
            node,
            f"{node} goes on from its journal, and at {at} it now calls {now:.200}, where it had called {before:.200}. "
            "Let what it calls depend on its state and input alone; aabandon(...) drops the step.",
        )


class StepFailed(NodeError):
    """A handler, a hook or a model raised.  The original error is `error` and `__cause__`.  Rule D6.

    Attributes:
        error: What was raised.
        tool: The tool that raised, if one did.
        call: The id of its call, if one did.
    """

    def __init__(self, node: str, error: BaseException, tool: str | None = None, call: str | None = None) -> None:
        self.error, self.tool, self.call = error, tool, call
        where = f"{node}.{tool} (call {call})" if tool else node
        text = said(error)
        super().__init__(node, f"{where} raised {type(error).__name__}{text and ': '}{text}")


class ModelStopped(NodeError):
    """The model broke off, so that what it said is not an answer.

    Attributes:
        reason: The model's stop reason: `length` or `filtered`.
    """

    def __init__(self, node: str, reason: str) -> None:
        self.reason = reason
        super().__init__(node, f"{node}: the model stopped early ({reason}). Nothing was published; try again.")


class ScriptError(EzGraphError):
    """A scripted model's script does not fit the run: it is used up, or steps are left over.

    Attributes:
        node: The node that asked, or None when the script was closed.
        left: How many steps of the script were not played.
    """

    def __init__(self, node: str | None, left: int, text: str) -> None:
        self.node, self.left = node, left
        super().__init__(text)
