"""Every error a person can meet, by who must act: the author of a graph or of a node, the caller, the operator.

An error is data first and text last; the text says what happened, where, and what to write instead.  Rules M1, M2, M3.
"""

from ezgraph.errors.callers import (
    BranchFailed,
    CallerError,
    InvalidInput,
    RevisionConflict,
    RunningLoop,
    SessionCompleted,
    StepLimit,
    UnfinishedWork,
    UnknownSession,
)
from ezgraph.errors.definition import DefinitionError, Problem
from ezgraph.errors.nodes import (
    ConflictError,
    InvalidResponse,
    ModelStopped,
    NodeError,
    NoResult,
    NoState,
    OutputError,
    OwnershipError,
    ReplayMismatch,
    RoundLimit,
    RoutingError,
    ScriptError,
    StateTypeError,
    StepFailed,
    StepOver,
    StepTimeout,
    UndeclaredRoute,
    UnknownTarget,
)
from ezgraph.errors.root import EzGraphError
from ezgraph.errors.stores import CorruptSession, ForeignFile, StoreError, StoreUnavailable, WrongGraph

__all__ = [
    "BranchFailed",
    "CallerError",
    "ConflictError",
    "CorruptSession",
    "DefinitionError",
    "EzGraphError",
    "ForeignFile",
    "InvalidInput",
    "InvalidResponse",
    "ModelStopped",
    "NoResult",
    "NoState",
    "NodeError",
    "OutputError",
    "OwnershipError",
    "Problem",
    "ReplayMismatch",
    "RevisionConflict",
    "RoundLimit",
    "RoutingError",
    "RunningLoop",
    "ScriptError",
    "SessionCompleted",
    "StateTypeError",
    "StepFailed",
    "StepLimit",
    "StepOver",
    "StepTimeout",
    "StoreError",
    "StoreUnavailable",
    "UndeclaredRoute",
    "UnfinishedWork",
    "UnknownSession",
    "UnknownTarget",
    "WrongGraph",
]
