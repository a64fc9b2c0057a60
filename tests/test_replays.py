"""What a step that was stopped finds in its journal, and when a journal is gone.  Rules D1, E11, E12, F2, G6, L3."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import pytest
from attrs import field, frozen
from faults import Crash
from hypothesis import given, strategies as st
from kept import journals
from strategies import messages, usages

from ezgraph import (
    END,
    BranchFailed,
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
    StepFailed,
    TaskResult,
    ToolCall,
    Turn,
    UnknownSession,
    Usage,
    Worker,
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
from ezgraph.algebra.journalling import meant, told
from ezgraph.models import ModelReply, ModelRequest
from ezgraph.responses import Response
from ezgraph.runtime.compiled import CompiledGraph
from ezgraph.runtime.executor import Executor
from ezgraph.session import Session
from ezgraph.stores.memory import MemoryStore

ENTERED: Counter[str] = Counter()
"""Bodies entered, over all lives of a session."""

CRASHES: set[str] = set()
"""Where the process ends; each once."""

RAISES: set[str] = set()
"""What raises when it is entered; each once."""


@pytest.fixture(autouse=True)
def _fresh() -> None:
    for record in (ENTERED, CRASHES, RAISES):
        record.clear()


def entered(who: str) -> None:
    ENTERED[who] += 1
    if who in CRASHES:
        CRASHES.remove(who)
        raise Crash
    if who in RAISES:
        RAISES.remove(who)
        raise ValueError(f"{who} is broken")


@frozen
class Note:
    """A number that somebody wrote, and what stood before it."""

    n: int = 0
    over: tuple[int, ...] = ()


# ------------------------------------------------------------------------------ every response, of a tool that finished


class Desk(Conversation[Note]):
    """Its model calls `answer` and `rest` in one message, and then says that it is done.

    Attributes:
        answers: What `answer` gives.
        requests: What its model was asked, in all lives.
    """

    def __init__(self) -> None:
        self.model = self
        self.answers: Callable[[], Any] = lambda: stay("")
        self.requests: list[ModelRequest] = []

    async def respond(self, request: ModelRequest) -> ModelReply:
        self.requests.append(request)
        if any(message.calls for message in request.messages):
            return ModelReply("done", usage=Usage(10, 1, 1))
        return ModelReply("hm", (ToolCall("1", "answer"), ToolCall("2", "rest")), usage=Usage(20, 2, 1))

    @tool
    async def answer(
        self, ctx: StageContext[Note]
    ) -> (
        Stay
        | Go[Aside | Open]
        | DirectTo[Aside]
        | Fanout[Left | Right]
        | Fanout[Each]
        | Direct
        | Finish
        | TaskResult[tuple[Note, ...]]
    ):
        """Answer."""
        entered("answer")
        ctx.save(Note(3))
        ctx.append(Aside, user("from the desk"))
        return self.answers()  # type: ignore[no-any-return]

    @tool
    async def rest(self, ctx: StageContext[Note]) -> Stay:
        """Rest."""
        entered("rest")
        ctx.save(Note(ctx.state.n + 1, (ctx.state.n,)))
        return stay("rested").with_messages([user("after the rest")])

    def on_exit(self, ctx: StageContext[Note], outcome: object) -> None:
        entered("exit")


class Aside(GraphNode[Note]):
    """Has a history of its own, and replies with all that it was handed."""

    history = "aside"

    def run(self, ctx: StageContext[Note]) -> Direct:
        return direct(f"{ctx.state} {ctx.incoming}")


class Open(GraphNode[None]):
    """Shares the desk's history."""

    def run(self, ctx: StageContext[None]) -> Direct:
        return direct(f"{[message.text for message in ctx.history]} {ctx.incoming}")


class Left(Worker[Note, int]):
    async def run(self, ctx: Context[Note]) -> TaskResult[int]:
        return task_result(ctx.read(Desk).n)


class Right(Worker[Note, int]):
    async def run(self, ctx: Context[Note]) -> TaskResult[int]:
        return task_result(2)


class Each(Worker[Note, Note]):
    """Runs once for each note."""

    async def run(self, ctx: Context[Note]) -> TaskResult[Note]:
        return task_result(Note(ctx.state.n + 1, ctx.state.over))


def office(desk: Desk) -> Graph[None]:
    graph = Graph("office", entry=Desk).stages(desk, Aside, Open).workers(Left, Right, Each)
    return graph.join((Left, Right), to=Aside).join((Each,), to=Aside)


DESK = Desk()


@cache
def executor() -> Executor:
    """Of the office: to compile it takes longer than to run it."""
    return office(DESK).compile()._executor


SPENT = Usage(3, 5, 7)
SHOWN = (user("a picture"), user("another"))

ANSWERS: dict[str, Callable[[], Response[Any]]] = {
    "stay": lambda: stay("look again"),
    "stay, empty": lambda: stay(""),
    "stay, messages": lambda: stay("look").with_messages(SHOWN).with_usage(SPENT),
    "stay, feedback": lambda: stay("look").with_tool_feedback("looked").with_cleanup(lambda: None),
    "go": lambda: go(Aside),
    "go, here": lambda: go(Open).with_message("over to you"),
    "go, message": lambda: go(Aside).with_message("take over"),
    "go, a customer's message": lambda: go(Aside).with_message(user("take over")),
    "go, state": lambda: go(Aside).with_state(Note(8, (1, 2))),
    "go, all": lambda: (
        go(Aside)
        .with_state(Note())
        .with_message("take over")
        .with_usage(SPENT)
        .with_tool_feedback("gone")
        .with_messages(SHOWN)
    ),
    "direct_to": lambda: direct_to(Aside, "wait there"),
    "direct_to, all": lambda: (
        direct_to(Aside, "wait there")
        .with_state(Note(9))
        .with_message("they come")
        .with_usage(SPENT)
        .with_tool_feedback("sent")
        .with_messages(SHOWN)
    ),
    "fanout": lambda: fanout(Left, Right),
    "fanout, all": lambda: fanout(Right, Left).with_usage(SPENT).with_tool_feedback("opened").with_messages(SHOWN),
    "scatter": lambda: scatter(Each, [Note(1), Note(2, (5,)), Note(1)]),
    "scatter, all": lambda: scatter(Each, [Note(4)]).with_usage(SPENT).with_tool_feedback("dealt").with_messages(SHOWN),
    "scatter, nothing": lambda: scatter(Each, []).with_usage(SPENT),
    "direct": lambda: direct("as it is"),
    "direct, all": lambda: direct("as it is").with_usage(SPENT).with_tool_feedback("told").with_messages(SHOWN),
    "finish": lambda: finish("goodbye"),
    "finish, all": lambda: finish("bye").with_usage(SPENT).with_tool_feedback("ended").with_messages(SHOWN),
    "task_result": lambda: task_result((Note(6), Note(7, (1,)))),
    "task_result, all": lambda: (
        task_result((Note(6),)).with_usage(SPENT).with_tool_feedback("found").with_messages(SHOWN)
    ),
}


@frozen
class Lived:
    """What one session came to.

    Attributes:
        turn: The turn that ended.
        session: As it was left.
        asked: What the model was asked, the same request in two lives once.
    """

    turn: Turn
    session: Session
    asked: list[ModelRequest] = field(repr=False)


def lived(answers: Callable[[], Response[Any]], store: Any, crash: str | None) -> Lived:
    """One session, whose process ends at `crash` and which is then recovered."""
    DESK.answers, DESK.requests = answers, []
    made = executor()
    app = CompiledGraph(made.plan, Executor(made.plan, store, made.codec), None)
    if crash is None:
        turn = app.invoke("hello", session="s")
    else:
        CRASHES.add(crash)
        with pytest.raises(Crash):
            app.invoke("hello", session="s")
        assert [note.at for note in journals(app)["Desk", None] if note.outcome][:1] == ["call 0.0"]
        turn = app.recover("s")
    assert journals(app) == {}
    return Lived(turn, app.load("s"), [r for at, r in enumerate(DESK.requests) if r not in DESK.requests[:at]])


@pytest.mark.parametrize("crash", ["rest", "exit"])
@pytest.mark.parametrize("name", ANSWERS)
def test_l3_a_finished_call_counts_after_a_recovery_as_it_did_before(store: Any, name: str, crash: str) -> None:
    """Rules D1, F2: whatever it gave, with all that it carries; stopped in a later call of its message, or on exit."""
    undisturbed = lived(ANSWERS[name], MemoryStore(), None)
    ENTERED.clear()
    disturbed = lived(ANSWERS[name], store, crash)
    assert ENTERED["answer"] == 1, "the finished call was made again"
    assert ENTERED["rest"] == (2 if crash == "rest" else 1)
    assert disturbed == undisturbed


@pytest.mark.parametrize("name", [name for name in ANSWERS if name.endswith("all")])
def test_c_what_the_undisturbed_session_shows_of_a_response(name: str) -> None:
    """So that the sessions compared above differ where anything of a response is lost."""
    session = lived(ANSWERS[name], MemoryStore(), None).session
    assert session.usage["Desk"] == Usage(20, 2, 1) + SPENT
    texts = [message.text for message in session.histories["default"]]
    feedback = ANSWERS[name]().effects.feedback
    assert texts[:7] == ["hello", "hm", feedback, "rested", "a picture", "another", "after the rest"]


# ----------------------------------------------------------------------------------------- the same, over all responses

numbered = st.builds(Note, st.integers(), st.lists(st.integers(), max_size=2).map(tuple))
texts = st.text().filter(str.strip)
fanouts: st.SearchStrategy[Any] = st.sampled_from(
    [fanout(Left, Right), fanout(Right, Left), fanout(Each, Left, Right), fanout(Right, Each)]
)


def _routed(bare: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """With a state, a message, both or neither."""

    def built(made: Any, state: Note | None, message: Any) -> Any:
        made = made if state is None else made.with_state(state)
        return made if message is None else made.with_message(message)

    return st.builds(built, bare, st.none() | numbered, st.none() | messages | st.text())


def _carrying(bare: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """With any of the effects, cleanups among them."""

    def built(made: Any, usage: Usage | None, feedback: str | None, extra: Sequence[Any] | None) -> Any:
        made = made if usage is None else made.with_usage(usage)
        made = made if feedback is None else made.with_tool_feedback(feedback).with_cleanup(lambda: None)
        return made if extra is None else made.with_messages(extra)

    return st.builds(built, bare, st.none() | usages, st.none() | st.text(), st.none() | st.lists(messages, max_size=2))


responses: st.SearchStrategy[Response[Any]] = _carrying(
    st.one_of(
        st.text().map(stay),
        _routed(st.sampled_from([Aside, Open]).map(go)),
        _routed(st.builds(direct_to, st.sampled_from([Aside, Open]), texts)),
        fanouts,
        st.lists(numbered, max_size=3).map(lambda inputs: scatter(Each, inputs)),
        texts.map(direct),
        texts.map(finish),
        st.lists(numbered, max_size=2).map(tuple).map(task_result),
    )
)


@given(responses)
def test_f2_a_journal_says_what_a_tool_gave(response: Response[Any]) -> None:
    """Rule F2: all of it but the cleanups, which are of the process that has ended."""
    plan = executor().plan
    again = meant(plan, told(plan, plan.nodes["Desk"].tools["answer"], response))
    assert type(again) is type(response)
    assert again == response
    assert again.effects == response.effects
    assert again.effects.cleanups == ()


# ------------------------------------------------------------------------------------------------------- called workers


class Scale(Worker[Note, int]):
    """Weighs by the number on its caller's note."""

    async def run(self, ctx: Context[Note]) -> TaskResult[int]:
        entered("Scale")
        ctx.save(Note(ctx.state.n, (ctx.read(Shop).n,)))
        return task_result(ctx.state.n * ctx.read(Shop).n).with_usage(SPENT)


class Shop(GraphNode[Note]):
    """Calls once with what the session has, and again with what it has saved meanwhile."""

    async def run(self, ctx: StageContext[Note]) -> Direct:
        first = await ctx.call(Scale, Note(10))
        ctx.save(Note(ctx.state.n + 2))
        second = await ctx.call(Scale, Note(100))
        entered("Shop")
        return direct(f"{first} {second}")


def shop(store: Any = None, **options: Any) -> CompiledGraph:
    return Graph("shop", entry=Shop).workers(Scale).compile(store=store, **options)


def test_e11_a_called_worker_sees_what_its_caller_has_staged(store: Any) -> None:
    """Rule E11, turn after turn: what is published, and then what is only staged."""
    app = shop(store)
    assert app.invoke("x", session="s").reply == "0 200"
    assert app.invoke("x", session="s").reply == "20 400"
    assert app.load("s").cells == {"Shop": Note(4), "Scale": Note(100, (4,))}


@pytest.mark.parametrize("times", [1, 2])
def test_e11_a_called_worker_that_a_journal_has_leaves_what_it_left(store: Any, times: int) -> None:
    """Rules F2, L3: output, state and what it spent are as if nothing had happened, however often it is read."""

    def twice(app: CompiledGraph, crashes: int) -> tuple[Turn, Session]:
        app.invoke("x", session="s")
        CRASHES.update(["Shop"] * bool(crashes))
        if crashes:
            with pytest.raises(Crash):
                app.invoke("x", session="s")
        for _ in range(crashes - 1):
            CRASHES.add("Shop")
            with pytest.raises(Crash):
                app.recover("s")
        turn = app.recover("s") if crashes else app.invoke("x", session="s")
        return turn, app.load("s")

    undisturbed = twice(shop(), 0)
    ENTERED.clear()
    turn, session = twice(shop(store), times)
    assert (turn, session) == undisturbed
    assert session.usage == {"Scale": SPENT + SPENT + SPENT + SPENT}
    assert turn.usage == SPENT + SPENT
    assert {"Scale": 4, "Shop": 2 + times} == ENTERED


# ----------------------------------------------------------------------------------------------- when a journal is gone


class Script(Conversation[Note]):
    """Its model calls `look` for each word of the customer's last message, in one message."""

    def __init__(self) -> None:
        self.model = self

    async def respond(self, request: ModelRequest) -> ModelReply:
        last = request.messages[-1]
        if last.role == "tool":
            return ModelReply("done")
        given = enumerate(last.text.split())
        return ModelReply(calls=tuple(ToolCall(str(at), "look", f'{{"word": "{word}"}}') for at, word in given))

    @tool
    async def look(self, ctx: StageContext[Note], word: str) -> Stay:
        """Look a word up."""
        entered(word)
        ctx.save(Note(ctx.state.n + 1))
        return stay(f"found {word}")


class Door(GraphNode[None]):
    """Passes on what was said, in a step of its own."""

    def run(self, ctx: StageContext[None]) -> Go[Script]:
        return go(Script)


@pytest.mark.parametrize("step", ["first", "second"])
def test_g6_the_next_input_does_not_find_the_journal_of_a_step_that_raised(store: Any, step: str) -> None:
    """Rules F2, G4, G6: the turn's first step that raised is undone; a later one is still entered, for `arecover`."""
    graph = Graph("g", entry=Door).stages(Script) if step == "second" else Graph("g", entry=Script)
    app = graph.compile(store=store)
    RAISES.add("three")
    with pytest.raises(StepFailed, match="three is broken"):
        app.invoke("one two three", session="s")
    assert list(journals(app)) == ([("Script", None)] if step == "second" else [])
    CRASHES.add("five")
    with pytest.raises(Crash):
        app.invoke("four five six", session="s")
    noted = journals(app)["Script", None]
    assert [note.at for note in noted] == ["enter", "prompt", "reply 0", "call 0.0"]
    assert next(call.arguments for note in noted for call in note.calls) == '{"word": "four"}'
    turn = app.recover("s")
    assert turn.reply == "done"
    assert ENTERED == {"one": 1, "two": 1, "three": 1, "four": 1, "five": 2, "six": 1}
    session = app.load("s")
    assert app.read(session, Script) == Note(3)
    said = [message.text for message in session.histories["default"]][-6:]
    assert said == ["four five six", "", "found four", "found five", "found six", "done"]
    assert journals(app) == {}


def test_g6_a_step_that_raised_after_it_was_entered_anew_finds_its_journal(store: Any) -> None:
    """Rule G6: `arecover`, unlike new input, goes on from it."""
    app = Graph("g", entry=Door).stages(Script).compile(store=store)
    RAISES.add("two")
    with pytest.raises(StepFailed, match="two is broken"):
        app.invoke("one two", session="s")
    assert app.recover("s").reply == "done"
    assert ENTERED == {"one": 1, "two": 2}
    assert journals(app) == {}


def test_f2_a_later_step_that_publishes_drops_its_journal(store: Any) -> None:
    app = Graph("g", entry=Door).stages(Script).compile(store=store)
    assert app.invoke("one two", session="s").reply == "done"
    assert ENTERED == {"one": 1, "two": 1}
    assert journals(app) == {}


def test_g4_a_first_step_that_raises_leaves_no_journal(store: Any) -> None:
    """Rules F2, G4: its input is not in the history, and what it noted is not in the store."""
    app = Graph("g", entry=Script).compile(store=store)
    assert app.invoke("zero", session="s").reply == "done"
    before = app.load("s")
    RAISES.add("two")
    with pytest.raises(StepFailed, match="two is broken"):
        app.invoke("one two", session="s")
    assert journals(app) == {}
    assert app.load("s") == before
    assert app.unfinished(app.load("s")) == ()


def test_g4_a_first_step_that_raises_on_recovery_leaves_no_journal(store: Any) -> None:
    app = Graph("g", entry=Script).compile(store=store)
    CRASHES.add("two")
    with pytest.raises(Crash):
        app.invoke("one two", session="s")
    assert list(journals(app)) == [("Script", None)]
    RAISES.add("two")
    with pytest.raises(StepFailed, match="two is broken"):
        app.recover("s")
    assert journals(app) == {}
    assert app.unfinished(app.load("s")) == ()
    assert "default" not in app.load("s").histories


class Deals(GraphNode[None]):
    def run(self, ctx: StageContext[None]) -> Fanout[One | Two] | Fanout[One]:
        assert ctx.incoming is not None
        return fanout(One, Two) if ctx.incoming.text == "both" else scatter(One, [Note(1), Note(2)])


class One(Worker[Note, int]):
    async def run(self, ctx: Context[Note]) -> TaskResult[int]:
        weight = await ctx.call(Stone, Note(4))
        entered("One")
        return task_result(weight)


class Two(Worker[Note, int]):
    async def run(self, ctx: Context[Note]) -> TaskResult[int]:
        weight = await ctx.call(Stone, Note(5))
        entered("Two")
        return task_result(weight)


class Stone(Worker[Note, int]):
    async def run(self, ctx: Context[Note]) -> TaskResult[int]:
        entered(f"Stone {ctx.state.n}")
        return task_result(ctx.state.n)


class Thrower(GraphNode[None]):
    """Joins, and raises."""

    def run(self, ctx: StageContext[None]) -> Finish:
        entered("Thrower")
        return finish("joined")


@pytest.mark.parametrize("message", ["both", "each"])
def test_f2_the_write_that_closes_an_activation_drops_the_last_branchs_journal(store: Any, message: str) -> None:
    """Its row is not written by itself: it is merged."""
    graph = Graph("g", entry=Deals).workers(One, Two, Stone).edge(One, END).edge(Two, END)
    app = graph.compile(store=store)
    turn = app.invoke(message, session="s")
    assert (turn.status, turn.cursor) == ("idle", "Deals")
    assert sum(count for who, count in ENTERED.items() if who.startswith("Stone")) == 2, "each branch noted a call"
    assert journals(app) == {}


def test_f2_a_stage_that_is_joined_and_raises_has_no_journal_of_a_branch(store: Any) -> None:
    graph = Graph("g", entry=Deals).stages(Thrower).workers(One, Two, Stone)
    app = graph.join((One, Two), to=Thrower).compile(store=store)
    RAISES.update({"Thrower", "Two"})
    with pytest.raises(BranchFailed, match="Two is broken"):
        app.invoke("both", session="s")
    assert list(journals(app)) == [("Two", None)], "a row drops its own journal, and no other"
    with pytest.raises(StepFailed, match="Thrower is broken"):
        app.recover("s")
    assert ENTERED == {"Stone 4": 1, "Stone 5": 1, "One": 1, "Two": 2, "Thrower": 1}
    assert journals(app) == {}


@pytest.mark.parametrize("after", ["END", "Thrown"])
def test_e12_the_write_that_opens_a_job_drops_its_entrys_journal(store: Any, after: str) -> None:
    """Rules E12, F2: it is the entry's row, too, whether or not a worker comes after it."""
    graph = Graph("job", entry=One).workers(Stone)
    graph = graph.edge(One, END) if after == "END" else graph.workers(Thrown).edge(One, Thrown).edge(Thrown, END)
    app = graph.compile(store=store)
    CRASHES.add("One")
    with pytest.raises(Crash):
        app.invoke(session="s")
    assert list(journals(app)) == [("One", None)]
    if after == "Thrown":
        CRASHES.add("Thrown")
        with pytest.raises(Crash):
            app.recover("s")
        assert journals(app) == {}
        assert app.unfinished(app.load("s")) == ("branch Thrown, opened by One, has not finished",)
    assert app.recover("s").status == "completed"
    assert {"Stone 4": 1, "One": 2, "Thrown": 2 * (after == "Thrown")} == {"Thrown": 0, **ENTERED}
    assert journals(app) == {}


class Thrown(Worker[Note, int]):
    """Comes after a job's entry."""

    async def run(self, ctx: Context[Note]) -> TaskResult[int]:
        entered("Thrown")
        return task_result(ctx.result(One))


def test_l3_a_session_that_ended_before_its_first_write_was_never_begun(store: Any) -> None:
    """Rule L3: where nothing had finished there is nothing to go on from."""
    app = Graph("job", entry=One).workers(Stone).edge(One, END).compile(store=store)
    CRASHES.add("Stone 4")
    with pytest.raises(Crash):
        app.invoke(session="s")
    with pytest.raises(UnknownSession):
        app.load("s")
    assert app.invoke(session="s").status == "completed"
