"""What opens parallel work: fan-outs, scatters, a stage's edges, a job's entry; and what each may lead to.

Rules E1, E2, E5, E6, E8, E12, as `compile()` holds them.  Every refusal stands beside its mended twin.
"""

from typing import Any, cast

import pytest
from attrs import frozen
from cast import AnyGraph, End, Other, Pass, Split, V, W, X, compiled, kinds, refused

from ezgraph import (
    END,
    Context,
    Fanout,
    Finish,
    Go,
    Graph,
    GraphNode,
    InvalidInput,
    StageContext,
    TaskResult,
    Worker,
    fanout,
    go,
    scatter,
    task_result,
)
from ezgraph.plan import Closure


@frozen
class Parcel:
    """A state that cannot be built without arguments."""

    label: str


class Weigh(Worker[Parcel, int]):
    def run(self, ctx: Context[Parcel]) -> TaskResult[int]:
        return task_result(len(ctx.state.label))


class Sum(Worker[None, int]):
    def run(self, ctx: Context[None]) -> TaskResult[int]:
        return task_result(0)


class Unload(GraphNode[None]):
    """Weighs each parcel."""

    def run(self, ctx: StageContext[None]) -> Fanout[Weigh]:
        return scatter(Weigh, [Parcel("a"), Parcel("b")])


class Both(GraphNode[None]):
    """Opens V for each of some inputs, or V and W."""

    def run(self, ctx: StageContext[None]) -> Fanout[V] | Fanout[V | W]:
        return fanout(V, W)


def arrows(graph: Any) -> list[tuple[str, str, str, str]]:
    return [(a.source, a.target, a.kind, a.label) for a in compiled(graph).arrows]


def closure(graph: Any, *roots: str, scattered: bool = False) -> Closure:
    return compiled(graph).topology.closure(roots, scattered=scattered)


# ------------------------------------------------------------ scatters


def test_e6_a_fanout_of_one_worker_is_a_scatter() -> None:
    graph = Graph("g", entry=Unload).stages(End).workers(Weigh).edge(Weigh, End)
    assert arrows(graph) == [
        ("Unload", "Weigh", "scatter", "run"),
        ("End", "END", "finish", "run"),
        ("Weigh", "End", "edge", ""),
    ]
    run = compiled(graph).nodes["Unload"].run
    assert run is not None
    assert run.openings == (frozenset({Weigh}),)


def test_e6_a_scatter_and_a_fanout_of_one_annotation_are_two_openings() -> None:
    """Rule E2: each may reach a stage of its own, or the same worker in another way."""
    graph = Graph("g", entry=Both).stages(End).workers(V, W).edge(V, END).edge(W, End)
    assert [(t, k) for _, t, k, label in arrows(graph) if label == "run" and k in {"fanout", "scatter"}] == [
        ("V", "scatter"),
        ("V", "fanout"),
        ("W", "fanout"),
    ]
    wrong = Graph("g", entry=Both).stages(End, Other).workers(V, W).edge(V, Other).edge(W, End)
    refused(wrong, "two-stages", "Both.run", r"Both.run → W → End, Both.run → V → Other")


def test_e6_a_join_of_one_source_gathers_and_nothing_else_does() -> None:
    graph = Graph("g", entry=Unload).stages(End).workers(Weigh, V, W, Sum).edge(Weigh, V).edge(Weigh, W)
    inside = graph.join((V, W), to=Sum).edge(Sum, End)
    assert compiled(inside).topology.gathers == frozenset()
    assert closure(inside, "Weigh", scattered=True).each == ("Weigh", "V", "W", "Sum")
    assert closure(inside, "Weigh").each == ()
    across = graph.edge(W, Sum).join((V,), to=Sum).join((Sum,), to=End)
    assert compiled(across).topology.gathers == {"Sum", "End"}
    assert closure(across, "Weigh", scattered=True).each == ("Weigh", "V", "W")
    assert closure(across, "Weigh", scattered=True).once == ("Sum",)


def test_e6_a_source_named_twice_is_one_source() -> None:
    graph = Graph("g", entry=Unload).workers(Weigh, Sum).join((Weigh, Weigh), to=Sum).edge(Sum, END)
    assert compiled(graph).topology.gathers == {"Sum"}


def test_f8_the_root_of_a_scatter_takes_its_state_from_the_inputs() -> None:
    """Rule F8: but not where something else opens it too, and not what comes after it."""
    graph = Graph("g", entry=Unload).workers(Weigh).edge(Weigh, END)
    assert compiled(graph).nodes["Weigh"].state is Parcel

    class Beside(GraphNode[None]):
        def run(self, ctx: StageContext[None]) -> Fanout[Weigh] | Fanout[Weigh | V]:
            return fanout(Weigh, V)

    class Label(Weigh):
        pass

    match = r"(?s)Weigh: begins with a state that nothing has written.*Give its fields defaults"
    refused(
        Graph("g", entry=Beside).workers(Weigh, V).edge(Weigh, END).edge(V, END), "no-initial-state", "Weigh", match
    )
    after = Graph("g", entry=Unload).workers(Weigh, Label).edge(Weigh, Label).edge(Label, END)
    refused(after, "no-initial-state", "Label", "Label: begins with a state")
    edged = Graph("g", entry=Unload).stages(Pass).workers(Weigh, V).edge(V, Weigh).edge(Weigh, Pass).edge(Pass, V)
    refused(edged, "no-initial-state", "Weigh", match)


# ------------------------------------------------------------ one failure policy


def split() -> Any:
    return Graph("g", entry=Split).stages(End).workers(V, W, X, Sum)


def test_e5_joins_into_one_target_agree_on_a_policy() -> None:
    """Rule E1: all that leads into one node is one join of it."""
    place = "join((V,), to=Sum, on_failure='cancel_siblings'), join((V, W), to=Sum, on_failure='finish_siblings')"
    wrong = Graph("g", entry=Split).stages(End).workers(V, W, Sum).edge(Sum, End)
    match = r"(?s)all that leads into Sum is one join of it, and here it has two failure policies.*Name one of them"
    cancel = wrong.join((V,), to=Sum, on_failure="cancel_siblings")
    refused(cancel.join((V, W), to=Sum, on_failure="finish_siblings"), "two-policies", place, match)
    for policy in (None, "cancel_siblings"):
        plan = compiled(cancel.join((V, W), to=Sum, on_failure=policy))
        assert plan.topology.policies == {"Sum": "cancel_siblings"}
        assert plan.topology.closure(("V", "W")).policy == "cancel_siblings"


def test_e5_an_opening_reaches_one_policy() -> None:
    """One problem, at the opening, with the way to each join."""
    graph = split().edge(V, X).edge(W, X).edge(Sum, End)
    wrong = graph.join((X,), to=Sum, on_failure="cancel_siblings").join((Sum,), to=End, on_failure="finish_siblings")
    match = (
        r"(?s)Split.run: reaches joins with two failure policies: 'cancel_siblings' by Split.run → V → X → Sum, "
        r"'finish_siblings' by Split.run → V → X → Sum → End \[two-policies\].*let the joins agree"
    )
    refused(wrong, "two-policies", "Split.run", match)
    assert closure(graph.join((X,), to=Sum, on_failure="cancel_siblings"), "V", "W").policy == "cancel_siblings"
    assert closure(graph.join((X,), to=Sum), "V", "W").policy == "finish_siblings"


def test_e5_every_opening_that_reaches_two_policies_is_told() -> None:
    graph: Any = Graph("g", entry=Both).stages(End).workers(V, W, Sum).edge(W, Sum)
    wrong = graph.join((V,), to=Sum, on_failure="cancel_siblings").join((Sum,), to=End, on_failure="finish_siblings")
    assert kinds(wrong) == [("two-policies", "Both.run")]  # the same ways, and told once

    class Lead(GraphNode[None]):
        def run(self, ctx: StageContext[None]) -> Go[Both] | None:
            return go(Both)

    led = Graph("g", entry=Lead).stages(Both, End).workers(V, W, Sum).edge(W, Sum).edge(Lead, W)
    wrong = led.join((V,), to=Sum, on_failure="cancel_siblings").join((Sum,), to=End, on_failure="finish_siblings")
    assert kinds(wrong) == [("two-policies", "Both.run"), ("two-policies", "the edges of Lead")]


def test_e5_two_openings_may_have_two_policies() -> None:
    class Y(X):
        pass

    class Open(GraphNode[None]):
        def run(self, ctx: StageContext[None]) -> Fanout[V | W] | Fanout[X | Y]:
            return fanout(V, W)

    graph = Graph("g", entry=Open).stages(End, Other).workers(V, W, X, Y)
    plan = compiled(
        graph.join((V, W), to=End, on_failure="cancel_siblings").join((X, Y), to=Other, on_failure="finish_siblings")
    )
    assert plan.topology.closure(("V", "W")).policy == "cancel_siblings"
    assert plan.topology.closure(("X", "Y")).policy == "finish_siblings"


def test_e5_a_policy_is_one_of_two() -> None:
    graph: Any = Graph("g", entry=Split)
    with pytest.raises(InvalidInput, match=r"on_failure='retry': it is 'finish_siblings' or 'cancel_siblings'"):
        graph.join((V, W), to=End, on_failure="retry")


def test_e8_a_policy_of_a_join_that_nothing_feeds_is_no_second_problem() -> None:
    graph = Graph("g", entry=End).stages(Pass).workers(V, W).join((V, W), to=Pass, on_failure="cancel_siblings")
    place = "join((V, W), to=Pass, on_failure='cancel_siblings')"
    refused(graph, "unfed-join", place, r"(?s)nothing ever runs V or W.*Lead to its sources by an edge, a fanout or a")


# ------------------------------------------------------------ the way is shown


def test_e8_two_stages_are_told_with_the_shortest_way_to_each() -> None:
    graph = split().stages(Other).edge(V, X).edge(X, Sum).edge(V, Sum).edge(W, Other)
    match = r"Split.run: reaches 2 stages: Split.run → V → Sum → End, Split.run → W → Other \[two-stages\]"
    refused(graph.edge(Sum, End), "two-stages", "Split.run", match)
    edged = Graph("g", entry=Pass).stages(End, Other).workers(V, W).edge(Pass, V).edge(V, W).edge(V, End)
    match = r"the edges of Pass: reaches 2 stages: Pass → V → End, Pass → V → W → Other"
    refused(edged.edge(W, Other), "two-stages", "the edges of Pass", match)


def test_e8_a_dead_end_is_told_with_the_way_to_it() -> None:
    graph = Graph("g", entry=Split).workers(V, W, X, Sum).edge(V, X).edge(W, X).edge(X, Sum)
    refused(graph, "dead-end", "Sum", r"Sum: is reached by Split.run → V → X → Sum, and nothing follows it")
    refused(Graph("g", entry=Unload).workers(Weigh), "dead-end", "Weigh", r"is reached by Unload.run → Weigh, and")


# ------------------------------------------------------------ jobs


class Gather(Worker[None, int]):
    def run(self, ctx: Context[None]) -> TaskResult[int]:
        return task_result(1)


def test_e12_a_worker_as_the_entry_is_a_job() -> None:
    """It need not be registered, comes first, and runs to END; no stage is needed."""
    plan = compiled(Graph("job", entry=Gather).workers(V, W).edge(Gather, V).edge(Gather, W).edge(V, END).edge(W, END))
    assert (plan.entry, plan.is_job, plan.edges) == ("Gather", True, {})
    assert list(plan.nodes) == ["Gather", "V", "W"]
    assert plan.topology.closure(("Gather",)).once == ("Gather", "V", "W")
    assert not compiled(Graph("g", entry=End)).is_job


def test_e12_a_job_may_lead_into_a_stage() -> None:
    graph = Graph("job", entry=Gather).stages(Split, End).workers(V, W).edge(Gather, Split)
    plan = compiled(graph.join((V, W), to=End))
    assert plan.topology.closure(("Gather",)).stage == "Split"
    assert plan.edges == {"Split": (), "End": ()}


def test_e12_a_registered_instance_is_the_entry() -> None:
    class Made(Gather):
        def __init__(self, size: int) -> None:
            self.size = size

    graph = Graph("job", entry=Made).edge(Made, END)
    refused(graph, "abstract", "Made", r"(?s)Made: cannot be made without arguments.*Pass an instance: Made\(")
    made = Made(3)
    assert compiled(graph.workers(made)).nodes["Made"].node is made


def test_e12_the_entry_is_an_opening() -> None:
    """What E2 and E5 ask of an opening is asked of it; a path begins with it."""
    match = r"(?s)Gather: is reached by Gather, and nothing follows it.*\.edge\(Gather, END\)"
    refused(Graph("job", entry=Gather), "dead-end", "Gather", match)
    graph = Graph("job", entry=Gather).workers(V).edge(Gather, V)
    refused(graph, "dead-end", "V", r"V: is reached by Gather → V, and nothing follows it")
    two = graph.stages(End, Other).edge(V, End).edge(Gather, Other)
    refused(two, "two-stages", "the entry", r"the entry: reaches 2 stages: Gather → V → End, Gather → Other")
    policies = graph.stages(End).join((Gather,), to=V, on_failure="finish_siblings")
    match = r"the entry: reaches joins with two failure policies: 'cancel_siblings' by Gather → V → End, "
    refused(policies.join((V,), to=End, on_failure="cancel_siblings"), "two-policies", "the entry", match)


def test_e12_reachability_begins_at_the_entry() -> None:
    graph = Graph("job", entry=Gather).workers(V, X).edge(Gather, END).edge(V, X).edge(X, END)
    assert kinds(graph) == [("unreachable", "V"), ("unreachable", "X")]
    spare = compiled(Graph("job", entry=Gather).workers(V).edge(Gather, END))  # for `ctx.call`
    assert list(spare.nodes) == ["Gather", "V"]


def test_e12_workers_that_lead_back_into_the_entry_are_a_cycle() -> None:
    graph = Graph("job", entry=Gather).workers(V).edge(Gather, V).edge(V, Gather)
    refused(graph, "cycle", "Gather → V → Gather", "workers lead round in a cycle")


def test_e12_a_stage_may_open_the_entry_again() -> None:
    class Again(GraphNode[None]):
        def run(self, ctx: StageContext[None]) -> Fanout[Gather | V] | Fanout[Gather] | Finish | None:
            return None

    graph = Graph("job", entry=Gather).stages(Again).workers(V).edge(Gather, Again).edge(V, Again)
    plan = compiled(graph.edge(Again, Gather))
    assert plan.edges == {"Again": ("Gather",)}


def test_e12_the_entry_begins_with_a_state() -> None:
    """Rule F8: a job is called with no input."""
    match = r"(?s)Weigh: begins with a state that nothing has written.*Give its fields defaults"
    refused(Graph("job", entry=Weigh).edge(Weigh, END), "no-initial-state", "Weigh", match)
    compiled(Graph("job", entry=Gather).edge(Gather, END))


@pytest.mark.parametrize("entry", [Worker, cast("Any", Gather())])
def test_e12_an_entry_is_a_class_of_the_authors(entry: Any) -> None:
    match = r"(?s)entry: .* is no node's class \[no-entry\].*or for a job a Worker"
    refused(AnyGraph("job", entry=entry).workers(Gather), "no-entry", "entry", match)


def test_e12_an_entry_registered_as_a_stage_is_told() -> None:
    graph = AnyGraph("job", entry=Gather).stages(Gather).edge(Gather, END)
    refused(graph, "placement", "stages(Gather)", r"is no stage \[placement\]")
