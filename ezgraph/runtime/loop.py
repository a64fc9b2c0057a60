"""The model/tool loop of one node run: `on_enter`, prompt, rounds of calls, `on_response`.  Rules D1 to D6, G1, G2."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias, cast, final

from attrs import frozen

from ezgraph.algebra.acceptance import Accepted, check_answer, of_loop, yielded
from ezgraph.algebra.batch import Conflict, Ended, Routing, decide, summarise
from ezgraph.algebra.journalling import additions, changes, meant, spendings, told
from ezgraph.algebra.ownership import check_response
from ezgraph.algebra.results import extra_messages, fresh_ids, results_of
from ezgraph.algebra.settling import Answer
from ezgraph.arguments import ArgumentsRefused
from ezgraph.errors import ConflictError, ModelStopped, NodeError, OutputError, ReplayMismatch, RoundLimit, StepFailed
from ezgraph.errors.words import quoted
from ezgraph.histories import Addition
from ezgraph.messages import Message, ToolCall, Usage, assistant, check_message, instruction, tool_result
from ezgraph.models.contract import Model, ModelReply, ModelRequest
from ezgraph.notes import Gone, Note
from ezgraph.plan import END_SESSION, NodeSpec, Plan, Tool
from ezgraph.responses import Builders, Direct, Finish, Response, Stay, TaskResult
from ezgraph.runtime.awaiting import called, settled, within
from ezgraph.runtime.context import Context
from ezgraph.runtime.events import Listener, ModelReplied, ToolAnswered, ToolCalled
from ezgraph.runtime.journal import Journal

Outcome: TypeAlias = Response[Any] | Ended
Cleanup: TypeAlias = Callable[[], object]

_LOG: Final = logging.getLogger("ezgraph")


async def converse(ctx: Context[Any, Any]) -> Answer:
    """Drive a node's model until it answers or a tool routes.

    Raises:
        NodeError: A handler, a hook or the model failed, or returned what it may not.
    """
    spec, model = ctx._spec, cast(Model, ctx._spec.model)  # compile() refuses a node without one
    loop = _Loop(ctx._plan, spec, model, ctx, ctx._drive.listener, ctx._journalled(), [])
    try:
        await loop.enter()
        prompt = await loop.prompt()
        for number in range(spec.rounds):
            routing = await loop.round(number, prompt)
            if routing is not None:
                return await loop.leave(routing)
        raise RoundLimit(spec.id, spec.rounds)
    finally:
        await loop.clean_up()


@final
@frozen(eq=False)
class _Loop:
    """One run of the loop; what it changes is the context's staged part and the cleanups that are due."""

    plan: Plan
    spec: NodeSpec
    model: Model
    ctx: Context[Any, Any]
    listener: Listener | None
    journal: Journal
    cleanups: list[Cleanup]

    async def enter(self) -> None:
        """`on_enter`, and the seed of a history that a provider would not accept as it is.  Rule G2."""
        ctx, spec = self.ctx, self.spec
        if (note := self.journal.found("enter")) is not None:
            ctx._staged.update(note.cells)
            ctx._adds = {**ctx._adds, **note.adds}
            self._spend(note)
            return
        ctx._section = "enter"
        history = ctx.history
        trailing = history[-1] if history and history[-1].role == "user" else None
        if spec.on_enter:
            used = await settled(spec.node.on_enter(ctx, trailing))
            ctx._check_fault()
            if isinstance(used, str):
                used = instruction(used)  # the program's words, also in the customer's place (rule C3)
            if used is not None and used != trailing:
                check_message("on_enter", used)
                if trailing is None:
                    ctx._add(spec.space, used)
                else:
                    self._replace(len(history), used)
            history = ctx.history
        if spec.seed is not None and (not history or history[-1].role == "assistant"):
            ctx._add(spec.space, instruction(spec.seed))
        self.journal.hold("enter", cells={**ctx._staged}, adds=ctx._adds, usage=ctx._spent)

    def _replace(self, length: int, used: Message) -> None:
        """Put `used` in the place of message `length`, the last one before `on_enter` appended others here."""
        ctx, space = self.ctx, self.spec.space
        appended = ctx.history[length:]
        if appended:
            added = ctx._adds[space]
            ctx._put(space, Addition(added.messages[: -len(appended)], added.drop))
        ctx._replace_last(used)
        ctx._add(space, *appended)

    async def prompt(self) -> str:
        """The system prompt of this run."""
        ctx = self.ctx
        if (note := self.journal.found("prompt")) is not None:
            self._restage(note)
            return note.text
        ctx._section = "prompt"
        before = self._staged()
        prompt = await settled(self.spec.node.prompt(ctx))
        ctx._check_fault()
        if not isinstance(prompt, str):
            raise TypeError(f"{self.spec.id}.prompt gave {quoted(prompt)}: return a str")
        self.journal.hold("prompt", text=prompt, **self._since(*before))
        return prompt

    async def round(self, number: int, prompt: str) -> Routing | str | None:
        """One model message and its calls: a route or an output, or None where the loop goes on."""
        if (note := self.journal.found(f"reply {number}")) is not None:
            self._spend(note)
            return await self._batch(number, note.text, note.calls)
        spec, ctx = self.spec, self.ctx
        request = ModelRequest(spec.id, ctx.session, prompt, ctx.history, spec.offered)
        reply: object = await settled(self.model.respond(request))
        await self.clean_up()
        if not isinstance(reply, ModelReply):
            raise TypeError(f"the model's respond() gave {quoted(reply)}: return ModelReply(text=...)")
        ctx._spend(reply.usage)
        self._check(reply)
        calls = fresh_ids(reply.calls)
        if self.listener is not None:
            self.listener(ModelReplied(ctx.session, spec.id, reply.text, calls))
        if not calls:
            return reply.text
        self.journal.hold(f"reply {number}", text=reply.text, calls=calls, usage={spec.id: reply.usage})
        return await self._batch(number, reply.text, calls)

    def _check(self, reply: ModelReply) -> None:
        if reply.stop != "complete":
            raise ModelStopped(self.spec.id, reply.stop)
        if not reply.calls and not reply.text.strip():
            raise OutputError(self.spec.id, f"{self.spec.id}: the model gave neither text nor calls. Try again.")

    async def _batch(self, number: int, text: str, calls: tuple[ToolCall, ...]) -> Routing | None:
        """Carry out the calls of one message in order, then decide once.  Rules D1, D3, D4."""
        ctx, spec = self.ctx, self.spec
        ctx._add(spec.space, assistant(text, calls))
        asked = len(ctx._adds[spec.space].messages)
        outcomes: list[Outcome] = []
        for index, call in enumerate(calls):
            outcome = self._finished(number, index)
            if outcome is None:
                if self.listener is not None:
                    self.listener(ToolCalled(ctx.session, spec.id, call))
                ctx._section = f"call {number}.{index}"
                outcome = await self._call(call)
            outcomes.append(outcome)
            if not isinstance(outcome, Ended):
                ctx._spend(outcome.effects.usage)
        decision = decide(summarise(outcomes))
        if isinstance(decision, Conflict) and self.plan.wiring.on_conflict == "raise":
            named = [(c.id, c.name, o) for c, o in zip(calls, outcomes, strict=True)]
            raise ConflictError(spec.id, named)
        results = results_of(outcomes, decision)
        if self.listener is not None:
            for call, result in zip(calls, results, strict=True):
                self.listener(ToolAnswered(ctx.session, spec.id, call.id, result))
        answers = (tool_result(call.id, result) for call, result in zip(calls, results, strict=True))
        added = ctx._adds[spec.space]  # results stand directly after the calls, before what handlers appended here
        messages = (*added.messages[:asked], *answers, *added.messages[asked:], *extra_messages(outcomes, decision))
        ctx._put(spec.space, Addition(messages, added.drop))
        if isinstance(decision, Ended):
            return Finish(text=decision.farewell)
        return None if isinstance(decision, Conflict) else decision

    async def _call(self, call: ToolCall) -> Outcome:
        """What one call comes to; one that does not validate never reaches a handler.  Rules D2, D5, D6."""
        spec = self.spec
        ending = spec.farewell if call.name == END_SESSION else None
        tool = spec.tools.get(call.name)
        parameters = ending or (tool and tool.parameters)
        if parameters is None:
            names = ", ".join(offered.name for offered in spec.offered) or "none"
            return Stay(text=f"There is no tool {call.name!r}. The tools are: {names}.")
        try:
            arguments = parameters.structure(call.arguments)
        except ArgumentsRefused as refused:
            return Stay(text=str(refused))
        if tool is None:
            return _farewell(str(arguments["farewell"]))
        return await self._answered(tool, call, arguments)

    async def _answered(self, tool: Tool, call: ToolCall, arguments: dict[str, object]) -> Outcome:
        """What a handler gives, in the journal before the loop goes on."""
        spec, ctx = self.spec, self.ctx
        before = self._staged()
        try:
            response: Response[Any] = await self._handled(tool, arguments)
            if isinstance(response, Builders):
                self.cleanups.extend(response.effects.cleanups)  # due even where the response is refused
                for message in response.effects.messages:
                    check_message("with_messages", message)
            ctx._check_fault()
            check_response(self.plan, spec, tool.handler, response)
            if isinstance(response, TaskResult):
                check_answer(spec, tool, response.value)
        except BaseException as error:
            cause = ctx._drive.failing(error)
            if cause is None:
                raise
            ctx._check_fault()
            if isinstance(error, NodeError) and error.node == spec.id:
                error.add_note(f"in tool {tool.spec.name}, call {call.id}")
                raise
            raise StepFailed(spec.id, cause, tool.spec.name, call.id) from cause
        await self.journal.write(ctx._section, outcome=told(self.plan, tool, response), **self._since(*before))
        return response

    # ------------------------------------------------------------------------------------------------- the journal

    def _staged(self) -> tuple[Mapping[str, Any], Mapping[str, Addition], Mapping[str, Usage]]:
        ctx = self.ctx
        return {**ctx._staged}, ctx._adds, ctx._spent

    def _since(
        self, cells: Mapping[str, Any], adds: Mapping[str, Addition], spent: Mapping[str, Usage]
    ) -> dict[str, Any]:
        """What was staged since, as a note has it."""
        ctx = self.ctx
        return {
            "cells": changes(cells, ctx._staged),
            "adds": additions(adds, ctx._adds),
            "usage": spendings(spent, ctx._spent),
        }

    def _restage(self, note: Note) -> None:
        """Stage again what an earlier run of this step has noted."""
        self.ctx._staged.update(note.cells)
        for space, added in note.adds.items():
            self.ctx._add(space, *added.messages)
        self._spend(note)

    def _spend(self, note: Note) -> None:
        for node, spent in note.usage.items():
            self.ctx._spend_for(node, spent)

    def _finished(self, number: int, index: int) -> Outcome | None:
        """What a call came to that an earlier run of this step finished, its writes staged again.  Rules F2, L3."""
        at = f"call {number}.{index}"
        note = self.journal.found(at)
        if note is None or note.outcome is None:
            return None
        for tool, value in note.outcome.value.items():
            if isinstance(value, Gone):
                raise ReplayMismatch(self.spec.id, at, "no tool of that name", tool)
        self._restage(note)
        return meant(self.plan, note.outcome)

    async def _handled(self, tool: Tool, arguments: dict[str, object]) -> Any:
        work = called(tool.handler, self.ctx, arguments)
        return await (work if tool.timeout is None else within(tool.timeout, self.spec.id, tool.spec.name, work))

    async def leave(self, routing: Routing | str) -> Answer:
        """A route as it is; an output after the response hook has seen it.  Rule A6."""
        spec = self.spec
        if not isinstance(routing, str | Direct | TaskResult):
            return routing
        accepted: Accepted = routing.text if isinstance(routing, Direct) else routing
        hooked = None
        if spec.hook is not None:
            self.ctx._section = "response"
            seen: object = accepted
            if isinstance(accepted, TaskResult):
                seen = accepted.value if spec.placement == "conversation" else yielded(spec, accepted.value).output
            hooked = await settled(spec.hook.call(self.ctx, seen))
            check_response(self.plan, spec, spec.hook, hooked)
            if hooked is not None and not isinstance(hooked, str):
                self.ctx._spend(hooked.effects.usage)
        return of_loop(spec, accepted, hooked)

    async def clean_up(self) -> None:
        """Run the cleanups that are due, each once; one that raises is logged, as its effect is no part of the step."""
        stopped: BaseException | None = None
        while self.cleanups:
            cleanup = self.cleanups.pop(0)
            try:
                await settled(cleanup())
            except BaseException as error:  # noqa: BLE001  whatever it is, it is told
                if self.ctx._drive.failing(error) is None:  # the others are due all the same
                    stopped = stopped or error
                else:
                    _LOG.exception("%s: a cleanup raised in session %s", self.spec.id, self.ctx.session)
        if stopped is not None:
            raise stopped


def _farewell(text: str) -> Outcome:
    return Ended(text) if text.strip() else Stay(text="farewell: say something, the customer reads it.")
