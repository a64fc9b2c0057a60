"""Models: what the engine asks of one, and a scripted one for tests and demos."""

from ezgraph.models.contract import Model, ModelReply, ModelRequest, StopReason, ToolSpec
from ezgraph.models.scripted import Call, ScriptedModel, call

__all__ = ["Call", "Model", "ModelReply", "ModelRequest", "ScriptedModel", "StopReason", "ToolSpec", "call"]
