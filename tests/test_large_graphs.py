"""A graph may have ten thousand nodes: what `compile` does for each does not grow with their number."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest
from large import SHAPES, chain, ring, worker

from ezgraph import Graph
from ezgraph.activations import Row, Rows
from ezgraph.algebra.lines import Line, LineCells, LineResults, LineSeries


def calls(run: Callable[[], object]) -> int:
    """How many Python functions and generators it enters."""
    entered = 0

    def count(_frame: object, event: str, _given: object) -> None:
        nonlocal entered
        entered += event == "call"

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        run()
    finally:
        sys.setprofile(before)
    return entered


@pytest.mark.parametrize("shape", SHAPES.values(), ids=list(SHAPES))
def test_e8_compiling_costs_a_node_the_same_however_many_there_are(shape: Callable[[int], Graph[Any]]) -> None:
    shape(12).compile()  # what is made once for all graphs
    few, many = (calls(shape(size).compile) / size for size in (99, 399))
    assert many <= 1.3 * few


def test_e8_compiling_costs_the_same_however_many_other_nodes_there_are() -> None:
    """`abc` would ask each of them whether a stage is one."""
    chain(2).compile()
    alone = calls(ring(99).compile)
    others = [worker(f"Other{i}") for i in range(3000)]
    assert calls(ring(99).compile) <= 1.1 * alone
    assert len(others) == 3000


def test_e4_a_step_of_a_chain_costs_the_same_however_long_the_chain_is() -> None:
    def run(size: int) -> float:
        app = chain(size).compile()
        return calls(lambda: app.invoke(session="s", step_limit=size)) / size

    run(12)
    assert run(399) <= 1.3 * run(99)


def test_e4_what_a_step_may_see_is_a_mapping_of_its_line() -> None:
    plan = chain(3).compile().plan
    closure = plan.topology.closure(("W0",))
    rows = Rows([Row("W0", 7, 1, cells={"W0": None}), Row("W1", 8, 2, cells={"W0": 1})])
    line = Line(closure, rows, 0, "W2", None)
    cells, results, series = LineCells(line, {"other": 2}), LineResults(line), LineSeries(line)
    assert (dict(cells), len(cells)) == ({"other": 2, "W0": 1}, 2)
    assert (dict(results), len(results)) == ({"W0": 7, "W1": 8}, 2)
    assert (dict(series), len(series), "W0" in series, "W2" in results) == ({}, 0, False, False)


def test_m2_a_compiled_graph_is_told_in_a_line_and_one_that_is_not_says_how_to_call_it() -> None:
    graph = chain(3)
    assert repr(graph.compile()) == "CompiledGraph('chain', 3 nodes, entry W0, store MemoryStore(0 sessions))"
    with pytest.raises(AttributeError, match=r"compile it first, graph\.compile\(\.\.\.\)\.invoke\(\.\.\.\)"):
        graph.invoke  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]  # noqa: B018
    assert not hasattr(graph, "anything")
