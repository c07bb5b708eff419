"""Injected parameters of tools: parameters that the model does not see, and whose values the runtime supplies.

A parameter is injected because of its annotation: `ToolContext`, `Runtime`, `Store`, `State`, `NetworkRun`, or
`Annotated` with one of the markers below. LangGraph's `ToolRuntime`, LangChain's `RunnableConfig`, and the markers of
both packages are accepted too, and are recognised by the names of their classes, so that neither package is imported.
In functions, a parameter named `network`, `state`, `store` or `runtime` is also injected if it has no annotation, or
the annotation Any. With any other annotation, such as `state: str`, it is an ordinary argument.

If there is no value for an injected parameter, it keeps its default, or gets None if its annotation allows None.
Otherwise the run fails, because the model could not correct this.
"""

from __future__ import annotations

import copy
import dataclasses
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Union, cast, get_args, get_origin

from pydantic import ValidationError

from statewright.agents.tools.tool import ToolContext, describe_problems
from statewright.channels import MISSING
from statewright.data.mappings import without_none
from statewright.errors import InvalidConfig, ToolError
from statewright.graph import Runtime
from statewright.state import type_adapter
from statewright.store import Store

_CONFIG_KEYS: Final = ("tags", "metadata", "callbacks", "recursion_limit", "max_concurrency", "configurable")
"""The keys that a RunnableConfig gets from the config of the run."""


def runnable_config(context: ToolContext) -> Any:
    """Return the config of the run as a RunnableConfig; MISSING outside of a run.

    Its `metadata` also has the ids of the execution, under LangGraph's names.
    """
    config = context.config
    if config is None or context.runtime is None:
        return MISSING
    info = context.runtime.execution_info
    own_metadata: Mapping[str, Any] = config.get("metadata") or {}
    ids = {
        "thread_id": info.thread_id,
        "run_id": config.get("run_id"),
        "langgraph_step": info.step,
        "langgraph_node": info.node,
        "langgraph_checkpoint_ns": info.namespace,
    }
    present = without_none({name: config.get(name) for name in _CONFIG_KEYS})
    return {
        "tags": [],
        "callbacks": None,
        **present,
        "metadata": {**without_none(ids), **own_metadata},
        "configurable": without_none(config["configurable"]),
    }


def tool_runtime(cls: Any, context: ToolContext) -> Any:
    """Return an instance of `cls`, which is LangGraph's ToolRuntime or a subclass; MISSING outside of a run.

    The fields of ToolRuntime depend on its version. Fields that are unknown here keep their defaults.
    """
    config = runnable_config(context)
    if config is MISSING:
        return MISSING
    values = {
        "state": context.state,
        "context": context.context,
        "config": config,
        "stream_writer": context.stream_writer,
        "tool_call_id": context.tool_call_id,
        "store": context.store,
        "tools": list(context.tools),
        "execution_info": context.execution_info,
    }
    names = {field.name for field in dataclasses.fields(cls) if field.init}
    return cls(**{name: value for name, value in values.items() if name in names})


# -- markers and sources

ReadValue = Callable[[ToolContext], Any]
"""Returns the value of an injected parameter from the context of a call; MISSING if there is none."""
_MARKER_MODULES: Final = (f"{__name__}.", "langchain.", "langchain_core.", "langgraph.", "statewright.langchain.")
"""The prefixes of the modules whose classes are recognised by name."""


@dataclass(frozen=True, slots=True)
class InjectedState:
    """Marks a parameter that gets the agent's state, or a copy of one of its fields."""

    field: str | None = None
    """The name of the field; None for the whole state."""


@dataclass(frozen=True, slots=True)
class InjectedStore:
    """Marks a parameter that gets the store."""


@dataclass(frozen=True, slots=True)
class InjectedToolCallId:
    """Marks a parameter that gets the id of the tool call."""


@dataclass(frozen=True, slots=True)
class InjectedSource:
    """The source of the values of one injected parameter."""

    read_value: ReadValue
    changes_state: bool = False
    """True if the tool can write to the state through the value, so that its calls must be made in order."""
    needs: str = ""
    """A description of the value, for the error that is raised if there is none."""
    remedy: str = ""
    """The remedy that this error suggests."""
    has_default: bool = False
    """True if the parameter has a default."""
    accepts_none: bool = False
    """True if the annotation of the parameter allows None."""
    is_state: bool = False
    """True if the value contains the state or one of its fields. LangChain tools get it with LangChain messages."""
    state_class: Any = None
    """The pydantic model or dataclass to which the state is converted; None to pass the state as it is."""

    def resolve_value(self, tool: str, parameter: str, context: ToolContext) -> Any:
        """Return the value of the parameter; MISSING if it should keep its default.

        Raises InvalidConfig if it has neither a value nor a default, or if the state does not fit its annotation.
        """
        value = self.read_value(context)
        if value is not MISSING:
            return value if self.state_class is None else self._as_class(tool, parameter, value)
        if self.has_default:
            return MISSING
        if self.accepts_none:
            return None
        raise InvalidConfig(
            f"Tool {tool!r} cannot be called: its injected argument {parameter!r} needs {self.needs}, which is not "
            f"available here. {self.remedy} Or give {parameter!r} a default."
        )

    def _as_class(self, tool: str, parameter: str, state: Any) -> Any:
        if not isinstance(state, Mapping):
            return state
        try:
            return type_adapter(self.state_class).validate_python(dict(cast("Mapping[str, Any]", state)))
        except ValidationError as error:
            raise injected_type_error(tool, parameter, describe_problems(error.errors())) from error


def injected_type_error(tool: str, parameter: str, problems: str) -> InvalidConfig:
    """Return the error for an injected value that does not fit the annotation of its parameter."""
    return InvalidConfig(
        f"Tool {tool!r} cannot be called: the value of its injected argument {parameter!r} does not fit the "
        f"annotation: {problems}. Annotate it with the class of the graph's state, with dict, or with Any."
    )


def _source_in_context(name: str, needs: str, remedy: str, *, changes_state: bool = False) -> InjectedSource:
    """Return a source that reads an attribute of the context."""
    return InjectedSource(partial(_read_context, name), changes_state, needs, remedy)


def _read_context(name: str, context: ToolContext) -> Any:
    value = getattr(context, name)
    return MISSING if value is None else value


_FROM_NODE: Final = "Call it from a node of a graph."
_FROM_AGENT: Final = "Call it from an agent or a ToolNode."
_SOURCE_BY_NAME: Final[Mapping[str, InjectedSource]] = {
    "network": _source_in_context(
        "network", "the run of a network", "Call it from an agent of a Network.", changes_state=True
    ),
    "state": _source_in_context("state", "the state of an agent", _FROM_AGENT, changes_state=True),
    "store": _source_in_context("store", "the store", "Compile the graph with store=."),
    "runtime": _source_in_context("runtime", "the runtime", _FROM_NODE),
}
_CONFIG: Final = InjectedSource(runnable_config, needs="the config of the run", remedy=_FROM_NODE)
_CALL_ID: Final = _source_in_context("tool_call_id", "the id of a model's call", _FROM_AGENT)
_CONTEXT: Final = InjectedSource(lambda context: context, changes_state=True)  # it gives access to the state
_SOURCE_BY_CLASS: Final[Mapping[Any, InjectedSource]] = {
    ToolContext: _CONTEXT,
    Runtime: _SOURCE_BY_NAME["runtime"],
    Store: _SOURCE_BY_NAME["store"],
}


def injected_sources(
    tool: str, parameters: Iterable[inspect.Parameter], *, by_name: bool = True
) -> dict[str, InjectedSource]:
    """Return the sources of a tool's injected parameters, by parameter name.

    With `by_name=False`, parameters are not injected because of their names. Raises ToolError for a parameter without a
    default whose only marker is LangChain's InjectedToolArg, which does not say what to inject.
    """
    sources = {parameter.name: _injected_source(tool, parameter, by_name) for parameter in parameters}
    return without_none(sources)


def _injected_source(tool: str, parameter: inspect.Parameter, by_name: bool) -> InjectedSource | None:
    hint = parameter.annotation
    types, markers = split_hint(hint)
    has_default = parameter.default is not inspect.Parameter.empty
    if hint in (inspect.Parameter.empty, Any):
        source = _SOURCE_BY_NAME.get(parameter.name) if by_name else None
    else:
        sources = (_source_of_marker(marker, types) for marker in markers)
        source = next(filter(None, sources), None) or _source_of_class(types)
        if source is None and any(_marker_name(marker) == "InjectedToolArg" for marker in markers):
            if not has_default:
                raise ToolError(
                    f"Tool {tool!r}: the parameter {parameter.name!r} is marked with InjectedToolArg, which does not "
                    f"name its source. Mark it with InjectedState, InjectedStore or InjectedToolCallId, or give it a "
                    f"default."
                )
            source = InjectedSource(lambda context: MISSING)
    if source is None:
        return None
    return replace(source, has_default=has_default, accepts_none=NoneType in types)


# -- annotations


def split_hint(hint: Any) -> tuple[list[Any], list[Any]]:
    """Return the types and the markers in a type hint, at any depth of unions and Annotated."""
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        types, markers = split_hint(args[0])
        return types, [*args[1:], *markers]
    if origin in (Union, UnionType):
        members = [split_hint(arg) for arg in args]
        all_types = [member_type for types, _ in members for member_type in types]
        return all_types, [marker for _, markers in members for marker in markers]
    return [hint], []


def _source_of_marker(marker: Any, types: Iterable[Any]) -> InjectedSource | None:
    match _marker_name(marker):
        case "InjectedState":
            field = getattr(marker, "field", None) if not isinstance(marker, type) else None
            return _state_source(types) if not field else _state_field_source(str(field))
        case "InjectedStore":
            return _SOURCE_BY_NAME["store"]
        case "InjectedToolCallId":
            return _CALL_ID
        case _:
            return None


def _marker_name(value: Any) -> str | None:
    """Return the name of the injectable class from which a class, or the class of an instance, derives.

    It is the name of a marker, of RunnableConfig or of ToolRuntime; None if the class derives from none of these.
    """
    classes: tuple[type[Any], ...] = (value if isinstance(value, type) else type(value)).__mro__
    names = (cls.__name__ for cls in classes if f"{cls.__module__}.".startswith(_MARKER_MODULES))
    return next((name for name in names if name.startswith("Injected") or name in _SOURCE_BY_FOREIGN_CLASS), None)


def _source_of_class(types: Iterable[Any]) -> InjectedSource | None:
    """Return the source for the first of the types that is injectable; None if none of them is."""
    classes = [cls for hint in types if isinstance(cls := get_origin(hint) or hint, type)]
    source = next((_SOURCE_BY_CLASS[cls] for cls in classes if cls in _SOURCE_BY_CLASS), None)
    if source is not None:
        return source
    for cls in classes:
        build_source = _SOURCE_BY_FOREIGN_CLASS.get(_marker_name(cls) or "")
        if build_source is not None:
            return build_source(cls)
    # State and NetworkRun are in modules that import this one, so these classes name their source themselves.
    name = next((name for cls in classes if (name := getattr(cls, "injected_as", None)) is not None), None)
    return _SOURCE_BY_NAME[name] if name is not None else None


_SOURCE_BY_FOREIGN_CLASS: Final[Mapping[str, Callable[[Any], InjectedSource]]] = {
    "RunnableConfig": lambda cls: _CONFIG,
    "ToolRuntime": lambda cls: replace(
        _SOURCE_BY_NAME["runtime"], read_value=partial(tool_runtime, cls), is_state=True
    ),
}


# -- the state


def _state_source(types: Iterable[Any]) -> InjectedSource:
    """Return the source of the whole state, which is converted if the types have a pydantic model or a dataclass."""
    classes = (cls for cls in types if isinstance(cls, type))
    with_fields = (cls for cls in classes if hasattr(cls, "model_fields") or dataclasses.is_dataclass(cls))
    return replace(_SOURCE_BY_NAME["state"], is_state=True, state_class=next(with_fields, None))


def _state_field_source(field: str) -> InjectedSource:
    return InjectedSource(
        lambda context: _read_field(context, field),
        needs=f"the field {field!r} of the state",
        remedy=f"Write {field!r} before the tool is called.",
        is_state=True,
    )


def _read_field(context: ToolContext, field: str) -> Any:
    state = context.state
    if isinstance(state, Mapping):
        return cast("Mapping[str, Any]", state).get(field, MISSING)
    data = getattr(state, "data", state)
    if isinstance(data, Mapping):
        value = cast("Mapping[str, Any]", data).get(field, MISSING)
    else:
        value = getattr(data, field, MISSING)
    return copy.deepcopy(value)  # concurrent calls must not share a mutable value
