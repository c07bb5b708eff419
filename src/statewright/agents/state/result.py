"""The result of one call of an agent."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, cast

from statewright.checkpoint import stored_as
from statewright.messages import Message, ToolCall, as_message
from statewright.models import Usage

USER: Final = "user"
"""The agent name of the user's turns among the results."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentResult:
    """The messages of one call of an agent, in order."""

    agent_name: str
    messages: Sequence[Message]
    """Answers of the model, and the results of their tool calls."""
    created_at: datetime
    id: str | None = None
    usage: Usage = field(default_factory=Usage)
    requests: int = 0
    """The number of model calls."""
    stop_reason: str | None = None
    """The reason why the agent ended before its model was done: see `StopReason`."""

    @property
    def output(self) -> list[Message]:
        """The messages that are not tool results."""
        return [message for message in self.messages if message.role != "tool"]

    @property
    def tool_results(self) -> list[Message]:
        """The tool results, as messages of the role `tool`."""
        return [message for message in self.messages if message.role == "tool"]

    @property
    def tool_calls(self) -> list[Message]:
        """Alias of `tool_results` with AgentKit's name."""
        return self.tool_results

    @property
    def finish_reason(self) -> str | None:
        """The reason why the model ended its last answer: see `Message.finish_reason`."""
        return next((message.finish_reason for message in reversed(self.output) if message.role == "assistant"), None)

    @property
    def text(self) -> str:
        """The text of the last message with text."""
        return next((message.text for message in reversed(self.output) if message.text), "")

    def called(self, tool: str) -> ToolCall | None:
        """Return the last call of the named tool; None if there is none."""
        calls = [call for message in self.messages for call in message.tool_calls if call.name == tool]
        return calls[-1] if calls else None

    @property
    def checksum(self) -> str:
        """A hash of the messages and their instant, to recognise a result that is delivered twice."""
        messages = [message.to_dict() for message in self.messages]
        text = json.dumps([self.agent_name, messages, self.created_at.isoformat()])
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def to_json(self) -> dict[str, Any]:
        """Return the result as plain JSON."""
        usage = {name: getattr(self.usage, name) for name in Usage.__slots__ if getattr(self.usage, name)}
        optional = {"id": self.id, "usage": usage, "requests": self.requests, "stopReason": self.stop_reason}
        return {
            "agentName": self.agent_name,
            "messages": [message.to_dict() for message in self.messages],
            "createdAt": self.created_at.isoformat(),
            "checksum": self.checksum,
            **{name: value for name, value in optional.items() if value},
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> AgentResult:
        """Return the result that `to_json` wrote, or that AgentKit exported with `output` and `toolCalls`."""
        messages = value.get("messages")
        if messages is None:
            messages = map(_from_agentkit, [*value.get("output", ()), *value.get("toolCalls", ())])
        created_at = datetime.fromisoformat(value["createdAt"])
        return cls(
            agent_name=value["agentName"],
            messages=[cast(Message, as_message(message)) for message in messages],
            created_at=created_at if created_at.tzinfo is not None else created_at.replace(tzinfo=UTC),
            id=value.get("id"),
            usage=Usage(**value.get("usage", {})),
            requests=value.get("requests", 0),
            stop_reason=value.get("stopReason"),
        )


def _from_agentkit(message: Any) -> Any:
    """Convert a message of AgentKit, which has separate types for tool calls and tool results."""
    if not isinstance(message, Mapping):
        return message
    fields = dict(cast("Mapping[str, Any]", message))
    kind = fields.get("type")
    if kind == "tool_call":
        calls: list[Any] = [
            {"id": tool["id"], "name": tool["name"], "args": tool.get("input") or {}} for tool in fields["tools"]
        ]
        return {"role": "assistant", "content": "", "tool_calls": calls}
    if kind == "tool_result":
        content, tool = fields.get("content"), fields["tool"]
        text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
        return {"role": "tool", "content": text, "name": tool["name"], "tool_call_id": tool["id"]}
    return {key: value for key, value in fields.items() if key != "type"} if kind == "text" else fields


_STORED: Final = ("agent_name", "messages", "created_at", "id", "usage", "requests", "stop_reason")
"""The fields in the order in which they are stored."""


def _encode_result(result: AgentResult) -> list[Any]:
    usage, created_at = result.usage.to_list(), result.created_at.astimezone(UTC)
    converted = {"messages": list(result.messages), "created_at": created_at, "usage": usage}
    return list(({name: getattr(result, name) for name in _STORED} | converted).values())


def _decode_result(parts: list[Any]) -> AgentResult:
    fields = dict(zip(_STORED, parts, strict=True))
    return AgentResult(**{**fields, "usage": Usage(*fields["usage"])})


stored_as(57, AgentResult, _encode_result, _decode_result)
