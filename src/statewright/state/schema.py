"""A user's class, or a dict of reducers, seen as channels.

Five kinds of source are read: a TypedDict, a dataclass, a pydantic model, a dict of name -> reducer, channel or
type, and any other type as the *root*: then the state is one bare value. A class is closed, a dict is open (a key
without an entry overwrites) unless `closed=True`.
"""

from __future__ import annotations

import dataclasses
import inspect
import typing
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from enum import Enum
from typing import Any, cast

from statewright.channels import Channel, LastValue, is_reducer
from statewright.errors import InvalidSchema
from statewright.state.computed import Derived, Managed
from statewright.state.fields import Constant, Field, Start, read_field

ROOT = "__root__"
"""The one channel of a state that is a bare value."""


class SchemaKind(Enum):
    """The source of a schema, and so the form in which a node gets the state."""

    MAPPING = "mapping"
    DATACLASS = "dataclass"
    PYDANTIC = "pydantic"
    ROOT = "root"


class StateSchema:
    """The fields of a state, as channels.

    `StateSchema({"messages": append, "count": lambda old, new: old + new})` writes one by hand; `read_schema`
    reads a class.
    """

    def __init__(self, entries: Mapping[str, object] | None = None, *, closed: bool = False) -> None:
        self.kind = SchemaKind.MAPPING
        self.source: Any = None
        """The user's class; None for a dict."""
        self.name = "State"
        self.closed = closed
        self.fields: dict[str, Field] = {}
        self.managed: dict[str, Managed] = {}
        self.derived: dict[str, Derived] = {}
        """Fields that are worked out when a result is read."""
        for name, entry in (entries or {}).items():
            self.register_reducer(name, entry)

    @property
    def channels(self) -> dict[str, Channel]:
        """The channel of each stored field."""
        return {name: field.channel for name, field in self.fields.items()}

    @property
    def keys(self) -> tuple[str, ...]:
        """All names that a reader of this schema sees, computed ones last."""
        return (*self.fields, *self.managed)

    def register_reducer(self, name: str, reducer: object) -> StateSchema:
        """Say how a field merges: a reducer, a channel or channel class, or a type for plain overwriting."""
        if is_reducer(reducer):
            annotation: Any = typing.Annotated[Any, reducer]
        elif reducer in (None, Any) or isinstance(reducer, type) or typing.get_origin(reducer) is not None:
            annotation = reducer
        else:
            raise InvalidSchema(
                f"Field {name!r} is described by {reducer!r} of type {type(reducer).__name__}. "
                f"Give a reducer, a channel or a type."
            )
        self.add(name, annotation)
        return self

    def add(self, name: str, annotation: Any, default: Start | None = None) -> None:
        """Read one field from its annotation."""
        field = read_field(name, annotation, default)
        if isinstance(field, Managed):
            self.managed[name] = field
        elif isinstance(field, Derived):
            self.derived[name] = field
        else:
            self.fields[name] = field

    def instance(self, values: Mapping[str, Any]) -> Any:
        """Return the values as an instance of the user's class. All fields must have values or defaults."""
        return self.source(**values)

    def __repr__(self) -> str:
        return f"StateSchema({self.name}: {', '.join(self.keys)})"


def read_schema(source: Any, problems: list[InvalidSchema] | None = None, *, closed: bool = False) -> StateSchema:
    """Return the schema that `source` describes; a dict is open unless `closed`.

    Raises InvalidSchema where a field cannot be read. With `problems` it is added there instead, and the field is
    taken as one without a reducer, so that whatever else is wrong is found too.
    """
    if isinstance(source, StateSchema):
        return source
    schema = StateSchema(closed=closed or not isinstance(source, Mapping))
    try:
        if isinstance(source, Mapping):
            for name, entry in cast(Mapping[str, object], source).items():
                with _noted(problems, schema, name):
                    schema.register_reducer(name, entry)
            return schema
        schema.source = source
        schema.name = getattr(source, "__name__", "State")
        schema.kind, fields = _fields_of(source)
        for name, annotation, default in fields:
            with _noted(problems, schema, name):
                schema.add(name, annotation, default)
    except InvalidSchema as error:
        if problems is None:
            raise
        problems.append(error)
        return StateSchema()  # open: nothing can be said about its fields
    return schema


@contextmanager
def _noted(problems: list[InvalidSchema] | None, schema: StateSchema, name: str) -> Generator[None]:
    """Note what is wrong with a field among the `problems`, if there are any to be added to."""
    try:
        yield
    except InvalidSchema as error:
        if problems is None:
            raise
        problems.append(error)
        schema.fields[name] = plain_field(name)


def merge_fields(schemas: Iterable[StateSchema], problems: list[InvalidSchema] | None = None) -> dict[str, Field]:
    """Return one field for each name in any of the schemas.

    A plain declaration gives way to one that says how to merge; two that say different things are InvalidSchema, or
    added to the `problems`.
    """
    merged: dict[str, Field] = {}
    for schema in schemas:
        for name, field in schema.fields.items():
            known = merged.get(name)
            if known is None or (known.plain and not field.plain):
                merged[name] = field
            elif not field.plain and field.channel != known.channel:
                problem = InvalidSchema(
                    f"Field {name!r} is declared twice, as {known.channel!r} and as {field.channel!r}. "
                    f"Use one reducer for it in all schemas."
                )
                if problems is None:
                    raise problem
                problems.append(problem)
    return merged


_Fields = Iterable[tuple[str, Any, Start | None]]


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
    """Return whether `source` is a pydantic model class, without loading pydantic."""
    return isinstance(source, type) and hasattr(source, "model_fields") and hasattr(source, "model_validate")


def known_keys(source: Any) -> frozenset[str] | None:
    """Return the keys of a mapping from which an instance of a class can be made; None if it may have any."""
    if is_pydantic(source):
        aliases = [alias for info in source.model_fields.values() for alias in (info.alias, info.validation_alias)]
        takes_more = source.model_config.get("extra") is not None
        if takes_more or any(not isinstance(alias, str | None) for alias in aliases):
            return None  # pydantic itself refuses what is too much, or the keys are more than names
        return frozenset((*source.model_fields, *filter(None, aliases)))
    if isinstance(source, type) and dataclasses.is_dataclass(source):
        return frozenset(inspect.signature(source).parameters)
    if typing.is_typeddict(cast(Any, source)) or _is_foreign_typeddict(source):
        return frozenset(_hints(source))
    return None


def _is_foreign_typeddict(source: Any) -> bool:
    """Return whether a class is a TypedDict of typing_extensions, which `typing.is_typeddict` ignores."""
    return isinstance(source, type) and hasattr(source, "__total__") and hasattr(source, "__required_keys__")


def _hints(source: Any) -> dict[str, Any]:
    try:
        return typing.get_type_hints(source, include_extras=True)
    except NameError as error:
        raise InvalidSchema(
            f"The annotations of {source.__qualname__} cannot be resolved: {error}. "
            f"Define what they name at module level, above the class."
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
            takes_data = getattr(info, "default_factory_takes_validated_data", False)
            # A default made from the other fields is made when the model is: there is no start value to be had.
            yield name, hints[name], None if takes_data else info.default_factory or Constant(info.default)


def plain_field(name: str) -> Field:
    """Return the field for an undeclared key of an open schema."""
    return Field(name, Any, LastValue(), None)
