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
"""The name under which the user's turns stand among the results of agents."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentResult:
    """The messages of one call of an agent, in the order in which they were said."""

    agent_name: str
    messages: Sequence[Message]
    """Answers of the model, and the results of the tools that they asked for."""
    created_at: datetime
    id: str | None = None
    usage: Usage = field(default_factory=Usage)
    requests: int = 0
    """How often a model was asked."""
    stop_reason: str | None = None
    """Why the agent ended where its model would have gone on: see `StopReason`."""

    @property
    def output(self) -> list[Message]:
        """What the model said."""
        return [message for message in self.messages if message.role != "tool"]

    @property
    def tool_results(self) -> list[Message]:
        """What the tools answered, as messages of the role `tool`."""
        return [message for message in self.messages if message.role == "tool"]

    @property
    def tool_calls(self) -> list[Message]:
        """`tool_results` under the name that AgentKit gives them."""
        return self.tool_results

    @property
    def finish_reason(self) -> str | None:
        """The reason why the model ended its last answer: see `Message.finish_reason`."""
        return next((message.finish_reason for message in reversed(self.output) if message.role == "assistant"), None)

    @property
    def text(self) -> str:
        """The last thing that was said."""
        return next((message.text for message in reversed(self.output) if message.text), "")

    def called(self, tool: str) -> ToolCall | None:
        """The last call of a tool of that name; None if there was none."""
        calls = [call for message in self.messages for call in message.tool_calls if call.name == tool]
        return calls[-1] if calls else None

    @property
    def checksum(self) -> str:
        """The same for the same messages at the same instant: to tell results apart that are delivered twice."""
        told = json.dumps([self.agent_name, [one.to_dict() for one in self.messages], self.created_at.isoformat()])
        return hashlib.sha256(told.encode()).hexdigest()[:16]

    def to_json(self) -> dict[str, Any]:
        """The result as plain JSON."""
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
        """The result that `to_json` wrote, or that AgentKit exported: with `output` and `toolCalls`."""
        written = value.get("messages")
        if written is None:
            written = map(_from_agentkit, [*value.get("output", ()), *value.get("toolCalls", ())])
        created = datetime.fromisoformat(value["createdAt"])
        return cls(
            agent_name=value["agentName"],
            messages=[cast(Message, as_message(message)) for message in written],
            created_at=created if created.tzinfo is not None else created.replace(tzinfo=UTC),
            id=value.get("id"),
            usage=Usage(**value.get("usage", {})),
            requests=value.get("requests", 0),
            stop_reason=value.get("stopReason"),
        )


_NONE: Final[Mapping[str, Any]] = {}


def _from_agentkit(message: Any) -> Any:
    """A message of AgentKit in the form that is read here: it has calls and results of tools as types of their own."""
    if not isinstance(message, Mapping):
        return message
    told = dict(cast("Mapping[str, Any]", message))
    kind = told.get("type")
    if kind == "tool_call":
        asked: list[Any] = [
            {"id": one["id"], "name": one["name"], "args": one.get("input") or _NONE} for one in told["tools"]
        ]
        return {"role": "assistant", "content": "", "tool_calls": asked}
    if kind == "tool_result":
        content, tool = told.get("content"), told["tool"]
        text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
        return {"role": "tool", "content": text, "name": tool["name"], "tool_call_id": tool["id"]}
    return {key: value for key, value in told.items() if key != "type"} if kind == "text" else told


def _encode_result(result: AgentResult) -> list[Any]:
    usage = result.usage.to_list()
    at = result.created_at.astimezone(UTC)
    return [result.agent_name, list(result.messages), at, result.id, usage, result.requests, result.stop_reason]


def _decode_result(parts: list[Any]) -> AgentResult:
    name, messages, at, identity, usage, requests, stop_reason = parts
    return AgentResult(
        agent_name=name,
        messages=messages,
        created_at=at,
        id=identity,
        usage=Usage(*usage),
        requests=requests,
        stop_reason=stop_reason,
    )


stored_as(57, AgentResult, _encode_result, _decode_result)
