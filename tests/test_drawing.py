"""The drawing has exactly the declared edges, in a stable order, whatever the ids.  FIELD Z2."""

import os
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from types import new_class
from typing import Any

import pytest
from cast import MODEL, End, Split, Talk, V, W, X, compiled
from hypothesis import given, strategies as st

from ezgraph import (
    END,
    Context,
    Conversation,
    DirectTo,
    Fanout,
    Finish,
    Go,
    Graph,
    GraphNode,
    StageContext,
    Stay,
    TaskResult,
    Worker,
    finish,
    task_result,
    tool,
)
from ezgraph.compilation import plan_of
from ezgraph.drawing import mermaid
from ezgraph.plan import Plan, Wiring

NODE = re.compile(r'    (?P<name>n\d+)(?:\("(?P<stage>[^"\n]*)"\)|\["(?P<worker>[^"\n]*)"\])')
ARROW = re.compile(r'    (\w+) (-->|-\.->|==>|--o)(?:\|(?:(\w+)|"([^"\n]*)")\|)? (\w+)')

Edge = tuple[str, str, str, str]
"""Source, target, line, label."""


def unescaped(text: str) -> str:
    """What Mermaid shows for the text of a label."""
    return re.sub(r"#(\d+);", lambda code: chr(int(code[1])), text)


def drawn(text: str) -> list[Edge]:
    """The edges of a drawing, by the ids that it shows; every line of it must be one that Mermaid knows."""
    first, *lines = text.splitlines()
    assert first == "flowchart TD"
    shown, edges = {"finish": END}, []
    for line in lines:
        if node := NODE.fullmatch(line):
            shown[node["name"]] = unescaped(node["stage"] or node["worker"])
        elif arrow := ARROW.fullmatch(line):
            source, kind, plain, quoted, target = arrow.groups()
            edges.append((shown[source], shown[target], kind, plain or unescaped(quoted or "")))
        else:
            assert re.fullmatch(r"    finish\(\(END\)\)|    style n\d+ stroke-width:3px", line), line
    return edges


# ------------------------------------------------------------ random graphs


class Start(GraphNode[None]):
    """What every random stage is made from."""

    def run(self, ctx: StageContext[None]) -> Finish | None:
        return finish("done")


class Work(Worker[None, int]):
    """What every random worker is made from."""

    def run(self, ctx: Context[None]) -> TaskResult[int]:
        return task_result(1)


_fanout: Any = Fanout


def stage(name: str, returns: Any) -> Any:
    def run(self: object, ctx: StageContext[None]) -> None: ...

    run.__annotations__["return"] = returns
    return new_class(name, (Start,), exec_body=lambda body: body.update(run=run))


@st.composite
def graphs(draw: st.DrawFn) -> tuple[Any, set[Edge]]:  # noqa: C901, PLR0912  a branch for each way out
    """A graph of stages in a ring with routes, fan-outs and edges besides, and the edges that it declares."""
    declared: set[Edge] = set()
    count = draw(st.integers(1, 4))
    workers: list[Any] = [new_class(f"W{i}", (Work,)) for i in range(draw(st.sampled_from([0, 2, 3, 4])))]
    stages: list[Any] = [stage(f"S{i}", None) for i in range(count)]
    for at, one in enumerate(stages):
        returns: Any = None
        targets = {stages[(at + 1) % count], *draw(st.sets(st.sampled_from(stages)))}
        for target in sorted(targets, key=stages.index):
            kind: Any = draw(st.sampled_from([Go, DirectTo]))
            returns |= kind[target]
            declared.add((one.__name__, target.__name__, "-->" if kind is Go else "-.->", "run"))
        if workers and (at == 0 or draw(st.booleans())):
            chosen = workers if at == 0 else draw(st.permutations(workers))[:2]
            union: Any = chosen[0]
            for worker in chosen[1:]:
                union |= worker
            returns |= _fanout[union]
            declared |= {(one.__name__, worker.__name__, "==>", "run") for worker in chosen}
        if draw(st.booleans()) and workers:
            scattered: Any = draw(st.sampled_from(workers))
            returns |= _fanout[scattered]
            declared.add((one.__name__, scattered.__name__, "==>", "run for each"))
        if draw(st.booleans()):
            returns |= Finish
            declared.add((one.__name__, END, "-->", "run"))
        one.run.__annotations__["return"] = returns
    graph: Any = Graph("g", entry=stages[0]).stages(*stages).workers(*workers)
    end: Any = stages[-1]
    if draw(st.booleans()):
        graph = graph.edge(end, END)
        declared.add((end.__name__, END, "-->", ""))
    for worker, after in pairwise(workers):
        if draw(st.booleans()):
            graph = graph.edge(worker, after)
            declared.add((worker.__name__, after.__name__, "-->", ""))
    leading = {edge.source for edge in graph.definition.edges}
    last = tuple(worker for worker in workers if worker not in leading)
    scatters = {target for _, target, _, label in declared if label == "run for each"}
    joined: bool = draw(st.booleans())
    if last and joined:
        graph = graph.join(last, to=end)
        for worker in last:
            line = workers[workers.index(worker) :: -1]  # itself and the workers before it: a line as far as edges go
            length = next((i for i, one in enumerate(line[1:], 1) if one not in leading), len(line))
            each = any(one.__name__ in scatters for one in line[:length])
            declared.add((worker.__name__, end.__name__, "--o", "for all" if each else ""))
    else:
        for worker in last:
            graph = graph.edge(worker, END)
            declared.add((worker.__name__, END, "-->", ""))
    return graph, declared


@given(graphs())
def test_z2_the_drawn_edges_are_the_declared_edges(drawing: tuple[Any, set[Edge]]) -> None:
    """Every edge is drawn, no other, each once; the same definition gives the same text."""
    graph, declared = drawing
    text = mermaid(compiled(graph))
    edges = drawn(text)
    assert set(edges) == declared
    assert len(edges) == len(declared)
    assert text == mermaid(compiled(graph))


# ------------------------------------------------------------ one drawing, to the letter


class Desk(Conversation[None]):
    """Every kind of way out."""

    @tool
    def report(self, ctx: StageContext[None]) -> Fanout[V | W] | Go[Split] | Stay:
        """Report."""
        raise NotImplementedError

    @tool
    def later(self, ctx: StageContext[None]) -> DirectTo[Talk] | DirectTo[Split] | Finish:
        """Later."""
        raise NotImplementedError


def desk() -> Any:
    return Graph("desk", entry=Desk).stages(Talk, Split, End).workers(V, W).join((V, W), to=End)


TEXT = """\
flowchart TD
    n0("Desk")
    n1("Talk")
    n2("Split")
    n3("End")
    n4["V"]
    n5["W"]
    finish((END))
    n0 ==>|report| n4
    n0 ==>|report| n5
    n0 -->|report| n2
    n0 -.->|later| n1
    n0 -.->|later| n2
    n0 -->|later| finish
    n0 -->|end_session| finish
    n1 -->|"end"| n3
    n2 ==>|run| n4
    n2 ==>|run| n5
    n3 -->|run| finish
    n4 --o n3
    n5 --o n3
    style n0 stroke-width:3px
"""


def test_z2_a_drawing_to_the_letter() -> None:
    """Stages round, workers square, END once; a label that Mermaid could take for its own word is quoted."""
    plan = plan_of(desk().definition, Wiring(model=MODEL, end_session=(Desk,)))
    assert mermaid(plan) == TEXT
    assert desk().compile(model=MODEL, end_session=[Desk]).mermaid() == TEXT


def test_z2_a_graph_without_end_draws_none() -> None:
    class Round(GraphNode[None]):
        def run(self, ctx: StageContext[None]) -> None:
            return None

    assert (
        mermaid(compiled(Graph("g", entry=Round))) == 'flowchart TD\n    n0("Round")\n    style n0 stroke-width:3px\n'
    )


def test_z2_the_text_does_not_depend_on_the_hash_seed() -> None:
    """Two processes with different seeds draw the same."""
    code = "import test_drawing as t; print(t.mermaid(t.compiled(t.desk())), end='')"
    texts = [
        subprocess.run(
            [sys.executable, "-c", code],
            cwd=Path(__file__).parent,
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(Path(__file__).parents[1])},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert texts[0] == texts[1] == mermaid(compiled(desk()))


# ------------------------------------------------------------ scatters and jobs


class Each(GraphNode[None]):
    """Opens V for each of some inputs, or V beside W."""

    def run(self, ctx: StageContext[None]) -> Fanout[V] | Fanout[V | W]:
        raise NotImplementedError


def among(graph: Any, *labels: str) -> list[Edge]:
    return [edge for edge in drawn(mermaid(compiled(graph))) if edge[3] in labels]


def test_e6_a_scatter_is_drawn_apart_from_a_fanout() -> None:
    graph = Graph("g", entry=Each).workers(V, W).edge(V, END).edge(W, END)
    assert drawn(mermaid(compiled(graph))) == [
        ("Each", "V", "==>", "run for each"),
        ("Each", "V", "==>", "run"),
        ("Each", "W", "==>", "run"),
        ("V", END, "-->", ""),
        ("W", END, "-->", ""),
    ]


def test_e6_where_the_items_come_together_is_drawn() -> None:
    """A join of one source, and what leads into a stage: not a diamond inside an item."""

    class Mid(Work):
        pass

    class Late(Work):
        pass

    graph = Graph("g", entry=Each).stages(End).workers(V, W, X, Mid, Late).edge(V, X).edge(V, Mid)
    inside = graph.join((X, Mid), to=Late).edge(W, END)
    assert among(inside.edge(Late, End), "for all") == [("Late", "End", "-->", "for all")]
    assert among(inside.join((Late,), to=End), "for all") == [("Late", "End", "--o", "for all")]
    ended = Graph("g", entry=Each).workers(V, W, Mid, Late).join((V,), to=Mid).edge(Mid, Late).edge(Late, END)
    assert among(ended.edge(W, END), "for all") == [("V", "Mid", "--o", "for all")]
    across = graph.join((X,), to=Late).join((Mid,), to=Late).join((Late, W), to=End)
    assert among(across, "for all") == [("X", "Late", "--o", "for all"), ("Mid", "Late", "--o", "for all")]


def test_e6_a_join_of_one_source_that_no_scatter_reaches_gathers_nothing() -> None:
    graph = Graph("g", entry=Split).stages(End).workers(V, W).join((V,), to=W).join((W,), to=End)
    assert among(graph, "for all") == []


def test_e12_a_job_is_drawn_with_its_entry_marked() -> None:
    graph = Graph("job", entry=V).workers(W).edge(V, W).edge(W, END)
    assert mermaid(compiled(graph)) == (
        'flowchart TD\n    n0["V"]\n    n1["W"]\n    finish((END))\n'
        "    n0 --> n1\n    n1 --> finish\n    style n0 stroke-width:3px\n"
    )


def test_g1_where_an_error_hook_leads_is_drawn_with_its_name() -> None:
    class Falls(GraphNode[None]):
        def run(self, ctx: StageContext[None]) -> None:
            return None

        def on_error(self, ctx: StageContext[None], error: Exception) -> Go[End] | Finish | None:
            return None

    graph = Graph("g", entry=Falls).stages(End)
    assert among(graph, "on_error") == [("Falls", "End", "-->", "on_error"), ("Falls", END, "-->", "on_error")]


# ------------------------------------------------------------ odd ids and names

ODD = [
    "end",
    'say "hi"',
    "a [b] (c) {d}",
    "x --> y",
    "subgraph",
    "größe 包裹",
    "#35;",
    "a\nb",
    "`code`",
    "<b>&amp;",
    "|",
]


def named(node_id: str) -> Plan:
    class Odd(GraphNode[None]):
        id = node_id

        def run(self, ctx: StageContext[None]) -> Finish:
            return finish("done")

    return compiled(Graph("g", entry=Odd))


@pytest.mark.parametrize("node_id", ODD)
def test_z2_ids_are_escaped(node_id: str) -> None:
    """A drawing stays one, and shows the id as it is."""
    text = mermaid(named(node_id))
    assert drawn(text) == [(node_id, END, "-->", "run")]
    assert len(text.splitlines()) == 5


@given(st.text(min_size=1).filter(lambda text: text.strip() and text != END and not text.startswith("$")))
def test_z2_any_id_can_be_drawn(node_id: str) -> None:
    text = mermaid(named(node_id))
    assert drawn(text) == [(node_id, END, "-->", "run")]
    assert re.fullmatch(r'    n0\("[\w .;#-]+"\)', text.splitlines()[1])


@pytest.mark.parametrize(
    ("handler", "label"), [("größe", '|"größe"|'), ("graph", '|"graph"|'), ("grapher", "|grapher|")]
)
def test_z2_labels_are_quoted_where_they_must_be(handler: str, label: str) -> None:
    def act(self: object, ctx: StageContext[None]) -> Finish:
        """Act."""
        raise NotImplementedError

    act.__annotations__["return"] = Finish
    marked: Any = tool(name="act")
    node: Any = new_class("Node", (Conversation[None],), exec_body=lambda body: body.update({handler: marked(act)}))
    text = mermaid(compiled(Graph("g", entry=node)))
    assert f"n0 -->{label} finish" in text
    assert drawn(text) == [("Node", END, "-->", handler)]
