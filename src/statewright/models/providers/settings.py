"""Convert the settings, tools and output schema of a request to pydantic-ai's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, cast

from statewright.errors import ModelError, suggestion
from statewright.models.adapters.output_form import provider_form
from statewright.models.model import ModelRequest, OutputForm, ToolSpec

if TYPE_CHECKING:
    from pydantic_ai.models import Model, ModelRequestParameters
    from pydantic_ai.settings import ModelSettings
    from pydantic_ai.tools import ToolDefinition

# The runtime retries, and honours what the provider says about when: the libraries of the vendors shall not.
_ALWAYS: dict[str, Any] = {"max_retries": 0}


def request_settings(request: ModelRequest, defaults: Mapping[str, Any]) -> ModelSettings:
    """Return the settings of a call: the request's own override `extra`, which overrides the connection's."""
    asked: dict[str, Any] = {
        "temperature": request.temperature,
        "max_tokens": request.max_tokens,
        "top_p": request.top_p,
        "stop_sequences": list(request.stop) or None,
        "seed": request.seed,
        "request_timeout": request.timeout,
        **_tool_choice_settings(request),
    }
    present = {name: value for name, value in asked.items() if value is not None}
    merged = {**defaults, **request.extra, **present, **_ALWAYS}
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

    tools = [_tool_definition(tool) for tool in request.tools]
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


def _tool_definition(tool: ToolSpec) -> ToolDefinition:
    from pydantic_ai.tools import ToolDefinition

    return ToolDefinition(
        name=tool.name, parameters_json_schema=dict(tool.parameters), description=tool.description, strict=tool.strict
    )


# -- strict schemas

_LISTS: Final = ("anyOf", "oneOf", "allOf", "prefixItems")
_MAPS: Final = ("properties", "$defs", "definitions")
_SAYS_WHAT: Final = frozenset(("type", "$ref", "anyOf", "oneOf", "allOf", "enum", "const"))


def is_closed(schema: Mapping[str, Any]) -> bool:
    """Return True for a schema that types every value and is not recursive, as Anthropic can enforce it.

    Its grammars allow no recursion, and no object with unnamed fields: its library closes such an object, so that the
    model can answer nothing but `{}`. Other schemas are sent in the prompt.
    """
    return all(map(_is_closed_itself, _parts(schema))) and not _is_recursive(schema)


def _is_closed_itself(part: Mapping[str, Any]) -> bool:
    if not _SAYS_WHAT & part.keys() or not isinstance(part.get("type", ""), str):
        return False
    if part.get("type") != "object":
        return True
    return bool(part.get("properties")) and part.get("additionalProperties", False) is False


def _parts(schema: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield a schema and all schemas in it, in any order."""
    unread: list[Any] = [schema]
    while unread:
        part = unread.pop()
        if not isinstance(part, Mapping):
            continue
        known = cast("Mapping[str, Any]", part)
        yield known
        for word in _LISTS:
            unread.extend(known.get(word) or ())
        for word in _MAPS:
            named: Mapping[str, Any] = known.get(word) or {}
            unread.extend(named.values())
        if "items" in known:
            unread.append(known["items"])


def _is_recursive(schema: Mapping[str, Any]) -> bool:
    """Return True if a definition refers to itself, directly or not; a reference to the root always does."""
    definitions: dict[str, Any] = {**schema.get("definitions", {}), **schema.get("$defs", {})}
    named = {name: _referred(one) for name, one in definitions.items()}
    if not (_referred(schema) <= named.keys()):
        return True
    while free := [name for name, others in named.items() if not others & named.keys()]:
        for name in free:
            del named[name]
    return bool(named)


def _referred(schema: Any) -> set[str]:
    """Return the last names of all references in a schema."""
    if not isinstance(schema, Mapping):
        return set()
    parts = _parts(cast("Mapping[str, Any]", schema))
    return {str(part["$ref"]).rpartition("/")[2] for part in parts if "$ref" in part}
