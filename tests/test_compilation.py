"""Everything that `compile()` refuses of nodes, edges and joins together, each with its message and its mended twin.

Rule E8.  The wrong programs are wrong for type checkers too, mostly; classes are local, so that a case stands alone.
"""

from typing import Any

import pytest
from attrs import frozen
from cast import MODEL, AnyGraph, End, Note, Other, Pass, Split, Talk, V, W, X, compiled, kinds, problems, refused, told

from ezgraph import (
    END,
    Context,
    Conversation,
    DefinitionError,
    DirectTo,
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
    finish,
    go,
    task_result,
    tool,
)
from ezgraph.compilation import plan_of
from ezgraph.plan import Wiring

# ------------------------------------------------------------ all in one raise


def test_m3_ten_mistakes_are_one_error_with_ten_problems() -> None:
    """Rules M2, M3, E8: each with its place, what is wrong and what to write instead; and nothing else."""

    @frozen
    class Basket:
        items: list[int]

    class Lost(GraphNode[None]):
        def run(self, ctx: StageContext[None]) -> Finish:
            return finish("never")

    class Twin(GraphNode[None]):
        id = "End"

        def run(self, ctx: StageContext[None]) -> Finish:
            return finish("twin")

    class Dead(Worker[None, int]):
        def run(self, ctx: Context[None]) -> TaskResult[int]:
            return task_result(1)

    class Unfed(Worker[None, int]):
        def run(self, ctx: Context[None]) -> TaskResult[int]:
            return task_result(1)

    class Routing(Worker[None, int]):
        def run(self, ctx: Context[None]) -> TaskResult[int] | Go[End]:  # type: ignore[override]
            return go(End)

    class Desk(Conversation[Basket]):
        """Does everything wrong."""

        @tool
        def stranger(self, ctx: StageContext[Basket]) -> Go[Other]:
            """Go where nobody is."""
            return go(Other)

        @tool
        def open(self, ctx: StageContext[Basket]) -> Fanout[V | Dead]:
            """Open a branch that leads nowhere."""
            return fanout(V, Dead)

        @tool
        def lost(self, ctx: StageContext[Basket]) -> "Go[Nowhere]":  # type: ignore[name-defined]  # noqa: F821
            """Name what does not resolve."""
            return go(End)

        @tool
        def silent(self, ctx: StageContext[Basket]):  # type: ignore[no-untyped-def]  # noqa: ANN202
            """Say nothing of where it leads."""
            return go(Twin)

    graph = (
        Graph("desk", entry=Desk)
        .stages(End, Lost, Twin)
        .workers(V, Dead, Unfed, Routing)
        .edge(V, End)
        .edge(Desk, End)
        .join((Unfed,), to=End)
    )
    assert told(graph) == [
        (
            "mutable-state",
            "Desk",
            "state Basket: $.items list[int] can be changed",
            "Write tuple[int, ...].",
        ),
        (
            "unresolvable-annotation",
            "Desk.lost",
            "the name 'Nowhere' in an annotation does not resolve at run time",
            "Import Nowhere at the top of the module, not only for typing, and not inside a function.",
        ),
        (
            "missing-annotation",
            "Desk.silent",
            "there is no return annotation, so where it may lead cannot be read",
            "Write what it returns, such as `-> Go[Approval]` in a stage or `-> TaskResult[str]` in a worker.",
        ),
        ("duplicate-id", "Twin", "has the id 'End' of End", 'Give it its own: `id = "..."` in the class body.'),
        (
            "placement",
            "Routing.run",
            "may return Go, which a run in internal placement may not",
            "It may return: direct, task_result, nothing.",
        ),
        (
            "unknown-target",
            "Desk.stranger",
            "may lead to Other, which the graph does not have",
            "Add .stages(Other); it has Desk, End, Lost, Twin, V, Dead, Unfed, Routing.",
        ),
        (
            "forbidden-edge",
            "edge(Desk, End)",
            "Desk is a Conversation, which never continues, so its edge never fires",
            "Let a tool or on_response of it return go(...), or make it a GraphNode.",
        ),
        (
            "dead-end",
            "Dead",
            "is reached by Desk.open → Dead, and nothing follows it",
            "Write .join((Dead, ...), to=...), .edge(Dead, ...) or .edge(Dead, END).",
        ),
        (
            "unfed-join",
            "join((Unfed,), to=End)",
            "nothing ever runs Unfed",
            "Lead to its sources by an edge, a fanout or a scatter, or remove the join.",
        ),
        (
            "unreachable",
            "Lost",
            "nothing leads to it from the entry",
            "Lead to it by a go, a direct_to, an edge or a join, or remove it.",
        ),
    ]
    with pytest.raises(DefinitionError, match=r"^graph 'desk' has 10 problems:\n- Desk: state Basket") as wrong:
        graph.compile(model=MODEL)
    assert (wrong.value.graph, len(wrong.value.problems)) == ("desk", 10)
    assert all(f"- {p.place}: {p.what} [{p.kind}]\n    {p.mend}" in str(wrong.value) for p in wrong.value.problems)


# ------------------------------------------------------------ entry and targets


@pytest.mark.parametrize(
    ("entry", "name"),
    [(Split(), "<.*Split object.*>"), (None, "None"), (Conversation, "Conversation"), (Note, "Note")],
)
def test_e8_no_entry(entry: Any, name: str) -> None:
    """Our own kinds are no nodes."""
    match = rf"(?s)entry: {name} is no node's class \[no-entry\].*Pass entry=Intake, a Conversation or GraphNode, or"
    refused(AnyGraph("g", entry=entry).stages(End), "no-entry", "entry", match)
    compiled(Graph("g", entry=End))


def test_e8_unknown_target_of_an_annotation() -> None:
    match = r"(?s)Talk.end: may lead to End, which the graph does not have.*Add \.stages\(End\); it has Talk\."
    refused(Graph("g", entry=Talk), "unknown-target", "Talk.end", match)
    compiled(Graph("g", entry=Talk).stages(End))
    match = r"(?s)Split.run: may lead to W.*Add \.workers\(W\); it has Split, V\."
    refused(Graph("g", entry=Split).workers(V).edge(V, END), "unknown-target", "Split.run", match)


@pytest.mark.parametrize(
    ("edge", "place"),
    [
        ((V, Other), "edge(V, Other)"),
        ((Other, End), "edge(Other, End)"),
        ((V, "Other"), "edge(V, Other)"),
        ((V(), END), "edge(V(), END)"),
        ((END, End), "edge(END, End)"),
    ],
)
def test_e8_unknown_target_of_an_edge(edge: Any, place: str) -> None:
    """One problem: what the edge would have led to is not called a dead end or unreachable besides."""
    graph: Any = Graph("g", entry=Split).stages(End).workers(V, W).edge(V, End).edge(W, End)
    match = (
        r"(?s)names (Other|V\(\)|END), which the graph does not have.*Register (Other|V\(\)|END), and name its class"
    )
    refused(graph.edge(*edge), "unknown-target", place, match)
    graph = Graph("g", entry=Split).workers(V, W).edge(W, END).edge(V, Other)  # type: ignore[arg-type,unused-ignore]
    refused(graph, "unknown-target", "edge(V, Other)", "names Other")
    compiled(Graph("g", entry=Split).workers(V, W).edge(W, END).edge(V, END))


def test_e8_unknown_nodes_in_a_join() -> None:
    graph = Graph("g", entry=Split).stages(End).workers(V, W)
    match = r"join\(\(V, W, X\), to=End\): names X, which the graph does not have"
    refused(graph.join((V, W, X), to=End), "unknown-target", "join((V, W, X), to=End)", match)
    lost = Graph("g", entry=Split).workers(V, W).join((V, W), to=Other)
    refused(lost, "unknown-target", "join((V, W), to=Other)", "names Other")
    twice = problems(Graph("g", entry=End).stages(Pass).join((X,), to=Pass).join((X, X), to=Other))
    assert [(p.kind, p.what.split(",")[0]) for p in twice] == [
        ("unknown-target", "names X"),
        ("unknown-target", "names X"),
        ("unknown-target", "names Other"),
    ]
    compiled(graph.join((V, W), to=End))


# ------------------------------------------------------------ what is reached, and not


def test_e8_an_unreachable_stage_or_worker() -> None:
    match = r"(?s)Other: nothing leads to it from the entry.*Lead to it by a go, a direct_to, an edge or a join"
    refused(Graph("g", entry=End).stages(Other), "unreachable", "Other", match)
    match = r"(?s)V: nothing leads to it from the entry.*Lead to it by an edge, a fanout or a scatter"
    refused(Graph("g", entry=End).workers(V).edge(V, END), "unreachable", "V", match)


def test_e8_all_that_an_unreachable_stage_would_lead_to_is_unreachable() -> None:
    graph = Graph("g", entry=End).stages(Split, Pass).workers(V, W).join((V, W), to=Pass)
    assert kinds(graph) == [("unreachable", n) for n in ("Split", "Pass", "V", "W")]


def test_e8_what_is_reached() -> None:
    """A node reached only through a route is not unreachable; a worker without ways in and out is for `ctx.call`."""
    plan = compiled(Graph("g", entry=Talk).stages(End).workers(X))
    assert list(plan.nodes) == ["Talk", "End", "X"]

    class Later(GraphNode[None]):
        def run(self, ctx: StageContext[None]) -> DirectTo[Pass] | Go[End]:
            return go(End)

    compiled(Graph("g", entry=Later).stages(End, Pass))


def test_e8_a_dead_end() -> None:
    match = r"(?s)W: is reached by Split.run → W, and nothing follows it.*Write \.join\(\(W, \.\.\.\), to=\.\.\.\)"
    graph = Graph("g", entry=Split).workers(V, W).edge(V, END)
    refused(graph, "dead-end", "W", match)
    compiled(graph.edge(W, END))


def test_e8_a_dead_end_is_told_once_however_often_it_is_reached() -> None:
    class Twice(GraphNode[None]):
        def run(self, ctx: StageContext[None]) -> Fanout[V | W] | Fanout[V | X] | None:
            return None

    graph = Graph("g", entry=Twice).workers(V, W, X).edge(W, END).edge(X, END).edge(Twice, V)
    refused(graph, "dead-end", "V", r"V: is reached by Twice.run → V and Twice → V, and nothing follows it")
    compiled(graph.edge(V, END))


def test_e8_a_join_that_nothing_can_feed() -> None:
    match = r"(?s)join\(\(V, W\), to=Pass\): nothing ever runs V or W \[unfed-join\].*Lead to its sources by an edge"
    graph = Graph("g", entry=End).stages(Pass).workers(V, W).join((V, W), to=Pass)
    refused(graph, "unfed-join", "join((V, W), to=Pass)", match)
    refused(Graph("g", entry=End).join((), to=End), "unfed-join", "join((), to=End)", "has no source")
    compiled(Graph("g", entry=Split).stages(Pass).workers(V, W).join((V, W), to=Pass))


def test_e8_one_of_a_joins_sources_that_nothing_leads_to() -> None:
    graph = Graph("g", entry=Split).stages(End).workers(V, W, X).join((V, W, X), to=End)
    refused(graph, "unreachable", "X", "X: nothing leads to it")


# ------------------------------------------------------------ edges and joins


def chain(*edges: tuple[Any, Any]) -> Any:
    graph: Any = Graph("g", entry=Split).stages(End).workers(V, W, X)
    for source, target in edges:
        graph = graph.edge(source, target)
    return graph


def test_e8_a_cycle_among_workers_is_shown_as_its_path() -> None:
    match = r"(?s)V → X → V: workers lead round in a cycle, and nothing in it is conditional.*Loop through a stage"
    refused(chain((V, X), (X, V), (W, End)), "cycle", "V → X → V", match)
    compiled(chain((V, X), (X, End), (W, End)))
    refused(chain((V, V), (W, X), (X, End)), "cycle", "V → V", "workers lead round in a cycle")
    compiled(chain((V, X), (W, X), (X, End)))


def test_e8_a_cycle_over_a_join() -> None:
    graph = Graph("g", entry=Split).workers(V, W, X).edge(X, V).join((V, W), to=X)
    refused(graph, "cycle", "V → X → V", "workers lead round in a cycle")


def test_e8_every_cycle_is_told_and_other_problems_beside_it() -> None:
    """Rule M3: a cycle hides nothing: here another cycle, a dead end, and two stages reached."""

    class Y(X):
        pass

    class Z(X):
        pass

    class Open(GraphNode[None]):
        def run(self, ctx: StageContext[None]) -> Fanout[V | W | Y | Z]:
            return fanout(V, W, Y, Z)

    graph = Graph("g", entry=Open).stages(End, Other).workers(V, W, X, Y, Z)
    wrong = graph.edge(V, V).edge(W, X).edge(X, W).edge(Y, End).edge(Y, Other)
    assert kinds(wrong) == [
        ("cycle", "V → V"),
        ("cycle", "W → X → W"),
        ("two-stages", "Open.run"),
        ("dead-end", "Z"),
    ]


def test_e8_end_beside_another_way_on() -> None:
    match = r"(?s)edge\(V, END\): V also leads to X, and all ways out of a worker fire.*Remove one of them"
    refused(chain((V, END), (V, X), (X, END), (W, End)), "end-beside-others", "edge(V, END)", match)
    compiled(chain((V, X), (X, End), (W, End)))


def test_e8_an_opening_that_reaches_two_stages() -> None:
    match = (
        r"(?s)Split.run: reaches 2 stages: Split.run → V → End, Split.run → W → Other.*"
        r"From one opening at most one stage can be reached"
    )
    graph = Graph("g", entry=Split).stages(End, Other).workers(V, W).edge(V, End)
    refused(graph.edge(W, Other), "two-stages", "Split.run", match)
    reached = compiled(Graph("g", entry=Split).stages(End).workers(V, W).edge(V, End).edge(W, End))
    assert reached.topology.closure(("V", "W")).stage == "End"


def test_e2_two_openings_may_reach_two_stages() -> None:
    """An opening is each `Fanout[...]` of an annotation by itself."""

    class Y(X):
        pass

    class Open(GraphNode[None]):
        def run(self, ctx: StageContext[None]) -> Fanout[V | W] | Fanout[X | Y]:
            return fanout(V, W)

    graph: Any = Graph("g", entry=Open).stages(End, Other).workers(V, W, X, Y)
    plan = compiled(graph.edge(V, End).edge(W, End).edge(X, Other).edge(Y, Other))
    closure = plan.topology.closure
    assert (closure(("V", "W")).stage, closure(("X", "Y")).stage) == ("End", "Other")
    wrong = graph.edge(V, End).edge(W, Other).edge(X, Other).edge(Y, Other)
    refused(wrong, "two-stages", "Open.run", "Open.run → V → End, Open.run → W → Other")


@pytest.mark.parametrize(
    ("edges", "place", "what"),
    [
        (((Pass, End), (Pass, Other)), "edge(Pass, End), edge(Pass, Other)", "Pass has edges to End, Other"),
        (((Pass, End), (Pass, V)), "edge(Pass, End), edge(Pass, V)", "Pass has edges to End, V"),
        (((Pass, V), (Pass, END)), "edge(Pass, V), edge(Pass, END)", "Pass has edges to V, END"),
    ],
)
def test_e8_a_stage_with_edges_to_two_stages_or_to_a_stage_and_workers(edges: Any, place: str, what: str) -> None:
    class Start(GraphNode[None]):
        def run(self, ctx: StageContext[None]) -> Go[Pass | End | Other] | Fanout[V | W]:
            return go(Pass)

    graph: Any = Graph("g", entry=Start).stages(Pass, End, Other).workers(V, W).edge(V, END).edge(W, END)
    for edge in edges:
        graph = graph.edge(*edge)
    refused(
        graph, "forbidden-edge", place, f"(?s){what}.*A stage's edges lead to one stage, to END, or to workers only"
    )
    mended: Any = Graph("g", entry=Pass).workers(V, W).edge(V, END).edge(W, END).edge(Pass, V).edge(Pass, W)
    assert compiled(mended).edges == {"Pass": ("V", "W")}


def test_e8_an_edge_that_an_unknown_target_makes_two_is_told_once() -> None:
    graph: Any = Graph("g", entry=Pass).stages(End).edge(Pass, End).edge(Pass, Other)
    refused(graph, "unknown-target", "edge(Pass, Other)", "names Other")


def test_e8_a_stage_as_a_joins_source() -> None:
    graph: Any = Graph("g", entry=Split).stages(End).workers(V, W).edge(V, End).edge(W, End)
    match = r"(?s)join\(\(V, Split\), to=End\): Split is a stage, and a join waits for workers.*Use an edge"
    refused(graph.join((V, Split), to=End), "forbidden-edge", "join((V, Split), to=End)", match)
    compiled(graph.join((V, W), to=End))


def test_e8_a_join_that_is_its_own_source() -> None:
    """One problem: it is not told as a cycle too."""
    graph = Graph("g", entry=Split).stages(End).workers(V, W).edge(V, End)
    match = r"(?s)join\(\(V, W\), to=V\): V is its own source.*Join into another node"
    alone = Graph("g", entry=Split).workers(V, W)
    refused(alone.join((V, W), to=V), "forbidden-edge", "join((V, W), to=V)", match)
    refused(graph.edge(W, End).join((V, W), to=V), "forbidden-edge", "join((V, W), to=V)", match)
    compiled(graph.join((V, W), to=End))


def test_e8_a_join_into_end() -> None:
    graph: Any = Graph("g", entry=Split).workers(V, W)
    match = r"(?s)END is no node.*Join into a stage that finishes, or write \.edge\(\.\.\., END\)"
    refused(graph.join((V, W), to=END), "forbidden-edge", "join((V, W), to=END)", match)
    compiled(graph.edge(V, END).edge(W, END))


def test_e8_an_edge_out_of_a_conversation() -> None:
    graph = Graph("g", entry=Talk).stages(End)
    match = r"(?s)Talk is a Conversation, which never continues, so its edge never fires.*Let a tool or on_response"
    refused(graph.edge(Talk, End), "forbidden-edge", "edge(Talk, End)", match)
    compiled(graph)


def test_e8_an_edge_of_a_run_that_never_returns_none() -> None:
    class Never(GraphNode[None]):
        def run(self, ctx: StageContext[None]) -> Go[End]:
            return go(End)

    class Sometimes(GraphNode[None]):
        def run(self, ctx: StageContext[None]) -> Go[End] | None:
            return None

    match = r"(?s)Never.run never returns None, so its edge never fires.*Add `\| None` to its return annotation"
    refused(Graph("g", entry=Never).stages(End).edge(Never, End), "forbidden-edge", "edge(Never, End)", match)
    plan = compiled(Graph("g", entry=Sometimes).stages(End).edge(Sometimes, End))
    assert plan.edges == {"Sometimes": ("End",), "End": ()}


# ------------------------------------------------------------ ids, instances


def test_e8_duplicate_and_reserved_ids() -> None:
    refused(
        Graph("g", entry=Talk).stages(End, End),
        "duplicate-id",
        "End",
        r"(?s)End: is registered twice.*Register it once",
    )
    refused(Graph("g", entry=Talk).stages(End, Talk, Talk()), "duplicate-id", "Talk", "Talk: is registered twice")

    class Same(GraphNode[None]):
        id = "Talk"

        def run(self, ctx: StageContext[None]) -> Go[End | Talk]:
            return go(End)

    match = r"""(?s)Talk: has the id 'Talk' of Same.*Give it its own: `id = "\.\.\."` in the class body"""
    graph = Graph("g", entry=Same).stages(Talk, End)
    refused(graph, "duplicate-id", "Talk", match)
    compiled(Graph("g", entry=Talk).stages(End))


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("END", "the id 'END' is the engine's"),
        ("$context", "is the engine's"),
        (" ", "the id ' ' is no name"),
        (5, "the id 5 is no name"),
    ],
)
def test_e8_an_id_that_cannot_be_one(given: Any, told: str) -> None:
    class Node(GraphNode[None]):
        id = given

        def run(self, ctx: StageContext[None]) -> Finish:
            return finish("done")

    refused(Graph("g", entry=Node), "reserved-id", "Node", rf"(?s){told.replace('$', '')}.*Give it its own")


def test_e8_an_id_of_its_own_is_not_inherited() -> None:
    class Named(End):
        id = "the end"

    class Sub(Named):
        pass

    plan = compiled(Graph("g", entry=Named))
    assert plan.entry == "the end"
    assert compiled(Graph("g", entry=Sub)).entry == "Sub"


def test_e8_what_is_registered_as_what_it_is_not() -> None:
    graph: Any = Graph("g", entry=Split)
    match = r"(?s)stages\(V\): is no stage \[placement\].*Register it with workers\(\)"
    refused(graph.stages(V).workers(W).edge(V, END).edge(W, END), "placement", "stages(V)", match)
    match = r"(?s)workers\(End\): is no worker.*Register it with stages\(\)"
    refused(AnyGraph("g", entry=Talk).workers(End), "placement", "workers(End)", match)
    for stranger, name in ((int, "int"), (5, "5"), (GraphNode, "GraphNode")):
        graph = AnyGraph("g", entry=End).stages(stranger)
        match = rf"(?s)stages\({name}\): is no node.*Pass classes or instances of your Conversations"
        refused(graph, "placement", f"stages({name})", match)


def test_e8_an_abstract_node_is_judged_for_all_the_rest() -> None:
    class Abstract(GraphNode[None]):
        history = ""

    with pytest.raises(
        DefinitionError, match=r"(?s)Abstract: does not give run.*Write `def run\(self, ctx\)`"
    ) as wrong:
        compiled(Graph("g", entry=Abstract))
    assert [p.kind for p in wrong.value.problems] == ["abstract", "attribute"]


def test_e8_a_constructor_with_arguments_takes_an_instance() -> None:
    class Made(GraphNode[None]):
        def __init__(self, text: str) -> None:
            self.text = text

        def run(self, ctx: StageContext[None]) -> Go[End]:
            return go(End)

    class Fails(End):
        def __init__(self) -> None:
            raise OSError("no disk")

    graph = Graph("g", entry=Made).stages(End)
    match = r"(?s)Made: cannot be made without arguments: .*'text'.*Pass an instance: Made\(\.\.\.\)"
    refused(graph, "abstract", "Made", match)
    refused(Graph("g", entry=Fails), "abstract", "Fails", "no disk")
    assert compiled(graph.stages(Made("x"))).nodes["Made"].node.text == "x"


def test_e8_a_missing_model() -> None:
    match = r"(?s)Talk: has no model \[missing-model\].*Pass compile\(model=\.\.\.\), or set `model` on the node"
    graph = Graph("g", entry=Talk).stages(End)
    refused(graph, "missing-model", "Talk", match, model=None)
    assert plan_of(graph.definition).nodes["Talk"].model is None  # judged without wiring, a model may come later

    class Own(Talk):
        model = MODEL

    class Odd(Talk):
        model: Any = "gpt"

    assert not problems(Graph("g", entry=Own).stages(End), model=None)
    refused(Graph("g", entry=Odd).stages(End), "missing-model", "Odd", "its model 'gpt' has no respond()")


@pytest.mark.parametrize("stranger", [End, Other, V, "Talk"])
def test_d5_end_session_names_conversations_of_the_graph(stranger: Any) -> None:
    graph = Graph("g", entry=Talk).stages(End)
    name = getattr(stranger, "__name__", repr(stranger))
    match = rf"(?s)end_session={name}: is no conversation of the graph.*Name conversations of the graph: Talk"
    refused(graph, "end-session", f"end_session={name}", match, end_session=(stranger,))
    refused(Graph("g", entry=End), "end-session", f"end_session={name}", "it has none", end_session=(stranger,))
    plan = plan_of(graph.definition, Wiring(model=MODEL, end_session=(Talk,)))
    assert [tool.name for tool in plan.nodes["Talk"].offered] == ["end", "end_session"]
    assert ("Talk", "END", "end_session") in [(a.source, a.target, a.label) for a in plan.arrows]


def test_e2_a_join_takes_a_tuple() -> None:
    graph: Any = Graph("g", entry=End)
    with pytest.raises(InvalidInput, match=r"join\(End, to=\.\.\.\): pass a tuple of workers: join\(\(End, \.\.\.\)"):
        graph.join(End, to=End)


def test_f3_the_initial_context_is_checked_to_the_last_field() -> None:
    wrong: Any = "many"
    with pytest.raises(DefinitionError, match=r"context: \$\.limit must be int, and is str.*\n.*initial context"):
        Graph("g", entry=End, context=Limit(wrong)).compile()
    assert Graph("g", entry=End, context=Limit(3)).compile().plan.context == Limit(3)


@frozen
class Limit:
    limit: int
