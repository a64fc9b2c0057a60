"""Right code: both checkers stay silent, infer what is asserted here, and the file runs.

A line marked `# OK:<case>` is the mended twin of the line marked `# E:<case>` in `rejected.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Annotated, Optional, TypeAlias, Union

from attrs import evolve, frozen
from typing_extensions import assert_never, assert_type

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
    instruction,
    scatter,
    stay,
    task_result,
    tool,
    user,
)
from ezgraph.models import Model

# ---------------------------------------------------------------------- a desk for parcels that did not arrive well


@frozen
class Report:
    """What the customer says of the parcel."""

    label: str = ""
    worth: Decimal = Decimal(0)


@frozen
class Sighting:
    """Where the parcel was last scanned."""

    depot: str


@frozen
class Damage:
    """How much of it is broken, from 0 to 1."""

    share: float


@frozen
class Ruling:
    """What was decided, and why."""

    reason: str = ""


@frozen
class Offer:
    """What we would pay."""

    amount: Decimal


@frozen
class Purse:
    """What is left to pay out today: the context of the whole graph."""

    left: Decimal = Decimal(500)


class Reception(Conversation[Report]):
    """Asks what happened."""

    def prompt(self, ctx: Context[Report]) -> str:  # OK:6e
        return f"Ask for the label and the worth. Known so far: {ctx.state}"

    @tool
    def take_report(self, ctx: Context[Report], label: str, worth: Decimal) -> Fanout[Trace | Inspect] | Stay:
        if not label:
            return stay("A label has letters and digits.")
        ctx.save(Report(label, worth))
        return fanout(Trace, Inspect)

    @tool
    async def pay_small(self, ctx: StageContext[Report], worth: Decimal) -> Go[Pay] | Stay:
        ctx.write(Decide, Ruling("small"))
        return go(Pay).with_usage(Usage(3)).with_state(Offer(worth)) if worth < 20 else stay("Too much for that.")

    def on_response(self, ctx: Context[Report], output: object) -> Go[Decide] | Direct | None:
        return go(Decide) if ctx.state.worth else None


class Trace(Worker[None, Sighting]):
    """Finds out where the parcel is, with a model."""

    async def on_enter(self, ctx: Context[None], message: Message | None) -> str:
        return f"Find {assert_type(ctx.read(Reception), Report).label}."

    @tool
    def scanned(self, ctx: Context[None], depot: str) -> TaskResult[Sighting] | Stay:
        return task_result(Sighting(depot)) if depot else stay("Name a depot.")

    def on_response(self, ctx: Context[None], output: str | Sighting) -> TaskResult[Sighting] | str | None:
        return None


class Inspect(Worker[None, Damage, Purse]):
    """Computes the damage; needs to see the purse."""

    async def run(self, ctx: Context[None, Purse]) -> TaskResult[Damage]:
        assert_type(ctx.shared, Purse)
        return task_result(Damage(float(ctx.shared.left / 1000)))

    def on_error(self, ctx: Context[None, Purse], error: Exception) -> TaskResult[Damage] | None:
        return task_result(Damage(1)) if isinstance(error, TimeoutError) else None


class Photos(Worker[Report, int]):
    """Counts the photographs."""


class Letters(Worker[None, str]):
    """Reads the letters; its model's text is its output."""


class Decide(GraphNode[Ruling]):
    """Decides by rule."""

    def run(self, ctx: Context[Ruling]) -> Go[Pay] | Finish:
        seen, damage = ctx.result(Trace), ctx.result(Inspect)
        assert_type(seen, Sighting)
        assert_type(damage, Damage)
        assert_type(ctx.result(Photos, default=None), int | None)
        if damage.share < 0.1:
            return finish(f"It is in {seen.depot}, and whole.")
        return go(Pay).with_message("Be kind.").with_state(Offer(ctx.read(Reception).worth))


class Pay(Conversation[Offer, Purse]):
    """Pays, or says why not."""

    @tool(name="pay", timeout=20)
    async def pay_out(self, ctx: StageContext[Offer, Purse]) -> Finish | DirectTo[Reception]:
        left = ctx.shared.left - ctx.state.amount
        if left < 0:
            return direct_to(Reception, "We need a photo first.").with_state(Report())
        ctx.share(Purse(left))  # OK:6h
        return finish("Paid.").with_usage(Usage(requests=1))


parcels = (
    Graph("parcels", entry=Reception, context=Purse())
    .stages(Reception, Decide, Pay())
    .workers(Trace, Inspect)
    .join((Trace, Inspect), to=Decide)
)
job = Graph("job", entry=Photos).workers(Trace).edge(Photos, Trace).join((Trace,), to=Decide)
plain = Graph("plain", entry=Reception).stages(Decide).workers(Trace).edge(Trace, Decide)

assert_type(parcels, Graph[Purse])
assert_type(plain, Graph[None])
assert_type(job, Graph[None])
assert_type(go(Pay), Go[Pay])
assert_type(go(Pay).with_message("m").with_usage(Usage(1)).with_state(Offer(Decimal(1))), Go[Pay])
assert_type(direct_to(Pay, "x").with_state(Offer(Decimal(1))).with_message("m"), DirectTo[Pay])
assert_type(fanout(Trace, Inspect), Fanout[Trace | Inspect])
assert_type(fanout(Trace, Inspect, Photos), Fanout[Trace | Inspect | Photos])
assert_type(fanout(Trace, Inspect, Photos, Letters), Fanout[Trace | Inspect | Photos | Letters])
assert_type(scatter(Photos, [Report()]), Fanout[Photos])
assert_type(scatter(Trace, (None for _ in "abc")).with_usage(Usage(1)), Fanout[Trace])
assert_type(task_result(3).with_messages([user("x")]), TaskResult[int])


# --------------------------------------------------------------------------------------- 1. a worker does not route


class Hands(Worker[None, Sighting]):
    @tool  # OK:1a
    def routes(self, ctx: Context[None], q: str) -> TaskResult[Sighting] | Stay:
        return stay(q)

    @tool
    def body(self, ctx: Context[None]) -> TaskResult[Sighting]:
        return task_result(Sighting("Ghent"))  # OK:1b

    @tool  # OK:1c
    async def finishes(self, ctx: Context[None]) -> Direct:
        return direct("Seen in Ghent.")

    @tool  # OK:1k
    async def plain(self, ctx: Context[None]) -> Stay:
        return stay("Seen in Ghent.")

    @tool  # OK:1m
    def leaves(self, ctx: Context[None]) -> Direct | Stay:
        return direct("Ask at the desk.")

    @tool  # OK:1n
    def opens(self, ctx: Context[None]) -> TaskResult[Sighting]:
        return task_result(Sighting("Lille"))

    @tool  # OK:1s
    def forgets(self, ctx: Context[None]) -> Stay:
        return stay("Noted.")

    def run(self, ctx: Context[None]) -> TaskResult[Sighting] | Direct | None:  # OK:1d
        return None


class Eyes(Worker[None, Sighting]):
    async def run(self, ctx: Context[None]) -> TaskResult[Sighting]:  # OK:1e
        return task_result(Sighting("Ghent"))

    def on_response(self, ctx: Context[None], output: str | Sighting) -> TaskResult[Sighting]:  # OK:1f
        return task_result(output if isinstance(output, Sighting) else Sighting(output))


class Reader(Worker[Report, Sighting, Purse]):
    def run(self, ctx: Context[Report, Purse]) -> TaskResult[Sighting]:  # OK:1g
        ctx.save(Report())  # OK:1i
        assert_type(ctx.history, Sequence[Message])  # OK:1p
        return task_result(Sighting(f"{ctx.shared.left}"))  # OK:1o

    def on_enter(self, ctx: Context[Report, Purse], message: Message | None) -> Message:  # OK:1q
        return instruction("Read on.")

    def on_exit(self, ctx: Context[Report, Purse], output: Sighting) -> None:  # OK:1r
        ctx.save(Report(output.depot))

    @tool  # OK:1h
    def writes(self, ctx: Context[Report, Purse]) -> Stay:
        return stay("x")


go(Decide)  # OK:1j
direct_to(Reception, "x")  # OK:1l


def annotated(first: Go[Decide]) -> DirectTo[Pay] | None:  # OK:1t
    return direct_to(Pay, "x") if first.target is Decide else None


# -------------------------------------------------------------------------------- 2. `stay` and text, and where from


class Rules(GraphNode[Ruling]):
    def run(self, ctx: Context[Ruling]) -> Direct | Finish:  # OK:2a
        return direct("x")  # OK:2c


class Talk(Conversation[Report]):
    async def on_response(self, ctx: Context[Report], output: object) -> Direct | str | None:  # OK:2b
        return "x"


class Steps(Worker[None, Sighting]):
    def run(self, ctx: Context[None]) -> TaskResult[Sighting] | None:  # OK:2d
        return None

    async def on_response(self, ctx: Context[None], output: object) -> TaskResult[Sighting] | None:  # OK:2e
        return None


class Speaks(GraphNode[Ruling]):
    def run(self, ctx: Context[Ruling]) -> Direct:  # OK:2f
        return direct("x")


class Yields(GraphNode[Ruling]):
    async def run(self, ctx: Context[Ruling]) -> Finish | None:  # OK:2g
        return None


class Chat(Conversation[Report]):
    def on_response(self, ctx: Context[Report], output: object) -> Finish:  # OK:2h
        return finish("Thank you.")


# -------------------------------------------------------------------------------------------------------- 3. `fanout`

fanout(Inspect, Trace)  # OK:3a
fanout(Trace, Photos)  # OK:3b
fanout(Trace, Letters)  # OK:3c
fanout(Trace, Inspect).with_usage(Usage(1))  # OK:3d
fanout(Trace, Inspect).with_tool_feedback("Looking.")  # OK:3e
fanout(Trace, Inspect, Photos, Letters)  # OK:3f


def opened(by: Fanout[Trace | Inspect]) -> int:  # OK:3g
    return len(by.workers)


scatter(Photos, [Report(), Report("A1")])  # OK:9j
scatter(Letters, [None])  # OK:9k
scatter(Photos, (Report(),))  # OK:3h
scatter(Photos, [])  # OK:3i
scatter(Photos, [Report()]).with_usage(Usage(1))  # OK:3j


# ------------------------------------------------------------------------------------- 4. what a builder is handed

go(Pay).with_state(Offer(Decimal(2)))  # OK:4a
go(Pay).with_usage(Usage(1)).with_state(Offer(Decimal(2)))  # OK:4b
go(Pay).with_message("m").with_tool_feedback("f").with_state(Offer(Decimal(2)))  # OK:4c
direct_to(Pay, "x").with_state(Offer(Decimal(2)))  # OK:4d
go(Pay).with_state(Offer(Decimal(1))).with_state(Offer(Decimal(3)))  # OK:4e
go(Pay).with_message("Three parcels.")  # OK:4f
direct_to(Pay, "x").with_message(instruction("Three parcels."))  # OK:4g
stay("x").with_messages([user("See this picture.")])  # OK:4h
stay("x").with_messages((user("See this picture."),))  # OK:4i
stay("x").with_usage(Usage(3))  # OK:4j
go(Reception).with_state(Report())  # OK:4k
go(Reception).with_message("x")  # OK:4l
stay("x").with_cleanup(lambda: None)  # OK:4m


# ------------------------------------------------------------------------------------------------- 5. `task_result`


class Scale(Worker[None, Sighting]):
    async def run(self, ctx: Context[None]) -> TaskResult[Sighting]:  # OK:5a
        return task_result(Sighting("x"))  # OK:5d

    @tool
    def body(self, ctx: Context[None]) -> TaskResult[Sighting]:
        return task_result(Sighting("x"))  # OK:5b


class Balance(Worker[None, Sighting]):
    def on_response(self, ctx: Context[None], output: str | Sighting) -> TaskResult[Sighting]:  # OK:5c
        return task_result(Sighting("x"))


class Ruler(Worker[None, Sighting]):
    def on_response(self, ctx: Context[None], output: object) -> str:  # OK:5e
        return str(output)


# --------------------------------------------------------------- 6. annotations, in every spelling, hold their bodies

Onward: TypeAlias = Go[Decide] | Finish
Aside = Union[Go[Pay], DirectTo[Pay]]


class Ways(Conversation[Report]):
    @tool
    def strays(self, ctx: Context[Report]) -> Go[Pay] | Stay:
        return go(Pay)  # OK:6a

    @tool
    def wide(self, ctx: Context[Report]) -> Fanout[Trace | Inspect]:
        return fanout(Trace, Inspect)  # OK:6b

    @tool
    def other(self, ctx: Context[Report]) -> DirectTo[Reception]:
        return direct_to(Reception, "x")  # OK:6c

    @tool
    def saves(self, ctx: StageContext[Report]) -> Stay:
        ctx.save(Report("B"))  # OK:6f
        ctx.write(Pay, Offer(Decimal(1)))  # OK:6g
        ctx.append(Pay, assistant("x"))  # OK:9s
        ctx.append(Reception, user("x"))  # OK:9t
        return stay("x")

    @tool
    def each(self, ctx: Context[Report]) -> Fanout[Photos] | Fanout[Trace | Inspect]:
        if ctx.state.label:
            return fanout(Trace, Inspect)
        return scatter(Photos, [ctx.state])  # OK:6m

    @tool
    def alias(self, ctx: Context[Report]) -> Onward | Stay:
        return go(Decide).with_message("x")  # OK:6i

    @tool
    def union(self, ctx: Context[Report]) -> Union[Aside, Stay]:
        return go(Pay).with_message("x")  # OK:6j

    @tool
    def annotated(self, ctx: Context[Report]) -> Annotated[Go[Decide] | Stay, "a note"]:
        return go(Decide)  # OK:6k

    def on_response(self, ctx: Context[Report], output: object) -> Optional[Go[Decide]]:
        return go(Decide)  # OK:6l

    @tool
    def conditional(self, ctx: Context[Report]) -> Go[Decide | Pay] | Stay:
        return go(Pay) if ctx.state.worth else go(Decide)

    @tool
    def target(self, ctx: Context[Report]) -> Go[Decide | Pay] | Stay:
        return go(Pay if ctx.state.worth else Decide)

    @tool(blocking=True)
    def apart(self, ctx: Context[Report]) -> Go[Decide] | Go[Pay] | Stay:
        return go(Pay).with_message("m") if ctx.state.worth else stay("x")

    @tool
    async def named(self, ctx: StageContext[Report]) -> Fanout[Trace | Inspect | Letters] | TaskResult[int]:
        opening = fanout(Trace, Inspect)
        return opening if ctx.state.worth else task_result(3)


# ---------------------------------------------------------------------------------- 7. one context for a whole graph


class Shop:
    """The context of another graph."""


class Counter(Conversation[Report, Shop]): ...


class Stock(Worker[None, int, Shop]): ...


shop = Graph("shop", entry=Counter, context=Shop())  # OK:7g
shop.stages(Counter)  # OK:7a
shop.workers(Letters, Stock)  # OK:7b
shop.join((Letters, Stock), to=Decide)  # OK:7c
shop.edge(Decide, Counter)  # OK:7d
Graph("wide", entry=Reception, context=Purse()).stages(Pay)  # OK:7e
Graph("wide", entry=Reception, context=Shop()).stages(Counter())  # OK:7f
Graph("wide", entry=Counter, context=Shop())  # OK:7h
Graph("wide", entry=Stock, context=Shop())  # OK:7i

# -------------------------------------------------------------------------------------- 8. each node in its own place

parcels.workers(Photos)  # OK:8a
parcels.workers(Letters())  # OK:8b
parcels.stages(Pay)  # OK:8c
parcels.join((Photos, Trace), to=Decide)  # OK:8d
Graph("parcels", entry=Trace)  # OK:8e
parcels.edge(Trace, END)  # OK:8f
parcels.edge(Decide, Pay)  # OK:8g
parcels.edge(Decide, END)  # OK:8h
parcels.join((Trace,), to=Decide)  # OK:8i
parcels.join((Trace, Letters), to=Decide)  # OK:8j
parcels.join((Trace, Letters), to=Decide, on_failure="cancel_siblings")  # OK:8m
finish("Good bye.")  # OK:8k
go(Pay)  # OK:8l


# --------------------------------------------------------------------------------------------- 9. what a context gives


def uses(ctx: StageContext[Report, Purse]) -> None:
    print(ctx.result(Trace).depot)  # OK:9a
    damage: Damage = ctx.result(Inspect)  # OK:9b
    report: Report = ctx.read(Reception)  # OK:9c
    ctx.result(Letters)  # OK:9d
    print(ctx.shared.left)  # OK:9i
    perhaps: Sighting | None = ctx.result(Trace, default=None)  # OK:9n
    print(ctx.result(Trace, default=Sighting("?")).depot)  # OK:9o
    ctx.result(Trace, default=None)  # OK:9p
    print(str(ctx.result(Photos)), round(ctx.result(Photos)), sum(ctx.results(Photos)), sorted(ctx.results(Photos)))
    share: float = ctx.result(Photos)
    shares: Sequence[float] = ctx.results(Photos)
    print(share, shares)
    ctx.append(Reception, assistant("x"))  # OK:9q
    evolve(ctx.history[0], text="x")  # OK:9r
    ctx.save(evolve(ctx.state, label="x"))  # OK:9u
    ctx.save(Report("x"))  # OK:9v
    print(ctx.incoming.text if ctx.incoming else "")  # OK:9w
    assert_type(ctx.results(Inspect), tuple[Damage, ...])
    seen: tuple[Sighting, ...] = ctx.results(Trace)  # OK:9x
    ctx.results(Letters)  # OK:9y
    print(ctx.results(Trace)[0].depot)  # OK:9z
    print(damage, report, perhaps, seen)


async def calls(ctx: Context[Report, Purse]) -> None:
    assert_type(await ctx.call(Trace, None), Sighting)
    assert_type(await ctx.call_all(Photos, (Report(label) for label in "ab")), tuple[int, ...])
    count: int = await ctx.call(Photos, Report())  # OK:9f
    await ctx.call(Photos, ctx.state)  # OK:9g
    await ctx.call(Letters, None)  # OK:9h
    counts: tuple[int, ...] = await ctx.call_all(Photos, [Report()])  # OK:15a
    await ctx.call_all(Photos, [Report(), Report()])  # OK:15b
    await ctx.call_all(Letters, [None])  # OK:15c
    print((await ctx.call(Trace, None)).depot)  # OK:15d
    print(str(await ctx.call(Photos, Report())), str(await ctx.call_all(Photos, [Report()])))
    share: float = await ctx.call(Photos, Report())
    shares: tuple[float, ...] = await ctx.call_all(Photos, [Report()])
    print(share, shares)
    await ctx.call_all(Letters, [None, None])  # OK:15e
    print(count, counts)


# ------------------------------------------------------------------------------------- 10. a match over all responses


def describe(response: Response[int]) -> str:
    match response:
        case Go(target=target) | DirectTo(target=target):
            return target.__name__
        case Fanout(workers=workers):
            return str(len(workers))
        case Stay(text=text) | Direct(text=text) | Finish(text=text):
            return text
        case TaskResult(value=value):
            return str(value + 1)
        case _:
            assert_never(response)  # OK:10a


def where(response: Go[Decide] | DirectTo[Pay] | Stay) -> str:
    match response:
        case Go() | DirectTo():
            return response.target.__name__  # OK:10c
        case Stay():
            return response.text
        case _:
            assert_never(response)  # OK:10b


# ------------------------------------------------------------------------------------------------------------ 11. hooks


class Greets(Conversation[Report, Purse]):
    def prompt(self, ctx: Context[Report]) -> str:  # OK:11g
        return "x"

    def on_enter(self, ctx: Context[Report], message: Message | None) -> Message | None:  # OK:11a
        return message

    def on_exit(self, ctx: Context[Report], outcome: object) -> None:  # OK:11c
        return None


class Leaves(Conversation[Report]):
    async def on_enter(self, ctx: StageContext[Report], message: Message | None) -> str | None:  # OK:11f
        return message.text if message else None

    async def on_exit(self, ctx: StageContext[Report], outcome: object) -> None:  # OK:11e
        ctx.write(Decide, Ruling(str(outcome)))


class Checks(Worker[None, Sighting]):
    def on_enter(self, ctx: Context[None], message: Message | None) -> str:  # OK:11b
        return "Look."

    def on_exit(self, ctx: Context[None], output: Sighting) -> None:  # OK:11d
        return None


class Concrete(GraphNode[Ruling]):
    def run(self, ctx: Context[Ruling]) -> None:
        return None


Concrete()  # OK:11h


class Recovers(Conversation[Report]):
    async def on_error(self, ctx: StageContext[Report], error: Exception) -> Go[Decide] | Direct | None:  # OK:11i
        ctx.write(Decide, Ruling(str(error)))
        return go(Decide)


class Stands(GraphNode[Ruling]):
    def run(self, ctx: StageContext[Ruling]) -> Finish | None:
        return None

    def on_error(self, ctx: Context[Ruling], error: Exception) -> Finish | DirectTo[Reception]:  # OK:11j
        return finish("Sorry.")


class Gives(Worker[None, Sighting]):
    def on_error(self, ctx: Context[None], error: object) -> TaskResult[Sighting] | Direct:  # OK:11k
        return task_result(Sighting("?"))  # OK:11o


class Passes(Worker[None, Sighting]):
    async def on_error(self, ctx: Context[None], error: Exception) -> TaskResult[Sighting] | None:  # OK:11l
        return None


class Takes(Worker[None, Sighting]):
    def on_error(self, ctx: Context[None], error: BaseException) -> None:  # OK:11m
        return None


class Sees(Worker[None, Sighting]):
    def on_error(self, ctx: Context[None], error: Exception) -> None:  # OK:11n
        return None


# ----------------------------------------------------------------------------------------------- 12. values stay as is


class Detour(Worker[None, int]): ...  # OK:12a


go(Decide).with_state(Ruling("x"))  # OK:12b
evolve(user("x"), text="y")  # OK:12c
evolve(Report(), label="y")  # OK:12d


# ------------------------------------------------------------------------------------------------------------ 13. tools


class Tools(Conversation[Report]):
    @tool  # OK:13a
    def handed(self, ctx: Context[Report]) -> Stay:
        return stay("x")

    @tool  # OK:13c
    def forgets(self, ctx: Context[Report]) -> Stay:
        return stay("x")

    @tool  # OK:13d
    def text(self, ctx: Context[Report]) -> Direct:
        return direct("x")

    @tool(timeout=3)  # OK:9l
    def timed(self, ctx: Context[Report]) -> Direct:
        return direct("x")

    @tool(name="other")  # OK:13e
    def renamed(self, ctx: Context[Report]) -> Stay:
        return stay("x")

    @tool(timeout=0.5)  # OK:13f
    def brief(self, ctx: Context[Report]) -> Stay:
        return stay("x")


class Paces(Worker[None, Sighting]):
    @tool(timeout=3)  # OK:9m
    def timed(self, ctx: Context[None]) -> TaskResult[Sighting]:
        return task_result(Sighting("x"))

    @tool(blocking=True)  # OK:13g
    def held(self, ctx: Context[None]) -> Stay:
        return stay("x")


class Asks(Conversation[Ruling]):
    @tool  # OK:13b
    def asks(self, ctx: Context[Ruling]) -> Stay:
        return stay("x")


# -------------------------------------------------------------------------------------------- 14. what `compile` takes


def compiled(model: Model) -> None:
    parcels.compile(on_conflict="feedback")  # OK:14a
    parcels.compile(at_end="wait")  # OK:14b
    parcels.compile(end_session=[Reception])  # OK:14c
    parcels.compile(model=model)  # OK:14d


def main() -> None:
    """Build what needs no engine, and look at it."""
    small = go(Pay).with_message("m").with_state(Offer(Decimal(9)))
    assert small.target is Pay
    assert small.state == Offer(Decimal(9))
    told = [describe(r) for r in (small, fanout(Trace, Inspect), direct("no"), task_result(3))]
    assert told == ["Pay", "2", "no", "4"]
    assert [join.target for join in parcels.definition.joins] == [Decide]
    assert plain.definition.edges[0].source is Trace


if __name__ == "__main__":
    main()
