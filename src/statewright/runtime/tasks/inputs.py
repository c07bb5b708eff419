"""Read the input of a node from the state. There is one reader per schema.

A mapping is copied, and so are the lists, dicts and sets in it, one level deep, so that a node may change them freely.
Objects inside them are shared. A dataclass or a pydantic model is created from the values, each checked against its
type; a value that is the same object as at the last check is not checked again, so that long lists do not slow down
supersteps.

Fields whose type excludes containers are skipped; `Program.containers` names the others.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, Protocol, cast

from statewright.channels import CONTAINERS, copy_argument, copy_container, copy_fields, copy_in_place
from statewright.checkpoint import NO_ARG
from statewright.errors import InvalidUpdateError
from statewright.graph import Graph
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
    """Returns the input of a node, from the state or from the argument of a Send."""

    def __call__(self, values: Mapping[str, Any], arg: Any, /) -> Any: ...


def reader_for(graph: Graph, schema: StateSchema, validate: str) -> Reader:
    """Return the reader of nodes whose input is `schema`."""
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
    """Return the fields whose values may be a list, dict or set; None if the state is open, so that any may."""
    if not graph.schema.closed:
        return None
    schemas = (graph.schema, graph.input_schema, graph.output_schema, *graph.node_schemas.values())
    return tuple(
        name
        for name in graph.fields
        if not graph.fields[name].channel.keeps_update  # its value is a list, even if annotated otherwise
        or any(name in schema.fields and may_hold_container(schema.fields[name].hint) for schema in schemas)
    )


def read_mapping(values: Mapping[str, Any], arg: Any, /) -> Any:
    """Return a copy of the whole state, or of the argument, since users pass the same dict to several Sends."""
    return copy_fields(values) if arg is NO_ARG else copy_argument(arg)


class WholeReader:
    """Reads the whole state as a dict. Only `containers` are copied one by one, all other fields by `dict.copy`."""

    __slots__ = ("containers",)

    def __init__(self, containers: tuple[str, ...]) -> None:
        self.containers = containers

    def __call__(self, values: Mapping[str, Any], arg: Any, /) -> Any:
        return copy_in_place(values.copy(), self.containers) if arg is NO_ARG else copy_argument(arg)  # pyright: ignore


def restrict_reader(read: Reader, names: tuple[str, ...]) -> Reader:
    """Return a reader that sees only these fields of the state."""

    def read_declared(values: Mapping[str, Any], arg: Any, /) -> Any:
        return read({name: values[name] for name in names if name in values} if arg is NO_ARG else values, arg)

    return read_declared


def pass_raw_sends(read: Reader) -> Reader:
    """Return a reader that passes on the argument of a Send unread: the subgraph reads it by its own input schema."""

    def read_sent(values: Mapping[str, Any], arg: Any, /) -> Any:
        if arg is NO_ARG:
            return read(values, arg)
        return cast(Any, arg).copy() if type(arg) is dict else arg

    return read_sent


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
        # Copied after the check, which may return a cached value, or the one in the state.
        return self._create(copy_fields(checked))


class _CachedCheck:
    """A check that caches its result for the last value.

    Concurrent runs share it, and may overwrite each other's entry. That is safe, as the pair is replaced as a whole.
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
    source = schema.source
    if schema.kind is SchemaKind.DATACLASS:
        return lambda values: _create(lambda: source(**values), schema)
    decorators = source.__pydantic_decorators__
    validates = decorators.model_validators or decorators.field_validators or decorators.root_validators
    required = {name for name, info in source.model_fields.items() if info.is_required()}

    def create(values: dict[str, Any]) -> Any:
        if validates or not required <= values.keys():
            return _create(lambda: source.model_validate(values), schema)
        return source.model_construct(**values)  # the fields were checked, and the model itself has no validators

    return create


def _create(constructor: Callable[[], Any], schema: StateSchema) -> Any:
    try:
        return constructor()
    except (TypeError, ValueError) as error:  # a pydantic ValidationError is a ValueError
        raise InvalidUpdateError(
            f"The state cannot be read as {schema.name}: {error}. Give the field a default, or write it first."
        ) from error


def with_managed(values: Mapping[str, Any], managed: Mapping[str, Managed], step: int, stop: int) -> dict[str, Any]:
    """Return the state with the fields that are computed for each superstep."""
    return {**values, **{name: field.compute(step, stop) for name, field in managed.items()}}


# -- detecting nodes that change the state in place: `compile(debug=True)`
#
# Two mistakes are detected. A change to an object that is shared with the state is visible at once in siblings, in
# in-memory checkpoints and in results, whether the node returns it or not. A change to the node's own copy of a list,
# dict or set is lost unless the node returns it.

MutationSnapshot = dict[str, Any]


def take_snapshot(values: Mapping[str, Any]) -> MutationSnapshot:
    """Return a description of the value of each channel that is independent of later changes to the value."""
    return {name: _snapshot(value, ()) for name, value in values.items()}


def changed_channels(before: MutationSnapshot, values: Mapping[str, Any]) -> list[str]:
    """Return the channels whose value differs from its snapshot."""
    return [name for name, snapshot in before.items() if name in values and _snapshot(values[name], ()) != snapshot]


def input_containers(state: Any) -> dict[str, Any]:
    """Return the lists, dicts and sets in the input of a node, by field: copies that only the node refers to."""
    fields = cast("dict[str, Any]", state) if type(state) is dict else instance_values(state) or {}
    return {name: value for name, value in fields.items() if type(value) in CONTAINERS}


def _snapshot(value: Any, parents: tuple[int, ...]) -> Any:
    """Return a comparable description of a value: containers with their contents, other objects by identity.

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
    kind = cast(Any, type(cast(object, value)))
    if hasattr(kind, "model_fields"):
        return (kind, tuple(_snapshot(item, parents) for item in vars(value).values()))
    if isinstance(value, float | complex):
        return repr(value)  # NaN is not equal to itself
    return value if isinstance(value, str | bytes | int | bool | None) else id(value)
