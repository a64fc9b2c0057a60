"""Graphs of any size, in the shapes that grow: for the tests and the benchmark of what a large graph costs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any, Final

from ezgraph import END, Context, Graph, GraphNode, StageContext, TaskResult, Worker, task_result


def worker(name: str) -> type[Worker[None, int]]:
    """A worker's class of its own."""

    class One(Worker[None, int]):
        def run(self, ctx: Context[None]) -> TaskResult[int]:
            return task_result(1)

    One.__name__ = One.__qualname__ = name
    return One


def stage(name: str) -> type[GraphNode[None]]:
    """A stage's class of its own, which goes on by its edges."""

    class One(GraphNode[None]):
        def run(self, ctx: StageContext[None]) -> None: ...

    One.__name__ = One.__qualname__ = name
    return One


def chain(size: int) -> Graph:
    """Each worker leads to the next one."""
    nodes = [worker(f"W{i}") for i in range(size)]
    graph = Graph("chain", entry=nodes[0]).workers(*nodes)
    for before, after in pairwise(nodes):
        graph = graph.edge(before, after)
    return graph.edge(nodes[-1], END)


def fan(size: int) -> Graph:
    """One worker leads to all others but one, which joins them."""
    first, *nodes, last = [worker(f"W{i}") for i in range(size)]
    graph = Graph("fan", entry=first).workers(first, *nodes, last)
    for node in nodes:
        graph = graph.edge(first, node)
    return graph.join(tuple(nodes), to=last).edge(last, END)


def diamonds(size: int) -> Graph:
    """Layers of two workers, each of which leads to both of the next layer."""
    first, *nodes = [worker(f"W{i}") for i in range(size - 1)]
    graph = Graph("diamonds", entry=first).workers(first, *nodes)
    layers = [(first,), *zip(nodes[::2], nodes[1::2], strict=False)]
    for before, after in pairwise(layers):
        for node in after:
            graph = graph.join(before, to=node)
    for node in layers[-1]:
        graph = graph.edge(node, END)
    return graph


def ring(size: int) -> Graph:
    """Each stage leads to two workers, which the next stage joins; the last one's, the first."""
    stages = [stage(f"S{i}") for i in range(size // 3)]
    pairs = [(worker(f"A{i}"), worker(f"B{i}")) for i in range(len(stages))]
    graph = Graph("ring", entry=stages[0]).stages(*stages).workers(*[node for pair in pairs for node in pair])
    for at, (source, pair) in enumerate(zip(stages, pairs, strict=True)):
        for node in pair:
            graph = graph.edge(source, node)
        graph = graph.join(pair, to=stages[(at + 1) % len(stages)])
    return graph


SHAPES: Final[Mapping[str, Callable[[int], Graph[Any]]]] = {
    "chain": chain,
    "fan": fan,
    "diamonds": diamonds,
    "ring": ring,
}
