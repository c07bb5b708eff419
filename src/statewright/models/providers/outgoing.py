"""Convert our messages to pydantic-ai's requests and responses.

No provider but OpenAI accepts the name of a speaker, and pydantic-ai sends it to none. So the messages of other agents,
and of users with a name, begin with it: `[Critic] Too long.` Messages of the requesting agent are unchanged, or its
model would begin its answers with names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from statewright.errors import ModelError, suggestion
from statewright.messages import Message, copied
from statewright.models.conversation.prepare import starting_with_user
from statewright.models.model import ModelRequest
from statewright.models.providers.provenance import Source, restore_response

if TYPE_CHECKING:
    from pydantic_ai import messages as vendor

_PARTS = ("text", "image_url", "input_audio", "file")


def convert_messages(request: ModelRequest, source: Source) -> list[vendor.ModelMessage]:
    """Convert a conversation. Messages between two of the assistant become one request, so results stay together."""
    from pydantic_ai import messages as vendor

    said: list[vendor.ModelMessage] = []
    pending: list[vendor.ModelRequestPart] = [vendor.SystemPromptPart(request.system)] if request.system else []
    agent = request.metadata.get("agent")
    for message in starting_with_user(request.messages):
        message = _with_speaker(message, agent)
        if message.role != "assistant":
            pending.append(_convert_message(message, request.messages))
            continue
        response = restore_response(message, source)
        if pending:
            said.append(vendor.ModelRequest(parts=pending))
        elif said and source.name.startswith("google") and isinstance(said[-1], vendor.ModelResponse):
            # Google refuses a tool call that does not follow a turn of the user: two answers become one turn.
            response = replace(response, parts=[*said.pop().parts, *response.parts])
        said.append(response)
        pending = []
    return [*said, vendor.ModelRequest(parts=pending)] if pending or not said else said


def _with_speaker(message: Message, agent: object) -> Message:
    """Return the message with the name of its speaker in its text, unless that is the requesting agent."""
    if not message.name or message.role not in ("user", "assistant") or message.name == agent or agent is None:
        return message
    content: Any = message.content
    if isinstance(content, str):
        content = f"[{message.name}] {content}" if content else content
    else:
        content = [{"type": "text", "text": f"[{message.name}]"}, *content]
    named = copied(message)
    named.content = content
    return named


def _convert_message(message: Message, conversation: Sequence[Message]) -> vendor.ModelRequestPart:
    from pydantic_ai import messages as vendor

    match message.role:
        case "system":
            return vendor.SystemPromptPart(message.text)
        case "tool":
            return _convert_result(message, conversation)
        case _:
            return vendor.UserPromptPart(_content(message))


def _convert_result(message: Message, conversation: Sequence[Message]) -> vendor.ToolReturnPart[Any]:
    from pydantic_ai import messages as vendor

    call = message.tool_call_id or ""
    failed = (message.metadata or {}).get("status") == "error"
    return vendor.ToolReturnPart(
        tool_name=message.name or _tool_name(call, conversation),
        content=_content(message),
        tool_call_id=call,
        outcome="failed" if failed else "success",
    )


def _tool_name(identity: str, conversation: Iterable[Message]) -> str:
    """Return the tool name of a call, which some providers require with the result."""
    names = (call.name for message in conversation for call in message.tool_calls if call.id == identity)
    return next(names, "tool")


def _content(message: Message) -> str | list[Any]:
    if isinstance(message.content, str):
        return message.content
    return [_user_content(part) for part in message.content]


def _user_content(part: Mapping[str, Any]) -> Any:
    """A part as OpenAI writes it, as text, an address or bytes. Raises ModelError for one that is not known."""
    match part:
        case {"type": "text", "text": str(text)}:
            return text
        case {"type": "image_url", "image_url": {"url": str(url), **options}}:
            return _image(url, options)
        case {"type": "image_url", "image_url": str(url)}:
            return _image(url, {})
        case {"type": "input_audio", "input_audio": {"data": str(data), "format": str(form)}}:
            return _bytes(f"data:audio/{form};base64,{data}", part)
        case {"type": "file", "file": {"file_data": str(data)}}:
            return _bytes(data, part)
        case _:
            kind = part.get("type")
            found = f"of type {kind!r}" if isinstance(kind, str) else f"without a type, with {sorted(part)}"
            raise ModelError(f"A part of a message is {found} and cannot be sent. " + _known_parts(kind))


def _known_parts(kind: object) -> str:
    if kind in _PARTS:
        return f"A part of type {kind!r} is written as in OpenAI's chat completions."
    return suggestion(str(kind), _PARTS, noun="Types")


def _image(url: str, options: Mapping[str, Any]) -> Any:
    from pydantic_ai import messages as vendor

    detail = {"detail": options["detail"]} if "detail" in options else None
    if url.startswith("data:"):
        image = _bytes(url, {"type": "image_url"})
        image.vendor_metadata = detail
        return image
    return vendor.ImageUrl(url, vendor_metadata=detail)


def _bytes(uri: str, part: Mapping[str, Any]) -> vendor.BinaryContent:
    from pydantic_ai import messages as vendor

    try:
        return vendor.BinaryContent.from_data_uri(uri)
    except ValueError as error:
        raise ModelError(
            f"A part of type {part.get('type')!r} has data that cannot be read ({error}). "
            f"Write them as data:<media type>;base64,<data>."
        ) from error
