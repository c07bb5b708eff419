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
"""The agent name of the user's turns among the results."""
StopReason = Literal["completed", "done", "max_iter", "stop_when", "usage_limit", "stopped", "length", "refused"]
"""The reason why a network or an agent ended. In order: the router chose no agent, or the model finished; the routing
model called `done`; the maximum number of calls was reached; `stop_when` returned true; a usage limit was reached; a
hook stopped it; the last answer was cut off at its token limit; the model or a content filter refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentResult:
    """The result of one call of an agent: its messages, in order, and its usage."""

    agent_name: str
    messages: Sequence[Message]
    """Answers of the model, and the results of their tool calls."""
    created_at: datetime
    id: str | None = None
    usage: Usage = field(default_factory=Usage)
    requests: int = 0
    """The number of model calls."""
    stop_reason: str | None = None
    """The reason why the agent ended before its model finished, see `StopReason`; None if it finished."""

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
        """The reason why the model ended its last answer: see `Message.finish_reason`."""
        return next((message.finish_reason for message in reversed(self.output) if message.role == "assistant"), None)

    @property
    def text(self) -> str:
        """The text of the last message that has text; empty if none has."""
        return next((message.text for message in reversed(self.output) if message.text), "")

    def called(self, tool: str) -> ToolCall | None:
        """Return the last call of the named tool; None if there is none."""
        calls = [call for message in self.messages for call in message.tool_calls if call.name == tool]
        return calls[-1] if calls else None

    @property
    def checksum(self) -> str:
        """A hash of the agent, the messages and their time, to recognise a result that is delivered twice."""
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
        """Return the result in the output of `to_json`, or in an export of AgentKit with `output` and `toolCalls`."""
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
    """Convert a message of AgentKit, which has separate types for text, tool calls and tool results."""
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
"""The stored fields, in the order of the stored list."""


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
    """Limits on the usage of one run of a network, checked before each model call, including those for summaries."""

    requests: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    tokens: int | None = None
    cost: float | None = None
    """In US dollars."""
    _unpriced: set[str] = field(default_factory=set[str], init=False, repr=False, compare=False)
    """Models without a known price, for which a warning was logged."""

    def reached(self, usage: Usage, requests: int) -> str | None:
        """Return a description of the first limit that has been reached; None if there is none."""
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
        """Log a warning, once per model, if there is a cost limit and the price of a call is unknown."""
        if self.cost is None or not usage.tokens or usage.cost or model in self._unpriced:
            return
        self._unpriced.add(model)
        logging.getLogger("statewright").warning(
            "The usage limit of %g dollars does not count model %s, whose price is unknown. "
            "Set a limit on tokens or requests too.",
            self.cost,
            model,
        )


class Allowance:
    """The usage that the limits of a run still allow; unlimited without limits."""

    def __init__(self, limits: UsageLimits | None, usage: Usage, requests: int) -> None:
        """`usage` and `requests` are the usage and the model calls of the run so far."""
        self._limits = limits
        self._usage = usage
        self._requests = requests

    @property
    def is_used_up(self) -> bool:
        """True if the limits allow no further model call."""
        return self._limits is not None and self._limits.reached(self._usage, self._requests) is not None

    def count(self, response: ModelResponse, model: str) -> None:
        """Count a model call. `model` names the model if the response does not."""
        if self._limits is not None:
            self._usage, self._requests = self._usage + response.usage, self._requests + 1
            self._limits.warn_if_unpriced(response.usage, repr(response.model) if response.model else model)


def total_usage(results: Iterable[AgentResult]) -> tuple[Usage, int]:
    """Return the total usage of the results, and their number of model calls."""
    results = list(results)
    return sum((result.usage for result in results), Usage()), sum(result.requests for result in results)
