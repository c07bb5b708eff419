"""The parameters of LangChain's tools: the sources of injected ones, and the JSON Schema of the others."""

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
"""Names that indicate an injected parameter, in an annotation that cannot be resolved."""


def sources_of(tool: Any) -> dict[str, InjectedSource]:
    """Return the source of each injected parameter, from the schema of the tool and from its functions.

    Raises ToolError for an annotation that cannot be resolved, and for a marker that does not name its source.
    """
    parameters = {parameter.name: parameter for parameter in reversed([*_function_parameters(tool)])}
    parameters |= {parameter.name: parameter for parameter in _schema_parameters(tool)}
    runtime = parameters.get("runtime")
    # LangGraph injects by this name, and by no other.
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
    """Return the parameters that are annotated with RunnableConfig, which LangChain itself injects."""
    return frozenset(parameter.name for parameter in _function_parameters(tool) if _is_config(parameter.annotation))


def _is_config(hint: Any) -> bool:
    """Return True for RunnableConfig and for its union with None."""
    types, _ = split_hint(hint)
    return any(isinstance(kind, type) and kind.__name__ == "RunnableConfig" for kind in types)


def with_exact_config(function: Any) -> Any:
    """Annotate config parameters with just RunnableConfig, and return the function: LangChain ignores optional ones."""
    parameters = _parameters_of(function.__name__, function)
    names = [parameter.name for parameter in parameters if _is_config(parameter.annotation)]
    if names:
        from langchain_core.runnables import RunnableConfig

        function.__annotations__ = dict.fromkeys(names, RunnableConfig)
    return function


def _parameters_of(tool: str, function: Callable[..., Any]) -> Iterator[inspect.Parameter]:
    """Yield the parameters of a function with resolved annotations."""
    target: Any = function
    while isinstance(target, partial):
        target = cast("Any", target).func
    target = inspect.unwrap(getattr(target, "__func__", target))
    names: dict[str, Any] = getattr(target, "__globals__", {})
    for parameter in inspect.signature(function).parameters.values():
        if isinstance(parameter.annotation, str):
            hint = _resolve_hint(tool, parameter.name, parameter.annotation, names)
            parameter = parameter.replace(annotation=hint)
        yield parameter


def _resolve_hint(tool: str, parameter: str, hint: str, names: dict[str, Any]) -> Any:
    """Resolve an annotation that is a string; if that is not possible, return it unless it indicates injection."""
    try:
        holder: Any = type("_", (), {"__annotations__": {parameter: hint}})
        return typing.get_type_hints(holder, globalns=names, include_extras=True)[parameter]
    except Exception as error:
        if _INJECTED_NAMES.search(hint):
            raise ToolError(
                f"The annotation {hint!r} of parameter {parameter!r} of tool {tool!r} cannot be resolved: {error}. "
                f"Define its names at module level."
            ) from error
        return hint


def _schema_parameters(tool: Any) -> Iterator[inspect.Parameter]:
    """Yield the fields of the class that describes the arguments, if there is one."""
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
    """Return the class that describes the arguments; None if there is none, or a JSON Schema in its place."""
    return None if isinstance(tool.args_schema, dict) else tool.args_schema


def _fields_of(tool: Any) -> Mapping[str, Any]:
    """Return the fields of the class that describes the arguments: a model of pydantic 2 or 1."""
    schema = _schema_class(tool)
    return getattr(schema, "model_fields", None) or getattr(schema, "__fields__", {})


def aliases_of(tool: Any) -> dict[str, str]:
    """Return the aliases of fields under which the schema takes their arguments, by field name."""
    aliases = {name: getattr(field, "alias", None) for name, field in _fields_of(tool).items()}
    return {name: alias for name, alias in aliases.items() if isinstance(alias, str)}


def schema_titles(tool: Any) -> set[str]:
    """Return the titles of pydantic's errors about wrong arguments."""
    schema = _schema_class(tool)
    if schema is None:
        return set()
    config: Any = getattr(schema, "model_config", {})
    return {schema.__name__, config.get("title") or schema.__name__}


def argument_schema(tool: Any, hidden: Mapping[str, InjectedSource]) -> dict[str, Any]:
    """Return the JSON Schema of the arguments that are not injected. Raises ToolError if JSON cannot express a type."""
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
    """Return a model without the injected fields, whose types JSON may not express; None if it has no such field."""
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
