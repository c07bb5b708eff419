"""State schemas, which are read from classes or from dicts of reducers.

A schema is read from a TypedDict, a dataclass, a pydantic model, or a dict from field names to reducers, channels or
types. If it is any other type, the state is a single value of this type, which is called the *root*. Schemas are
*closed* or *open*: an open schema permits undeclared fields, whose updates replace their values. Schemas from classes
are closed. Schemas from dicts are open unless `closed=True`.
"""

from __future__ import annotations

import copy
import dataclasses
import inspect
import typing
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Any, cast

from statewright.channels import Channel, LastValue, is_reducer
from statewright.errors import InvalidSchema
from statewright.state.fields import Constant, Derived, Field, Managed, Start, read_field

ROOT = "__root__"
"""The only channel of a state that is a single value."""


class SchemaKind(Enum):
    """The kind of class from which a schema was read, and of which nodes receive an instance."""

    MAPPING = "mapping"
    DATACLASS = "dataclass"
    PYDANTIC = "pydantic"
    ROOT = "root"


class StateSchema:
    """The fields of a state, with their channels.

    Create it directly, `StateSchema({"messages": append, "count": lambda old, new: old + new})`, or read it from a
    class with `read_schema`.
    """

    def __init__(self, entries: Mapping[str, object] | None = None, *, closed: bool = False) -> None:
        self.kind = SchemaKind.MAPPING
        self.source: Any = None
        """The class from which the schema was read; None if there is none."""
        self.name = "State"
        self.closed = closed
        """True if undeclared fields are not permitted."""
        self.fields: dict[str, Field] = {}
        """The stored fields, by name."""
        self.managed: dict[str, Managed] = {}
        """The fields that are computed from the number of the superstep, by name."""
        self.derived: dict[str, Derived] = {}
        """The fields that are computed when a result is read, by name."""
        for name, entry in (entries or {}).items():
            self.register_reducer(name, entry)

    @property
    def channels(self) -> dict[str, Channel]:
        """The channels of the stored fields, by name."""
        return {name: field.channel for name, field in self.fields.items()}

    @property
    def keys(self) -> tuple[str, ...]:
        """The names of all fields that a node can read: the stored fields, followed by computed fields."""
        return (*self.fields, *self.managed)

    def register_reducer(self, name: str, reducer: object) -> StateSchema:
        """Declare how updates of a field are merged, and return the schema.

        `reducer` is a reducer function, a channel or a class of channels. If it is a type, updates replace the value.
        """
        if is_reducer(reducer):
            annotation: Any = typing.Annotated[Any, reducer]
        elif reducer in (None, Any) or isinstance(reducer, type) or typing.get_origin(reducer) is not None:
            annotation = reducer
        else:
            raise InvalidSchema(
                f"Field {name!r} is declared as {reducer!r} of type {type(reducer).__name__}. "
                f"Declare a reducer, a channel or a type."
            )
        self.add(name, annotation)
        return self

    def add(self, name: str, annotation: Any, default: Start | None = None) -> None:
        """Add a field with this annotation; `default` is the factory of its default."""
        field = read_field(name, annotation, default)
        if isinstance(field, Managed):
            self.managed[name] = field
        elif isinstance(field, Derived):
            self.derived[name] = field
        else:
            self.fields[name] = field

    def copy(self) -> StateSchema:
        """Return a copy, to which fields can be added without changing this schema."""
        schema = copy.copy(self)
        schema.fields, schema.managed, schema.derived = {**self.fields}, {**self.managed}, {**self.derived}
        return schema

    def instance(self, values: Mapping[str, Any]) -> Any:
        """Return an instance of the user's class with these values. Fields without a default must have a value."""
        return self.source(**values)

    def __repr__(self) -> str:
        return f"StateSchema({self.name}: {', '.join(self.keys)})"


def read_schema(source: Any, problems: list[InvalidSchema] | None = None, *, closed: bool = False) -> StateSchema:
    """Return the schema that a class or dict describes. `closed` applies to dicts.

    Raises InvalidSchema for an invalid field. If `problems` is given, errors are added to this list instead, and an
    invalid field is treated as a field without a reducer, so that all problems are found together.
    """
    if isinstance(source, StateSchema):
        return source
    invalid: list[InvalidSchema] = []
    schema = _read_source(source, invalid, closed=closed)
    if problems is not None:
        problems.extend(invalid)
    elif invalid:
        raise invalid[0]
    return schema


def _read_source(source: Any, invalid: list[InvalidSchema], *, closed: bool) -> StateSchema:
    """Return the schema of a class or a dict, and add the errors of its fields to `invalid`."""
    schema = StateSchema(closed=closed or not isinstance(source, Mapping))
    add: Callable[..., object] = schema.add
    try:
        if isinstance(source, Mapping):
            add, fields = schema.register_reducer, cast(Mapping[str, object], source).items()
        else:
            schema.source = source
            schema.name = getattr(source, "__name__", "State")
            schema.kind, fields = _fields_of(source)
        for name, *declaration in cast("Iterable[Any]", fields):
            try:
                add(name, *declaration)
            except InvalidSchema as error:
                invalid.append(error)
                schema.fields[name] = Field(name, Any, LastValue(), None)
    except InvalidSchema as error:  # the class as a whole cannot be read
        invalid.append(error)
        return StateSchema()  # an open schema, because the fields are unknown
    return schema


def merge_fields(schemas: Iterable[StateSchema], problems: list[InvalidSchema] | None = None) -> dict[str, Field]:
    """Return the fields of all schemas, by name.

    If several schemas declare a field, a declaration with a reducer takes precedence. Raises InvalidSchema if two
    declarations have different reducers. If `problems` is given, the error is added to this list instead.
    """
    merged: dict[str, Field] = {}
    for schema in schemas:
        for name, field in schema.fields.items():
            earlier = merged.get(name)
            if earlier is None or (field.has_reducer and not earlier.has_reducer):
                merged[name] = field
            elif field.has_reducer and field.channel != earlier.channel:
                problem = InvalidSchema(
                    f"Field {name!r} is declared twice, as {earlier.channel!r} and as {field.channel!r}. "
                    f"Use one reducer for it in all schemas."
                )
                if problems is None:
                    raise problem
                problems.append(problem)
    return merged


_Fields = Iterable[tuple[str, Any, Start | None]]
"""The name of each field, its annotation, and the factory of its default."""


def _fields_of(source: Any) -> tuple[SchemaKind, _Fields]:
    if typing.is_typeddict(source) or _is_foreign_typeddict(source):
        return SchemaKind.MAPPING, ((name, hint, None) for name, hint in _hints(source).items())
    if isinstance(source, type) and dataclasses.is_dataclass(source):
        return SchemaKind.DATACLASS, _dataclass_fields(source)
    if is_pydantic(source):
        return SchemaKind.PYDANTIC, _pydantic_fields(source)
    if isinstance(source, type) and inspect.get_annotations(source):
        raise InvalidSchema(
            f"{source.__qualname__} has annotations but is neither a TypedDict, a dataclass nor a pydantic model. "
            f"Decorate it with @dataclass, or derive it from TypedDict."
        )
    return SchemaKind.ROOT, [(ROOT, cast(Any, source), None)]


def is_pydantic(source: Any) -> bool:
    """Return whether `source` is a pydantic model class, without importing pydantic."""
    return isinstance(source, type) and hasattr(source, "model_fields") and hasattr(source, "model_validate")


def known_keys(source: Any) -> frozenset[str] | None:
    """Return the keys that a mapping for creating an instance of a class may have; None if any key is valid."""
    if is_pydantic(source):
        aliases = [alias for info in source.model_fields.values() for alias in (info.alias, info.validation_alias)]
        handles_extra = source.model_config.get("extra") is not None
        if handles_extra or any(not isinstance(alias, str | None) for alias in aliases):
            return None  # the model's configuration decides about other keys, or an alias is a path rather than a key
        return frozenset((*source.model_fields, *filter(None, aliases)))
    if isinstance(source, type) and dataclasses.is_dataclass(source):
        return frozenset(inspect.signature(source).parameters)
    if typing.is_typeddict(cast(Any, source)) or _is_foreign_typeddict(source):
        return frozenset(_hints(source))
    return None


def _is_foreign_typeddict(source: Any) -> bool:
    """Return whether a class is a TypedDict of typing_extensions, which `typing.is_typeddict` does not recognize."""
    return isinstance(source, type) and hasattr(source, "__total__") and hasattr(source, "__required_keys__")


def _hints(source: Any) -> dict[str, Any]:
    try:
        return typing.get_type_hints(source, include_extras=True)
    except NameError as error:
        raise InvalidSchema(
            f"The annotations of {source.__qualname__} cannot be resolved: {error}. "
            f"Define the missing name at module level, above the class."
        ) from error


def _dataclass_fields(source: Any) -> _Fields:
    hints = _hints(source)
    for field in dataclasses.fields(source):
        if field.default_factory is not dataclasses.MISSING:
            yield field.name, hints[field.name], field.default_factory
        elif field.default is not dataclasses.MISSING:
            yield field.name, hints[field.name], Constant(field.default)
        else:
            yield field.name, hints[field.name], None


def _pydantic_fields(source: Any) -> _Fields:
    hints = _hints(source)
    for name, info in source.model_fields.items():
        if info.is_required():
            yield name, hints[name], None
        else:
            needs_other_fields = getattr(info, "default_factory_takes_validated_data", False)
            # A default factory that needs the values of other fields cannot be called for an initial value.
            yield name, hints[name], None if needs_other_fields else info.default_factory or Constant(info.default)
