"""Chat models: the port, and the model that answers from a script."""

from statewright.models.model import ModelRequest, ModelResponse, OutputForm, ToolSpec, Usage
from statewright.models.port import ChatModel
from statewright.models.scripted import ScriptedModel

__all__ = ["ChatModel", "ModelRequest", "ModelResponse", "OutputForm", "ScriptedModel", "ToolSpec", "Usage"]
