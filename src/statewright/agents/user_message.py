"""What a user says to a network: text, a message, or what a web page sends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from statewright.errors import InvalidConfig
from statewright.messages import Message, as_message


def as_user_message(value: Any) -> Message:
    """The message. A mapping may have `systemPrompt`, which is added to what the model is told in this turn.

    Raises InvalidConfig for what is no message of a user.
    """
    more: dict[str, Any] = {}
    if isinstance(value, Mapping):
        told = dict(cast("Mapping[str, Any]", value))
        prompt = told.pop("systemPrompt", told.pop("system_prompt", None))
        if prompt is not None and not isinstance(prompt, str):
            raise InvalidConfig(f"systemPrompt of a user's message is {prompt!r}. Give text.")
        at = told.pop("clientTimestamp", told.pop("client_timestamp", None))
        found = {"system_prompt": prompt, "client_timestamp": at, "client_state": told.pop("state", None)}
        more = {key: one for key, one in found.items() if one is not None}
        value = {"role": "user", **told}
    message = as_message(value)
    if not isinstance(message, Message) or message.role != "user":
        raise InvalidConfig(f"The input of a network is {value!r}. Give text, or a message of the user.")
    if more:
        message.metadata = {**(message.metadata or {}), **more}
    return message
