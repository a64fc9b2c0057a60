"""Wrong code: every line marked `# E:<case>` is refused, and no other, by mypy --strict and by pyright (standard).

Under a marked line stands all that each checker says of it: the code, and a part of the message, in which line breaks
count as spaces.  The mended twin of a line is marked `# OK:<case>` in `accepted.py`.  What no checker can see (a tool's
annotation with another output, its context of another state, `Go[Any]`) is refused by `compile()`, and tested there.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Optional, Union

from accepted import (
    Aside,
    Counter,
    Damage,
    Decide,
    Inspect,
    Letters,
    Offer,
    Onward,
    Pay,
    Photos,
    Purse,
    Reception,
    Report,
    Ruling,
    Sighting,
    Stock,
    Trace,
    parcels,
)
from typing_extensions import assert_never

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
    Message,
    Response,
    StageContext,
    Stay,
    TaskResult,
    Usage,
    Worker,
    assistant,
    direct,
    direct_to,
    fanout,
    finish,
    go,
    scatter,
    stay,
    task_result,
    tool,
    user,
)

# --------------------------------------------------------------------------------------- 1. a worker does not route


class Hands(Worker[None, Sighting]):
    @tool  # E:1a
    # mypy[type-var]: "WorkerToolAnswer" of "tool" cannot be "Go[Pay] | Stay"
    # pyright[reportCallIssue]: No overloads for "tool"
    # pyright[reportArgumentType]: return type "Go[Pay] | Stay" is incompatible
    def routes(self, ctx: Context[None], q: str) -> Go[Pay] | Stay:
        return go(Pay)

    @tool
    def body(self, ctx: Context[None]) -> TaskResult[Sighting]:
        return go(Pay)  # E:1b
        # mypy[return-value]: Incompatible return value type (got "Go[Pay]", expected "TaskResult[Sighting]")
        # pyright[reportReturnType]: Type "Go[Pay]" is not assignable to return type "TaskResult[Sighting]"

    @tool  # E:1c
    # mypy[type-var]: "WorkerToolAnswer" of "tool" cannot be "Coroutine[Any, Any, Finish]"
    # pyright[reportCallIssue]: No overloads for "tool"
    # pyright[reportArgumentType]: return type "CoroutineType[Any, Any, Finish]" is incompatible
    async def finishes(self, ctx: Context[None]) -> Finish:
        return finish("Seen in Ghent.")

    @tool  # E:1k
    # mypy[type-var]: "WorkerToolAnswer" of "tool" cannot be "Coroutine[Any, Any, str]"
    # pyright[reportCallIssue]: No overloads for "tool"
    # pyright[reportArgumentType]: return type "CoroutineType[Any, Any, str]" is incompatible
    async def plain(self, ctx: Context[None]) -> str:
        return "Seen in Ghent."

    @tool  # E:1m
    # mypy[type-var]: "WorkerToolAnswer" of "tool" cannot be "DirectTo[Pay] | Stay"
    # pyright[reportCallIssue]: No overloads for "tool"
    # pyright[reportArgumentType]: return type "DirectTo[Pay] | Stay" is incompatible
    def leaves(self, ctx: Context[None]) -> DirectTo[Pay] | Stay:
        return direct_to(Pay, "Ask at the desk.")

    @tool  # E:1n
    # mypy[type-var]: "WorkerToolAnswer" of "tool" cannot be "Fanout[Trace | Inspect]"
    # pyright[reportCallIssue]: No overloads for "tool"
    # pyright[reportArgumentType]: return type "Fanout[Trace | Inspect]" is incompatible
    def opens(self, ctx: Context[None]) -> Fanout[Trace | Inspect]:
        return fanout(Trace, Inspect)

    @tool  # E:1s
    # mypy[type-var]: "WorkerToolAnswer" of "tool" cannot be "None"
    # pyright[reportCallIssue]: No overloads for "tool"
    # pyright[reportArgumentType]: return type "None" is incompatible
    def forgets(self, ctx: Context[None]) -> None:
        stay("Noted.")

    def run(self, ctx: Context[None]) -> Go[Pay]:  # E:1d
        # mypy[override]: Return type "Go[Pay]" of "run" incompatible
        # pyright[reportIncompatibleMethodOverride]: override returns type "Go[Pay]"
        return go(Pay)


class Eyes(Worker[None, Sighting]):
    async def run(self, ctx: Context[None]) -> Fanout[Trace | Inspect]:  # E:1e
        # mypy[override]: Return type "Coroutine[Any, Any, Fanout[Trace | Inspect]]" of "run" incompatible
        # pyright[reportIncompatibleMethodOverride]: "CoroutineType[Any, Any, Fanout[Trace | Inspect]]"
        return fanout(Trace, Inspect)

    def on_response(self, ctx: Context[None], output: str | Sighting) -> Finish:  # E:1f
        # mypy[override]: Return type "Finish" of "on_response" incompatible
        # pyright[reportIncompatibleMethodOverride]: override returns type "Finish"
        return finish("Found.")


class Reader(Worker[Report, Sighting, Purse]):
    def run(self, ctx: StageContext[Report, Purse]) -> TaskResult[Sighting]:  # E:1g
        # mypy[override]: supertype defines the argument type as "Context[Report, Purse]"
        # pyright[reportIncompatibleMethodOverride]: override parameter is type "StageContext[Report, Purse]"
        return task_result(Sighting("x"))

    def on_enter(self, ctx: StageContext[Report, Purse], message: Message | None) -> str:  # E:1q
        # mypy[override]: supertype defines the argument type as "Context[Report, Purse]"
        # pyright[reportIncompatibleMethodOverride]: override parameter is type "StageContext[Report, Purse]"
        return "Read on."

    def on_exit(self, ctx: StageContext[Report, Purse], output: Sighting) -> None:  # E:1r
        # mypy[override]: supertype defines the argument type as "Context[Report, Purse]"
        # pyright[reportIncompatibleMethodOverride]: override parameter is type "StageContext[Report, Purse]"
        ctx.write(Decide, Ruling("Seen."))

    @tool  # E:1h
    # mypy[arg-type]: expected "Callable[[Reader, Context[State, Shared]], Stay]"
    # pyright[reportCallIssue]: No overloads for "tool"
    # pyright[reportArgumentType]: is incompatible with type "StageContext[Report, Purse]"
    def writes(self, ctx: StageContext[Report, Purse]) -> Stay:
        return stay("x")

    @tool
    def quietly(self, ctx: Context[Report, Purse]) -> Stay:
        ctx.write(Decide, Ruling("Seen."))  # E:1i
        # mypy[attr-defined]: "Context[Report, Purse]" has no attribute "write"
        # pyright[reportAttributeAccessIssue]: Cannot access attribute "write" for class "Context[Report, Purse]"
        ctx.share(Purse())  # E:1o
        # mypy[attr-defined]: "Context[Report, Purse]" has no attribute "share"; maybe "shared"?
        # pyright[reportAttributeAccessIssue]: Cannot access attribute "share" for class "Context[Report, Purse]"
        ctx.append(Decide, user("Seen."))  # E:1p
        # mypy[attr-defined]: "Context[Report, Purse]" has no attribute "append"
        # pyright[reportAttributeAccessIssue]: Cannot access attribute "append" for class "Context[Report, Purse]"
        return stay("x")


go(Trace)  # E:1j
# mypy[type-var]: "StageType" of "go" cannot be "Trace"
# pyright[reportArgumentType]: "Trace" is not assignable to "Stage[Any, Any]"
direct_to(Trace, "x")  # E:1l
# mypy[type-var]: "StageType" of "direct_to" cannot be "Trace"
# pyright[reportArgumentType]: "Trace" is not assignable to "Stage[Any, Any]"


def annotated(first: Go[Trace]) -> None:  # E:1t
    # mypy[type-var]: Type argument "Trace" of "Go" must be a subtype of "Stage[Any, Any]"
    # pyright[reportInvalidTypeArguments]: "Trace" is not assignable to upper bound "Stage[Any, Any]"
    print(first)


# -------------------------------------------------------------------------------- 2. `stay` and text, and where from


class Rules(GraphNode[Ruling]):
    def run(self, ctx: Context[Ruling]) -> Stay | Finish:  # E:2a
        # mypy[override]: Return type "Stay | Finish" of "run" incompatible
        # pyright[reportIncompatibleMethodOverride]: override returns type "Stay | Finish"
        return stay("x")


class Talk(Conversation[Report]):
    async def on_response(self, ctx: Context[Report], output: object) -> Stay:  # E:2b
        # mypy[override]: Return type "Coroutine[Any, Any, Stay]" of "on_response" incompatible
        # pyright[reportIncompatibleMethodOverride]: override returns type "CoroutineType[Any, Any, Stay]"
        return stay("x")


class Rules2(GraphNode[Ruling]):
    def run(self, ctx: Context[Ruling]) -> Direct | Finish:
        return stay("x")  # E:2c
        # mypy[return-value]: Incompatible return value type (got "Stay", expected "Direct | Finish")
        # pyright[reportReturnType]: Type "Stay" is not assignable to return type "Direct | Finish"


class Steps(Worker[None, Sighting]):
    def run(self, ctx: Context[None]) -> TaskResult[Sighting] | Stay:  # E:2d
        # mypy[override]: Return type "TaskResult[Sighting] | Stay" of "run" incompatible
        # pyright[reportIncompatibleMethodOverride]: override returns type "TaskResult[Sighting] | Stay"
        return stay("x")

    async def on_response(self, ctx: Context[None], output: object) -> Stay | None:  # E:2e
        # mypy[override]: Return type "Coroutine[Any, Any, Stay | None]" of "on_response" incompatible
        # pyright[reportIncompatibleMethodOverride]: override returns type "CoroutineType[Any, Any, Stay | None]"
        return stay("x")


class Speaks(GraphNode[Ruling]):
    def run(self, ctx: Context[Ruling]) -> str:  # E:2f
        # mypy[override]: Return type "str" of "run" incompatible
        # pyright[reportIncompatibleMethodOverride]: override returns type "str"
        return "x"


class Yields(GraphNode[Ruling]):
    async def run(self, ctx: Context[Ruling]) -> TaskResult[int] | None:  # E:2g
        # mypy[override]: Return type "Coroutine[Any, Any, TaskResult[int] | None]" of "run" incompatible
        # pyright[reportIncompatibleMethodOverride]: "CoroutineType[Any, Any, TaskResult[int] | None]"
        return task_result(3)


class Chat(Conversation[Report]):
    def on_response(self, ctx: Context[Report], output: object) -> TaskResult[str]:  # E:2h
        # mypy[override]: Return type "TaskResult[str]" of "on_response" incompatible
        # pyright[reportIncompatibleMethodOverride]: override returns type "TaskResult[str]"
        return task_result("Thank you.")


# -------------------------------------------------------------------------------------------------------- 3. `fanout`

fanout()  # E:3a
# mypy[call-overload]: All overload variants of "fanout" require at least one argument
# pyright[reportCallIssue]: No overloads for "fanout"
fanout(Trace)  # E:3b
# mypy[call-overload]: No overload variant of "fanout" matches argument type "type[Trace]"
# pyright[reportCallIssue]: No overloads for "fanout"
fanout(Trace, Pay)  # E:3c
# mypy[type-var]: "W2" of "fanout" cannot be "Pay"
# pyright[reportArgumentType]: "Pay" is not assignable to "Worker[Any, Any, Any]"
fanout(Trace, Inspect).with_state(Report())  # E:3d
# mypy[attr-defined]: "Fanout[Trace | Inspect]" has no attribute "with_state"
# pyright[reportAttributeAccessIssue]: Cannot access attribute "with_state" for class "Fanout[Trace | Inspect]"
fanout(Trace, Inspect).with_message("x")  # E:3e
# mypy[attr-defined]: "Fanout[Trace | Inspect]" has no attribute "with_message"
# pyright[reportAttributeAccessIssue]: Cannot access attribute "with_message" for class "Fanout[Trace | Inspect]"
fanout(Trace, Inspect, Photos, Reception)  # E:3f
# mypy[type-var]: "W4" of "fanout" cannot be "Reception"
# pyright[reportArgumentType]: "Reception" is not assignable to "Worker[Any, Any, Any]"


def opened(by: Fanout[Trace | Decide]) -> None:  # E:3g
    # mypy[type-var]: Type argument "Trace | Decide" of "Fanout" must be a subtype of "Worker[Any, Any, Any]"
    # pyright[reportInvalidTypeArguments]: "Trace | Decide" is not assignable to upper bound "Worker[Any, Any, Any]"
    print(by)


scatter(Photos, [1])  # E:9j
# mypy[misc]: Cannot infer value of type parameter "Input" of "scatter"
# pyright[reportArgumentType]: "Literal[1]" is not assignable to "Report"
scatter(Reception, [Report()])  # E:9k
# mypy[arg-type]: incompatible type "type[Reception]"; expected "Scatterable[Report, Never]"
# pyright[reportArgumentType]: "type[Reception]" cannot be assigned to parameter "worker"
scatter(Photos, Report())  # E:3h
# mypy[arg-type]: Argument 2 to "scatter" has incompatible type "Report"; expected "Iterable[Report]"
# pyright[reportArgumentType]: "Report" is incompatible with protocol "Iterable[Report]"
scatter(Photos)  # E:3i
# mypy[call-arg]: Too few arguments for "scatter"
# pyright[reportCallIssue]: Expected 1 more positional argument
scatter(Photos, [Report()]).with_state(Report())  # E:3j
# mypy[attr-defined]: "Fanout[Photos]" has no attribute "with_state"
# pyright[reportAttributeAccessIssue]: Cannot access attribute "with_state" for class "Fanout[Photos]"


# ------------------------------------------------------------------------------------- 4. what a builder is handed

go(Pay).with_state(Report())  # E:4a
# mypy[arg-type]: Argument 1 to "with_state" of "Go" has incompatible type "Report"; expected "Offer"
# pyright[reportArgumentType]: Argument of type "Report" cannot be assigned to parameter "state" of type "Offer"
go(Pay).with_usage(Usage(1)).with_state("x")  # E:4b
# mypy[arg-type]: Argument 1 to "with_state" of "Go" has incompatible type "str"; expected "Offer"
# pyright[reportArgumentType]: Argument of type "Literal['x']" cannot be assigned to parameter "state" of type "Offer"
go(Pay).with_message("m").with_tool_feedback("f").with_state(Report())  # E:4c
# mypy[arg-type]: Argument 1 to "with_state" of "Go" has incompatible type "Report"; expected "Offer"
# pyright[reportArgumentType]: Argument of type "Report" cannot be assigned to parameter "state" of type "Offer"
direct_to(Pay, "x").with_state(Report())  # E:4d
# mypy[arg-type]: Argument 1 to "with_state" of "DirectTo" has incompatible type "Report"; expected "Offer"
# pyright[reportArgumentType]: Argument of type "Report" cannot be assigned to parameter "state" of type "Offer"
go(Pay).with_state(Offer(Decimal(1))).with_state(3)  # E:4e
# mypy[arg-type]: Argument 1 to "with_state" of "Go" has incompatible type "int"; expected "Offer"
# pyright[reportArgumentType]: Argument of type "Literal[3]" cannot be assigned to parameter "state" of type "Offer"
go(Pay).with_message(3)  # E:4f
# mypy[arg-type]: Argument 1 to "with_message" of "Go" has incompatible type "int"; expected "str | Message"
# pyright[reportArgumentType]: "Literal[3]" cannot be assigned to parameter "message" of type "str | Message"
direct_to(Pay, "x").with_message(["Three parcels."])  # E:4g
# mypy[arg-type]: incompatible type "list[str]"; expected "str | Message"
# pyright[reportArgumentType]: "list[str]" cannot be assigned to parameter "message" of type "str | Message"
stay("x").with_messages(["See this picture."])  # E:4h
# mypy[list-item]: List item 0 has incompatible type "str"; expected "Message"
# pyright[reportArgumentType]: "list[str]" cannot be assigned to parameter "messages" of type "Iterable[Message]"
stay("x").with_messages(user("See this picture."))  # E:4i
# mypy[arg-type]: incompatible type "Message"; expected "Iterable[Message]"
# pyright[reportArgumentType]: "Message" cannot be assigned to parameter "messages" of type "Iterable[Message]"
stay("x").with_usage(3)  # E:4j
# mypy[arg-type]: Argument 1 to "with_usage" of "Builders" has incompatible type "int"; expected "Usage"
# pyright[reportArgumentType]: Argument of type "Literal[3]" cannot be assigned to parameter "usage" of type "Usage"
stay("x").with_state(Report())  # E:4k
# mypy[attr-defined]: "Stay" has no attribute "with_state"
# pyright[reportAttributeAccessIssue]: Cannot access attribute "with_state" for class "Stay"
direct("x").with_message("x")  # E:4l
# mypy[attr-defined]: "Direct" has no attribute "with_message"
# pyright[reportAttributeAccessIssue]: Cannot access attribute "with_message" for class "Direct"
stay("x").with_cleanup("close")  # E:4m
# mypy[arg-type]: incompatible type "str"; expected "Callable[[], object]"
# pyright[reportArgumentType]: "Literal['close']" cannot be assigned to parameter "cleanup" of type "() -> object"


# ------------------------------------------------------------------------------------------------- 5. `task_result`


class Scale(Worker[None, Sighting]):
    async def run(self, ctx: Context[None]) -> TaskResult[str]:  # E:5a
        # mypy[override]: Return type "Coroutine[Any, Any, TaskResult[str]]" of "run" incompatible
        # pyright[reportIncompatibleMethodOverride]: override returns type "CoroutineType[Any, Any, TaskResult[str]]"
        return task_result("x")

    @tool
    def body(self, ctx: Context[None]) -> TaskResult[Sighting]:
        return task_result("x")  # E:5b
        # mypy[arg-type]: Argument 1 to "task_result" has incompatible type "str"; expected "Sighting"
        # pyright[reportReturnType]: "str" is not a subtype of "Sighting"


class Scale2(Worker[None, Sighting]):
    async def run(self, ctx: Context[None]) -> TaskResult[Sighting]:
        return task_result(Damage(0.5))  # E:5d
        # mypy[arg-type]: Argument 1 to "task_result" has incompatible type "Damage"; expected "Sighting"
        # pyright[reportReturnType]: "Damage" is not a subtype of "Sighting"


class Balance(Worker[None, Sighting]):
    def on_response(self, ctx: Context[None], output: str | Sighting) -> TaskResult[Damage]:  # E:5c
        # mypy[override]: Return type "TaskResult[Damage]" of "on_response" incompatible
        # pyright[reportIncompatibleMethodOverride]: override returns type "TaskResult[Damage]"
        return task_result(Damage(0.5))


class Ruler(Worker[None, Sighting]):
    def on_response(self, ctx: Context[None], output: str) -> str:  # E:5e
        # mypy[override]: supertype defines the argument type as "str | Sighting"
        # pyright[reportIncompatibleMethodOverride]: override parameter is type "str"
        return output


# --------------------------------------------------------------- 6. annotations, in every spelling, hold their bodies


class Ways(Conversation[Report]):
    @tool
    def strays(self, ctx: Context[Report]) -> Go[Pay] | Stay:
        return go(Decide)  # E:6a
        # mypy[arg-type]: Argument 1 to "go" has incompatible type "type[Decide]"; expected "type[Pay]"
        # pyright[reportReturnType]: "Decide" is not a subtype of "Pay"

    @tool
    def wide(self, ctx: Context[Report]) -> Fanout[Trace]:
        return fanout(Trace, Inspect)  # E:6b
        # mypy[arg-type]: Argument 2 to "fanout" has incompatible type "type[Inspect]"; expected "type[Trace]"
        # pyright[reportReturnType]: "Trace | Inspect" is not a subtype of "Trace"

    @tool
    def other(self, ctx: Context[Report]) -> DirectTo[Reception]:
        return direct_to(Decide, "x")  # E:6c
        # mypy[arg-type]: Argument 1 to "direct_to" has incompatible type "type[Decide]"; expected "type[Reception]"
        # pyright[reportReturnType]: "Decide" is not a subtype of "Reception"

    def prompt(self, ctx: Context[Offer]) -> str:  # E:6e
        # mypy[override]: supertype defines the argument type as "StageContext[Report, object]"
        # pyright[reportIncompatibleMethodOverride]: override parameter is type "Context[Offer, object]"
        return "x"

    @tool
    def saves(self, ctx: StageContext[Report, Purse]) -> Stay:
        ctx.save(Ruling())  # E:6f
        # mypy[arg-type]: Argument 1 to "save" of "Context" has incompatible type "Ruling"; expected "Report"
        # pyright[reportArgumentType]: "Ruling" cannot be assigned to parameter "state" of type "Report"
        ctx.write(Pay, Report())  # E:6g
        # mypy[misc]: Cannot infer value of type parameter "NodeState" of "write" of "StageContext"
        # pyright[reportArgumentType]: "Report" is not assignable to "Offer"
        ctx.share(Report())  # E:6h
        # mypy[arg-type]: Argument 1 to "share" of "StageContext" has incompatible type "Report"; expected "Purse"
        # pyright[reportArgumentType]: "Report" cannot be assigned to parameter "shared" of type "Purse"
        ctx.append(Trace, assistant("x"))  # E:9s
        # mypy[arg-type]: incompatible type "type[Trace]"; expected "type[Stage[Any, Any]]"
        # pyright[reportArgumentType]: Type "type[Trace]" is not assignable to type "type[Stage[Any, Any]]"
        ctx.append(Reception, "x")  # E:9t
        # mypy[arg-type]: Argument 2 to "append" of "StageContext" has incompatible type "str"; expected "Message"
        # pyright[reportArgumentType]: "Literal['x']" cannot be assigned to parameter "message" of type "Message"
        return stay("x")

    @tool
    def each(self, ctx: Context[Report]) -> Fanout[Photos] | Fanout[Trace | Inspect]:
        return scatter(Letters, [None])  # E:6m
        # mypy[return-value]: (got "Fanout[Letters]", expected "Fanout[Photos] | Fanout[Trace | Inspect]")
        # pyright[reportReturnType]: "Letters" is not a subtype of "Photos"

    @tool
    def alias(self, ctx: Context[Report]) -> Onward | Stay:
        return go(Pay).with_message("x")  # E:6i
        # mypy[return-value]: Incompatible return value type (got "Go[Pay]", expected "Go[Decide] | Finish | Stay")
        # pyright[reportReturnType]: "Pay" is not a subtype of "Decide"

    @tool
    def union(self, ctx: Context[Report]) -> Union[Aside, Stay]:
        return go(Decide).with_message("x")  # E:6j
        # mypy[return-value]: (got "Go[Decide]", expected "Go[Pay] | DirectTo[Pay] | Stay")
        # pyright[reportReturnType]: "Decide" is not a subtype of "Pay"

    @tool
    def annotated(self, ctx: Context[Report]) -> Annotated[Go[Decide] | Stay, "a note"]:
        return go(Pay)  # E:6k
        # mypy[arg-type]: Argument 1 to "go" has incompatible type "type[Pay]"; expected "type[Decide]"
        # pyright[reportReturnType]: "Pay" is not a subtype of "Decide"

    def on_response(self, ctx: Context[Report], output: object) -> Optional[Go[Decide]]:
        return go(Pay)  # E:6l
        # mypy[arg-type]: Argument 1 to "go" has incompatible type "type[Pay]"; expected "type[Decide]"
        # pyright[reportReturnType]: "Pay" is not a subtype of "Decide"


# ---------------------------------------------------------------------------------- 7. one context for a whole graph

parcels.stages(Counter)  # E:7a
# mypy[arg-type]: incompatible type "type[Counter]"; expected "type[Stage[Any, Purse]] | Stage[Any, Purse]"
# pyright[reportArgumentType]: "Shop" is not a supertype of "Purse"
parcels.workers(Trace, Stock)  # E:7b
# mypy[arg-type]: incompatible type "type[Stock]"; expected "type[Worker[Any, Any, Purse]] | Worker[Any, Any, Purse]"
# pyright[reportArgumentType]: "Shop" is not a supertype of "Purse"
parcels.join((Trace, Stock), to=Decide)  # E:7c
# mypy[arg-type]: incompatible type "tuple[type[Trace], type[Stock]]"
# pyright[reportArgumentType]: "Shop" is not a supertype of "Purse"
parcels.edge(Decide, Counter)  # E:7d
# mypy[arg-type]: incompatible type "type[Counter]"; expected "type[Node[Any, Purse]] | Literal['END']"
# pyright[reportArgumentType]: "Shop" is not a supertype of "Purse"
Graph("plain", entry=Reception).stages(Pay)  # E:7e
# mypy[arg-type]: incompatible type "type[Pay]"; expected "type[Stage[Any, None]] | Stage[Any, None]"
# pyright[reportArgumentType]: "Purse" is not a supertype of "None"
Graph("wide", entry=Reception, context=Purse()).stages(Counter())  # E:7f
# mypy[arg-type]: incompatible type "Counter"; expected "type[Stage[Any, Purse]] | Stage[Any, Purse]"
# pyright[reportArgumentType]: "Shop" is not a supertype of "Purse"
Graph("shop", entry=Counter, context=Purse())  # E:7g
# mypy[misc]: Cannot infer value of type parameter "GraphContext" of "Graph"
# pyright[reportArgumentType]: "Purse" is not assignable to "Shop"
Graph("shop", entry=Counter)  # E:7h
# mypy[arg-type]: incompatible type "type[Counter]"; expected "type[Stage[Any, None]] | type[Worker[Any, Any, None]]"
# pyright[reportArgumentType]: "Shop" is not a supertype of "None"
Graph("shop", entry=Stock, context=Purse())  # E:7i
# mypy[misc]: Cannot infer value of type parameter "GraphContext" of "Graph"
# pyright[reportArgumentType]: "Purse" is not assignable to "Shop"

# -------------------------------------------------------------------------------------- 8. each node in its own place

parcels.workers(Reception)  # E:8a
# mypy[arg-type]: incompatible type "type[Reception]"; expected "type[Worker[Any, Any, Purse]]
# pyright[reportArgumentType]: Type "type[Reception]" is not assignable to type "Worker[Any, Any, Purse]"
parcels.workers(Decide())  # E:8b
# mypy[arg-type]: incompatible type "Decide"; expected "type[Worker[Any, Any, Purse]] | Worker[Any, Any, Purse]"
# pyright[reportArgumentType]: "Decide" is not assignable to "Worker[Any, Any, Purse]"
parcels.stages(Trace)  # E:8c
# mypy[arg-type]: incompatible type "type[Trace]"; expected "type[Stage[Any, Purse]] | Stage[Any, Purse]"
# pyright[reportArgumentType]: Type "type[Trace]" is not assignable to type "Stage[Any, Purse]"
parcels.join((Reception, Trace), to=Decide)  # E:8d
# mypy[arg-type]: incompatible type "tuple[type[Reception], type[Trace]]"
# pyright[reportArgumentType]: Type "type[Reception]" is not assignable to type "type[Worker[Any, Any, Purse]]"
Graph("parcels", entry=Trace())  # E:8e
# mypy[call-overload]: No overload variant of "Graph" matches argument types "str", "Trace"
# pyright[reportArgumentType]: Type "Trace" is not assignable to type "type[Worker[Any, Any, None]]"
parcels.edge(END, Trace)  # E:8f
# mypy[arg-type]: Argument 1 to "edge" of "Graph" has incompatible type "str"; expected "type[Node[Any, Purse]]"
# pyright[reportArgumentType]: Type "Literal['END']" is not assignable to type "type[Node[Any, Purse]]"
parcels.edge(Decide, "Pay")  # E:8g
# mypy[arg-type]: incompatible type "Literal['Pay']"; expected "type[Node[Any, Purse]] | Literal['END']"
# pyright[reportArgumentType]: "Literal['Pay']" is not assignable to type "End"
parcels.join((Trace, Inspect), to=END)  # E:8h
# mypy[arg-type]: Argument "to" to "join" of "Graph" has incompatible type "str"; expected "type[Node[Any, Purse]]"
# pyright[reportArgumentType]: "Literal['END']" is not assignable to type "type[Node[Any, Purse]]"
parcels.join(Trace, to=Decide)  # E:8i
# mypy[arg-type]: incompatible type "type[Trace]"; expected "tuple[type[Worker[Any, Any, Purse]], ...]"
# pyright[reportArgumentType]: Type "type[Trace]" is not assignable to type "tuple[type[Worker[Any, Any, Purse]], ...]"
parcels.join((Trace, Letters()), to=Decide)  # E:8j
# mypy[arg-type]: incompatible type "tuple[type[Trace], Letters]"; expected "tuple[type[Worker[Any, Any, Purse]], ...]"
# pyright[reportArgumentType]: Type "Letters" is not assignable to type "type[Worker[Any, Any, Purse]]"
parcels.join((Trace, Inspect), to=Decide, on_failure="retry")  # E:8m
# mypy[arg-type]: incompatible type "Literal['retry']"; expected "Literal['finish_siblings', 'cancel_siblings'] | None"
# pyright[reportArgumentType]: "Literal['retry']" is not assignable to type "OnFailure | None"
go(END)  # E:8k
# mypy[arg-type]: Argument 1 to "go" has incompatible type "str"; expected "type[Never]"
# pyright[reportArgumentType]: "Literal['END']" cannot be assigned to parameter "target" of type "type[StageType@go]"
go(Pay())  # E:8l
# mypy[arg-type]: Argument 1 to "go" has incompatible type "Pay"; expected "type[Never]"
# pyright[reportArgumentType]: "Pay" cannot be assigned to parameter "target" of type "type[StageType@go]"


# --------------------------------------------------------------------------------------------- 9. what a context gives


def uses(ctx: Context[Report, Purse]) -> None:
    print(ctx.result(Trace).share)  # E:9a
    # mypy[attr-defined]: "Sighting" has no attribute "share"
    # pyright[reportAttributeAccessIssue]: Cannot access attribute "share" for class "Sighting"
    damage: Sighting = ctx.result(Inspect)  # E:9b
    # mypy[assignment]: Incompatible types in assignment (expression has type "Damage", variable has type "Sighting")
    # pyright[reportAssignmentType]: Type "Damage" is not assignable to declared type "Sighting"
    report: Ruling = ctx.read(Reception)  # E:9c
    # mypy[assignment]: Incompatible types in assignment (expression has type "Report", variable has type "Ruling")
    # pyright[reportAssignmentType]: Type "Report" is not assignable to declared type "Ruling"
    ctx.result(Reception)  # E:9d
    # mypy[call-overload]: No overload variant of "result" of "Context" matches argument type "type[Reception]"
    # pyright[reportArgumentType]: "type[Reception]" cannot be assigned to parameter "worker" of type "WorkerClass[Any, Output@result]"
    print(ctx.shared.right)  # E:9i
    # mypy[attr-defined]: "Purse" has no attribute "right"
    # pyright[reportAttributeAccessIssue]: Cannot access attribute "right" for class "Purse"
    perhaps: Sighting = ctx.result(Trace, default=None)  # E:9n
    # mypy[assignment]: (expression has type "Sighting | None", variable has type "Sighting")
    # pyright[reportAssignmentType]: Type "Sighting | None" is not assignable to declared type "Sighting"
    print(ctx.result(Trace, default=None).depot)  # E:9o
    # mypy[union-attr]: Item "None" of "Sighting | None" has no attribute "depot"
    # pyright[reportOptionalMemberAccess]: "depot" is not a known attribute of "None"
    ctx.result(Trace, None)  # E:9p
    # mypy[call-overload]: No overload variant of "result" of "Context" matches argument types "type[Trace]", "None"
    # pyright[reportCallIssue]: No overloads for "result"
    ctx.history.append(assistant("x"))  # E:9q
    # mypy[attr-defined]: "Sequence[Message]" has no attribute "append"
    # pyright[reportAttributeAccessIssue]: Cannot access attribute "append" for class "Sequence[Message]"
    ctx.history[0].text = "x"  # E:9r
    # mypy[misc]: Property "text" defined in "Message" is read-only
    # pyright[reportAttributeAccessIssue]: Cannot assign to attribute "text" for class "Message"
    ctx.state.label = "x"  # E:9u
    # mypy[misc]: Property "label" defined in "Report" is read-only
    # pyright[reportAttributeAccessIssue]: Cannot assign to attribute "label" for class "Report"
    ctx.state = Report("x")  # E:9v
    # mypy[misc]: Property "state" defined in "Context" is read-only
    # pyright[reportAttributeAccessIssue]: Cannot assign to attribute "state" for class "Context[Report, Purse]"
    print(ctx.incoming.text)  # E:9w
    # mypy[union-attr]: Item "None" of "Message | None" has no attribute "text"
    # pyright[reportOptionalMemberAccess]: "text" is not a known attribute of "None"
    seen: tuple[Sighting, ...] = ctx.results(Inspect)  # E:9x
    # mypy[arg-type]: incompatible type "type[Inspect]"; expected "WorkerClass[Any, Sighting]"
    # pyright[reportAssignmentType]: Type "tuple[Damage, ...]" is not assignable to declared type "tuple[Sighting, ...]"
    ctx.results(Reception)  # E:9y
    # mypy[arg-type]: incompatible type "type[Reception]"; expected "WorkerClass[Any, Never]"
    # pyright[reportArgumentType]: "type[Reception]" cannot be assigned to parameter "worker" of type "WorkerClass[Any, Output@results]"
    print(ctx.results(Trace).depot)  # E:9z
    # mypy[attr-defined]: "tuple[Sighting, ...]" has no attribute "depot"
    # pyright[reportAttributeAccessIssue]: Cannot access attribute "depot" for class "tuple[Sighting, ...]"
    print(damage, report, perhaps, seen)


async def calls(ctx: Context[Report, Purse]) -> None:
    count: int = await ctx.call(Trace, None)  # E:9f
    # mypy[arg-type]: incompatible type "type[Trace]"; expected "WorkerClass[None, int]"
    # pyright[reportAssignmentType]: Type "Sighting" is not assignable to declared type "int"
    await ctx.call(Photos, "x")  # E:9g
    # mypy[misc]: Cannot infer value of type parameter "NodeState" of "call" of "Context"
    # pyright[reportArgumentType]: "Literal['x']" is not assignable to "Report"
    await ctx.call(Reception, Report())  # E:9h
    # mypy[arg-type]: incompatible type "type[Reception]"; expected "WorkerClass[Report, Never]"
    # pyright[reportArgumentType]: "type[Reception]" cannot be assigned to parameter "worker" of type "WorkerClass[NodeState@call, Output@call]"
    counts: tuple[Sighting, ...] = await ctx.call_all(Photos, [Report()])  # E:15a
    # mypy[arg-type]: incompatible type "type[Photos]"; expected "WorkerClass[Report, Sighting]"
    # pyright[reportAssignmentType]: Type "tuple[int, ...]" is not assignable to declared type "tuple[Sighting, ...]"
    await ctx.call_all(Photos, ["x"])  # E:15b
    # mypy[misc]: Cannot infer value of type parameter "NodeState" of "call_all" of "Context"
    # pyright[reportArgumentType]: "Literal['x']" is not assignable to "Report"
    await ctx.call_all(Decide, [Ruling()])  # E:15c
    # mypy[arg-type]: incompatible type "type[Decide]"; expected "WorkerClass[Ruling, Never]"
    # pyright[reportArgumentType]: "type[Decide]" cannot be assigned to parameter "worker" of type "WorkerClass[NodeState@call_all, Output@call_all]"
    print(ctx.call(Trace, None).depot)  # E:15d
    # mypy[attr-defined]: "Coroutine[Any, Any, Sighting]" has no attribute "depot"
    # pyright[reportAttributeAccessIssue]: Cannot access attribute "depot" for class "CoroutineType[Any, Any, Sighting]"
    await ctx.call_all(Letters, None)  # E:15e
    # mypy[arg-type]: Argument 2 to "call_all" of "Context" has incompatible type "None"; expected "Iterable[None]"
    # pyright[reportArgumentType]: "None" is incompatible with protocol "Iterable[None]"
    print(count, counts)


# ------------------------------------------------------------------------------------- 10. a match over all responses


def describe(response: Response[int]) -> str:
    match response:
        case Go() | DirectTo() | Fanout():
            return "route"
        case Stay() | Direct() | TaskResult():
            return "other"
        case _:
            assert_never(response)  # E:10a
            # mypy[arg-type]: Argument 1 to "assert_never" has incompatible type "Finish"; expected "Never"
            # pyright[reportArgumentType]: "Finish" cannot be assigned to parameter "arg" of type "Never"


def where(response: Go[Decide] | DirectTo[Pay] | Stay) -> str:
    match response:
        case Go() | Stay():
            return response.target.__name__  # E:10c
            # mypy[union-attr]: Item "Stay" of "Go[Decide] | Stay" has no attribute "target"
            # pyright[reportAttributeAccessIssue]: Cannot access attribute "target" for class "Stay"
        case _:
            assert_never(response)  # E:10b
            # mypy[arg-type]: Argument 1 to "assert_never" has incompatible type "DirectTo[Pay]"; expected "Never"
            # pyright[reportArgumentType]: "DirectTo[Pay]" cannot be assigned to parameter "arg" of type "Never"


# ------------------------------------------------------------------------------------------------------------ 11. hooks


class Greets(Conversation[Report, Purse]):
    def prompt(self, ctx: Context[Report]) -> Stay:  # E:11g
        # mypy[override]: Return type "Stay" of "prompt" incompatible
        # pyright[reportIncompatibleMethodOverride]: override returns type "Stay"
        return stay("x")

    def on_enter(self, ctx: Context[Report], message: Message | None) -> Go[Decide]:  # E:11a
        # mypy[override]: Return type "Go[Decide]" of "on_enter" incompatible
        # pyright[reportIncompatibleMethodOverride]: override returns type "Go[Decide]"
        return go(Decide)

    def on_exit(self, ctx: Context[Report], outcome: object) -> Go[Decide]:  # E:11c
        # mypy[override]: Return type "Go[Decide]" of "on_exit" incompatible
        # pyright[reportIncompatibleMethodOverride]: override returns type "Go[Decide]"
        return go(Decide)


class Leaves(Conversation[Report]):
    async def on_enter(self, ctx: StageContext[Report], message: Message) -> str | None:  # E:11f
        # mypy[override]: supertype defines the argument type as "Message | None"
        # pyright[reportIncompatibleMethodOverride]: override parameter is type "Message"
        return message.text

    async def on_exit(self, ctx: StageContext[Report], outcome: Go[Decide]) -> None:  # E:11e
        # mypy[override]: Argument 2 of "on_exit" is incompatible with supertype "ezgraph.nodes.Stage"
        # pyright[reportIncompatibleMethodOverride]: override parameter is type "Go[Decide]"
        print(outcome.target)


class Checks(Worker[None, Sighting]):
    def on_enter(self, ctx: Context[None], message: Message | None) -> Direct:  # E:11b
        # mypy[override]: Return type "Direct" of "on_enter" incompatible
        # pyright[reportIncompatibleMethodOverride]: override returns type "Direct"
        return direct("Look.")

    def on_exit(self, ctx: Context[None], output: Damage) -> None:  # E:11d
        # mypy[override]: supertype defines the argument type as "Sighting"
        # pyright[reportIncompatibleMethodOverride]: override parameter is type "Damage"
        print(output.share)


class Abstract(GraphNode[Ruling]):
    """Has no `run`."""


Abstract()  # E:11h
# mypy[abstract]: Cannot instantiate abstract class "Abstract" with abstract attribute "run"
# pyright[reportAbstractUsage]: Cannot instantiate abstract class "Abstract" "GraphNode.run" is not implemented


class Recovers(Conversation[Report]):
    async def on_error(self, ctx: StageContext[Report], error: Exception) -> Fanout[Trace | Inspect]:  # E:11i
        # mypy[override]: Return type "Coroutine[Any, Any, Fanout[Trace | Inspect]]" of "on_error" incompatible
        # pyright[reportIncompatibleMethodOverride]: "CoroutineType[Any, Any, Fanout[Trace | Inspect]]"
        return fanout(Trace, Inspect)


class Stands(GraphNode[Ruling]):
    def run(self, ctx: StageContext[Ruling]) -> Finish | None:
        return None

    def on_error(self, ctx: Context[Ruling], error: Exception) -> Finish | str:  # E:11j
        # mypy[override]: Return type "Finish | str" of "on_error" incompatible
        # pyright[reportIncompatibleMethodOverride]: override returns type "Finish | str"
        return "Sorry."


class Gives(Worker[None, Sighting]):
    def on_error(self, ctx: Context[None], error: object) -> Go[Decide]:  # E:11k
        # mypy[override]: Return type "Go[Decide]" of "on_error" incompatible
        # pyright[reportIncompatibleMethodOverride]: override returns type "Go[Decide]"
        return go(Decide)


class Fills(Worker[None, Sighting]):
    def on_error(self, ctx: Context[None], error: Exception) -> TaskResult[Sighting]:
        return task_result(Damage(1))  # E:11o
        # mypy[arg-type]: Argument 1 to "task_result" has incompatible type "Damage"; expected "Sighting"
        # pyright[reportReturnType]: "Damage" is not a subtype of "Sighting"


class Passes(Worker[None, Sighting]):
    async def on_error(self, ctx: Context[None], error: Exception) -> TaskResult[Damage] | None:  # E:11l
        # mypy[override]: Return type "Coroutine[Any, Any, TaskResult[Damage] | None]" of "on_error" incompatible
        # pyright[reportIncompatibleMethodOverride]: "CoroutineType[Any, Any, TaskResult[Damage] | None]"
        return None


class Takes(Worker[None, Sighting]):
    def on_error(self, ctx: Context[None], error: ValueError) -> None:  # E:11m
        # mypy[override]: supertype defines the argument type as "Exception"
        # pyright[reportIncompatibleMethodOverride]: override parameter is type "ValueError"
        return None


class Sees(Worker[None, Sighting]):
    def on_error(self, ctx: StageContext[None], error: Exception) -> None:  # E:11n
        # mypy[override]: supertype defines the argument type as "Context[None, object]"
        # pyright[reportIncompatibleMethodOverride]: override parameter is type "StageContext[None, object]"
        return None


# ----------------------------------------------------------------------------------------------- 12. values stay as is


class Detour(Go[Decide]): ...  # E:12a
# mypy[misc]: Cannot inherit from final class "Go"
# pyright[reportGeneralTypeIssues]: Base class "Go[Decide]" is marked final and cannot be subclassed


go(Decide).state = Ruling("x")  # E:12b
# mypy[misc]: Property "state" defined in "Go" is read-only
# pyright[reportAttributeAccessIssue]: Cannot assign to attribute "state" for class "Go[Decide]"
user("x").text = "y"  # E:12c
# mypy[misc]: Property "text" defined in "Message" is read-only
# pyright[reportAttributeAccessIssue]: Cannot assign to attribute "text" for class "Message"
Report().label = "y"  # E:12d
# mypy[misc]: Property "label" defined in "Report" is read-only
# pyright[reportAttributeAccessIssue]: Cannot assign to attribute "label" for class "Report"


# ------------------------------------------------------------------------------------------------------------ 13. tools


class Tools(Conversation[Report]):
    @tool  # E:13a
    # mypy[arg-type]: expected "Callable[[Tools, Context[State, Shared]], Stay]"
    # pyright[reportCallIssue]: No overloads for "tool"
    # pyright[reportArgumentType]: accepts too few positional parameters
    def handed(self) -> Stay:
        return stay("x")

    @tool  # E:13c
    # mypy[type-var]: "WorkerToolAnswer" of "tool" cannot be "None"
    # pyright[reportCallIssue]: No overloads for "tool"
    # pyright[reportArgumentType]: return type "None" is incompatible
    def forgets(self, ctx: Context[Report]) -> None:
        stay("x")

    @tool  # E:13d
    # mypy[type-var]: "WorkerToolAnswer" of "tool" cannot be "str"
    # pyright[reportCallIssue]: No overloads for "tool"
    # pyright[reportArgumentType]: return type "str" is incompatible
    def text(self, ctx: Context[Report]) -> str:
        return "x"

    @tool(timeout=3)  # E:9l
    # mypy[type-var]: "WorkerToolAnswer" of "__call__" of "ToolDecorator" cannot be "str"
    # pyright[reportCallIssue]: No overloads for "__call__"
    # pyright[reportArgumentType]: return type "str" is incompatible
    def timed(self, ctx: Context[Report]) -> str:
        return "x"

    @tool(nam="other")  # E:13e
    # mypy[call-overload]: Unexpected keyword argument "nam" for overloaded function "tool"; did you mean "name"?
    # mypy[untyped-decorator]: Untyped decorator makes function "renamed" untyped
    # pyright[reportCallIssue]: No overloads for "tool"
    def renamed(self, ctx: Context[Report]) -> Stay:
        return stay("x")

    @tool(timeout="0.5")  # E:13f
    # mypy[call-overload]: No overload variant of "tool" matches argument type "str"
    # mypy[untyped-decorator]: Untyped decorator makes function "brief" untyped
    # pyright[reportArgumentType]: "Literal['0.5']" cannot be assigned to parameter "timeout" of type "float | None"
    def brief(self, ctx: Context[Report]) -> Stay:
        return stay("x")


class Paces(Worker[None, Sighting]):
    @tool(timeout=3)  # E:9m
    # mypy[type-var]: "WorkerToolAnswer" of "__call__" of "ToolDecorator" cannot be "Go[Pay]"
    # pyright[reportCallIssue]: No overloads for "__call__"
    # pyright[reportArgumentType]: return type "Go[Pay]" is incompatible
    def timed(self, ctx: Context[None]) -> Go[Pay]:
        return go(Pay)

    @tool(blocking=True)  # E:13g
    # mypy[arg-type]: expected "Callable[[Paces, Context[State, Shared]], Stay]"
    # pyright[reportCallIssue]: No overloads for "__call__"
    # pyright[reportArgumentType]: is incompatible with type "StageContext[None, object]"
    def held(self, ctx: StageContext[None]) -> Stay:
        return stay("x")


class Asks(GraphNode[Ruling]):
    @tool  # E:13b
    # mypy[type-var]: "NodeWithTools" of "tool" cannot be "Asks"
    # pyright[reportCallIssue]: No overloads for "tool"
    # pyright[reportArgumentType]: Parameter 1: type "NodeWithTools@tool" is incompatible with type "Self@Asks"
    def asks(self, ctx: Context[Ruling]) -> Stay:
        return stay("x")

    def run(self, ctx: Context[Ruling]) -> None:
        return None


# -------------------------------------------------------------------------------------------- 14. what `compile` takes

parcels.compile(on_conflict="retry")  # E:14a
# mypy[arg-type]: incompatible type "Literal['retry']"; expected "Literal['raise', 'feedback']"
# pyright[reportArgumentType]: "Literal['retry']" cannot be assigned to parameter "on_conflict" of type "OnConflict"
parcels.compile(at_end="stop")  # E:14b
# mypy[arg-type]: incompatible type "Literal['stop']"; expected "Literal['complete', 'wait']"
# pyright[reportArgumentType]: "Literal['stop']" cannot be assigned to parameter "at_end" of type "AtEnd"
parcels.compile(end_session=[Decide])  # E:14c
# mypy[list-item]: List item 0 has incompatible type "type[Decide]"; expected "type[Conversation[Any, Any]]"
# pyright[reportArgumentType]: Type "type[Decide]" is not assignable to type "type[Conversation[Any, Any]]"
parcels.compile(model=Letters())  # E:14d
# mypy[arg-type]: Argument "model" to "compile" of "Graph" has incompatible type "Letters"; expected "Model | None"
# pyright[reportArgumentType]: "Letters" cannot be assigned to parameter "model" of type "Model | None"
