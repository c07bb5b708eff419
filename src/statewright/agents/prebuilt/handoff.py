"""Tools with which one agent hands a conversation over to another.

A handoff tool stops its agent after the current superstep, so that the other tools of that superstep can finish. The
metadata of the tool's result names the agent that takes over. The graph that called the first agent reads this name and
calls the other agent. The metadata is plain data, so it is saved with the conversation, and one answer of a model may
contain several handoffs.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from statewright.agents.prebuilt.member import agent_tools
from statewright.agents.tools import ToolContext, ToolFunction
from statewright.errors import InvalidConfig, ToolError
from statewright.graph import STOP, Command
from statewright.messages import Message, RemoveMessage
from statewright.runtime import CompiledGraph

HANDOFF: Final = "handoff"
"""The metadata key of a handoff."""
DEFAULT_PREFIX: Final = "transfer_to"
"""The default prefix of the names of handoff tools."""


@dataclass(frozen=True, slots=True)
class Handoff:
    """A handoff, read from the result of a handoff tool."""

    message: Message
    """The result of the tool."""
    to: str
    """The name of the agent that takes over."""
    task: str
    """The task for that agent, which then sees nothing else of the conversation. If empty, the agent sees all of it."""


class HandoffTool(ToolFunction):
    """A tool that hands the conversation over to the agent `agent_name`; see `create_handoff_tool`."""

    def __init__(
        self, agent_name: str, *, name: str | None = None, description: str | None = None, takes_task: bool = False
    ) -> None:
        self.agent_name = agent_name
        try:
            super().__init__(
                self._with_task if takes_task else self._without_task,
                name=name or tool_name(agent_name),
                description=description or f"Hand the conversation over to {agent_name!r}, which continues it.",
            )
        except ToolError as error:
            raise InvalidConfig(f"The tool that hands over to {agent_name!r} cannot be created. {error}") from error

    async def _without_task(self, context: ToolContext) -> Command[Any]:
        return self._build_command("", context)

    async def _with_task(self, context: ToolContext, task: str = "") -> Command[Any]:
        """Hand over.

        Args:
            task: The task, with everything that the agent needs to know. The agent then sees only this text.
                Leave it out to show the agent the whole conversation.
        """
        return self._build_command(task.strip(), context)

    def _build_command(self, task: str, context: ToolContext) -> Command[Any]:
        text = f"Handed over to {self.agent_name}{f': {task}' if task else '.'}"
        handoff = {"to": self.agent_name, "task": task} if task else {"to": self.agent_name}
        message = Message(
            text, role="tool", name=self.name, tool_call_id=context.tool_call_id, metadata={HANDOFF: handoff}
        )
        return Command(update={"messages": [message]}, goto=STOP)


def create_handoff_tool(
    *, agent_name: str, name: str | None = None, description: str | None = None, takes_task: bool = False
) -> HandoffTool:
    """Create a tool that hands over to the agent `agent_name` of the same swarm or supervisor.

    Its default name is `transfer_to_<agent_name>`. With `takes_task` the model may write a task, and the other agent
    then sees only that; in a swarm, however, all agents see the whole conversation. Raises InvalidConfig for an invalid
    tool name.
    """
    return HandoffTool(agent_name, name=name, description=description, takes_task=takes_task)


def tool_name(agent_name: str, prefix: str = DEFAULT_PREFIX) -> str:
    """Return the default name of the tool that hands over to an agent."""
    sanitized = re.sub(r"[^A-Za-z0-9-]+", "_", agent_name.strip())
    return f"{prefix}_{sanitized.lower()}"


def handoffs_in(messages: Sequence[Message | RemoveMessage]) -> list[Handoff]:
    """Return the handoffs after the last assistant message of an agent's output, in order.

    Earlier handoffs have already been made, for example inside a group that is itself a member of another group.
    """
    handoffs: list[Handoff] = []
    for message in reversed(messages):
        if isinstance(message, RemoveMessage):
            continue
        if message.role == "assistant":
            break
        handoff = (message.metadata or {}).get(HANDOFF)
        if handoff is not None:
            handoffs.append(Handoff(message, handoff["to"], handoff.get("task", "")))
    return handoffs[::-1]


def handoff_tools(agent: CompiledGraph) -> Sequence[HandoffTool]:
    """Return the handoff tools in the tool nodes of an agent."""
    return [tool for tool in agent_tools(agent) if isinstance(tool, HandoffTool)]
