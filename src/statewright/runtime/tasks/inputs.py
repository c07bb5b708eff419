"""Read the input of a node from the state. There is one reader per schema.

If the input is a dict, it is a copy of the state, and the lists, dicts and sets in it are copies too, so that a node
may change them. They are copied one level deep: objects inside them are shared with the state. If the input is a
dataclass or a pydantic model, an instance is created from the values, and each value is checked against its type. A
value is not checked again if it is the same object as at the last check, so that long lists do not slow down
supersteps.

Values of fields whose types exclude lists, dicts and sets are not copied; `Program.containers` names the other fields.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, Protocol, cast

from statewright.channels import CONTAINERS, copy_argument, copy_container, copy_fields, copy_in_place
from statewright.checkpoint import NO_ARG
from statewright.errors import InvalidUpdateError
from statewright.graph import Graph, plain_item
from statewright.state import (
    ROOT,
    FieldCheck,
    Managed,
    SchemaKind,
    StateSchema,
    constrained_annotations,
    instance_values,
    may_hold_container,
)


class Reader(Protocol):
    """Returns the input of a node: from the state (`values`), or from the argument of a Send unless `arg` is NO_ARG."""

    def __call__(self, values: Mapping[str, Any], arg: Any, /) -> Any: ...


def reader_for(graph: Graph, schema: StateSchema, validate: str) -> Reader:
    """Return the reader for nodes whose input has this schema. `validate` is the option of `compile`."""
    if schema.kind is SchemaKind.ROOT:
        return _read_root
    if schema.kind is SchemaKind.MAPPING:
        same_fields = schema.fields.keys() == graph.fields.keys()
        reads_all = same_fields and (schema is graph.schema or not graph.schema.managed)
        if schema.closed and not reads_all:
            return _fields_reader(schema.keys)
        containers = container_fields(graph)
        return read_mapping if containers is None else WholeReader(containers)
    return _InstanceReader(schema, checked=validate != "off")


def container_fields(graph: Graph) -> tuple[str, ...] | None:
    """Return the fields whose values may be a list, dict or set; None if any key may be, because the state is open."""
    if not graph.schema.closed:
        return None
    schemas = (graph.schema, graph.input_schema, graph.output_schema, *graph.node_schemas.values())
    return tuple(
        name
        for name in graph.fields
        if not graph.fields[name].channel.keeps_update  # such a channel keeps a list, whatever the annotation says
        or any(name in schema.fields and may_hold_container(schema.fields[name].hint) for schema in schemas)
    )


def read_mapping(values: Mapping[str, Any], arg: Any, /) -> Any:
    """Return a copy of the whole state, or of the argument of a Send, because several Sends may share one dict."""
    return copy_fields(values) if arg is NO_ARG else copy_argument(arg)


class WholeReader:
    """Reads the whole state as a dict, and copies the lists, dicts and sets in the fields `containers`."""

    __slots__ = ("containers",)

    def __init__(self, containers: tuple[str, ...]) -> None:
        self.containers = containers

    def __call__(self, values: Mapping[str, Any], arg: Any, /) -> Any:
        return copy_in_place(values.copy(), self.containers) if arg is NO_ARG else copy_argument(arg)  # pyright: ignore


def restrict_reader(read: Reader, names: tuple[str, ...]) -> Reader:
    """Return a reader that reads only the named fields of the state."""

    def read_declared(values: Mapping[str, Any], arg: Any, /) -> Any:
        return read({name: values[name] for name in names if name in values} if arg is NO_ARG else values, arg)

    return read_declared


def pass_raw_sends(read: Reader) -> Reader:
    """Return a reader for a subgraph, to which the argument of a Send is passed as it is.

    The subgraph itself will read it by its own input schema.
    """

    def read_sent(values: Mapping[str, Any], arg: Any, /) -> Any:
        if arg is NO_ARG:
            return read(values, arg)
        return cast(Any, arg).copy() if type(arg) is dict else arg

    return read_sent


def pass_items(read: Reader) -> Reader:
    """Return a reader for the items of a map. They are no states, whatever their types, so only copied."""

    def read_item(values: Mapping[str, Any], arg: Any, /) -> Any:
        return read(values, arg) if arg is NO_ARG else copy_argument(plain_item(arg))

    return read_item


def _read_root(values: Mapping[str, Any], arg: Any, /) -> Any:
    return copy_container(values.get(ROOT)) if arg is NO_ARG else copy_argument(arg)


def _fields_reader(keys: tuple[str, ...]) -> Reader:
    def read(values: Mapping[str, Any], arg: Any, /) -> Any:
        if arg is NO_ARG:
            return copy_fields({key: values[key] for key in keys if key in values})
        return copy_argument(arg)

    return read


class _InstanceReader:
    """Returns instances of a dataclass or pydantic model."""

    def __init__(self, schema: StateSchema, *, checked: bool) -> None:
        self._schema = schema
        annotations = constrained_annotations(schema)
        self._checks: dict[str, Callable[[Any], Any]] = {}
        for name, field in schema.fields.items():
            self._checks[name] = _CachedCheck(FieldCheck(field, annotations.get(name))) if checked else _unchecked
        self._checks.update(dict.fromkeys(schema.managed, _unchecked))
        self._create = _constructor(schema)

    def __call__(self, values: Mapping[str, Any], arg: Any, /) -> Any:
        if arg is not NO_ARG:
            if not isinstance(arg, Mapping):
                return copy_container(arg)
            values = cast(Mapping[str, Any], arg)
        checked = {name: check(values[name]) for name, check in self._checks.items() if name in values}
        # Copied after the check, because a check may return the value of an earlier call, or the one in the state.
        return self._create(copy_fields(checked))


class _CachedCheck:
    """Checks a value against the type of a field, and caches the result for the last value.

    Concurrent runs share the cache, and may overwrite each other's entry. That is safe, because the value and its
    result are replaced together.
    """

    __slots__ = ("_check", "_last")

    def __init__(self, check: FieldCheck) -> None:
        self._check = check
        self._last: tuple[Any, Any] = (self, None)

    def __call__(self, value: Any) -> Any:
        last, checked = self._last
        if last is not value:
            checked = self._check(value)
            self._last = (value, checked)
        return checked


def _unchecked(value: Any) -> Any:
    return value


def _constructor(schema: StateSchema) -> Callable[[dict[str, Any]], Any]:
    """Return a function that creates instances of a schema from checked values."""
    cls = schema.source
    if schema.kind is SchemaKind.DATACLASS:
        return lambda values: _create(lambda: cls(**values), schema)
    decorators = cls.__pydantic_decorators__
    has_validators = decorators.model_validators or decorators.field_validators or decorators.root_validators
    required = {name for name, info in cls.model_fields.items() if info.is_required()}

    def create(values: dict[str, Any]) -> Any:
        if has_validators or not required <= values.keys():
            return _create(lambda: cls.model_validate(values), schema)
        return cls.model_construct(**values)  # the fields were checked, and the model itself has no validators

    return create


def _create(constructor: Callable[[], Any], schema: StateSchema) -> Any:
    try:
        return constructor()
    except (TypeError, ValueError) as error:  # a pydantic ValidationError is a ValueError
        raise InvalidUpdateError(
            f"The state cannot be read as {schema.name}: {error}. Give the field a default, or write it first."
        ) from error


def with_managed(
    values: Mapping[str, Any], managed: Mapping[str, Managed], step: int, step_limit: int
) -> dict[str, Any]:
    """Return the state with the fields that are computed for each superstep, such as `RemainingSteps`."""
    return {**values, **{name: field.compute(step, step_limit) for name, field in managed.items()}}


# -- detecting nodes that change the state in place: `compile(debug=True)`
#
# Two mistakes are detected. If a node changes an object that it shares with the state, the change is visible at once to
# concurrent tasks, in checkpoints in memory and in results, whether the node returns the object or not. If a node
# changes its own copy of a list, dict or set, the change is lost unless the node returns the copy.

MutationSnapshot = dict[str, Any]


def take_snapshot(values: Mapping[str, Any]) -> MutationSnapshot:
    """Return a description of each channel's value, which later changes to the value do not affect."""
    return {name: _snapshot(value, ()) for name, value in values.items()}


def changed_channels(before: MutationSnapshot, values: Mapping[str, Any]) -> list[str]:
    """Return the channels whose value differs from its snapshot."""
    return [name for name, snapshot in before.items() if name in values and _snapshot(values[name], ()) != snapshot]


def input_containers(state: Any) -> dict[str, Any]:
    """Return the lists, dicts and sets in the input of a node, by field. They are the node's own copies."""
    fields = cast("dict[str, Any]", state) if type(state) is dict else instance_values(state) or {}
    return {name: value for name, value in fields.items() if type(value) in CONTAINERS}


def _snapshot(value: Any, parents: tuple[int, ...]) -> Any:
    """Return a description of a value that can be compared: containers with their contents, other objects by identity.

    `parents` has the `id()` of each container around the value.
    """
    if id(value) in parents:  # a cycle
        return "..."
    parents = (*parents, id(value))
    if isinstance(value, dict):
        items = cast(dict[Any, Any], value).items()
        return ("dict", tuple((_snapshot(key, parents), _snapshot(item, parents)) for key, item in items))
    if isinstance(value, list | tuple):
        return (
            "list" if isinstance(value, list) else "tuple",
            tuple(_snapshot(item, parents) for item in cast(list[Any], value)),
        )
    if isinstance(value, set | frozenset):
        return ("set", frozenset(cast(set[Any], value)))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = dataclasses.fields(value)
        return (type(value), tuple(_snapshot(getattr(value, field.name), parents) for field in fields))
    cls = cast(Any, type(cast(object, value)))
    if hasattr(cls, "model_fields"):
        return (cls, tuple(_snapshot(item, parents) for item in vars(value).values()))
    if isinstance(value, float | complex):
        return repr(value)  # NaN is not equal to itself
    return value if isinstance(value, str | bytes | int | bool | None) else id(value)
