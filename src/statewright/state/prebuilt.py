"""A prebuilt state schema, and prebuilt computed fields."""

from __future__ import annotations

from typing import Annotated

from typing_extensions import TypedDict  # pydantic refuses `typing.TypedDict` below Python 3.12

from statewright.channels import add_messages
from statewright.messages import Message
from statewright.state.fields import Managed


class MessagesState(TypedDict):
    """The state of a conversation: one field, `messages`, merged by `add_messages`."""

    messages: Annotated[list[Message], add_messages]


IsLastStep = Annotated[bool, Managed("IsLastStep", lambda step, stop: step >= stop - 1)]
"""True in the last superstep that the recursion limit permits."""
RemainingSteps = Annotated[int, Managed("RemainingSteps", lambda step, stop: stop - step)]
"""The number of supersteps that the recursion limit still permits, including the current one."""
