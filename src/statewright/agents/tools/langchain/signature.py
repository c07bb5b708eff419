"""The parameters of a LangChain tool: which ones are injected, and the JSON Schema of the others."""

from __future__ import annotations

import inspect
import re
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final, cast

from pydantic import create_model

from statewright.agents.tools.injected import InjectedSource, injected_source, runtime_source
from statewright.errors import ToolError

_INJECTED_NAMES: Final = re.compile(r"Injected|ToolRuntime|RunnableConfig")
"""Names in an unresolvable annotation that indicate an injected parameter."""


def injected_sources(tool: Any) -> dict[str, InjectedSource]:
    """Return the source of each injected parameter, read from the schema of the tool and from its functions.

    Raises ToolError for an annotation that cannot be resolved, and for a marker that does not say what it marks.
    """
    parameters: dict[str, inspect.Parameter] = {}
    for function in functions_of(tool):
        for parameter in _parameters_of(tool.name, function):
            parameters.setdefault(parameter.name, parameter)
    for parameter in _schema_parameters(tool):
        parameters[parameter.name] = parameter
    sources: dict[str, InjectedSource] = {}
    for name, parameter in parameters.items():
        try:
            source = _source(parameter)
        except ToolError as error:
            raise ToolError(f"Tool {tool.name!r}: {error}") from error
        if source is not None:
            sources[name] = source
    return sources


def _source(parameter: inspect.Parameter) -> InjectedSource | None:
    # LangGraph fills a parameter of this name; other names mean nothing there.
    if parameter.name == "runtime" and parameter.annotation in (inspect.Parameter.empty, Any):
        from statewright.langchain import ToolRuntime

        return runtime_source(ToolRuntime)
    return injected_source(parameter, by_name=False)


def functions_of(tool: Any) -> list[Callable[..., Any]]:
    """Return the functions that implement a tool."""
    functions = [function for name in ("func", "coroutine") if (function := getattr(tool, name, None)) is not None]
    return functions or [tool._run, tool._arun]


def config_parameters(tool: Any) -> frozenset[str]:
    """Return the parameters that are annotated with RunnableConfig, which LangChain itself fills."""
    return frozenset(
        parameter.name
        for function in functions_of(tool)
        for parameter in _parameters_of(tool.name, function)
        if is_config(parameter.annotation)
    )


def is_config(hint: Any) -> bool:
    """Return whether a type is RunnableConfig, or that or None."""
    if typing.get_origin(hint) in (typing.Annotated, typing.Union, types.UnionType):
        return any(map(is_config, typing.get_args(hint)))
    return isinstance(hint, type) and hint.__name__ == "RunnableConfig"


def with_exact_config(function: Any) -> Any:
    """Return the function with exactly RunnableConfig as annotation: LangChain passes over `RunnableConfig | None`."""
    hints = {parameter.name: parameter.annotation for parameter in _parameters_of(function.__name__, function)}
    names = [name for name, hint in hints.items() if is_config(hint)]
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
        hint = parameter.annotation
        yield (
            parameter.replace(annotation=_resolved(tool, parameter.name, hint, names))
            if isinstance(hint, str)
            else parameter
        )


def _resolved(tool: str, parameter: str, hint: str, names: dict[str, Any]) -> Any:
    """Return the annotation that a text means; the text itself if it cannot be resolved and nothing depends on it."""
    try:
        holder: Any = type("_", (), {"__annotations__": {parameter: hint}})
        return typing.get_type_hints(holder, globalns=names, include_extras=True)[parameter]
    except Exception as error:
        if _INJECTED_NAMES.search(hint):
            raise ToolError(
                f"The annotation {hint!r} of parameter {parameter!r} of tool {tool!r} cannot be resolved: {error}. "
                f"Define what it names at module level."
            ) from error
        return hint


def _schema_parameters(tool: Any) -> Iterator[inspect.Parameter]:
    """Yield the fields of the class that describes the arguments, if there is one."""
    if tool.args_schema is None or isinstance(tool.args_schema, dict):
        return
    from langchain_core.tools.base import get_all_basemodel_annotations

    fields = _fields_of(tool.args_schema)
    for name, hint in get_all_basemodel_annotations(tool.args_schema).items():
        field = fields.get(name)
        required = field is None or (field.is_required() if hasattr(field, "is_required") else field.required)
        default = inspect.Parameter.empty if required else None
        yield inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=hint, default=default)


def _fields_of(schema: Any) -> Mapping[str, Any]:
    """Return the fields of a model of pydantic, or of its version 1."""
    return getattr(schema, "model_fields", None) or getattr(schema, "__fields__", {})


def aliases_of(tool: Any) -> dict[str, str]:
    """Return the names by which the schema takes arguments, where these are not the names of its fields."""
    if tool.args_schema is None or isinstance(tool.args_schema, dict):
        return {}
    fields = _fields_of(tool.args_schema).items()
    return {name: alias for name, field in fields if isinstance(alias := getattr(field, "alias", None), str)}


def schema_titles(tool: Any) -> set[str]:
    """Return the names under which the schema reports wrong arguments."""
    schema = tool.args_schema
    if schema is None or isinstance(schema, dict):
        return set()
    config: Any = getattr(schema, "model_config", {})
    return {schema.__name__, config.get("title") or schema.__name__}


def argument_schema(tool: Any, hidden: Mapping[str, InjectedSource]) -> dict[str, Any]:
    """Return the JSON Schema of the arguments that a model writes. Raises ToolError for other types."""
    schema: Any = tool.tool_call_schema
    if isinstance(schema, dict):
        return _without(cast("dict[str, Any]", schema), hidden)
    if not hasattr(schema, "model_json_schema"):  # of pydantic's version 1
        return _without(schema.schema(), hidden)
    try:
        return _without((_subset(schema, hidden) or schema).model_json_schema(), hidden)
    except Exception as error:
        raise ToolError(f"The arguments of tool {tool.name!r} have types that JSON cannot express: {error}") from error


def _subset(schema: Any, hidden: Mapping[str, InjectedSource]) -> Any:
    """Return the schema without injected fields, whose types JSON may not know; None if it has none of them."""
    if not hidden.keys() & schema.model_fields.keys():
        return None
    fields: dict[str, Any] = {
        name: (field.annotation, field) for name, field in schema.model_fields.items() if name not in hidden
    }
    return create_model(schema.__name__, __doc__=schema.__doc__, **fields)


def _without(schema: dict[str, Any], hidden: Mapping[str, InjectedSource]) -> dict[str, Any]:
    properties = {name: value for name, value in schema.get("properties", {}).items() if name not in hidden}
    visible = {**schema, "properties": properties}
    if "required" in schema:
        visible["required"] = [name for name in schema["required"] if name not in hidden]
    return visible
