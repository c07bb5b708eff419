"""The state that most conversations with models of LangChain need."""

from __future__ import annotations

from typing import Annotated

from langchain_core.messages import AnyMessage
from typing_extensions import TypedDict  # pydantic refuses that of typing below Python 3.12

from statewright.langchain.channel import add_messages


class MessagesState(TypedDict):
    """One field, `messages`, with messages of LangChain, merged by `add_messages`."""

    messages: Annotated[list[AnyMessage], add_messages]
