"""The laws of a batch: collected without order, decided once.  Rules D3 and D5, by hypothesis."""

from __future__ import annotations

from typing import Any

import pytest
from desk import Left, Note, Other, Right
from hypothesis import given, strategies as st

from ezgraph import (
    Context,
    Finish,
    GraphNode,
    StageContext,
    ToolCall,
    Usage,
    Worker,
    direct,
    direct_to,
    fanout,
    finish,
    go,
    instruction,
    stay,
    task_result,
    user,
)
from ezgraph.algebra.batch import NOTHING, Conflict, Ended, Summary, collect, decide, summarise, summary_of
from ezgraph.algebra.results import ACCEPTED, CONFLICT, ENDED, NEUTRAL, fresh_ids, results_of
from ezgraph.responses import RESPONSES, Go


class Next(GraphNode[None]):
    def run(self, ctx: StageContext[None]) -> Finish:
        return finish("next")


class Third(Worker[None, str]):
    def run(self, ctx: Context[None]) -> None:
        return None


texts = st.sampled_from(["a", "b"])
targets: st.SearchStrategy[Any] = st.sampled_from([Other, Next])
stays = texts.map(stay)
ends = texts.map(Ended)
gos = targets.map(go)
fanouts: st.SearchStrategy[Any] = st.lists(st.sampled_from([Left, Right, Third]), min_size=2, unique=True).map(
    lambda workers: fanout(*workers)
)
bares: st.SearchStrategy[Any] = st.one_of(gos, fanouts)
exclusives: st.SearchStrategy[Any] = st.one_of(
    st.builds(lambda text: go(Other).with_state(Note(text)), texts),
    st.builds(lambda target, text: go(target).with_message(text), targets, texts),
    st.just(go(Next).with_state(None)),
    st.builds(direct_to, targets, texts),
    texts.map(direct),
    texts.map(finish),
    st.sampled_from([1, "1", None, Note()]).map(task_result),
)
plain: st.SearchStrategy[Any] = st.one_of(stays, bares, exclusives)


def _nothing() -> None:
    return None


@st.composite
def _with_effects(draw: st.DrawFn) -> Any:
    response = draw(plain)
    if draw(st.booleans()):
        response = response.with_usage(Usage(draw(st.integers(0, 9)), 1, 1))
    if draw(st.booleans()):
        response = response.with_tool_feedback(draw(texts))
    if draw(st.booleans()):
        response = response.with_messages([user(draw(texts))])
    return response.with_cleanup(_nothing) if draw(st.booleans()) else response


responses = st.one_of(plain, _with_effects())
outcomes: st.SearchStrategy[Any] = st.one_of(responses, responses, responses, ends)
batches = st.lists(outcomes, max_size=5)
summaries = batches.map(summarise)
conflicts: st.SearchStrategy[Summary] = st.lists(responses, min_size=2, max_size=4).map(summarise)
conflicts = conflicts.filter(lambda summary: isinstance(decide(summary), Conflict))


def test_a2_every_response_kind_is_drawn() -> None:
    """Rule A2: a new member of the closed union must be drawn here, or these laws say nothing of it."""
    drawn: set[type] = set()

    @given(plain)
    def draw(response: Any) -> None:
        drawn.add(type(response))

    draw()
    assert drawn == set(RESPONSES)


@given(summaries, summaries)
def test_d3_collecting_is_commutative(one: Summary, other: Summary) -> None:
    assert collect(one, other) == collect(other, one)
    assert hash(collect(one, other)) == hash(collect(other, one))


@given(summaries, summaries, summaries)
def test_d3_collecting_is_associative(one: Summary, two: Summary, three: Summary) -> None:
    assert collect(collect(one, two), three) == collect(one, collect(two, three))


@given(summaries, stays)
def test_d3_stay_is_the_identity_of_collecting(summary: Summary, said: Any) -> None:
    assert summary_of(said) == NOTHING
    assert collect(summary, summary_of(said)) == summary == collect(summary_of(said), summary)


@given(batches, st.data())
def test_d3_the_decision_does_not_depend_on_order(batch: list[Any], data: st.DataObject) -> None:
    shuffled = data.draw(st.permutations(batch))
    assert decide(summarise(shuffled)) == decide(summarise(batch))


@given(batches, batches)
def test_d3_a_batch_decided_in_parts_is_decided_as_a_whole(one: list[Any], other: list[Any]) -> None:
    assert decide(collect(summarise(one), summarise(other))) == decide(summarise(one + other))


@given(conflicts, responses)
def test_d3_conflict_absorbs_all_but_ended(conflict: Summary, another: Any) -> None:
    assert decide(collect(conflict, summary_of(another))) == Conflict()


@given(summaries, ends)
def test_d5_ended_absorbs_all(summary: Summary, ended: Ended) -> None:
    """Rules D3, D5: conflicts too."""
    assert isinstance(decide(collect(summary, summary_of(ended))), Ended)


@given(st.lists(texts, min_size=1, max_size=4))
def test_d5_several_farewells_are_one_end_whatever_their_order(said: list[str]) -> None:
    assert decide(summarise([Ended(text) for text in said])) == Ended(min(said))


@given(bares, st.integers(1, 4))
def test_d3_bare_routes_are_idempotent(route: Any, times: int) -> None:
    decided = decide(summarise([route] * times))
    assert isinstance(decided, type(route))
    assert summarise([route] * times) == summary_of(route)


@given(bares, bares)
def test_d3_two_different_bare_routes_conflict(one: Any, other: Any) -> None:
    same = summary_of(one) == summary_of(other)
    decided = decide(summarise([one, other]))
    assert (decided == Conflict()) is not same


@given(exclusives, st.lists(stays, max_size=2))
def test_d3_an_exclusive_route_alone_is_the_decision(route: Any, beside: list[Any]) -> None:
    assert decide(summarise([*beside, route])) == route


@given(exclusives)
def test_d3_exclusive_routes_exclude_each_other_even_when_equal(route: Any) -> None:
    assert decide(summarise([route, route])) == Conflict()
    assert summarise([route, route]) != summarise([route])


@given(exclusives, st.one_of(bares, exclusives))
def test_d3_an_exclusive_route_conflicts_with_any_other(exclusive: Any, route: Any) -> None:
    assert decide(summarise([exclusive, route])) == Conflict()


@given(st.permutations([Left, Right, Third]))
def test_d3_a_fanout_is_a_set(workers: list[Any]) -> None:
    assert summary_of(fanout(*workers)) == summary_of(fanout(Left, Right, Third))
    assert decide(summarise([fanout(*workers), fanout(Third, Left, Right)])) == decide(
        summarise([fanout(Left, Right, Third)])
    )
    assert decide(summarise([fanout(*workers), fanout(Left, Right)])) == Conflict()


def _worker_named_alike() -> type[Worker[None, str]]:
    class Alike(Worker[None, str]):
        pass

    return Alike


def test_d3_a_fanout_is_a_set_where_classes_have_one_name() -> None:
    one, other = _worker_named_alike(), _worker_named_alike()
    assert summary_of(fanout(one, other)) == summary_of(fanout(other, one))


def test_d3_a_bare_go_and_one_that_writes_none_differ() -> None:
    """Rule D3: what was not given is a sentinel, so that `None` can be a state."""
    bare, writing = go(Next), go(Next).with_state(None)
    assert bare != writing
    assert summary_of(bare).bare == {bare}
    assert summary_of(writing) == Summary(exclusive=(writing,))
    assert decide(summarise([bare, writing])) == Conflict()


def test_d3_a_go_with_a_message_is_exclusive() -> None:
    asking = go(Next).with_message("look")
    assert summary_of(asking) == Summary(exclusive=(asking,))
    assert decide(summarise([asking, go(Next)])) == Conflict()


@given(_with_effects())
def test_d3_call_effects_stay_outside_the_combination(response: Any) -> None:
    bare = response
    for effect, none in (("usage", None), ("feedback", None), ("messages", ()), ("cleanup", None)):
        bare = type(bare)(
            **{
                name: none if name == effect else getattr(bare, name)
                for name in (a.name for a in type(bare).__attrs_attrs__)
            }
        )
    assert summary_of(response) == summary_of(bare)


@given(batches)
def test_d3_the_decision_is_the_rules_sentence(batch: list[Any]) -> None:
    """Rule D3, said again without the algebra: ended, else conflict, else the one route, else stay."""
    routes: list[Any] = []
    for outcome in batch:
        if type(outcome).__name__ in {"Stay", "Ended"}:
            continue
        key: Any = ("own", len(routes))
        if type(outcome).__name__ == "Fanout":
            key = frozenset(outcome.workers)
        elif isinstance(outcome, Go) and (outcome.state, outcome.message) == (go(Next).state, None):
            key = outcome.target
        if key not in [known for known, _ in routes]:
            routes.append((key, type(outcome)))
    decided = decide(summarise(batch))
    if any(isinstance(outcome, Ended) for outcome in batch):
        assert type(decided) is Ended
    elif len(routes) > 1:
        assert decided == Conflict()
    elif routes:
        assert type(decided) is routes[0][1]
    else:
        assert decided is None


# --------------------------------------------------------------------------------------------- results and ids, rule D1


@given(batches)
def test_d1_every_call_gets_one_result_that_its_decision_explains(batch: list[Any]) -> None:
    decision = decide(summarise(batch))
    results = results_of(batch, decision)
    assert len(results) == len(batch)
    for outcome, result in zip(batch, results, strict=True):
        match type(outcome).__name__:
            case "Ended":
                assert result == NEUTRAL
            case "Stay":
                assert result == (outcome.text if outcome.effects.feedback is None else outcome.effects.feedback)
            case _ if isinstance(decision, Conflict):
                assert result == CONFLICT
            case _ if isinstance(decision, Ended):
                assert result == ENDED
            case name:
                default = ACCEPTED if name == "TaskResult" else NEUTRAL
                assert result == (default if outcome.effects.feedback is None else outcome.effects.feedback)


ids = st.sampled_from(["", "a", "a.2", "a.3", "call.2", "b"])


@given(st.lists(ids, max_size=6))
def test_d1_every_call_of_a_message_has_an_id_of_its_own(given_ids: list[str]) -> None:
    calls = [ToolCall(one, "look", str(n)) for n, one in enumerate(given_ids)]
    fresh = fresh_ids(calls)
    assert [(call.name, call.arguments) for call in fresh] == [(call.name, call.arguments) for call in calls]
    names = [call.id for call in fresh]
    assert all(names)
    assert len(set(names)) == len(names)
    for n, one in enumerate(given_ids):
        if one and one not in given_ids[:n]:
            assert names[n] == one, "the first call of an id keeps it"
    assert fresh_ids(fresh) == fresh


@pytest.mark.parametrize(
    ("given_ids", "fresh"),
    [(["a", "a"], ["a", "a.2"]), (["a", "a", "a.2"], ["a", "a.3", "a.2"]), (["", ""], ["call.2", "call.3"])],
)
def test_d1_a_repeated_or_empty_id_is_replaced(given_ids: list[str], fresh: list[str]) -> None:
    assert [call.id for call in fresh_ids([ToolCall(one, "look") for one in given_ids])] == fresh


def test_c3_a_text_for_the_target_is_internal() -> None:
    """Rule C3: nobody said it."""
    assert go(Next).with_message("look").message == instruction("look")
    assert direct_to(Next, "bye").with_message("look").message == instruction("look")
    assert go(Next).with_message(user("look")).message == user("look")
