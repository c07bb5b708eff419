"""A prebuilt state schema. The package does not import this module, because typing_extensions is slow to import."""

from __future__ import annotations

from typing import Annotated

from typing_extensions import TypedDict  # pydantic refuses `typing.TypedDict` below Python 3.12

from statewright.channels import add_messages
from statewright.messages import Message


class MessagesState(TypedDict):
    """The state of a conversation: one field, `messages`, merged by `add_messages`."""

    messages: Annotated[list[Message], add_messages]
