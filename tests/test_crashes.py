"""A process that ends anywhere loses no published step and repeats no finished one; a turn leaves no task behind.

The harness is `crashes`.  Rules E5, E11, F2, G3, G6, L3; FIELD F12, F14, D1.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from functools import partial
from itertools import count
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from attrs import frozen
from crashes import AWAITS, COMMITS, STATEMENTS, Bytes, File, InMemory, Life, Now, Program, Story, token
from faults import idle, no_other_task, stopped_when

from ezgraph import (
    END,
    Context,
    Conversation,
    Direct,
    Fanout,
    Finish,
    Go,
    Graph,
    GraphNode,
    StageContext,
    Stay,
    TaskResult,
    ToolCall,
    Turn,
    UnfinishedWork,
    Worker,
    direct,
    fanout,
    finish,
    go,
    scatter,
    stay,
    task_result,
    tool,
)
from ezgraph.errors import BranchFailed, UnknownSession
from ezgraph.models import ModelReply, ModelRequest
from ezgraph.runtime.compiled import CompiledGraph
from ezgraph.session import Session
from ezgraph.stores.contract import Store

# ------------------------------------------------------------------------------------------------------------ the nodes


@frozen
class Box:
    """A number on a box, and who wrote it."""

    n: int = 0
    by: str = ""


class Actor:
    """A node of a life.  Its output says that it is done."""

    def __init__(self, now: Now) -> None:
        self.now = now

    @property
    def life(self) -> Life:
        return self.now.life


class Weigh(Actor, Worker[Box, str]):
    """Called from inside steps."""

    async def run(self, ctx: Context[Box]) -> TaskResult[str]:
        said = await self.life.body(f"Weigh {ctx.state.n}")
        ctx.save(Box(ctx.state.n, "Weigh"))
        return task_result(said)


class Desk(Actor, Conversation[Box]):
    """Two messages of calls: the first weighs, the second opens a scatter."""

    def prompt(self, ctx: StageContext[Box]) -> str:
        return "Desk"

    @tool
    async def look(self, ctx: StageContext[Box]) -> Stay:
        """Look at one box."""
        said = await self.life.body("look")
        weighed = await ctx.call(Weigh, Box(1))
        self.life.relies_on("Weigh 1")
        ctx.save(Box(1, "look"))
        return stay(f"{weighed} {said}")

    @tool
    async def compare(self, ctx: StageContext[Box]) -> Stay:
        """Look at two boxes."""
        self.life.relies_on("look")
        assert ctx.state == Box(1, "look")
        said = await self.life.body("compare")
        weighed = await ctx.call_all(Weigh, [Box(2), Box(3)])
        self.life.relies_on("Weigh 2", "Weigh 3")
        return stay(f"{weighed} {said}")

    @tool
    async def send(self, ctx: StageContext[Box]) -> Fanout[Pick]:
        """Send three boxes."""
        self.life.relies_on("look", "compare", "ask Desk 0")
        said = await self.life.body("send")
        return scatter(Pick, [Box(n) for n in range(3)]).with_tool_feedback(said)


class Pick(Actor, Worker[Box, str]):
    async def run(self, ctx: Context[Box]) -> TaskResult[str]:
        self.life.relies_on("send", of="step")
        return task_result(await self.life.body(f"Pick {ctx.state.n}"))


class Pack(Actor, Worker[None, str]):
    """Driven by a model, once for each box."""

    def prompt(self, ctx: Context[None]) -> str:
        return f"Pack {ctx.result(Pick)}"

    @tool
    async def wrap(self, ctx: Context[None]) -> Stay:
        """Wrap it."""
        item = number_in(ctx.result(Pick))
        self.life.relies_on(f"Pick {item}", of="step")
        return stay(await self.life.body(f"wrap {item}"))


class Count(Actor, Worker[None, str]):
    """Gathers."""

    async def run(self, ctx: Context[None]) -> TaskResult[str]:
        packed = ctx.results(Pack)
        assert packed == tuple(token(f"ask Pack {n} 1") for n in range(3))
        return task_result(await self.life.body("Count"))


class Report(Actor, GraphNode[None]):
    async def run(self, ctx: StageContext[None]) -> Direct:
        self.life.relies_on("Count", of="step")
        said = await self.life.body("Report")
        weighed = await ctx.call(Weigh, Box(9))
        self.life.relies_on("Weigh 9")
        return direct(f"{ctx.result(Count)} {weighed} {said}")


def number_in(text: str) -> int:
    return int("".join(letter for letter in text if letter.isdigit()))


class Minds(Actor):
    """The model of every node that has one: what it is called for next, by node and round."""

    calls: dict[str, list[tuple[str, ...]]] = {
        "Desk": [("look", "compare"), ("send",)],
        "Pack": [("wrap",)],
        "Fetch": [("fetch",)],
        "East": [("note",)],
        "West": [("note",)],
    }

    async def respond(self, request: ModelRequest, /) -> ModelReply:
        node = request.node
        rounds = sum(1 for message in request.messages if message.calls)
        who = f"{node} {number_in(request.prompt)}" if node == "Pack" else node
        if rounds and node != "Desk":
            self.life.relies_on(*(f"ask {who} {n}" for n in range(rounds)))
        said = await self.life.body(f"ask {who} {rounds}")
        wanted = self.calls[node][rounds] if rounds < len(self.calls[node]) else ()
        return ModelReply(said, tuple(ToolCall(f"{who}-{rounds}-{name}", name) for name in wanted))


def parcels(now: Now, store: Store) -> CompiledGraph:
    """A conversation whose tools call workers and scatter; a chain for each item, a gather, a stage that reports."""
    return (
        Graph("parcels", entry=Desk)
        .stages(Desk(now), Report(now))
        .workers(Weigh(now), Pick(now), Pack(now), Count(now))
        .edge(Pick, Pack)
        .join((Pack,), to=Count)
        .edge(Count, Report)
        .compile(store=store, model=Minds(now), durability=now.life.durability)
    )


PARCELS = [
    *("ask Desk 0", "look", "Weigh 1", "compare", "Weigh 2", "Weigh 3", "ask Desk 1", "send"),
    *(f"{body} {n}" for n in range(3) for body in ("Pick", "wrap")),
    *(f"ask Pack {n} {k}" for n in range(3) for k in range(2)),
    *("Count", "Report", "Weigh 9"),
]


class Opens(Actor, GraphNode[Box]):
    async def run(self, ctx: StageContext[Box]) -> Fanout[Short | Long | Side]:
        ctx.save(Box(1, await self.life.body("Opens")))
        return fanout(Short, Long, Side)


class Branch(Actor):
    """Saves and yields; relies on what it comes after."""

    async def works(self, ctx: Context[Box], *after: str) -> TaskResult[str]:
        name = type(self).__name__
        self.life.relies_on("Opens", *after, of="step")
        said = await self.life.body(name)
        ctx.save(Box(len(after), name))
        return task_result(said)


class Short(Branch, Worker[Box, str]):
    async def run(self, ctx: Context[Box]) -> TaskResult[str]:
        return await self.works(ctx)


class Long(Branch, Worker[Box, str]):
    async def run(self, ctx: Context[Box]) -> TaskResult[str]:
        return await self.works(ctx)


class Side(Branch, Worker[Box, str]):
    async def run(self, ctx: Context[Box]) -> TaskResult[str]:
        return await self.works(ctx)


class Longer(Branch, Worker[Box, str]):
    async def run(self, ctx: Context[Box]) -> TaskResult[str]:
        assert ctx.read(Long) == Box(0, "Long")
        return await self.works(ctx, "Long")


class Foot(Branch, Worker[Box, str]):
    async def run(self, ctx: Context[Box]) -> TaskResult[str]:
        assert (ctx.result(Short), ctx.result(Longer)) == (token("Short"), token("Longer"))
        return await self.works(ctx, "Short", "Longer")


class Last(Branch, Worker[Box, str]):
    async def run(self, ctx: Context[Box]) -> TaskResult[str]:
        assert (ctx.result(Foot), ctx.result(Side)) == (token("Foot"), token("Side"))
        return await self.works(ctx, "Foot", "Side")


class Closes(Actor, GraphNode[None]):
    async def run(self, ctx: StageContext[None]) -> Finish:
        self.life.relies_on("Last", of="step")
        return finish(f"{ctx.result(Last)} {ctx.result(Side)} {await self.life.body('Closes')}")


def diamond(now: Now, store: Store) -> CompiledGraph:
    """Unequal branches into a foot, and its join with a third branch chained to it."""
    return (
        Graph("diamond", entry=Opens)
        .stages(Opens(now), Closes(now))
        .workers(*(cls(now) for cls in (Short, Long, Side, Longer, Foot, Last)))
        .edge(Long, Longer)
        .join((Short, Longer), to=Foot)
        .join((Foot, Side), to=Last)
        .edge(Last, Closes)
        .compile(store=store, durability=now.life.durability)
    )


BRANCHES = ("Short", "Long", "Side", "Longer", "Foot", "Last")


class Fetch(Actor, Worker[Box, str]):
    """The entry of a job, driven by a model, whose tool calls a worker."""

    @tool
    async def fetch(self, ctx: Context[Box]) -> Stay:
        """Fetch it."""
        said = await self.life.body("fetch")
        weighed = await ctx.call(Weigh, Box(4))
        self.life.relies_on("Weigh 4")
        ctx.save(Box(4, "fetch"))
        return stay(f"{said} {weighed}")


class Clean(Actor, Worker[Box, str]):
    async def run(self, ctx: Context[Box]) -> TaskResult[str]:
        assert (ctx.read(Fetch), ctx.result(Fetch)) == (Box(4, "fetch"), token("ask Fetch 1"))
        self.life.relies_on("ask Fetch 1", of="step")
        return task_result(await self.life.body("Clean"))


class Shelve(Actor, Worker[Box, str]):
    async def run(self, ctx: Context[Box]) -> TaskResult[str]:
        self.life.relies_on("Clean", of="step")
        ctx.save(Box(5, f"{ctx.result(Clean)} {await self.life.body('Shelve')}"))
        return task_result("shelved")


def job(now: Now, store: Store) -> CompiledGraph:
    """An entry that is a worker, and a chain from it to END."""
    return (
        Graph("job", entry=Fetch)
        .workers(Fetch(now), Clean(now), Shelve(now), Weigh(now))
        .edge(Fetch, Clean)
        .edge(Clean, Shelve)
        .edge(Shelve, END)
        .compile(store=store, model=Minds(now), durability=now.life.durability)
    )


JOB = ("ask Fetch 0", "fetch", "Weigh 4", "ask Fetch 1", "Clean", "Shelve")


class Gate(Actor, GraphNode[Box]):
    async def run(self, ctx: StageContext[Box]) -> Fanout[X | Y] | Finish:
        n = ctx.state.n
        said = await self.life.body(f"Gate {n}")
        if n == 3:
            return finish(said)
        ctx.save(Box(n, said))
        return fanout(X, Y)


class X(Actor, Worker[None, str]):
    async def run(self, ctx: Context[None]) -> TaskResult[str]:
        self.life.relies_on(f"Gate {ctx.read(Gate).n}", of="step")
        return task_result(await self.life.body(f"X {ctx.read(Gate).n}"))


class Y(Actor, Worker[None, str]):
    async def run(self, ctx: Context[None]) -> TaskResult[str]:
        self.life.relies_on(f"Gate {ctx.read(Gate).n}", of="step")
        return task_result(await self.life.body(f"Y {ctx.read(Gate).n}"))


class Meet(Actor, GraphNode[Box]):
    async def run(self, ctx: StageContext[Box]) -> Go[Gate]:
        n = ctx.read(Gate).n
        assert (ctx.result(X), ctx.result(Y)) == (token(f"X {n}"), token(f"Y {n}"))
        self.life.relies_on(f"X {n}", f"Y {n}", of="step")
        ctx.save(Box(ctx.state.n + 1, await self.life.body(f"Meet {n}")))
        return go(Gate).with_state(Box(n + 1))


def loop(now: Now, store: Store) -> CompiledGraph:
    """Gate → {X, Y} → Meet → Gate, for three rounds."""
    return (
        Graph("loop", entry=Gate)
        .stages(Gate(now), Meet(now))
        .workers(X(now), Y(now))
        .join((X, Y), to=Meet)
        .compile(store=store, durability=now.life.durability)
    )


LOOP = [*(f"{node} {n}" for n in range(3) for node in ("Gate", "X", "Y", "Meet")), "Gate 3"]


class East(Actor, Worker[Box, str]):
    @tool
    async def note(self, ctx: Context[Box]) -> Stay:
        """Note it."""
        return stay(await self.life.body("note East"))


class West(Actor, Worker[Box, str]):
    @tool
    async def note(self, ctx: Context[Box]) -> Stay:
        """Note it."""
        return stay(await self.life.body("note West"))


class Parts(Actor, GraphNode[Box]):
    async def run(self, ctx: StageContext[Box]) -> Fanout[East | West]:
        ctx.save(Box(0, await self.life.body("Parts")))
        return fanout(East, West)


class Meets(Actor, GraphNode[None]):
    async def run(self, ctx: StageContext[None]) -> Direct:
        return direct(f"{ctx.result(East)} {ctx.result(West)} {await self.life.body('Meets')}")


def sides(now: Now, store: Store) -> CompiledGraph:
    """Two branches with a tool each, side by side."""
    return (
        Graph("sides", entry=Parts)
        .stages(Parts(now), Meets(now))
        .workers(East(now), West(now))
        .join((East, West), to=Meets)
        .compile(store=store, model=Minds(now), durability=now.life.durability)
    )


SIDES = (
    "Parts",
    *(f"{body}" for side in ("East", "West") for body in (f"ask {side} 0", f"note {side}", f"ask {side} 1")),
    "Meets",
)

# ------------------------------------------------------------------------------------------------ a kill at every point


@frozen
class Case:
    """A graph, what it is told, and what an undisturbed turn of it comes to.

    Attributes:
        program: Makes the graph.
        message: What the customer says, or None.
        bodies: What is entered, each once.
        commits: Those of an undisturbed turn, by durability: a step publishes once, a finished call is noted once.
        inside: Of a worker's loop, whose messages are private, what says that they are done.
    """

    program: Program
    message: str | None
    bodies: tuple[str, ...]
    commits: dict[str, int]
    inside: Mapping[str, str] = MappingProxyType({})

    def story(self, bytes_: Bytes | None = None, **options: Any) -> Story:
        return Story(self.program, bytes_ or InMemory(), self.message, inside=self.inside, **options)


CASES = {
    # The calls: three of the desk, four called workers, three to wrap.  The steps: the desk, 3 + 3 + 1, the report,
    # where those that end in the same turn of the loop are one write.
    "parcels": Case(
        Program(parcels),
        "go",
        tuple(PARCELS),
        {"call": 7 + 3 + 6, "step": 5},
        {body: f"ask Pack {n} 1" for n in range(3) for body in (f"wrap {n}", f"ask Pack {n} 0")},
    ),
    "diamond": Case(Program(diamond), "go", ("Opens", *BRANCHES, "Closes"), {"call": 6, "step": 6}),
    "job": Case(
        Program(job),
        None,
        JOB,
        {"call": 2 + 3, "step": 3},
        dict.fromkeys(("fetch", "Weigh 4", "ask Fetch 0"), "ask Fetch 1"),
    ),
    "loop": Case(Program(loop), "go", tuple(LOOP), {"call": 10, "step": 10}),
    "sides": Case(
        Program(sides),
        "go",
        SIDES,
        {"call": 2 + 4, "step": 4},
        {body: f"ask {side} 1" for side in ("East", "West") for body in (f"note {side}", f"ask {side} 0")},
    ),
}
NAMES = ("parcels", "diamond", "job", "loop")


def undisturbed(case: Case, durability: str = "call") -> tuple[Session, Life]:
    """The session and the one life of a turn that nothing befell; each body was entered once."""
    story = case.story(durability=durability).told()
    session, _ = story.look()
    assert session is not None
    assert story.entered == Counter(case.bodies)
    (life,) = story.lives
    assert isinstance(life.outcome, Turn)
    assert life.commits == session.revision == case.commits[durability]
    return session, life


def judge(story: Story, case: Case, expected: Session) -> None:
    """The end is as if nothing had happened; each body was entered once, and once more where it was in flight."""
    told = [life.at for life in story.lives]
    session, unfinished = story.look()
    assert isinstance(story.lives[-1].outcome, Turn), (told, story.lives[-1].outcome)
    assert session is not None
    assert session == expected, told
    assert (session.errors, session.journal, unfinished) == ((), {}, ()), told
    assert story.entered == Counter(case.bodies) + story.lost, told


def seconds(first: int, points: int, stride: int) -> range:
    """A sample of second points: over all first ones every remainder has its turn."""
    return range(1 + first % stride, points + 1, stride)


@pytest.mark.parametrize("durability", ["call", "step"])
@pytest.mark.parametrize("name", NAMES)
def test_l3_killed_at_any_await_and_around_any_commit(name: str, durability: str) -> None:
    """What is not in the bytes is gone; a new executor goes on from them.  Rules F2, G6, L3."""
    case = CASES[name]
    expected, life = undisturbed(case, durability)
    points, commits = life.points.total(), life.commits
    visited = 0
    for at in range(1, points + 1):
        story = case.story(durability=durability).told(at)
        visited += story.lives[0].killed
        judge(story, case, expected)
    assert (life.points["before commit"], life.points["after commit"]) == (commits, commits)
    # A body waits once; a commit on both sides, and so does the branch or driver that waits for it.
    assert life.points["await"] >= len(case.bodies) + 2 * commits
    assert visited == points >= 4 * commits + len(case.bodies)


@pytest.mark.parametrize("name", NAMES)
def test_l3_killed_twice_in_a_row(name: str) -> None:
    """A second kill inside the recovery from the first: at any await, around any commit.  Rule L3."""
    case = CASES[name]
    expected, life = undisturbed(case)
    points, twice = life.points.total(), 0
    stride = max(1, points * points // 250)
    for at in range(1, points + 1):
        for then in seconds(at, points, stride):
            story = case.story().told(at, then)
            judge(story, case, expected)
            if len(story.lives) < 3:
                break  # the recovery has no such point
            twice += 1
    assert twice >= 100


@pytest.mark.parametrize("name", ["diamond", "job"])
def test_l3_killed_twice_around_any_two_commits(name: str) -> None:
    """Every pair there is.  Rule L3."""
    case = CASES[name]
    expected, life = undisturbed(case)
    twice = 0
    for at in range(1, 2 * life.commits + 1):
        for then in count(1):
            story = case.story(kinds=COMMITS).told(at, then)
            judge(story, case, expected)
            if len(story.lives) < 3:
                break
            twice += 1
    # Killed when k commits stood, the recovery has one of its own and those that are left; none where none is left.
    stood = [at // 2 for at in range(1, 2 * life.commits + 1)]
    assert twice == sum(2 * (life.commits - k + (k > 0)) for k in stood if k < life.commits)


@pytest.mark.parametrize("name", NAMES)
def test_l3_killed_between_any_two_statements_of_a_file(name: str, tmp_path: Path) -> None:
    """The files as they lie on the disk are all that a new process has; a third compile their graph.  L3, L6."""
    case = CASES[name]
    expected, _ = undisturbed(case)
    visited = 0
    while True:
        folder = tmp_path / str(visited)
        folder.mkdir()
        story = case.story(File(folder), kinds=STATEMENTS, anew=visited % 3 == 0).told(visited + 1)
        judge(story, case, expected)
        if not story.lives[0].killed:
            break
        visited += 1
    # Each commit is one statement.  Before the first of them, the file is made: in six at least.
    assert visited >= 2 * (case.commits["call"] + 6)


def test_l3_killed_twice_over_a_file(tmp_path: Path) -> None:
    """At any suspension or statement, and at some later one.  Rule L3."""
    case = CASES["parcels"]
    expected, _ = undisturbed(case)
    twice = 0
    for at in count(1, 3):
        folder = tmp_path / str(at)
        folder.mkdir()
        story = case.story(File(folder), kinds=AWAITS + STATEMENTS).told(at, 1 + at * 7 % 45)
        judge(story, case, expected)
        if not story.lives[0].killed:
            break
        twice += len(story.lives) == 3
    assert twice >= case.commits["call"]


@pytest.mark.parametrize("name", NAMES)
def test_g3_cancelled_at_any_await(name: str) -> None:
    """The turn's own cancellation reaches the caller, no task outlives it, and what was done stays done."""
    case = CASES[name]
    expected, life = undisturbed(case)
    visited = 0
    for at in range(1, life.points["await"] + 1):
        story = case.story(kinds=AWAITS, cancels=True).told(at)
        first = story.lives[0]
        assert first.struck, at
        assert isinstance(first.outcome, asyncio.CancelledError), (at, first.outcome)
        visited += 1
        judge(story, case, expected)
    assert visited >= 2 * life.commits + len(case.bodies)


def test_g6_wherever_it_was_killed_the_session_names_what_is_missing_and_nothing_that_is_done() -> None:
    """A branch that has not finished is named once, one that has is not.  Rules E5, G6."""
    case = CASES["diamond"]
    points = undisturbed(case)[1].points.total()
    seen: set[int] = set()
    for at in range(1, points + 1):
        story = case.story()
        assert story.begin(at).killed
        text, (_, left) = story.found[0], story.look()
        if token("Opens") not in text:
            assert left == ()
        elif token("Last") in text:
            assert left == (() if token("Closes") in text else ("Closes was entered and has not finished",))
        else:
            missing = [name for name in BRANCHES if token(name) not in text]
            named = [line.removeprefix("branch ").split()[0].rstrip(",") for line in left]
            assert sorted(named) == sorted([*missing, "Closes"])
            assert left[-1] == "Closes waits to be joined"
            seen.add(len(missing))
    assert seen == {1, 2, 3, 6}  # branches that end in the same turn of the loop are one write


# --------------------------------------------------------------------------------------------------- what runs again


@pytest.mark.parametrize(("durability", "again"), [("call", 1), ("step", 2)])
def test_f2_a_finished_call_runs_again_under_step_and_never_under_call(durability: str, again: int) -> None:
    """Calls and called workers that were done when their step was killed; what was in flight runs again.  Rule L3."""
    done = ("look", "Weigh 1", "compare", "Weigh 2", "Weigh 3")
    case = CASES["parcels"]
    _, life = undisturbed(case, durability)
    most: Counter[str] = Counter()
    visited, journalled = [0, 0], 0
    for at in range(1, life.points.total() + 1):
        story = case.story(durability=durability)
        first, (left, _) = story.begin(at), story.look()
        if left is not None and left.activation is not None:
            journalled += len(left.journal)
            assert not left.journal.keys() & left.activation.rows.keys(), "a row drops its journal"
        assert isinstance(story.begin(0).outcome, Turn)
        text = story.found[0]
        most |= story.entered
        if first.entered["send"] and token("send") not in text:  # in the desk's second message
            visited[0] += 1
            assert {key: story.entered[key] for key in done} == dict.fromkeys(done, again)
            assert story.entered["send"] == 2
        if first.entered["ask Pack 1 1"] and token("ask Pack 1 1") not in text:  # a box is wrapped, and not packed
            visited[1] += 1
            assert (story.entered["wrap 1"], story.entered["ask Pack 1 1"]) == (again, 2)
            assert story.entered["Pick 1"] == 1
    assert min(visited) >= 2
    assert (journalled > 0) == (durability == "call")
    assert set(most.values()) == {2}, "each body was in flight at some kill"


# ------------------------------------------------------------------------------------------- failures and other orders


def breaking(life: Life, _: int) -> None:
    """Prepares a life in which Long raises."""
    life.broken.add("Long")


@pytest.mark.parametrize("kept", ["texts", "file"])
def test_f12_a_branch_that_failed_runs_again_and_nothing_else(kept: str, tmp_path: Path) -> None:
    """FIELD F12: Short is fine, Long fails the first time; Short ran once, Long twice, the joins once.  Rule E5."""
    case = CASES["diamond"]
    expected, _ = undisturbed(case)
    story = case.story(File(tmp_path) if kept == "file" else None, anew=True)
    first = story.begin(0, breaking)
    assert isinstance(first.outcome, BranchFailed)
    assert [failure.node for failure in first.outcome.failures] == ["Long"]
    assert story.look()[1] == (
        "branch Long, opened by Opens, failed",
        "Longer waits for Long",
        "Foot waits for Longer",
        "Last waits for Foot",
        "Closes waits to be joined",
    )
    assert isinstance(story.begin(0).outcome, Turn)
    assert story.entered == Counter(case.bodies) + Counter(["Long"])
    assert story.look() == (expected, ())


def test_f12_killed_at_any_point_of_the_failing_turn_or_of_its_recovery() -> None:
    """FIELD F12, with a kill: what finished beside the failure is kept however the process ended.  Rules E5, L3."""
    case = CASES["diamond"]
    expected, _ = undisturbed(case)
    whole = case.story()
    points = [whole.begin(0, breaking).points.total(), whole.begin(0).points.total()]
    visited = [0, 0]
    for at in range(1, points[0] + 1):  # in the failing turn
        story = case.story()
        visited[0] += story.begin(at, breaking).killed
        assert isinstance(story.begin(0).outcome, Turn)
        assert story.look() == (expected, ()), at
        assert story.entered == Counter(case.bodies) + story.lost, at
    for at in range(1, points[1] + 1):  # in its recovery
        story = case.story()
        assert isinstance(story.begin(0, breaking).outcome, BranchFailed)
        visited[1] += story.begin(at).killed
        assert isinstance(story.begin(0).outcome, Turn)
        assert story.look() == (expected, ()), at
        assert story.entered == Counter(case.bodies) + Counter(["Long"]) + story.lost, at
    assert visited == points
    assert min(points) >= 20


def test_f14_a_join_in_a_loop_meets_once_a_round_whatever_is_killed() -> None:
    """FIELD F14: the join ran three times, with two inputs each; `Meet` judges its inputs itself.  Rule E3."""
    case = CASES["loop"]
    expected, life = undisturbed(case)
    meetings = 0
    for at in range(1, 2 * life.commits + 1):
        story = case.story(kinds=COMMITS).told(at)
        judge(story, case, expected)
        meetings += sum(story.entered[f"Meet {n}"] for n in range(3))
    assert expected.cells["Meet"] == Box(3, token("Meet 2"))
    # Killed just before the commit of a meeting, and only then, that meeting is held once more.
    assert meetings == 3 * 2 * life.commits + 3


@pytest.mark.parametrize(
    ("name", "pair"),
    [
        pytest.param("parcels", ("Weigh 2", "Weigh 3"), id="call_all"),
        pytest.param("parcels", ("Pick 0", "Pick 2"), id="items"),
        pytest.param("parcels", ("wrap 0", "wrap 2"), id="calls of items"),
        pytest.param("sides", ("note East", "note West"), id="calls of branches"),
        pytest.param("diamond", ("Short", "Long"), id="branches"),
    ],
)
@pytest.mark.parametrize("turned", ["as it is", "turned"])
def test_d1_recorded_in_one_order_and_replayed_in_the_other(name: str, pair: tuple[str, str], turned: str) -> None:
    """FIELD D1: two at once; the one that was kept is not entered again, the other once; no error.  Rules E11, L7."""
    case = CASES[name]
    first = pair[::-1] if turned == "turned" else pair
    expected, life = undisturbed(case)
    kept: Counter[tuple[bool, bool]] = Counter()

    def order(life: Life, number: int) -> None:
        life.order = first if number == 0 else first[::-1]

    for at in range(1, 2 * life.commits + 1):
        story = case.story(kinds=COMMITS).told(at, prepare=order)
        kept[token(first[0]) in story.found[0], token(first[1]) in story.found[0]] += 1
        judge(story, case, expected)
    assert kept[False, True] == 0, "the order is the one that was asked for"
    assert min(kept[False, False], kept[True, False], kept[True, True]) >= 2


# ------------------------------------------------------------------------------------------------- what never returns


class Slow(Worker[Box, str]):
    """Never returns."""

    def __init__(self, entered: asyncio.Event, stopped: list[str]) -> None:
        self.entered, self.stopped = entered, stopped

    async def run(self, ctx: Context[Box]) -> TaskResult[str]:
        try:
            self.entered.set()
            await asyncio.Event().wait()
        finally:
            self.stopped.append(f"Slow {ctx.state.n}")
        return task_result("never")


class Quick(Worker[Box, str]):
    async def run(self, ctx: Context[Box]) -> TaskResult[str]:
        return task_result("quick")


class Starts(GraphNode[None]):
    def run(self, ctx: StageContext[None]) -> Fanout[Quick | Slow]:
        return fanout(Quick, Slow)


class Scatters(GraphNode[None]):
    def run(self, ctx: StageContext[None]) -> Fanout[Slow]:
        return scatter(Slow, [Box(1), Box(2)])


class Calls(GraphNode[None]):
    async def run(self, ctx: StageContext[None]) -> Direct:
        return direct(" ".join(await ctx.call_all(Slow, [Box(1), Box(2)])))


class Stops(GraphNode[None]):
    def run(self, ctx: StageContext[None]) -> Finish:
        return finish("done")


def never_returns(entry: Any, slow: Any) -> Graph[None]:
    graph = Graph("never", entry=entry).workers(slow)
    if entry is Calls:
        return graph
    if entry is Starts:
        return graph.stages(Stops).workers(Quick).join((Quick, Slow), to=Stops)
    return graph.stages(Stops).edge(Slow, Stops)


async def waits(entered: asyncio.Event) -> None:
    """Until the slow one is entered, and all that is quick has been done."""
    await entered.wait()
    await idle()


@pytest.mark.parametrize(
    ("entry", "stopped", "unfinished"),
    [
        (Starts, ["Slow 0"], ("branch Slow, opened by Starts, has not finished", "Stops waits to be joined")),
        (
            Scatters,
            ["Slow 1", "Slow 2"],
            ("of the 2 items of Slow, opened by Scatters, 2 have not finished", "Stops waits to be joined"),
        ),
        (Calls, ["Slow 1", "Slow 2"], None),
    ],
)
@pytest.mark.parametrize("how", ["cancelled", "timed out", "stream closed"])
def test_g3_what_never_returns_leaks_no_task_and_is_named(
    entry: Any, stopped: list[str], unfinished: tuple[str, ...] | None, how: str
) -> None:
    """Only an end from outside ends it; then nothing runs on, and new input is told what is unfinished.  Rule G6."""

    async def main() -> None:
        entered, ended = asyncio.Event(), list[str]()
        app = never_returns(entry, Slow(entered, ended)).compile()
        if how == "cancelled":
            task = await stopped_when(waits(entered), partial(app.ainvoke, "go", session="s"))
            assert task.cancelled()
        elif how == "timed out":
            turn = asyncio.ensure_future(app.ainvoke("go", session="s"))
            await waits(entered)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(turn, 0)
        else:
            async with app.astream("go", session="s") as events:
                reading = asyncio.ensure_future(anext(aiter(events)))
                await waits(entered)
                reading.cancel()
                await asyncio.wait({reading})
        assert sorted(ended) == stopped
        assert no_other_task()
        if unfinished is None:  # nothing was committed: there is no session yet
            with pytest.raises(UnknownSession):
                await app.aload("s")
            return
        assert app.unfinished(await app.aload("s")) == unfinished
        with pytest.raises(UnfinishedWork, match=unfinished[0]) as refused:
            await app.ainvoke("well?", session="s")
        assert refused.value.work == unfinished

    asyncio.run(main())


@pytest.mark.parametrize("entry", [Starts, Scatters])
def test_g6_what_never_returned_can_be_abandoned(entry: Any) -> None:
    async def main() -> None:
        entered = asyncio.Event()
        app = never_returns(entry, Slow(entered, [])).compile()
        assert (await stopped_when(entered.wait(), partial(app.ainvoke, "go", session="s"))).cancelled()
        session = await app.aabandon("s")
        assert (app.unfinished(session), session.head.cursor) == ((), entry.__name__)
        entered.clear()
        assert (await stopped_when(entered.wait(), partial(app.ainvoke, "again", session="s"))).cancelled()
        assert app.unfinished(await app.aload("s"))[-1] == "Stops waits to be joined"
        assert no_other_task()

    asyncio.run(main())


def test_g3_cancelled_twice_a_turn_still_leaks_no_task() -> None:
    """A second cancellation while the first is being carried out.  Rule G3."""

    async def main() -> None:
        entered, ended = asyncio.Event(), list[str]()
        app = never_returns(Scatters, Slow(entered, ended)).compile()
        for rounds in range(6):
            entered.clear()
            ended.clear()
            turn = asyncio.ensure_future(app.ainvoke("go", session=f"s{rounds}"))
            await waits(entered)
            turn.cancel()
            await idle(rounds)
            turn.cancel()
            await asyncio.wait({turn})
            assert turn.cancelled()
            assert no_other_task()
            assert sorted(ended) == ["Slow 1", "Slow 2"]

    asyncio.run(main())
