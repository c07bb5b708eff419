"""Chat models of providers, reached through pydantic-ai.

No library of a vendor is loaded before `connect_model` is called.
"""

from statewright.models.providers.connect import connect_model
from statewright.models.providers.pydantic_ai_model import PydanticAIModel

__all__ = ["PydanticAIModel", "connect_model"]
