"""Results of agent calls, the reasons why calls and runs end, and limits on their usage."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, Literal, cast

from statewright.checkpoint import register_codec
from statewright.messages import Message, ToolCall, as_message
from statewright.models import ModelResponse, Usage

USER: Final = "user"
"""The `agent_name` of the results that stand for the user's messages."""
StopReason = Literal["completed", "done", "max_iter", "stop_when", "usage_limit", "stopped", "length", "refused"]
"""The reason why the run of a network or the call of an agent ended:

- `completed`: the router chose no agent;
- `done`: the routing model called the tool `done`;
- `max_iter`: the maximum number of agent calls or of model calls was reached;
- `stop_when`: the function `stop_when` returned true;
- `usage_limit`: a usage limit was reached;
- `stopped`: the hook `on_start` stopped the agent;
- `length`: the last answer was cut off at its token limit;
- `refused`: the model or a content filter refused to answer.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentResult:
    """The result of one call of an agent: its messages, in order, and its usage."""

    agent_name: str
    messages: Sequence[Message]
    """The answers of the model, and the results of the tool calls in them."""
    created_at: datetime
    id: str | None = None
    usage: Usage = field(default_factory=Usage)
    requests: int = 0
    """The number of model calls."""
    stop_reason: str | None = None
    """The reason why the call ended without a final answer of the model, see `StopReason`; None if it has one."""

    @property
    def output(self) -> list[Message]:
        """The messages that are not tool results."""
        return [message for message in self.messages if message.role != "tool"]

    @property
    def tool_results(self) -> list[Message]:
        """The messages that are tool results."""
        return [message for message in self.messages if message.role == "tool"]

    @property
    def tool_calls(self) -> list[Message]:
        """Alias of `tool_results`, under AgentKit's name."""
        return self.tool_results

    @property
    def finish_reason(self) -> str | None:
        """The reason why the model ended its last answer, see `Message.finish_reason`; None if there is no answer."""
        return next((message.finish_reason for message in reversed(self.output) if message.role == "assistant"), None)

    @property
    def text(self) -> str:
        """The text of the last message that has text and is not a tool result; empty if there is none."""
        return next((message.text for message in reversed(self.output) if message.text), "")

    def called(self, tool: str) -> ToolCall | None:
        """Return the last call of the tool with this name; None if there is none."""
        calls = [call for message in self.messages for call in message.tool_calls if call.name == tool]
        return calls[-1] if calls else None

    @property
    def checksum(self) -> str:
        """A hash of `agent_name`, `messages` and `created_at`, by which a result that arrives twice is recognised."""
        messages = [message.to_dict() for message in self.messages]
        text = json.dumps([self.agent_name, messages, self.created_at.isoformat()])
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def to_json(self) -> dict[str, Any]:
        """Return the result as plain JSON, with keys in camel case. Fields without a value are omitted."""
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
        """Return the result from the output of `to_json`, or from AgentKit's JSON with `output` and `toolCalls`."""
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
    """Convert a message of AgentKit, of the type `text`, `tool_call` or `tool_result`, to a dict for `as_message`."""
    if not isinstance(message, Mapping):
        return message
    fields = dict(cast("Mapping[str, Any]", message))
    message_type = fields.get("type")
    if message_type == "tool_call":
        calls: list[Any] = [
            {"id": tool["id"], "name": tool["name"], "args": tool.get("input") or {}} for tool in fields["tools"]
        ]
        return {"role": "assistant", "content": "", "tool_calls": calls}
    if message_type == "tool_result":
        content, tool = fields.get("content"), fields["tool"]
        text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
        return {"role": "tool", "content": text, "name": tool["name"], "tool_call_id": tool["id"]}
    return {key: value for key, value in fields.items() if key != "type"} if message_type == "text" else fields


_STORED: Final = ("agent_name", "messages", "created_at", "id", "usage", "requests", "stop_reason")
"""The fields of an AgentResult, in the order in which the list that is stored has them."""


def _encode_result(result: AgentResult) -> list[Any]:
    usage, created_at = result.usage.to_list(), result.created_at.astimezone(UTC)
    converted = {"messages": list(result.messages), "created_at": created_at, "usage": usage}
    return list(({name: getattr(result, name) for name in _STORED} | converted).values())


def _decode_result(parts: list[Any]) -> AgentResult:
    fields: dict[str, Any] = dict(zip(_STORED, parts, strict=True))
    fields["usage"] = Usage(*fields["usage"])
    return AgentResult(**fields)


register_codec(57, AgentResult, _encode_result, _decode_result)


# -- usage


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageLimits:
    """Limits on the usage of one run of a network; None for no limit.

    They are checked before each model call, including those of memory strategies for summaries.
    """

    requests: int | None = None
    """Maximum number of model calls."""
    input_tokens: int | None = None
    output_tokens: int | None = None
    tokens: int | None = None
    cost: float | None = None
    """In US dollars."""
    _unpriced: set[str] = field(default_factory=set[str], init=False, repr=False, compare=False)
    """The models without a known price for which a warning has been logged."""

    def reached(self, usage: Usage, requests: int) -> str | None:
        """Return a description of the first limit that has been reached; None if no limit has been reached."""
        amounts = {
            "requests": requests,
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
            "tokens": usage.tokens,
            "cost": usage.cost,
        }
        for name, amount in amounts.items():
            limit = getattr(self, name)
            if limit is not None and amount >= limit:
                return f"{name}: {amount:g} of {limit:g}"
        return None

    def warn_if_unpriced(self, usage: Usage, model: str) -> None:
        """Log a warning, once per model, if there is a cost limit but the cost of a model call is unknown."""
        if self.cost is None or not usage.tokens or usage.cost or model in self._unpriced:
            return
        self._unpriced.add(model)
        logging.getLogger("statewright").warning(
            "The usage limit of %g dollars does not cover model %s, whose price is unknown. "
            "Set a limit on tokens or requests too.",
            self.cost,
            model,
        )


class Allowance:
    """The usage that the limits of a run still allow; unlimited if there are no limits."""

    def __init__(self, limits: UsageLimits | None, usage: Usage, requests: int) -> None:
        """`usage` and `requests` are the usage and the number of model calls of the run so far."""
        self._limits = limits
        self._usage = usage
        self._requests = requests

    @property
    def is_used_up(self) -> bool:
        """True if the limits do not allow another model call."""
        return self._limits is not None and self._limits.reached(self._usage, self._requests) is not None

    def count(self, response: ModelResponse, model: str) -> None:
        """Count a model call. `model` is the name of the model to use if the response does not name it."""
        if self._limits is not None:
            self._usage, self._requests = self._usage + response.usage, self._requests + 1
            self._limits.warn_if_unpriced(response.usage, repr(response.model) if response.model else model)


def total_usage(results: Iterable[AgentResult]) -> tuple[Usage, int]:
    """Return the total usage of the results, and their total number of model calls."""
    results = list(results)
    return sum((result.usage for result in results), Usage()), sum(result.requests for result in results)
