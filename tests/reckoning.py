"""What a session of the puppets must come to, reckoned with dicts and sets alone: nothing of the engine is used here.

A state is a dict; an action is a tuple.  A step commits, so `levels` gives, for each number of commits, the set of the
states that some order of the branches leads to; what is left at the end must not depend on that order.  Rules A5, A8,
A9, C2, D3, E2 to E5, E9, F5, G4, G6, G9.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any, TypeAlias

State: TypeAlias = dict[str, Any]
Action: TypeAlias = Any
Program: TypeAlias = Mapping[str, Sequence[Action]]

STAGES = ("A", "B", "C", "D", "J")
WORKERS = ("W1", "W2", "W3", "W4", "X1", "X2")
SHARED = "$"
CELLS = (*STAGES, *WORKERS, SHARED)
INTO = {"W4": ("W3",)}
JOINED = ("W1", "W2", "W4")
FAILURES = {
    "raise": "StepFailed",
    "wrong": "OwnershipError",
    "stranger": "UnknownTarget",
    "bad state": "StateTypeError",
    "bad output": "OutputError",
    "conflict": "ConflictError",
}


class Failure(Exception):  # noqa: N818  what a step came to
    """The step raises an error of this name."""


def fresh() -> State:
    """A session that nothing has been committed to."""
    return {
        "cursor": "A",
        "owed": False,
        "raised": False,
        "input": False,
        "incoming": None,
        "depth": 1,
        "limit": 25,
        "cells": {},
        "spaces": {},
        "open": None,
        "results": {},
        "used": {},
        "reply": None,
        "error": None,
        "failed": [],
    }


def space_of(stage: str) -> str:
    return "side" if stage == "J" else "default"


def closure_of(roots: Sequence[str]) -> list[str]:
    return [w for w in WORKERS if w in roots or (w == "W4" and "W3" in roots)]


# ------------------------------------------------------------------------------------------------------------ a turn


def work_left(state: State) -> list[str]:
    """The nodes that new input would run over."""
    if state["open"] is None:
        return [state["cursor"]] if state["owed"] and not state["raised"] else []
    workers = closure_of(state["open"]["roots"])
    left = [w for w in workers if w not in state["open"]["rows"]]
    return [*left, "J"] if any(w in JOINED for w in workers) else left


def to_recover(state: State) -> list[str]:
    """The nodes that a recovery would run."""
    return [state["cursor"]] if state["raised"] else work_left(state)


def standing(state: State) -> str:
    """Where it stands, for who lists sessions."""
    if state["raised"] or (state["open"] is not None and state["open"]["marks"]):
        return "failed"
    return "unfinished" if work_left(state) else "completed" if state["cursor"] == "END" else "idle"


def begun(state: State, text: str, limit: int) -> State:
    """The session as input finds it; nothing is committed yet."""
    new = deepcopy(state)
    new.update(owed=True, input=True, raised=False, incoming=text, depth=1, limit=limit)
    return _called(new)


def recovering(state: State, limit: int) -> State:
    """The session as a recovery commits it before anything runs."""
    new = deepcopy(state)
    new.update(raised=False, limit=limit)
    if new["open"] is not None:
        new["open"]["marks"] = set()
    return _called(new)


def _called(state: State) -> State:
    state.update(used={}, reply=None, error=None, failed=[])
    return state


def levels(state: State, program: Program) -> list[list[State]]:
    """By number of commits, every state that this program can have led to."""
    found = [[state]]
    while following := _distinct(new for one in found[-1] for new in _successors(one, program)):
        found.append(following)
    return found


def ends(found: list[list[State]], program: Program) -> list[State]:
    """The states of those levels in which nothing is left to run."""
    return _distinct(one for level in found for one in level if not runnable(one))


def _distinct(states: Iterator[State]) -> list[State]:
    return list({repr(shown(one)) + repr((one["used"], one["reply"])): one for one in states}.values())


def shown(state: State) -> dict[str, Any]:
    """What can be seen of a state in a loaded session."""
    opened = state["open"]
    return {
        "cursor": state["cursor"],
        "owed": state["owed"],
        "raised": state["raised"],
        "cells": sorted(state["cells"].items()),
        "spaces": sorted((space, list(messages)) for space, messages in state["spaces"].items() if messages),
        "open": opened
        and {
            "parent": opened["parent"],
            "rows": sorted((w, output, sorted(cells.items())) for w, (output, cells, _) in opened["rows"].items()),
            "marks": sorted(opened["marks"]),
        },
        "results": sorted(state["results"].items()),
    }


def runnable(state: State) -> list[str]:
    """The steps that can run now."""
    return [node for node, depth in _enabled(state) if depth <= state["limit"]]


def held(state: State) -> list[str]:
    """The steps that the limit holds back."""
    return [node for node, depth in _enabled(state) if depth > state["limit"]]


def _enabled(state: State) -> list[tuple[str, int]]:
    if state["error"] is not None:
        return []
    opened = state["open"]
    if opened is None:
        return [(state["cursor"], state["depth"])] if state["owed"] and not state["raised"] else []
    workers = closure_of(opened["roots"])
    return [
        (w, _depth(opened, w, workers))
        for w in workers
        if w not in opened["rows"] and w not in opened["marks"] and all(b in opened["rows"] for b in INTO.get(w, ()))
    ]


def _depth(opened: Mapping[str, Any], node: str, workers: Sequence[str]) -> int:
    before = [b for b in (JOINED if node == "J" else INTO.get(node, ())) if b in workers]
    depth: int = 1 + max((opened["rows"][b][2] for b in before), default=opened["depth"])
    return depth


def _successors(state: State, program: Program) -> Iterator[State]:
    for node in runnable(state):
        new = deepcopy(state)
        taken = new["used"].get(node, 0)
        new["used"][node] = taken + 1
        told = program.get(node, ())
        action = told[taken] if taken < len(told) else None
        if new["open"] is not None:
            _work(new, node, action)
        else:
            _own(new, node, action)
        yield new


# ------------------------------------------------------------------------------------------------------------ a worker


def view(cells: Mapping[str, int], results: Mapping[str, int]) -> int:
    """All that a step can read, as one number."""
    read = sum((i + 1) * cells.get(name, 0) for i, name in enumerate(CELLS))
    return read + sum((i + 20) * results.get(name, 0) for i, name in enumerate(WORKERS))


def _work(state: State, node: str, action: Action) -> None:
    save, (kind, *rest) = action or (None, ("result", 0))
    opened = state["open"]
    if kind in FAILURES:
        opened["marks"].add(node)
        state["failed"] = [w for w in WORKERS if w in {*state["failed"], node}]
        return
    cells, results = dict(state["cells"]), {}
    for source in INTO.get(node, ()):
        output, saved, _ = opened["rows"][source]
        cells.update(saved)
        results[source] = output
    staged = {} if save is None else {node: save}
    output = rest[0] + view({**cells, **staged}, results) % 1000
    workers = closure_of(opened["roots"])
    opened["rows"][node] = (output, staged, _depth(opened, node, workers))
    if len(opened["rows"]) == len(workers):
        _close(state, workers)


def _close(state: State, workers: Sequence[str]) -> None:
    opened = state["open"]
    for worker in workers:
        state["cells"].update(opened["rows"][worker][1])
    joined = any(w in JOINED for w in workers)
    state.update(
        cursor="J" if joined else opened["parent"],
        owed=joined,
        raised=False,
        input=False,
        incoming=None,
        depth=_depth(opened, "J", workers) if joined else 1,
        results={w: opened["rows"][w][0] for w in workers} if joined else {},
        open=None,
        reply=None,
    )


# ------------------------------------------------------------------------------------------------------------- a stage


def _own(state: State, node: str, action: Action) -> None:
    draft = deepcopy(state)
    if state["input"]:
        _say(draft, node, "user", state["incoming"])
    try:
        if node == "C":
            response = _talk(draft, action)
        else:
            writes, response = action or ((), ("direct", "ok"))
            _write(draft, node, writes, response)
    except Failure as failure:
        state["error"] = str(failure)
        if state["input"]:
            state.update(owed=False, raised=False)
        else:
            state["raised"] = True
        state.update(input=False)
        return
    _publish(draft, node, response)
    state.clear()
    state.update(draft)


def _say(state: State, stage: str, role: str, text: str) -> None:
    state["spaces"].setdefault(space_of(stage), []).append((role, text))


def _write(draft: State, node: str, writes: Sequence[Any], response: Any) -> None:
    for what, *rest in writes:
        if what == "save":
            draft["cells"][node] = rest[0]
        elif what == "write":
            draft["cells"][rest[0]] = rest[1]
        elif what == "share":
            draft["cells"][SHARED] = rest[0]
        else:
            _say(draft, rest[0], "user", rest[1])
    if response[0] in FAILURES:
        raise Failure(FAILURES[response[0]])


def spoken(text: str, cells: Mapping[str, int], results: Mapping[str, int], incoming: str | None) -> str:
    """What a stage says: its text, and all that it can read."""
    return f"{text}:{view(cells, results)}:{incoming}"


def _talk(draft: State, rounds: Any) -> Any:
    """The loop of C: rounds of calls until one routes, else the text."""
    said = draft["spaces"].setdefault("default", [])
    if not said or said[-1][0] == "assistant":
        _say(draft, "C", "user", "Begin.")
    for calls in rounds or ():
        _say(draft, "C", "assistant", "")
        for writes, response in calls:
            _write(draft, "C", writes, response)
        routes = [response for _, response in calls if response[0] != "stay"]
        if _conflicts(routes):
            raise Failure(FAILURES["conflict"])
        for _, response in calls:
            answer = {"stay": response[-1], "task result": "accepted"}.get(response[0], "Done.")
            _say(draft, "C", "tool", answer)
        if routes:
            return routes[0]
    return ("direct", "said", "plain")


def _conflicts(routes: Sequence[Any]) -> bool:
    bare = {
        (r[0], r[1] if r[0] == "go" else tuple(sorted(r[1])))
        for r in routes
        if r[0] == "fanout" or (r[0] == "go" and r[2] is None and r[3] is None)
    }
    exclusive = [r for r in routes if not (r[0] == "fanout" or (r[0] == "go" and r[2] is None and r[3] is None))]
    return len(bare) + len(exclusive) > 1


def _publish(state: State, node: str, response: Any) -> None:
    incoming = state["incoming"]
    state.update(owed=False, raised=False, input=False, incoming=None)
    depth, state["depth"] = state["depth"], 1
    state["reply"] = None
    match response:
        case ("direct", text, "plain"):
            _reply(state, node, text)
        case ("direct", text):
            _reply(state, node, spoken(text, state["cells"], _results(state), incoming))
        case ("task result", value):
            _reply(state, node, str(value))
        case ("finish", text):
            _reply(state, node, text)
            _move(state, "END")
        case ("go", target, written, message):
            _seed(state, target, written, message)
            _move(state, target)
            state.update(owed=True, incoming=message, depth=depth + 1)
        case ("direct to", target, text, written, message):
            _seed(state, target, written, message)
            for space in dict.fromkeys((node, target) if space_of(node) != space_of(target) else (node,)):
                _say(state, space, "assistant", text)
            state["reply"] = text
            _move(state, target)
        case ("fanout", workers):
            _open(state, node, workers, depth)
        case ("continue",):
            _continue(state, node, depth)


def _results(state: State) -> dict[str, int]:
    results: dict[str, int] = state["results"]
    return results


def _reply(state: State, node: str, text: str) -> None:
    _say(state, node, "assistant", text)
    state["reply"] = text


def _move(state: State, target: str) -> None:
    if target != state["cursor"]:
        state["results"] = {}
    state["cursor"] = target


def _seed(state: State, target: str, written: int | None, message: str | None) -> None:
    if written is not None:
        state["cells"][target] = written
    said = state["spaces"].get(space_of(target), [])
    if message is not None and (not said or said[-1] != ("user", message)):
        _say(state, target, "user", message)


def _open(state: State, node: str, workers: Sequence[str], depth: int) -> None:
    state["open"] = {"parent": node, "roots": tuple(workers), "depth": depth, "rows": {}, "marks": set()}


def _continue(state: State, node: str, depth: int) -> None:
    if node == "A":
        _move(state, "B")
        state.update(owed=True, depth=depth + 1)
    elif node == "B":
        _open(state, node, ("W1", "W3"), depth)
    elif node == "J":
        _move(state, "END")
