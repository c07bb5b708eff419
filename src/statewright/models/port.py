"""The port that every chat model obeys."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from statewright.models.model import ModelRequest, ModelResponse


@runtime_checkable
class ChatModel(Protocol):
    """Answers a conversation."""

    async def complete(self, request: ModelRequest) -> ModelResponse:
        """The next message of the assistant.

        Raises ModelUnavailable where it cannot be reached or refuses for now, ModelError for what no second attempt
        would change.
        """
        ...
