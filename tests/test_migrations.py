"""A deploy in the middle of conversations: versions of a graph, and what leads from one to the next.  Rule L5."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import hostile
import pytest
from attrs import frozen
from hypothesis import HealthCheck, given, settings
from store_laws import nested
from strategies import NODES, histories

from ezgraph import (
    BranchFailed,
    Context,
    CorruptSession,
    DefinitionError,
    Direct,
    DirectTo,
    Fanout,
    Finish,
    Go,
    Graph,
    GraphNode,
    InvalidInput,
    MigrationFailed,
    SessionCompleted,
    StageContext,
    StoreError,
    TaskResult,
    VersionMismatch,
    Worker,
    WrongGraph,
    direct,
    direct_to,
    fanout,
    finish,
    go,
    task_result,
)
from ezgraph.runtime.compiled import CompiledGraph
from ezgraph.stores.contract import Archive, Query
from ezgraph.stores.memory import MemoryStore
from ezgraph.stores.migrations import (
    Document,
    Steps,
    change_output,
    change_state,
    rename_field,
    rename_node,
)
from ezgraph.stores.sqlite import SQLiteStore

# ------------------------------------------------------------------------------------------------------- version 1


@frozen
class Bill:
    amount: int = 0


class Desk(GraphNode[None]):
    """Says what comes next, by what the customer says."""

    def run(self, ctx: StageContext[None]) -> Go[Review] | Direct | Finish:
        match ctx.incoming.text if ctx.incoming else "":
            case "check":
                return go(Review)
            case "bye":
                return finish("bye")
            case text:
                return direct(text)


class Review(GraphNode[Bill]):
    def run(self, ctx: StageContext[Bill]) -> Fanout[Weigh | Measure]:
        ctx.save(Bill(7))
        return fanout(Weigh, Measure)


class Weigh(Worker[Bill, int]):
    def run(self, ctx: Context[Bill]) -> TaskResult[int]:
        ctx.save(Bill(3))
        return task_result(30)


class Measure(Worker[Bill, int]):
    broken = False

    def run(self, ctx: Context[Bill]) -> TaskResult[int]:
        if Measure.broken:
            raise OSError("the tape is torn")
        return task_result(5)


class Settle(GraphNode[None]):
    def run(self, ctx: StageContext[None]) -> DirectTo[Desk]:
        return direct_to(Desk, f"{ctx.result(Weigh)} and {ctx.result(Measure)}")


# ---------------------------------------------------------------------------------------------- version 3: it became


@frozen
class Account:
    total: int
    currency: str = "EUR"


class Desk3(GraphNode[None]):
    id = "Desk"

    def run(self, ctx: StageContext[None]) -> Go[Approval] | Direct | Finish:
        text = ctx.incoming.text if ctx.incoming else ""
        return go(Approval) if text == "check" else finish("bye") if text == "bye" else direct(text)


class Approval(GraphNode[Account | None]):
    """What was called Review; and what was called Weigh yields text now."""

    def run(self, ctx: StageContext[Account | None]) -> Fanout[Scale | Measure3]:
        ctx.save(Account(7))
        return fanout(Scale, Measure3)


class Scale(Worker[Account | None, str]):
    def run(self, ctx: Context[Account | None]) -> TaskResult[str]:
        return task_result("30 g")


class Measure3(Worker[Account | None, int]):
    id = "Measure"

    def run(self, ctx: Context[Account | None]) -> TaskResult[int]:
        return task_result(5)


class Settle3(GraphNode[None]):
    id = "Settle"

    def run(self, ctx: StageContext[None]) -> DirectTo[Desk3]:
        return direct_to(Desk3, f"{ctx.result(Scale)} and {ctx.result(Measure3)}")


def second(document: Document) -> Document:
    """Names change; `rename_node` twice."""
    return rename_node("Weigh", "Scale")(rename_node("Review", "Approval")(document))


def priced(node: str) -> Any:
    return change_state(node, lambda value: value | {"currency": "EUR"})


THIRD = tuple(
    step for node in ("Approval", "Scale", "Measure") for step in (rename_field(node, "amount", "total"), priced(node))
)
STEPS: Steps = {2: second, 3: (*THIRD, change_output("Scale", lambda grams: f"{grams} g"))}


def version_1(store: Archive) -> CompiledGraph:
    graph = Graph("bills", entry=Desk).stages(Review, Settle).workers(Weigh, Measure)
    return graph.join((Weigh, Measure), to=Settle).compile(store=store)


def version_3(store: Archive, migrations: Steps = STEPS) -> CompiledGraph:
    graph = Graph("bills", entry=Desk3, version=3).stages(Approval, Settle3).workers(Scale, Measure3)
    return graph.join((Scale, Measure3), to=Settle3).compile(store=store, migrations=migrations)


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Archive]:
    if request.param == "memory":
        yield MemoryStore()
    else:
        with closing(SQLiteStore(tmp_path / "bills.db")) as made:
            yield made


@pytest.fixture
def saved(store: Archive, monkeypatch: pytest.MonkeyPatch) -> Archive:
    """What version 1 leaves: a session that waits, one in the middle of a fan-out, a completed one."""
    app = version_1(store)
    app.invoke("hello", session="waits")
    app.invoke("check", session="waited")
    monkeypatch.setattr(Measure, "broken", True)
    with pytest.raises(BranchFailed, match="the tape is torn"):
        app.invoke("check", session="opened")
    app.invoke("bye", session="over")
    return store


def everything(store: Any) -> Mapping[str, Any]:
    """All that a store has, to see that nothing of it has changed."""
    return {entry.session: (entry, store.export(entry.session)) for entry in store.find(Query())}


def versions(store: Any) -> set[int]:
    return {entry.version for entry in store.find(Query())}


def test_l5_a_deploy_in_the_middle_of_conversations(saved: Archive) -> None:
    """FIELD V1: each goes on under version 3, and is written so by its next commit, whole."""
    app = version_3(saved)
    assert app.load("opened").cells == {"Approval": Account(7)}
    assert app.unfinished(app.load("opened")) == (
        "branch Measure, opened by Approval, failed",
        "Settle waits to be joined",
    )
    assert versions(saved) == {1}
    assert app.recover("opened").reply == "30 g and 5"
    assert app.load("opened").cells == {"Approval": Account(7), "Scale": Account(3)}
    assert app.invoke("hi again", session="waits").reply == "hi again"
    assert app.invoke("check", session="waited").reply == "30 g and 5"
    with pytest.raises(SessionCompleted):
        app.invoke("more", session="over")
    found = {entry.session: entry.version for entry in everything_of(saved)}
    assert found == {"opened": 3, "waits": 3, "waited": 3, "over": 1}
    assert version_3(saved).load("opened") == app.load("opened")
    with pytest.raises(VersionMismatch, match=r"is of version 3 and the graph of version 1, which is newer") as caught:
        version_1(saved).invoke("hi", session="waits")
    assert (caught.value.stored, caught.value.version, caught.value.missing) == (3, 1, ())


def everything_of(store: Any) -> Any:
    return store.find(Query())


def test_l5_a_whole_store_is_brought_at_once(saved: Archive) -> None:
    before = everything(saved)
    app = version_3(saved)
    assert sync(app.aunfit()) == ()
    assert everything(saved) == before
    assert sync(app.amigrate()) == ("opened", "over", "waited", "waits")
    assert versions(saved) == {3}
    assert {entry.session: entry.updated for entry in everything_of(saved)} == {
        s: e.updated for s, (e, _) in before.items()
    }
    assert sync(app.amigrate()) == ()
    assert version_3(saved, {}).recover("opened").reply == "30 g and 5"


def sync(work: Any) -> Any:
    return asyncio.run(work)


AFFECTED = {
    "$.head.cursor",
    "$.cells.Review",
    "$.activation.parent",
    "$.activation.roots[0]",
    "$.activation.rows[0].node",
    "$.activation.rows[0].cells.Weigh",
}
"""Where a session in the middle of a fan-out names what is called otherwise now."""


@pytest.mark.parametrize("steps", [{3: STEPS[3]}, {}])
def test_l5_a_gap_is_one_error_that_lists_every_name(saved: Archive, steps: Steps) -> None:
    """FIELD V1: and nothing has changed."""
    before = everything(saved)
    app = version_3(saved, steps)
    missing = (2,) if steps else (2, 3)
    for ask in (lambda: app.load("opened"), lambda: app.recover("opened"), lambda: sync(app.amigrate())):
        with pytest.raises(VersionMismatch, match=r"no migration leads to version 2") as caught:
            ask()
        error = caught.value
        assert (error.session, error.missing) == ("opened", missing)
        assert {path for path, _ in error.problems} == AFFECTED
        assert all(path in str(error) for path in AFFECTED)
    unfit = sync(app.aunfit())
    assert [type(error) for error in unfit] == [VersionMismatch] * 4
    assert everything(saved) == before


def test_l5_a_renamed_node_without_a_version_is_one_error_that_lists_all(saved: Archive) -> None:
    """FIELD V1: who forgot to raise the version is told as much."""
    graph = Graph("bills", entry=Desk3).stages(Approval, Settle3).workers(Scale, Measure3)
    app = graph.join((Scale, Measure3), to=Settle3).compile(store=saved)
    with pytest.raises(CorruptSession) as caught:
        app.load("opened")
    assert {path for path, _ in caught.value.problems} == AFFECTED


def test_l5_a_deploy_that_renamed_many_nodes_is_told_of_each() -> None:
    """FIELD V1: one error lists every name, however many there are."""
    names = [f"Stage{number}" for number in range(40)]
    graph = Graph("bills", entry=Desk3).stages(Approval, Settle3).workers(Scale, Measure3)
    store = MemoryStore()
    app = graph.join((Scale, Measure3), to=Settle3).compile(store=store)
    document = {"format": 1, "graph": "bills", "version": 1, "revision": 1, "head": {"cursor": "Approval"}}
    store.add({"s": document | {"cells": {name: {} for name in names}}})
    with pytest.raises(CorruptSession) as caught:
        app.load("s")
    assert [path for path, _ in caught.value.problems] == [f"$.cells.{name}" for name in names]
    assert [*dict.fromkeys(re.findall(r"\bStage\d+\b", str(caught.value)))] == names


@pytest.mark.parametrize("problem", ["raises", "gives a list", "gives nothing"])
def test_l5_a_migration_that_fails_half_way_leaves_all_as_they_were(store: Archive, problem: str) -> None:
    """100 sessions, the 51st of which it cannot take."""
    app = version_1(store)
    for number in range(100):
        app.invoke(f"number {number:03}", session=f"s{number:03}")
    before = everything(store)

    def fails(document: Document) -> Any:
        if "number 050" in json.dumps(document):
            if problem == "raises":
                raise LookupError("no such rate")
            return [] if problem == "gives a list" else None
        return document

    broken = version_3(store, {2: second, 3: fails})
    told = "raised LookupError: no such rate" if problem == "raises" else "gave what is no session"
    with pytest.raises(MigrationFailed, match=f"session 's050' .* the migration .*fails to version 3 {told}") as caught:
        sync(broken.amigrate())
    assert (caught.value.session, caught.value.to) == ("s050", 3)
    assert everything(store) == before
    assert [(type(error), error.session) for error in sync(broken.aunfit())] == [(MigrationFailed, "s050")]
    with pytest.raises(MigrationFailed):
        broken.invoke("hi", session="s050")
    assert everything(store) == before
    assert broken.invoke("hi", session="s049").reply == "hi"


def test_l5_a_migration_that_gives_what_does_not_load_is_told_with_its_path(saved: Archive) -> None:
    before = everything(saved)
    app = version_3(saved, {2: second, 3: THIRD})  # the output's new type was forgotten
    with pytest.raises(CorruptSession, match=r"\$.activation.rows\[0\].output: expected a string, got 30"):
        sync(app.amigrate())
    assert everything(saved) == before


def test_l5_what_a_migration_changes_is_its_own(saved: Archive) -> None:
    """It may write into what it is given; what is stored, and what another load gets, is another."""

    def wipes(document: Document) -> Document:
        document["cells"].clear()
        return document

    before = everything(saved)
    app = version_3(saved, {2: second, 3: (*THIRD, change_output("Scale", str), wipes)})
    assert app.load("opened").cells == {}
    assert everything(saved) == before


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (b"a", "gave what is no session: .* is not JSON: Object of type bytes"),
        (Decimal(1), "is not JSON: Object of type Decimal"),
        (float("inf"), "is not JSON: Out of range float"),
        ({1, 2}, "is not JSON: Object of type set"),
        ("\ud800", "has text that UTF-8 cannot encode"),
        (nested(300), "is nested more than 208 deep"),
    ],
    ids=["bytes", "Decimal", "inf", "set", "surrogate", "deep"],
)
def test_l5_what_a_migration_gives_is_json_or_refused(store: Archive, value: Any, told: str) -> None:
    """As it would be read again: else it would load from memory, and not once it is written."""
    version_1(store).invoke("hi", session="s")
    before = everything(store)

    def gives(document: Document) -> Document:
        document["cells"] = {"Desk": value}
        return document

    app = version_3(store, {2: second, 3: gives})
    with pytest.raises(MigrationFailed, match=told):
        app.load("s")
    with pytest.raises(MigrationFailed, match=told):
        sync(app.amigrate())
    assert [type(error) for error in sync(app.aunfit())] == [MigrationFailed]
    assert everything(store) == before


def test_l5_the_revision_is_not_a_migrations(store: Archive) -> None:
    version_1(store).invoke("hi", session="s")

    def counts(document: Document) -> Document:
        return document | {"revision": 99}

    app = version_3(store, {2: second, 3: counts})
    assert app.load("s").revision == 1
    assert app.invoke("again", session="s").revision == 2


def test_l5_a_rename_onto_a_name_that_is_taken_loses_nothing(store: Archive) -> None:
    told = "'B' is there already, beside 'A': take one of them away first"
    with pytest.raises(ValueError, match=told):
        rename_node("A", "B")({"head": {"cursor": "A"}, "cells": {"A": 1, "B": 2}})
    with pytest.raises(ValueError, match=told):
        rename_field("Desk", "A", "B")({"head": {"cursor": "A"}, "cells": {"Desk": {"B": 2, "A": 1}}})
    assert rename_node("A", "A")({"head": {"cursor": "A"}, "cells": {"A": 1}})["cells"] == {"A": 1}
    version_1(store).invoke("hi", session="s")
    before = everything(store)
    with pytest.raises(MigrationFailed, match="is there already"):
        version_3(store, {2: second, 3: (lambda d: d | {"cells": {"A": 1, "B": 2}}, rename_node("A", "B"))}).load("s")
    assert everything(store) == before


def test_l5_what_was_added_is_not_what_a_migration_writes_into(store: Any) -> None:
    """Nor is an export: what a store holds is its own."""
    version_1(store).invoke("hi", session="s")
    store.add({"added": store.export("s")})
    before = everything(store)

    def wipes_and_fails(document: Document) -> Document:
        document["histories"].clear()
        raise LookupError("no")

    for session in ("s", "added"):
        with pytest.raises(MigrationFailed):
            version_3(store, {2: second, 3: wipes_and_fails}).load(session)
        store.export(session)["histories"].clear()
    assert everything(store) == before


def test_l5_a_renamed_node_is_renamed_in_the_error_log() -> None:
    document = {"head": {"cursor": "A"}, "errors": [{"node": "A"}, {"node": "C"}]}
    assert rename_node("A", "B")(document)["errors"] == [{"node": "B"}, {"node": "C"}]


def test_l5_another_graphs_session_is_an_error_in_any_version(saved: Archive) -> None:
    other = Graph("orders", entry=Desk3, version=3).stages(Approval, Settle3).workers(Scale, Measure3)
    app = other.join((Scale, Measure3), to=Settle3).compile(store=saved, migrations=STEPS)
    with pytest.raises(WrongGraph, match="belongs to graph 'bills', not to 'orders'"):
        app.load("waits")
    assert sync(app.amigrate()) == ()
    assert sync(app.aunfit()) == ()


@pytest.mark.parametrize(
    ("version", "steps", "place", "what"),
    [
        (3, {2: second}, "migrations", "nothing leads to version 3"),
        (4, {2: second, 4: ()}, "migrations", "nothing leads to version 3"),
        (2, {2: second, 3: ()}, "migrations={3: ...}", "leads to version 3, and the graph is of version 2"),
        (1, {1: second}, "migrations={1: ...}", "leads to version 1, and the graph is of version 1"),
    ],
)
def test_m3_migrations_with_a_gap_do_not_compile(version: int, steps: Steps, place: str, what: str) -> None:
    graph = Graph("bills", entry=Desk, version=version).stages(Review, Settle).workers(Weigh, Measure)
    with pytest.raises(DefinitionError) as caught:
        graph.join((Weigh, Measure), to=Settle).compile(migrations=steps)
    (problem,) = caught.value.problems
    assert (problem.kind, problem.place, problem.what) == ("migration-gap", place, what)


def test_m2_what_is_no_migration_is_told() -> None:
    graph: Any = Graph("bills", entry=Desk, version=2).stages(Review, Settle).workers(Weigh, Measure)
    for wrong in ([second], {2: 7}, {2: (second, 7)}, {"2": second}, None):
        with pytest.raises(InvalidInput, match=r"migrations=.*: pass a dict such as"):
            graph.join((Weigh, Measure), to=Settle).compile(migrations=wrong)
    for version in (0, -1, True, 1.0, "2"):
        number: Any = version
        with pytest.raises(InvalidInput, match="a version is a whole number, 1 or more"):
            Graph("bills", entry=Desk, version=number)


# ------------------------------------------------------------------------------------------------- ready-made ones


@given(histories())
@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
def test_l5_a_renamed_node_is_renamed_wherever_it_is_named(drawn: Any) -> None:
    """There and back again is the same, and in between it is nowhere: not as a name, that is."""
    of, _, session = drawn
    document = of.codec.document(session)
    before = json.loads(json.dumps(document))
    for node in NODES:
        there = rename_node(node, "Elsewhere")(document)
        assert node not in set(names(there))
        document = rename_node("Elsewhere", node)(there)
        assert document == before


def names(part: Any, key: str = "") -> Iterator[str]:
    """The texts of a document that stand where nodes are named, and the keys."""
    if isinstance(part, dict):
        for inner, value in part.items():
            yield inner.partition(".")[0]
            yield from names(value, inner)
    elif isinstance(part, list):
        for value in part:
            yield from names(value, key)
    elif isinstance(part, str) and key in ("cursor", "parent", "roots", "marks", "node", "worker", "target", "workers"):
        yield part


def test_l5_a_changed_state_is_changed_wherever_it_stands() -> None:
    """In a session in which everything is set: cells, rows, inputs of a scatter, journals."""
    _, document = hostile.subject()
    before = json.dumps(document)
    assert '"raw": "cmF3"' in before
    changed = change_state("Check", lambda value: value | {"raw": "bmV3"})(json.loads(before))
    changed = change_output("Check", lambda value: value | {"raw": "bmV3"})(changed)
    left = json.dumps(changed).count("cmF3")
    own = change_state("Intake", lambda value: value | {"raw": "bmV3"})(changed)
    assert left - json.dumps(own).count("cmF3") == 1  # the one cell of Intake
    assert json.dumps(own).count("cmF3") == 1, "what a tool gave is the tool's"


def test_l5_a_field_of_an_absent_state_is_not_there_to_rename() -> None:
    document: Document = {"head": {"cursor": "Intake"}, "cells": {"Intake": None}}
    assert rename_field("Intake", "a", "b")(document)["cells"] == {"Intake": None}


def test_l5_store_errors_are_the_operators() -> None:
    assert all(issubclass(one, StoreError) for one in (VersionMismatch, MigrationFailed))
