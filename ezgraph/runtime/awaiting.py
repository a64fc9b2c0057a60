"""How the shell waits: for a promise, with an end, in a thread, or past a cancellation."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping
from contextvars import Context as Variables, copy_context
from functools import partial
from types import coroutine
from typing import Any, TypeVar, cast

from ezgraph.errors import StepTimeout
from ezgraph.plan import Handler
from ezgraph.responses import UNSET
from ezgraph.runtime.context import Context

Value = TypeVar("Value")


async def settled(value: Value | Awaitable[Value]) -> Value:
    """What a handler or a store gave, awaited where it is a promise.  Rule G5."""
    return cast("Value", await value) if inspect.isawaitable(value) else value


async def called(handler: Handler, ctx: Context[Any, Any], arguments: Mapping[str, object]) -> Any:
    """What a handler gives; a blocking one is called in a thread.  Rule G5."""
    if handler.blocking:
        return await threaded(partial(handler.call, ctx, **arguments))
    return await settled(handler.call(ctx, **arguments))


async def threaded(call: Callable[[], Value]) -> Value:
    """What `call` gives in a thread, with the context variables of who awaits this; what it sets there is set here.

    What it raises does not pass through a future, which refuses StopIteration and is cancelled by a CancelledError.
    """
    before = copy_context()
    after = before.copy()

    def caught() -> tuple[Value, None] | tuple[None, BaseException]:
        try:
            return after.run(call), None
        except BaseException as error:  # noqa: BLE001  it is raised, where it can be told what it is
            return None, error

    value, error = await asyncio.get_running_loop().run_in_executor(None, caught)
    for variable, left in after.items():
        if before.get(variable, UNSET) is not left:
            variable.set(left)
    if error is not None:
        raise error
    return cast("Value", value)


async def within(seconds: float, node: str, tool: str | None, work: Awaitable[Value]) -> Value:
    """`work`, with an end.

    Raises:
        StepTimeout: It took longer than `seconds`.  Rule G7.
    """
    scope = asyncio.timeout(seconds)
    try:
        async with scope:
            value = await work
    except TimeoutError as error:
        if scope.expired():
            raise StepTimeout(node, seconds, tool) from error
        raise
    if scope.expired():  # the work swallowed the cancellation
        raise StepTimeout(node, seconds, tool)
    return value


@coroutine
def apart(
    work: Coroutine[Any, Any, Value], waits: Callable[[], object] | None = None, variables: Variables | None = None
) -> Generator[Any, Any, Value]:
    """`work`, in the task of who awaits this but with context variables of its own; `waits` is called when it does.

    That it has ended is a StopIteration, and nothing else can be: `work` is a coroutine, which cannot raise one.
    """
    run = (copy_context() if variables is None else variables).run  # an empty one is false
    try:
        promise = run(work.send, None)
    except StopIteration as done:
        at_once: Value = done.value
        return at_once
    if waits is not None:
        waits()
    try:
        while True:
            try:
                given = yield promise
            except BaseException as error:  # noqa: BLE001  it is the work's
                promise = run(work.throw, error)
            else:
                promise = run(work.send, given)
    except StopIteration as done:
        value: Value = done.value
        return value


async def shielded(work: Awaitable[Value]) -> Value:
    """`work`, to its end; a cancellation meanwhile comes after it.  Rule G3."""
    task = asyncio.ensure_future(work)
    await ended(task)
    return task.result()


async def ended(task: asyncio.Future[Value]) -> None:
    """Wait until `task` has ended, however; a cancellation meanwhile comes after that."""
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        if not task.cancelled():
            task.exception()  # seen: nobody is left to be told
        raise cancelled
