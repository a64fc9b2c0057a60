"""From a node's class and instance to its spec: types, handlers, tools; every problem on the way is collected."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Mapping
from types import NoneType
from typing import Any, Final, ForwardRef, Literal, get_args, get_origin

from attrs import field, frozen

from ezgraph.annotations import Returns, bindings, is_open, members, shown
from ezgraph.arguments import parameters_of
from ezgraph.compilation.handlers import TAKES, MethodReader
from ezgraph.errors import Problem
from ezgraph.errors.words import quoted
from ezgraph.fields import without_remarks
from ezgraph.models.contract import Model, ToolSpec
from ezgraph.nodes import TOOL_MARK, Conversation, Node, Stage, ToolOptions, Worker
from ezgraph.plan import END_SESSION, NodeSpec, Tool, Wiring
from ezgraph.responses import UNSET, Direct, TaskResult
from ezgraph.shapes import checker, flaws, initial

_TOOL_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""What every provider takes as a tool's name."""

_HOOKS: Final = ("on_enter", "on_response", "on_exit", "on_error")
"""The hooks; where code drives a node it has the last two.  Rule G1."""


@frozen(eq=False)
class Reading:
    """What was read of one class: its spec, and the ways out that its handlers declare.

    Attributes:
        spec: The resolved node.
        returns: By handler, what its return annotation says.
        mentions: By handler whose annotation cannot be read, the names it mentions.
        shared: What the node needs of the graph's context.
    """

    spec: NodeSpec
    returns: Mapping[str, Returns]
    mentions: Mapping[str, frozenset[str]]
    shared: object


@frozen(eq=False)
class NodeReader:
    """Reads one node; problems go to `problems`.

    Attributes:
        id: The node's id.
        cls: The node's class.
        node: The author's instance; the class itself where there can be none.
        wiring: What `compile` was given, or None where the definition alone is judged.
        problems: Where to put what is wrong.
    """

    id: str
    cls: type[Node[Any, Any]]
    node: Any
    wiring: Wiring | None
    problems: list[Problem]
    methods: MethodReader = field(init=False)

    def __attrs_post_init__(self) -> None:
        known = bindings(self.cls)

        def argument(owner: Any, index: int) -> object:
            return without_remarks(known.get(owner, {}).get(owner.__parameters__[index], UNSET))

        output = argument(Worker, 1) if issubclass(self.cls, Worker) else None
        methods = MethodReader(self.cls, self.node, known, self.problems, argument(Node, 0), argument(Node, 1), output)
        object.__setattr__(self, "methods", methods)

    def read(self) -> Reading:
        """The node, resolved as far as it can be."""
        methods, worker = self.methods, issubclass(self.cls, Worker)
        state, output = methods.state, methods.output
        state_ok = self._check_type(state, "state", "mutable-state")
        output_ok = worker and self._check_type(output, "output", "output-type")
        by_code = methods.overrides("run") or not issubclass(self.cls, Conversation | Worker)
        blocking = by_code and self.node.blocking
        run = methods.handler("run", "run", blocking=blocking)[0] if methods.overrides("run") else None
        tools = {} if by_code else self._tools()
        hook = None
        if not by_code and methods.overrides("on_response"):
            hook = methods.handler("on_response", "response hook")[0]
        rescue = methods.handler("on_error", "error hook")[0] if methods.overrides("on_error") else None
        for name in ("on_exit",) if by_code else ("prompt", "on_enter", "on_exit"):
            if methods.overrides(name):
                methods.hook(name)
        if by_code:
            self._refuse_model_parts()
        methods.strays(_HOOKS[-2:] if by_code else _HOOKS, self._marked())
        if worker:
            self._check_outputs(by_code=by_code)
        self._check_attributes(by_code=by_code)
        self._check_seconds("timeout", self.node.timeout, kept=run is None or blocking or methods.awaits("run"))
        may_end = not by_code and self.wiring is not None and self.cls in self.wiring.end_session
        farewell = _FAREWELL if may_end else None
        offered = tuple(tool.spec for tool in tools.values())
        if farewell is not None:
            offered += (ToolSpec(END_SESSION, farewell.description, farewell.schema),)
        spec = NodeSpec(
            id=self.id,
            node=self.node,
            placement=self.cls.placement,
            driver="code" if by_code else "model",
            space=self.node.history if issubclass(self.cls, Stage) else "",
            state=state,
            state_check=checker(state) if state_ok else _accept,
            initial=initial(state) if state_ok else UNSET,
            output=output,
            output_check=checker(output) if output_ok else None,
            run=run,
            hook=hook,
            rescue=rescue,
            on_enter=not by_code and methods.overrides("on_enter"),
            on_exit=methods.overrides("on_exit"),
            tools=tools,
            farewell=farewell,
            offered=offered,
            model=None if by_code else self._model(),
            rounds=getattr(self.node, "rounds", 1),
            seed=getattr(self.node, "seed", None),
            timeout=self.node.timeout,
        )
        return Reading(spec, methods.returns, methods.mentions, methods.shared)

    # -------------------------------------------------------------------------------- types, values

    def _check_type(self, annotation: object, what: str, kind: str) -> bool:
        if annotation is UNSET or is_open(annotation):
            self.methods.problem(
                "missing-annotation",
                "",
                f"the type of its {what} is not given",
                f"Write it in the class line, such as `class {self.cls.__name__}({self.methods.kind()}[...])`.",
            )
            return False
        if isinstance(annotation, ForwardRef):
            name = shown(annotation)
            self.methods.problem(
                "unresolvable-annotation",
                "",
                f"the name {name!r} in its class line does not resolve at run time",
                f"Import {name} at the top of the module, not only for typing, and not inside a function.",
            )
            return False
        found = flaws(annotation)
        for flaw in found:
            self.methods.problem(kind, "", f"{what} {shown(annotation)}: {flaw.path} {flaw.what}", flaw.mend)
        return not found

    def _check_attributes(self, *, by_code: bool) -> None:
        """What a class body sets: the history space, the rounds, the seed.  Rules F4, G2, G3."""
        if issubclass(self.cls, Stage) and not _is_text(self.node.history):
            self.methods.problem(
                "attribute", "history", f"is {quoted(self.node.history)}", 'Name a history space: history = "default".'
            )
        if by_code:
            return
        rounds, seed = self.node.rounds, self.node.seed
        if isinstance(rounds, bool) or not isinstance(rounds, int) or rounds < 1:
            self.methods.problem(
                "attribute", "rounds", f"is {quoted(rounds)}", "Give a whole number, 1 or more: rounds = 8."
            )
        if seed is not None and not _is_text(seed):
            self.methods.problem(
                "attribute", "seed", f"is {quoted(seed)}", 'Give a text, or None for no such message: seed = "Begin."'
            )

    def _check_seconds(self, name: str, seconds: object, *, kept: bool) -> None:
        if seconds is None:
            return
        if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds < math.inf:
            self.methods.problem("timeout", name, f"timeout={quoted(seconds)}", "Give seconds above 0, or None.")
        elif not kept:
            self.methods.problem(
                "timeout",
                name,
                "has a timeout and is sync, so that nothing can interrupt it",
                "Make it async, or blocking: `@tool(blocking=True)`, or `blocking = True` beside `run`.",
            )

    def _model(self) -> Model | None:
        own: Model | None = self.node.model
        if own is None and self.wiring is not None:
            own = self.wiring.model
            if own is None:
                self.methods.problem(
                    "missing-model", "", "has no model", "Pass compile(model=...), or set `model` on the node."
                )
        if own is not None and not callable(getattr(own, "respond", None)):
            self.methods.problem("missing-model", "", f"its model {quoted(own)} has no respond()", "Pass a Model.")
        return own

    # -------------------------------------------------------------------------------- tools

    def _marked(self) -> dict[str, None]:
        """The names of all methods that were ever marked as tools, those of ancestors first."""
        return dict.fromkeys(
            name
            for owner in reversed(self.cls.__mro__)
            for name, value in vars(owner).items()
            if _options(value) is not None
        )

    def _tools(self) -> dict[str, Tool]:
        tools: dict[str, Tool] = {}
        for name in self._marked():
            if options := _options(inspect.getattr_static(self.cls, name)):
                self._tool(name, options, tools)
            else:
                self.methods.problem(
                    "lost-tool", name, "overrides a tool and is none itself", "Write `@tool` on the override as well."
                )
        return tools

    def _tool(self, name: str, options: ToolOptions, tools: dict[str, Tool]) -> None:
        handler, hints = self.methods.handler(name, "tool", blocking=options.blocking)
        function, problem = getattr(self.cls, name), self.methods.problem
        called: object = name if options.name is None else options.name
        if called in tools or called == END_SESSION:
            problem("duplicate-tool", name, f"{called!r} is already a tool", "Give one another name: @tool(name=...).")
        fine = isinstance(called, str) and _TOOL_NAME.fullmatch(called)
        if not fine:
            mend = "Give one of at most 64 letters, digits, _ and -: @tool(name=...)."
            problem("tool-name", name, f"{called!r} is no name that every model's provider takes", mend)
        self._check_seconds(name, options.timeout, kept=options.blocking or self.methods.awaits(name))
        if hints is None or not inspect.isfunction(inspect.unwrap(function)):
            return  # nothing can be read, and why is told
        parameters, wrong = parameters_of(function, hints)
        for flaw in wrong:
            problem("tool-parameter", name, f"{flaw.path}: {flaw.what}", flaw.mend)
        if parameters is not None and isinstance(called, str):
            spec = ToolSpec(called, parameters.description, parameters.schema)
            answer = self._answer(name)
            check = _accept if answer is None else checker(answer)
            tools[called] = Tool(handler, spec, parameters, options.timeout, answer, check, f"{self.id}.{called}")

    def _answer(self, name: str) -> object:
        """What a tool gives as a task result; a stage's must be one that a journal can keep.  Rule L4."""
        given = tuple(dict.fromkeys(map(without_remarks, self.methods.returns[name].outputs)))
        output = self.methods.output
        if issubclass(self.cls, Worker):
            return None if output is UNSET or is_open(output) or not given or flaws(output) else output
        if len(given) > 1:
            told = f"may give {' or '.join(f'TaskResult[{shown(one)}]' for one in given)}"
            self.methods.problem("output-type", name, told, "Give one type: a frozen class with a field for each.")
            return None
        for one in given:
            for flaw in flaws(one):
                told = f"TaskResult[{shown(one)}]: {flaw.path} {flaw.what}"
                self.methods.problem("output-type", name, told, flaw.mend)
                return None
        return given[0] if given else None

    def _refuse_model_parts(self) -> None:
        """A node with `run` has no tools and no model hooks.  Rule G1."""
        for name in TAKES:
            if name in {"prompt", "on_enter", "on_response"} and self.methods.overrides(name):
                self.methods.problem(
                    "placement", name, "is never called, as code drives this node", "Remove it, or remove run."
                )
        for name in self._marked():
            self.methods.problem("placement", name, "is a tool of a node that has `run`", "Remove it, or remove run.")

    # -------------------------------------------------------------------------------- outputs

    def _check_outputs(self, *, by_code: bool) -> None:
        """What yields this worker's output must be of its type, and something must.  Rule A6."""
        output, returns, problem = self.methods.output, self.methods.returns, self.methods.problem
        if output is UNSET or is_open(output) or isinstance(output, ForwardRef):
            return
        for name, said in returns.items():
            for given in map(without_remarks, said.outputs):
                if not _fits(given, output):
                    problem(
                        "output-type",
                        name,
                        f"may give TaskResult[{shown(given)}], and the output of the worker is {shown(output)}",
                        f"Write `TaskResult[{shown(output)}]`, or change the output in the class line.",
                    )
            if Direct in said.kinds and output is not str and (name == "on_error" or "on_response" not in returns):
                mend = "Give a task_result" + ("." if name == "on_error" else ", or add an on_response that does.")
                told = f"may give a text, and the output of the worker is {shown(output)}"
                problem("output-type", name, told, mend)
        first = [said for name, said in returns.items() if name != "on_error"]  # which only stands in for them
        kinds = {kind for said in first for kind in said.kinds}
        yields = TaskResult in kinds or (Direct in kinds and output is str)
        yields |= NoneType in kinds and _fits(None, output) if by_code else output is str
        if not yields and not any(said.flaws or said.others for said in first):
            problem(
                "output-type",
                "",
                f"nothing of it yields its output {shown(output)}",
                f"Give it `run`, a tool that returns `TaskResult[{shown(output)}]`, or an on_response that does.",
            )
        elif by_code and NoneType in kinds and not _fits(None, output):
            problem(
                "output-type",
                "run",
                f"may give nothing, and the output of the worker is {shown(output)}",
                "Always give a task_result, or make the output `... | None`.",
            )


def _end_session(_self: object, _ctx: object, farewell: str) -> None:
    """End the session, because the customer wants to stop.

    Args:
        farewell: The last thing that the customer is told.
    """


_FAREWELL, _ = parameters_of(_end_session, {"farewell": str})


def _fits(given: object, output: object) -> bool:
    """Whether every value of type `given` is one of type `output`, exactly: a subclass is not its base.  Rule F3."""
    wanted = tuple(members(output))
    return all(any(_is_exactly(one, other) for other in wanted) for one in members(given))


def _is_exactly(given: object, output: object) -> bool:
    if given == output:
        return True
    if get_origin(given) is Literal:
        values = [(type(v), v) for v in get_args(output)] if get_origin(output) is Literal else []
        return all(type(v) is output or (type(v), v) in values for v in get_args(given))
    if (beneath := getattr(given, "__supertype__", None)) is not None:
        return _is_exactly(beneath, output)
    parts, wanted = get_args(given), get_args(output)
    if get_origin(given) is not get_origin(output) or get_origin(given) not in {tuple, frozenset}:
        return False
    if wanted[-1] is Ellipsis:
        return all(_fits(part, wanted[0]) for part in parts if part is not Ellipsis)
    return len(parts) == len(wanted) and parts[-1] is not Ellipsis and all(map(_fits, parts, wanted))


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _accept(_: object) -> None:
    """The check of a type that is itself refused: the definition does not compile."""


def _options(attribute: object) -> ToolOptions | None:
    """What `@tool` was given, where it stands on an attribute: outside or inside of `staticmethod` too."""
    inner = attribute.__func__ if isinstance(attribute, staticmethod | classmethod) else attribute
    found = getattr(attribute, TOOL_MARK, None) or getattr(inner, TOOL_MARK, None)
    return found if isinstance(found, ToolOptions) else None
