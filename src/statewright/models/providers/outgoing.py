"""Convert our requests to pydantic-ai's form: messages, settings, tools and the output schema.

Only OpenAI accepts the name of a message's speaker, and pydantic-ai does not send it. Therefore the messages of other
agents, and those of users with a name, get the name as a prefix: `[Critic] Too long.` The messages of the requesting
agent get no prefix, because its model would then write the prefix in its answers too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from statewright.data.mappings import without_none
from statewright.errors import ModelError, suggestion
from statewright.messages import Message, replace
from statewright.models.adapters.conversion import provider_form, sampling_settings
from statewright.models.conversation.prepare import starting_with_user
from statewright.models.model import ModelRequest, OutputForm
from statewright.models.providers.provenance import AnswerSource, restore_response

if TYPE_CHECKING:
    from pydantic_ai import messages as vendor
    from pydantic_ai.models import Model, ModelRequestParameters
    from pydantic_ai.settings import ModelSettings

_PART_TYPES = ("text", "image_url", "input_audio", "file")
"""The types of message parts that can be sent, as in OpenAI's chat completions."""


def convert_messages(request: ModelRequest, source: AnswerSource) -> list[vendor.ModelMessage]:
    """Convert the conversation of a request.

    All messages between two answers become one request of pydantic-ai, so that tool results stay together.
    """
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
            # Google refuses a tool call directly after another answer, so the two answers become one.
            response = replace(response, parts=[*turns.pop().parts, *response.parts])
        turns.append(response)
        pending = []
    return [*turns, vendor.ModelRequest(parts=pending)] if pending or not turns else turns


def _with_speaker(message: Message, agent: object) -> Message:
    """Return the message with the name of its speaker as a prefix.

    There is no prefix if the message has no name, if the speaker is the requesting agent, or if the request has no
    agent.
    """
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

    call_id = message.tool_call_id or ""
    is_error = (message.metadata or {}).get("status") == "error"
    return vendor.ToolReturnPart(
        tool_name=message.name or _tool_name(call_id, conversation),
        content=_content(message),
        tool_call_id=call_id,
        outcome="failed" if is_error else "success",
    )


def _tool_name(call_id: str, conversation: Iterable[Message]) -> str:
    """Return the name of the tool of a call, which some providers require together with the call's result."""
    names = (call.name for message in conversation for call in message.tool_calls if call.id == call_id)
    return next(names, "tool")


def _content(message: Message) -> str | list[Any]:
    if isinstance(message.content, str):
        return message.content
    return [_part_content(part) for part in message.content]


def _part_content(part: Mapping[str, Any]) -> Any:
    """Convert a message part in OpenAI's form to text, a URL or binary content. Raises ModelError for other parts."""
    match part:
        case {"type": "text", "text": str(text)}:
            return text
        case {"type": "image_url", "image_url": {"url": str(url), **options}}:
            return _image(url, options)
        case {"type": "image_url", "image_url": str(url)}:
            return _image(url, {})
        case {"type": "input_audio", "input_audio": {"data": str(data), "format": str(audio_format)}}:
            return _binary_content(f"data:audio/{audio_format};base64,{data}", part)
        case {"type": "file", "file": {"file_data": str(data)}}:
            return _binary_content(data, part)
        case _:
            part_type = part.get("type")
            without_type = f"without a type (its keys: {sorted(part)})"
            description = f"of type {part_type!r}" if isinstance(part_type, str) else without_type
            raise ModelError(f"A part of a message is {description}, and cannot be sent. {_part_hint(part_type)}")


def _part_hint(part_type: object) -> str:
    """Return the advice for a part that cannot be sent."""
    if part_type in _PART_TYPES:
        return f"Write a part of type {part_type!r} as in OpenAI's chat completions."
    return suggestion(str(part_type), _PART_TYPES, noun="Types")


def _image(url: str, options: Mapping[str, Any]) -> Any:
    from pydantic_ai import messages as vendor

    detail = {"detail": options["detail"]} if "detail" in options else None
    if url.startswith("data:"):
        image = _binary_content(url, {"type": "image_url"})
        image.vendor_metadata = detail
        return image
    return vendor.ImageUrl(url, vendor_metadata=detail)


def _binary_content(uri: str, part: Mapping[str, Any]) -> vendor.BinaryContent:
    from pydantic_ai import messages as vendor

    try:
        return vendor.BinaryContent.from_data_uri(uri)
    except ValueError as error:
        raise ModelError(
            f"A part of type {part.get('type')!r} has data that cannot be read ({error}). "
            f"Write it as data:<media type>;base64,<data>."
        ) from error


# -- settings, tools and output schemas

_FIXED_SETTINGS: dict[str, Any] = {"max_retries": 0}
"""Settings of all calls. The runtime retries calls and honours Retry-After, so the providers' libraries must not."""


def request_settings(request: ModelRequest, defaults: Mapping[str, Any]) -> ModelSettings:
    """Return the settings of a call. The fields of the request override its `extra`, which overrides the defaults."""
    others = without_none({"request_timeout": request.timeout, **_tool_choice_settings(request)})
    sampling = sampling_settings(request, stop="stop_sequences")
    merged = {**defaults, **request.extra, **sampling, **others, **_FIXED_SETTINGS}
    if headers := {**defaults.get("extra_headers", {}), **request.extra.get("extra_headers", {})}:
        merged["extra_headers"] = headers
    return cast("ModelSettings", merged)


def _tool_choice_settings(request: ModelRequest) -> dict[str, Any]:
    """Return the settings for tool calls. Without tools there are none, because providers would refuse them."""
    if not request.tools:
        return {}
    choice = {"auto": None, "any": "required", "none": "none"}.get(request.tool_choice, [request.tool_choice])
    names = [tool.name for tool in request.tools]
    if isinstance(choice, list) and request.tool_choice not in names:
        hint = suggestion(request.tool_choice, [*names, "auto", "any", "none"], noun="Choices")
        raise ModelError(f"The request's tool_choice is {request.tool_choice!r}, which is not one of its tools. {hint}")
    return {"tool_choice": choice, "parallel_tool_calls": request.parallel_tool_calls}


def request_parameters(request: ModelRequest, model: Model) -> ModelRequestParameters:
    """Return the tools and the output schema. Models that cannot enforce the schema get it as part of the prompt."""
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

_LIST_KEYWORDS: Final = ("anyOf", "oneOf", "allOf", "prefixItems")
"""Keywords whose value is a list of schemas."""
_MAP_KEYWORDS: Final = ("properties", "$defs", "definitions")
"""Keywords whose value maps names to schemas."""
_TYPE_KEYWORDS: Final = frozenset(("type", "$ref", "anyOf", "oneOf", "allOf", "enum", "const"))
"""Keywords that restrict the values of a schema; a closed schema has at least one of them."""


def is_closed(schema: Mapping[str, Any]) -> bool:
    """Return True for a schema that Anthropic can enforce: every value has a type, and nothing is recursive.

    Anthropic does not support recursion, or objects with arbitrary fields: its library forbids further fields in all
    objects, so that the only possible answer for such an object would be `{}`. A schema that it cannot enforce is sent
    in the prompt.
    """
    return all(map(_is_level_closed, _subschemas(schema))) and not _is_recursive(schema)


def _is_level_closed(schema: Mapping[str, Any]) -> bool:
    """Return True if a schema restricts its values, regardless of the schemas nested in it."""
    if not _TYPE_KEYWORDS & schema.keys() or not isinstance(schema.get("type", ""), str):
        return False
    if schema.get("type") != "object":
        return True
    return bool(schema.get("properties")) and schema.get("additionalProperties", False) is False


def _subschemas(schema: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield a schema and all schemas nested in it, in no particular order."""
    stack: list[Any] = [schema]
    while stack:
        subschema = stack.pop()
        if not isinstance(subschema, Mapping):
            continue
        keywords = cast("Mapping[str, Any]", subschema)
        yield keywords
        for keyword in _LIST_KEYWORDS:
            stack.extend(keywords.get(keyword) or ())
        for keyword in _MAP_KEYWORDS:
            by_name: Mapping[str, Any] = keywords.get(keyword) or {}
            stack.extend(by_name.values())
        if "items" in keywords:
            stack.append(keywords["items"])


def _is_recursive(schema: Mapping[str, Any]) -> bool:
    """Return True if a definition refers to itself, directly or indirectly, or if anything refers to the root."""
    definitions: dict[str, Any] = {**schema.get("definitions", {}), **schema.get("$defs", {})}
    references = {name: _references_in(definition) for name, definition in definitions.items()}
    if not (_references_in(schema) <= references.keys()):
        return True
    # Remove definitions that refer to no remaining definition, until all that remain are in a cycle or refer to one.
    while independent := [name for name, others in references.items() if not others & references.keys()]:
        for name in independent:
            del references[name]
    return bool(references)


def _references_in(schema: Any) -> set[str]:
    """Return the names of the definitions to which a schema refers.

    A reference to the root yields a name that is not the name of a definition.
    """
    if not isinstance(schema, Mapping):
        return set()
    subschemas = _subschemas(cast("Mapping[str, Any]", schema))
    return {str(subschema["$ref"]).rpartition("/")[2] for subschema in subschemas if "$ref" in subschema}
