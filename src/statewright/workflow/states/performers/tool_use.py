"""The tools of an assistant: offered to its model, and called when it asks for them.

What a tool raises goes back to the model as the answer of that call: it may ask in another way. What is wrong with the
arguments does too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from statewright.agents import ToolContext, as_text, call_tool
from statewright.errors import ToolError
from statewright.messages import Message, ToolCall
from statewright.models import ToolSpec
from statewright.workflow.states.model import Assistant
from statewright.workflow.states.performers.call import Call
from statewright.workflow.states.tools import Integrations, ToolRegistry

CHARACTERS_A_TOKEN: Final = 4


class ToolUse:
    """The tools of one assistant. Those that are nowhere are not offered; `check` warns of them."""

    def __init__(self, assistant: Assistant, registry: ToolRegistry, integrations: Integrations) -> None:
        self._aliases = {tool.name: tool.integration_alias for tool in assistant.tools if tool.name in registry}
        self._registry = registry
        self._integrations = integrations
        self._longest = assistant.limit_tool_output_tokens * CHARACTERS_A_TOKEN

    @property
    def specs(self) -> list[ToolSpec]:
        """What the model is told of them."""
        tools = [self._registry.get(name) for name in self._aliases]
        return [ToolSpec(tool.name, tool.description, tool.parameters) for tool in tools]

    async def answers(self, calls: Sequence[ToolCall], call: Call) -> list[Message]:
        """The answers to calls that a model asked for, which are made beside each other."""
        return list(await asyncio.gather(*(self._answer(one, call) for one in calls)))

    async def _answer(self, asked: ToolCall, call: Call) -> Message:
        try:
            content = as_text(await self._called(asked, call))
        except Exception as error:
            content = f"Error: {error}"
        if len(content) > self._longest:
            content = f"{content[: self._longest]}\n[Cut off after {self._longest} of {len(content)} characters.]"
        return Message(content, role="tool", name=asked.name, tool_call_id=asked.id)

    async def _called(self, asked: ToolCall, call: Call) -> Any:
        if asked.name not in self._aliases:
            raise ToolError(f"There is no tool {asked.name!r}. There are: {', '.join(self._aliases) or 'none'}.")
        credentials = self._integrations.credentials(self._aliases[asked.name])
        context = ToolContext(credentials, call.runtime.stream_writer, call.runtime.idempotency_key)
        return await call_tool(self._registry.get(asked.name), asked.arguments, context=context)
