"""The parameters of LangChain tools: the sources of injected parameters, and the JSON Schema of the arguments."""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final, cast

from pydantic import create_model

from statewright.agents.tools.injected import InjectedSource, injected_sources, split_hint
from statewright.errors import ToolError

_INJECTED_NAMES: Final = re.compile(r"Injected|ToolRuntime|RunnableConfig")
"""Matches names which show that a parameter is injected although its annotation cannot be resolved."""


def sources_of(tool: Any) -> dict[str, InjectedSource]:
    """Return the sources of a tool's injected parameters, by name, from its functions and the class of its arguments.

    Raises ToolError for the annotation of an injected parameter that cannot be resolved, and for a parameter without a
    default whose only marker is InjectedToolArg.
    """
    parameters = {parameter.name: parameter for parameter in reversed([*_function_parameters(tool)])}
    parameters |= {parameter.name: parameter for parameter in _schema_parameters(tool)}
    runtime = parameters.get("runtime")
    # This is the only name by which LangGraph injects a parameter without an annotation.
    if runtime is not None and runtime.annotation in (inspect.Parameter.empty, Any):
        from statewright.langchain import ToolRuntime

        parameters["runtime"] = runtime.replace(annotation=ToolRuntime)
    return injected_sources(tool.name, parameters.values(), by_name=False)


def _function_parameters(tool: Any) -> Iterator[inspect.Parameter]:
    """Yield the parameters of the functions that implement a tool."""
    functions = [function for name in ("func", "coroutine") if (function := getattr(tool, name, None)) is not None]
    for function in functions or [tool._run, tool._arun]:
        yield from _parameters_of(tool.name, function)


def config_parameters(tool: Any) -> frozenset[str]:
    """Return the names of the parameters annotated with RunnableConfig, which LangChain itself injects."""
    return frozenset(parameter.name for parameter in _function_parameters(tool) if _is_config(parameter.annotation))


def _is_config(hint: Any) -> bool:
    """Return True for RunnableConfig and for its union with None."""
    types, _ = split_hint(hint)
    return any(isinstance(cls, type) and cls.__name__ == "RunnableConfig" for cls in types)


def with_exact_config(function: Any) -> Any:
    """Annotate the config parameters of a function with RunnableConfig, and return the function.

    LangChain does not inject a parameter whose annotation is a union with None.
    """
    parameters = _parameters_of(function.__name__, function)
    names = [parameter.name for parameter in parameters if _is_config(parameter.annotation)]
    if names:
        from langchain_core.runnables import RunnableConfig

        function.__annotations__ = dict.fromkeys(names, RunnableConfig)
    return function


def _parameters_of(tool: str, function: Callable[..., Any]) -> Iterator[inspect.Parameter]:
    """Yield the parameters of a function, with annotations that are strings resolved if possible."""
    target: Any = function
    while isinstance(target, partial):
        target = cast("Any", target).func
    target = inspect.unwrap(getattr(target, "__func__", target))
    globalns: dict[str, Any] = getattr(target, "__globals__", {})
    for parameter in inspect.signature(function).parameters.values():
        if isinstance(parameter.annotation, str):
            hint = _resolve_hint(tool, parameter.name, parameter.annotation, globalns)
            parameter = parameter.replace(annotation=hint)
        yield parameter


def _resolve_hint(tool: str, parameter: str, hint: str, globalns: dict[str, Any]) -> Any:
    """Return the type for an annotation that is a string; the string itself if it cannot be resolved.

    Raises ToolError if a string that cannot be resolved shows that the parameter is injected.
    """
    try:
        annotated_class: Any = type("_", (), {"__annotations__": {parameter: hint}})
        return typing.get_type_hints(annotated_class, globalns=globalns, include_extras=True)[parameter]
    except Exception as error:
        if _INJECTED_NAMES.search(hint):
            raise ToolError(
                f"The annotation {hint!r} of parameter {parameter!r} of tool {tool!r} cannot be resolved: {error}. "
                f"Define its names at module level."
            ) from error
        return hint


def _schema_parameters(tool: Any) -> Iterator[inspect.Parameter]:
    """Yield the fields of the class that describes the arguments, if there is one, as parameters."""
    schema, fields = _schema_class(tool), _fields_of(tool)
    if schema is None:
        return
    from langchain_core.tools.base import get_all_basemodel_annotations

    for name, hint in get_all_basemodel_annotations(schema).items():
        field = fields.get(name)
        is_required = field is None or (field.is_required() if hasattr(field, "is_required") else field.required)
        default = inspect.Parameter.empty if is_required else None
        yield inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=hint, default=default)


def _schema_class(tool: Any) -> Any:
    """Return the class that describes the arguments; None if there is none, for example with a JSON Schema."""
    return None if isinstance(tool.args_schema, dict) else tool.args_schema


def _fields_of(tool: Any) -> Mapping[str, Any]:
    """Return the fields of the class that describes the arguments, which is a model of pydantic 2 or 1, by name."""
    schema = _schema_class(tool)
    return getattr(schema, "model_fields", None) or getattr(schema, "__fields__", {})


def aliases_of(tool: Any) -> dict[str, str]:
    """Return the aliases of the fields, by field name. The schema takes an argument under the alias of its field."""
    aliases = {name: getattr(field, "alias", None) for name, field in _fields_of(tool).items()}
    return {name: alias for name, alias in aliases.items() if isinstance(alias, str)}


def schema_titles(tool: Any) -> set[str]:
    """Return the titles that a pydantic ValidationError has if it is about wrong arguments of the tool."""
    schema = _schema_class(tool)
    if schema is None:
        return set()
    config: Any = getattr(schema, "model_config", {})
    return {schema.__name__, config.get("title") or schema.__name__}


def argument_schema(tool: Any, hidden: Mapping[str, InjectedSource]) -> dict[str, Any]:
    """Return the JSON Schema of the parameters that are not in `hidden`. Raises ToolError if a type has no schema."""
    schema: Any = tool.tool_call_schema
    if isinstance(schema, dict):
        return _without_fields(cast("dict[str, Any]", schema), hidden)
    if not hasattr(schema, "model_json_schema"):  # a model of pydantic 1
        return _without_fields(schema.schema(), hidden)
    try:
        return _without_fields((_subset(schema, hidden) or schema).model_json_schema(), hidden)
    except Exception as error:
        raise ToolError(f"The arguments of tool {tool.name!r} have types that JSON cannot express: {error}") from error


def _subset(schema: Any, hidden: Mapping[str, InjectedSource]) -> Any:
    """Return a copy of a model without the hidden fields, whose types may have no JSON Schema; None if it has none."""
    if not hidden.keys() & schema.model_fields.keys():
        return None
    fields: dict[str, Any] = {
        name: (field.annotation, field) for name, field in schema.model_fields.items() if name not in hidden
    }
    return create_model(schema.__name__, __doc__=schema.__doc__, **fields)


def _without_fields(schema: dict[str, Any], hidden: Mapping[str, InjectedSource]) -> dict[str, Any]:
    properties = {name: value for name, value in schema.get("properties", {}).items() if name not in hidden}
    visible = {**schema, "properties": properties}
    if "required" in schema:
        visible["required"] = [name for name in schema["required"] if name not in hidden]
    return visible
