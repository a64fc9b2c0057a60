"""From a node's class and instance to its spec: types, handlers, tools; every problem on the way is collected."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from types import NoneType
from typing import Any, get_args, get_origin

from attrs import field, frozen

from ezgraph.algebra.ownership import TABLE, permits
from ezgraph.annotations import (
    AnnotationFlaw,
    Bindings,
    Returns,
    bindings,
    hints_of,
    returns_of,
    shown,
)
from ezgraph.arguments import parameters_of
from ezgraph.errors import Problem
from ezgraph.models.contract import Model, ToolSpec
from ezgraph.nodes import TOOL_MARK, Conversation, Node, Stage, ToolOptions, Worker
from ezgraph.plan import END_SESSION, Handler, NodeSpec, Tool, Wiring
from ezgraph.responses import UNSET, Fanout, Origin, TaskResult
from ezgraph.runtime.context import Context, StageContext
from ezgraph.shapes import checker, flaws, initial

_HOOKS = ("prompt", "on_enter", "on_exit")


def id_of(cls: type) -> str:
    """A node's id: `id = "..."` in its own class body, else the class's name."""
    return str(vars(cls).get("id", cls.__name__))


@frozen(eq=False)
class Reading:
    """What was read of one class: its spec, and the ways out that its handlers declare.

    Attributes:
        spec: The resolved node.
        returns: By handler name, what its return annotation says.
        shared: What the node needs of the graph's context.
    """

    spec: NodeSpec
    returns: Mapping[str, Returns]
    shared: object


@frozen(eq=False)
class NodeReader:
    """Reads one node; problems go to `problems`.

    Attributes:
        cls: The node's class.
        node: The author's instance.
        wiring: What `compile` was given, or None where the definition alone is judged.
        problems: Where to put what is wrong.
    """

    cls: type[Node[Any, Any]]
    node: Node[Any, Any]
    wiring: Wiring | None
    problems: list[Problem]
    known: Bindings = field(init=False)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "known", bindings(self.cls))

    def read(self) -> Reading:
        """The node, resolved as far as it can be."""
        state = self._argument(Node, 0)
        worker = issubclass(self.cls, Worker)
        output = self._argument(Worker, 1) if worker else None
        state_ok = self._check_type(state, "state")
        output_ok = worker and self._check_type(output, "output")
        by_code = self._overrides("run") or not issubclass(self.cls, Conversation | Worker)
        returns: dict[str, Returns] = {}
        run = self._handler("run", "run", returns) if by_code else None
        tools = {} if by_code else self._tools(returns)
        hook = None if by_code or not self._overrides("on_response") else self._hook(returns)
        if by_code:
            self._refuse_model_parts()
        for name in _HOOKS:
            if self._overrides(name):
                self._hints(name, getattr(self.cls, name))
        if worker:
            self._check_output(output, by_code, returns)
        model = None if by_code else self._model()
        timeout = self._timeout(by_code, run)
        may_end = not by_code and self.wiring is not None and self.cls in self.wiring.end_session
        farewell = _FAREWELL if may_end else None
        offered = tuple(tool.spec for tool in tools.values())
        if farewell is not None:
            offered += (ToolSpec(END_SESSION, farewell.description, farewell.schema),)
        spec = NodeSpec(
            id=id_of(self.cls),
            node=self.node,
            placement=self.cls.placement,
            driver="code" if by_code else "model",
            space=self.node.history if isinstance(self.node, Stage) else "",
            state=state,
            state_check=checker(state) if state_ok else _accept,
            initial=initial(state) if state_ok else UNSET,
            output=output,
            output_check=checker(output) if output_ok else None,
            text_output=output is str,
            run=run,
            hook=hook,
            on_enter=not by_code and self._overrides("on_enter"),
            on_exit=self._overrides("on_exit"),
            tools=tools,
            farewell=farewell,
            offered=offered,
            model=model,
            rounds=getattr(self.node, "rounds", 1),
            seed=getattr(self.node, "seed", None),
            timeout=timeout,
        )
        return Reading(spec, returns, self._argument(Node, 1))

    # ------------------------------------------------------------------------------------------------------ the parts

    def _problem(self, kind: str, place: str, what: str, mend: str) -> None:
        where = f"{self.cls.__name__}.{place}" if place else self.cls.__name__
        self.problems.append(Problem(kind, where, what, mend))

    def _argument(self, owner: type, index: int) -> object:
        parameters: tuple[object, ...] = getattr(owner, "__parameters__", ())
        if owner is Worker:  # Worker[State, Output, Shared]
            return self.known.get(Worker, {}).get(parameters[index], UNSET)
        return self.known.get(owner, {}).get(parameters[index], UNSET)

    def _check_type(self, annotation: object, what: str) -> bool:
        kind = f"mutable-{what}" if what == "state" else "output-type"
        if annotation is UNSET or hasattr(annotation, "__constraints__"):
            self._problem(
                "missing-annotation",
                "",
                f"the type of its {what} is not given",
                f"Write it in the class line, such as `class {self.cls.__name__}({self._kind()}[...])`.",
            )
            return False
        found = flaws(annotation)
        for flaw in found:
            self._problem(kind, "", f"{what} {shown(annotation)}: {flaw.path} {flaw.what}", flaw.mend)
        return not found

    def _kind(self) -> str:
        return next(c.__name__ for c in self.cls.__mro__ if c.__module__ == Node.__module__)

    def _overrides(self, name: str) -> bool:
        """Whether the author gave this method: one found in a class that is not one of our kinds."""
        owner = next((c for c in self.cls.__mro__ if name in vars(c)), None)
        return owner is not None and owner.__module__ != Node.__module__

    def _hints(self, name: str, function: Callable[..., object]) -> dict[str, object] | None:
        """The resolved annotations of a method; a context of another state or placement is a problem."""
        hints = hints_of(self.cls, function, self.known)
        if isinstance(hints, AnnotationFlaw):
            self._problem(hints.kind, name, hints.what, hints.mend)
            return None
        names = list(inspect.signature(function).parameters)
        if len(names) < 2:
            self._problem("signature", name, "takes no context", f"Write `def {name}(self, ctx: ..., ...)`.")
            return None
        self._check_context(name, hints.get(names[1], UNSET))
        return hints

    def _check_context(self, name: str, annotation: object) -> None:
        origin, state = get_origin(annotation) or annotation, self._argument(Node, 0)
        given = next(iter(get_args(annotation)), state)
        worker = issubclass(self.cls, Worker)
        if annotation is UNSET or (
            origin in {Context, StageContext} and given in {state, Any} and not (worker and origin is StageContext)
        ):
            return
        right = f"{'Context' if worker else 'StageContext'}[{shown(state)}]"
        why = (
            "a worker may not write elsewhere" if worker and origin is StageContext else f"its state is {shown(state)}"
        )
        self._problem("wrong-context", name, f"takes {shown(annotation)}, and {why}", f"Write `ctx: {right}`.")

    def _handler(self, name: str, origin: Origin, returns: dict[str, Returns]) -> Handler:
        function = getattr(self.cls, name)
        hints = self._hints(name, function)
        said = returns[name] = Returns(frozenset(), (), (), (), ()) if hints is None else returns_of(hints)
        for flaw in said.flaws:
            self._problem(flaw.kind, name, flaw.what, flaw.mend)
        self._check_placement(name, origin, said)
        may = TABLE[origin, self.cls.placement]
        return Handler(
            name,
            origin,
            getattr(self.node, name),
            may.may if may.nothing == "refused" else may.may | {NoneType},
            inspect.iscoroutinefunction(function),
            frozenset((way.response, target) for way in said.ways for target in way.targets),
            tuple(map(str, said.ways)),
        )

    def _check_placement(self, name: str, origin: Origin, said: Returns) -> None:
        placement = self.cls.placement
        refused = [kind.__name__ for kind in said.kinds if not permits(origin, placement, kind)]
        refused = ["None" if kind == "NoneType" else kind for kind in sorted(refused)]
        for kind in (*refused, *said.others):
            allowed = ", ".join(TABLE[origin, placement].names)
            self._problem(
                "placement",
                name,
                f"may return {kind}, which a {origin} in {placement} placement may not",
                f"It may return: {allowed}.",
            )
        for way in said.ways:
            if way.response is Fanout and len(way.targets) < 2:
                self._problem(
                    "placement", name, f"{way} names one worker", "A fan-out takes two or more: Fanout[A | B]."
                )

    def _hook(self, returns: dict[str, Returns]) -> Handler:
        return self._handler("on_response", "response hook", returns)

    def _tools(self, returns: dict[str, Returns]) -> dict[str, Tool]:
        tools: dict[str, Tool] = {}
        seen: dict[str, None] = {}
        for owner in reversed(self.cls.__mro__):
            seen.update(dict.fromkeys(n for n, v in vars(owner).items() if hasattr(_function(v), TOOL_MARK)))
        for name in seen:
            found = inspect.getattr_static(self.cls, name)
            options = getattr(found, TOOL_MARK, None)
            if isinstance(found, staticmethod | classmethod):
                self._problem("signature", name, "is a static or class method", "Write `@tool` on a plain method.")
            elif not isinstance(options, ToolOptions):
                self._problem(
                    "lost-tool", name, "overrides a tool and is none itself", "Write `@tool` on the override as well."
                )
            else:
                self._tool(name, options, returns, tools)
        return tools

    def _tool(self, name: str, options: ToolOptions, returns: dict[str, Returns], tools: dict[str, Tool]) -> None:
        before = len(self.problems)
        handler = self._handler(name, "tool", returns)
        function = getattr(self.cls, name)
        called = options.name or name
        awaits = inspect.iscoroutinefunction(function)
        if called in tools or called == END_SESSION:
            self._problem(
                "duplicate-tool", name, f"{called!r} is already a tool", "Give one another name: @tool(name=...)."
            )
        if options.blocking and awaits:
            self._problem("signature", name, "is async and blocking", "Leave out blocking=True: an async tool awaits.")
        self._check_seconds(name, options.timeout, kept=awaits or options.blocking)
        hints = hints_of(self.cls, function, self.known)
        if isinstance(hints, AnnotationFlaw) or len(self.problems) > before:
            hints = {} if isinstance(hints, AnnotationFlaw) else hints
        parameters, wrong = parameters_of(function, hints) if hints else (None, ())
        for flaw in wrong:
            self._problem("tool-parameter", name, f"{flaw.path}: {flaw.what}", flaw.mend)
        if parameters is not None:
            spec = ToolSpec(called, parameters.description, parameters.schema)
            tools[called] = Tool(handler, spec, parameters, options.timeout, options.blocking)

    def _check_seconds(self, name: str, seconds: object, *, kept: bool) -> None:
        if seconds is None:
            return
        if isinstance(seconds, bool) or not isinstance(seconds, int | float) or seconds <= 0:
            self._problem("timeout", name, f"timeout={seconds!r}", "Give seconds above 0, or None.")
        elif not kept:
            self._problem(
                "timeout",
                name,
                "has a timeout and is sync, so that nothing can interrupt it",
                "Make it async, or a tool with blocking=True.",
            )

    def _timeout(self, by_code: bool, run: Handler | None) -> float | None:  # noqa: FBT001  both follow from the class
        kept = not by_code or (run is not None and inspect.iscoroutinefunction(run.call))
        self._check_seconds("timeout", self.node.timeout, kept=kept)
        return self.node.timeout

    def _refuse_model_parts(self) -> None:
        """A node with `run` has no tools and no model hooks.  Rule G1."""
        for name in ("prompt", "on_enter", "on_response"):
            if self._overrides(name):
                self._problem(
                    "placement", name, "is never called, as code drives this node", "Remove it, or remove run."
                )
        marked = [n for c in self.cls.__mro__ for n, v in vars(c).items() if hasattr(_function(v), TOOL_MARK)]
        for name in dict.fromkeys(marked):
            self._problem("placement", name, "is a tool of a node that has `run`", "Remove it, or remove run.")

    def _model(self) -> Model | None:
        own: Model | None = getattr(self.node, "model", None)
        if own is None and self.wiring is not None:
            own = self.wiring.model
            if own is None:
                self._problem(
                    "missing-model", "", "has no model", "Pass compile(model=...), or set `model` on the node."
                )
        if own is not None and not callable(getattr(own, "respond", None)):
            self._problem("missing-model", "", f"its model {own!r} has no respond()", "Pass a Model.")
        return own

    def _check_output(self, output: object, by_code: bool, returns: Mapping[str, Returns]) -> None:  # noqa: FBT001
        """What yields this worker's output must be of its type, and something must.  Rule A6."""
        for name, said in returns.items():
            for given in said.outputs:
                if not _fits(given, output):
                    self._problem(
                        "output-type",
                        name,
                        f"may give TaskResult[{shown(given)}], and the output of {self.cls.__name__} is {shown(output)}",
                        f"Write `TaskResult[{shown(output)}]`, or change the output in the class line.",
                    )
        if output is str or output is UNSET:
            return
        for name, said in returns.items():
            if "Direct" in {k.__name__ for k in said.kinds} and (by_code or not self._overrides("on_response")):
                self._problem(
                    "output-type",
                    name,
                    f"may give a text, and the output of {self.cls.__name__} is {shown(output)}",
                    "Give a task_result, or add an on_response that does.",
                )
        if not by_code and not any(TaskResult in said.kinds for said in returns.values()):
            self._problem(
                "output-type",
                "",
                f"nothing of it yields its output {shown(output)}",
                f"Give it `run`, a tool that returns `TaskResult[{shown(output)}]`, or an on_response that does.",
            )


def _end_session(self: object, ctx: object, farewell: str) -> None:
    """End the session, because the customer wants to stop.

    Args:
        farewell: The last thing that the customer is told.
    """


_FAREWELL, _ = parameters_of(_end_session, {"farewell": str})


def _fits(given: object, output: object) -> bool:
    if given == output:
        return True
    return (
        isinstance(given, type)
        and isinstance(output, type)
        and given.__name__ != "object"
        and issubclass(given, output)
    )


def _accept(_: object) -> None:
    """The check of a type that is itself refused: the definition does not compile."""


def _function(attribute: object) -> object:
    return attribute.__func__ if isinstance(attribute, staticmethod | classmethod) else attribute
