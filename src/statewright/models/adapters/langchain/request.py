"""Convert requests for LangChain: messages, tools, settings and the output schema.

Ids of messages are not sent: they mean nothing to a provider.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from statewright.langchain_forms import KEPT, SAID_ELSEWHERE
from statewright.messages import Message
from statewright.models.conversation.prepare import starting_with_user
from statewright.models.model import ModelRequest, OutputForm, ToolSpec

_SENT: Final = ("content", "additional_kwargs", "response_metadata")
"""Recorded fields of an answer that are sent back to its provider."""


def langchain_messages(request: ModelRequest, instruction: str = "") -> list[Any]:
    """Convert the conversation. An instruction is added to the system prompt."""
    from langchain_core.messages import SystemMessage

    system = "\n\n".join(text for text in (request.system, instruction) if text)
    return [*([SystemMessage(system)] if system else []), *map(_to_langchain, starting_with_user(request.messages))]


def request_settings(request: ModelRequest) -> dict[str, Any]:
    """Return the settings of a request as keyword arguments; unset ones are omitted."""
    given = {
        "model": request.model,
        "temperature": request.temperature,
        "max_tokens": request.max_tokens,
        "top_p": request.top_p,
        "stop": list(request.stop) or None,
        "seed": request.seed,
    }
    return {**{name: value for name, value in given.items() if value is not None}, **request.extra}


def tool_options(request: ModelRequest) -> dict[str, Any]:
    """Return the options of `bind_tools`."""
    choice = {} if request.tool_choice == "auto" else {"tool_choice": request.tool_choice}
    parallel = request.parallel_tool_calls
    return choice if parallel is None else {**choice, "parallel_tool_calls": parallel}


def function_schema(tool: ToolSpec) -> dict[str, Any]:
    """Return a tool in the form that every `bind_tools` accepts."""
    function = {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)}
    strict = {} if tool.strict is None else {"strict": tool.strict}
    return {"type": "function", "function": {**function, **strict}}


def titled_schema(form: OutputForm) -> dict[str, Any]:
    """Return the schema with the title and description from which LangChain makes a function."""
    return {"description": "The answer.", **form.schema, "title": form.name}


def output_instruction(form: OutputForm) -> str:
    """Return the schema as an instruction, for models without structured output."""
    schema = json.dumps(dict(form.schema), ensure_ascii=False)
    return f"Answer with JSON alone, without any other text, as this JSON Schema describes it: {schema}"


# -- messages


def _to_langchain(message: Message) -> Any:
    from langchain_core.messages import HumanMessage, SystemMessage, ToolMessage

    content: Any = message.content
    match message.role:
        case "assistant":
            return _to_ai_message(message)
        case "tool":
            return ToolMessage(content, tool_call_id=message.tool_call_id or "", name=message.name)
        case "system":
            return SystemMessage(content, name=message.name)
        case _:
            return HumanMessage(content, name=message.name)


def _to_ai_message(message: Message) -> Any:
    from langchain_core.messages import AIMessage

    good = [
        {"name": call.name, "args": call.arguments, "id": call.id, "type": "tool_call"}
        for call in message.tool_calls
        if call.invalid is None
    ]
    bad = [
        {"name": call.name, "args": call.invalid, "id": call.id, "error": None, "type": "invalid_tool_call"}
        for call in message.tool_calls
        if call.invalid is not None
    ]
    fields: dict[str, Any] = {"content": message.content, **_kept_fields(message)}
    return AIMessage(**fields, name=message.name, tool_calls=good, invalid_tool_calls=bad)


def _kept_fields(message: Message) -> Mapping[str, Any]:
    """Return the recorded fields of LangChain's message, unless the message was changed since."""
    provider: Any = (message.metadata or {}).get("provider")
    kept: Any = cast(Mapping[str, Any], provider).get(KEPT) if isinstance(provider, Mapping) else None
    if not isinstance(kept, Mapping):
        return {}
    fields = {name: value for name, value in cast(Mapping[str, Any], kept).items() if name in _SENT}
    if "content" in fields and not _says_the_same(fields["content"], message):
        return {}
    extra: Mapping[str, Any] = fields.get("additional_kwargs") or {}
    return {**fields, "additional_kwargs": {name: extra[name] for name in extra if name not in SAID_ELSEWHERE}}


def _says_the_same(content: str | Sequence[str | Mapping[str, Any]], message: Message) -> bool:
    if isinstance(content, str):
        return content == message.text
    blocks: list[Mapping[str, Any]] = [
        {"type": "text", "text": one} if isinstance(one, str) else one for one in content
    ]
    text = "".join(block.get("text") or "" for block in blocks if block.get("type") == "text")
    called = {
        block.get("call_id") or block.get("id")
        for block in blocks
        if block.get("type") in ("tool_use", "function_call")
    }
    return text == message.text and called <= {call.id for call in message.tool_calls}
