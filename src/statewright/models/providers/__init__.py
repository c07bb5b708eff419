"""Chat models of providers, reached through pydantic-ai.

The libraries of providers are not imported before `connect_model` is called.
"""

from statewright.models.providers.model import PydanticAIModel, connect_model

__all__ = ["PydanticAIModel", "connect_model"]
