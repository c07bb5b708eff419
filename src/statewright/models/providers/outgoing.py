"""Convert our requests to pydantic-ai's: messages, settings, tools and the output schema.

No provider but OpenAI accepts the name of a speaker, and pydantic-ai sends it to none. So the messages of other agents,
and of users with a name, begin with it: `[Critic] Too long.` Messages of the requesting agent are unchanged, or its
model would begin its answers with names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from statewright.errors import ModelError, suggestion
from statewright.messages import Message, replace
from statewright.models.adapters.conversion import provider_form, sampling_settings
from statewright.models.conversation.prepare import starting_with_user
from statewright.models.model import ModelRequest, OutputForm
from statewright.models.providers.provenance import Source, restore_response

if TYPE_CHECKING:
    from pydantic_ai import messages as vendor
    from pydantic_ai.models import Model, ModelRequestParameters
    from pydantic_ai.settings import ModelSettings

_PARTS = ("text", "image_url", "input_audio", "file")


def convert_messages(request: ModelRequest, source: Source) -> list[vendor.ModelMessage]:
    """Convert a conversation. Messages between two of the assistant become one request, so results stay together."""
    from pydantic_ai import messages as vendor

    turns: list[vendor.ModelMessage] = []
    pending: list[vendor.ModelRequestPart] = [vendor.SystemPromptPart(request.system)] if request.system else []
    agent = request.metadata.get("agent")
    for message in starting_with_user(request.messages):
        message = _with_speaker(message, agent)
        if message.role != "assistant":
            pending.append(_convert_message(message, request.messages))
            continue
        response = restore_response(message, source)
        if pending:
            turns.append(vendor.ModelRequest(parts=pending))
        elif turns and source.name.startswith("google") and isinstance(turns[-1], vendor.ModelResponse):
            # Google refuses a tool call that does not follow a turn of the user: two answers become one turn.
            response = replace(response, parts=[*turns.pop().parts, *response.parts])
        turns.append(response)
        pending = []
    return [*turns, vendor.ModelRequest(parts=pending)] if pending or not turns else turns


def _with_speaker(message: Message, agent: object) -> Message:
    """Return the message with the name of its speaker in its text, unless that is the requesting agent."""
    if not message.name or message.role not in ("user", "assistant") or message.name == agent or agent is None:
        return message
    content: Any = message.content
    if isinstance(content, str):
        content = f"[{message.name}] {content}" if content else content
    else:
        content = [{"type": "text", "text": f"[{message.name}]"}, *content]
    return replace(message, content=content)


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


def _tool_name(call_id: str, conversation: Iterable[Message]) -> str:
    """Return the tool name of a call, which some providers require with the result."""
    names = (call.name for message in conversation for call in message.tool_calls if call.id == call_id)
    return next(names, "tool")


def _content(message: Message) -> str | list[Any]:
    if isinstance(message.content, str):
        return message.content
    return [_user_content(part) for part in message.content]


def _user_content(part: Mapping[str, Any]) -> Any:
    """Convert a part in OpenAI's form to text, an address or bytes. Raises ModelError for an unknown type."""
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
            description = f"of type {kind!r}" if isinstance(kind, str) else f"without a type, with {sorted(part)}"
            raise ModelError(f"A part of a message is {description} and cannot be sent. " + _known_parts(kind))


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


# -- settings, tools and output schemas

# The runtime retries, and honours Retry-After: the libraries of the vendors must not retry too.
_ALWAYS: dict[str, Any] = {"max_retries": 0}


def request_settings(request: ModelRequest, defaults: Mapping[str, Any]) -> ModelSettings:
    """Return the settings of a call: the request's own override `extra`, which overrides the connection's."""
    others = {"request_timeout": request.timeout, **_tool_choice_settings(request)}
    present = {name: value for name, value in others.items() if value is not None}
    sampling = sampling_settings(request, stop="stop_sequences")
    merged = {**defaults, **request.extra, **sampling, **present, **_ALWAYS}
    if headers := {**defaults.get("extra_headers", {}), **request.extra.get("extra_headers", {})}:
        merged["extra_headers"] = headers
    return cast("ModelSettings", merged)


def _tool_choice_settings(request: ModelRequest) -> dict[str, Any]:
    """Return the tool choice; nothing without tools, since providers refuse it."""
    if not request.tools:
        return {}
    choice = {"auto": None, "any": "required", "none": "none"}.get(request.tool_choice, [request.tool_choice])
    names = [tool.name for tool in request.tools]
    if isinstance(choice, list) and request.tool_choice not in names:
        raise ModelError(
            f"The request chooses the tool {request.tool_choice!r}, which it does not offer. "
            + suggestion(request.tool_choice, [*names, "auto", "any", "none"], noun="Choices")
        )
    return {"tool_choice": choice, "parallel_tool_calls": request.parallel_tool_calls}


def request_parameters(request: ModelRequest, model: Model) -> ModelRequestParameters:
    """Return the tools and the output schema, which is sent as a prompt to models that cannot enforce it."""
    from pydantic_ai.models import ModelRequestParameters
    from pydantic_ai.output import OutputObjectDefinition
    from pydantic_ai.tools import ToolDefinition

    tools = [
        ToolDefinition(
            name=tool.name,
            parameters_json_schema=dict(tool.parameters),
            description=tool.description,
            strict=tool.strict,
        )
        for tool in request.tools
    ]
    if request.output is None:
        return ModelRequestParameters(function_tools=tools)
    form = provider_form(request.output)
    return ModelRequestParameters(
        function_tools=tools,
        output_mode="native" if _supports_schema(model, form) else "prompted",
        output_object=OutputObjectDefinition(dict(form.schema), name=form.name),
    )


def _supports_schema(model: Model, form: OutputForm) -> bool:
    if not model.profile.get("supports_json_schema_output", False):
        return False
    return not model.profile.get("anthropic_enforces_strict_schema_limits", False) or is_closed(form.schema)


# -- strict schemas

_LISTS: Final = ("anyOf", "oneOf", "allOf", "prefixItems")
_MAPS: Final = ("properties", "$defs", "definitions")
_TYPE_KEYWORDS: Final = frozenset(("type", "$ref", "anyOf", "oneOf", "allOf", "enum", "const"))


def is_closed(schema: Mapping[str, Any]) -> bool:
    """Return True for a schema that types every value and is not recursive, as Anthropic can enforce it.

    Its grammars allow no recursion, and no object with unnamed fields: its library closes such an object, so that the
    model can answer nothing but `{}`. Other schemas are sent in the prompt.
    """
    return all(map(_is_level_closed, _parts(schema))) and not _is_recursive(schema)


def _is_level_closed(part: Mapping[str, Any]) -> bool:
    if not _TYPE_KEYWORDS & part.keys() or not isinstance(part.get("type", ""), str):
        return False
    if part.get("type") != "object":
        return True
    return bool(part.get("properties")) and part.get("additionalProperties", False) is False


def _parts(schema: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield a schema and all schemas in it, in any order."""
    stack: list[Any] = [schema]
    while stack:
        part = stack.pop()
        if not isinstance(part, Mapping):
            continue
        mapping = cast("Mapping[str, Any]", part)
        yield mapping
        for word in _LISTS:
            stack.extend(mapping.get(word) or ())
        for word in _MAPS:
            subschemas: Mapping[str, Any] = mapping.get(word) or {}
            stack.extend(subschemas.values())
        if "items" in mapping:
            stack.append(mapping["items"])


def _is_recursive(schema: Mapping[str, Any]) -> bool:
    """Return True if a definition refers to itself, directly or not; a reference to the root always does."""
    definitions: dict[str, Any] = {**schema.get("definitions", {}), **schema.get("$defs", {})}
    references = {name: _referred(definition) for name, definition in definitions.items()}
    if not (_referred(schema) <= references.keys()):
        return True
    while independent := [name for name, others in references.items() if not others & references.keys()]:
        for name in independent:
            del references[name]
    return bool(references)


def _referred(schema: Any) -> set[str]:
    """Return the last names of all references in a schema."""
    if not isinstance(schema, Mapping):
        return set()
    parts = _parts(cast("Mapping[str, Any]", schema))
    return {str(part["$ref"]).rpartition("/")[2] for part in parts if "$ref" in part}
