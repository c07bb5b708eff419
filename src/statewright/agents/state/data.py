"""The mutable data of a network, as its tools, hooks and routers receive it.

User code may change data in any way: `data.count += 1`, `data["count"] = 1`, `data.files.append("x")`. But the state of
a graph must not be changed in place, so user code gets an object that copies the values. Afterwards the copies are
compared with the original values, and the fields that differ become the update of the task. Therefore all ways to
change data are equivalent, and a task that fails or is retried leaves the state unchanged.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any, Final, cast

from pydantic import ValidationError

from statewright.errors import InvalidConfig, InvalidSchema, InvalidUpdateError, suggestion
from statewright.state import SchemaKind, StateSchema, read_schema, type_adapter

PREFIX: Final = "data."
"""The prefix that the names of the data's fields have in the state of a graph."""
_IMMUTABLE: Final = (str, int, float, bool, bytes, type(None))


class Data(MutableMapping[str, Any]):
    """Data whose fields are both attributes and keys. A mutable value is copied when it is first read.

    Without a schema, any field may be set; with a schema, only declared fields. A declared field that has no value is
    None when it is read as an attribute.
    """

    __slots__ = ("_names", "_original", "_touched")
    _original: dict[str, Any]
    """The original values, which are never changed."""
    _touched: dict[str, Any]
    """The copies of the values that were read, and the values that were set."""
    _names: tuple[str, ...] | None
    """The names of the declared fields; None without a schema."""

    def __init__(self, values: Mapping[str, Any] | None = None, names: tuple[str, ...] | None = None) -> None:
        object.__setattr__(self, "_original", dict(values or {}))
        object.__setattr__(self, "_touched", {})
        object.__setattr__(self, "_names", names)

    def __getattribute__(self, name: str) -> Any:
        # A field takes precedence over a mapping method of the same name, such as `items`.
        if not name.startswith("_") and (name in _original_of(self) or name in _touched_of(self)):
            return self[name]
        return object.__getattribute__(self, name)

    def __getitem__(self, name: str) -> Any:
        touched = self._touched
        if name not in touched:
            value = self._original[name]
            if isinstance(value, _IMMUTABLE):
                return value
            touched[name] = copy.deepcopy(value)
        return touched[name]

    def __setitem__(self, name: str, value: Any) -> None:
        if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"The name of a field of the data is {name!r}. Use a string.")
        if self._names is not None and name not in self._names:
            raise AttributeError(f"The data has no field {name!r}. {suggestion(name, self._names, noun='Fields')}")
        self._touched[name] = value

    def __delitem__(self, name: str) -> None:
        raise TypeError(f"Field {name!r} of the data cannot be removed. Set it to None.")

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys([*self._original, *self._touched]))

    def __len__(self) -> int:
        return len(self._original.keys() | self._touched.keys())

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name in self._touched or name in self._original:
            return self[name]
        if self._names is None:
            raise AttributeError(
                f"The data has no field {name!r} yet. {suggestion(name, tuple(self), noun='Fields')} Read it with "
                f"get({name!r}), or declare the fields in a class."
            )
        if name in self._names:
            return None
        raise AttributeError(f"The data has no field {name!r}. {suggestion(name, self._names, noun='Fields')}")

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    def __deepcopy__(self, memo: dict[int, Any]) -> Data:
        return Data(copy.deepcopy(field_values(self), memo), self._names)

    def __repr__(self) -> str:
        return f"Data({', '.join(f'{name}={self[name]!r}' for name in self)})"


# These functions read the slots without `Data.__getattribute__`, which calls them.
_original_of = Data.__dict__["_original"].__get__
_touched_of = Data.__dict__["_touched"].__get__


class DataSchema:
    """The schema of a network's data: the fields of `data_class`, or arbitrary fields if it is None."""

    def __init__(self, data_class: type | None = None) -> None:
        self.data_class = data_class
        self._schema = read_schema(data_class) if data_class is not None else StateSchema()
        if self._schema.kind is SchemaKind.ROOT:
            raise InvalidSchema(
                f"The schema of a network's data is {data_class!r}. Pass a TypedDict, a dataclass or a pydantic model."
            )

    @property
    def entries(self) -> dict[str, Any]:
        """The annotations of the fields, by prefixed name, for the schema of a graph. They have no reducers."""
        return with_prefix({name: field.hint for name, field in self._schema.fields.items()})

    @property
    def names(self) -> tuple[str, ...] | None:
        """The names of the fields; None if any name is allowed."""
        return tuple(self._schema.fields) if self.data_class is not None else None

    def build(self, values: Mapping[str, Any]) -> Any:
        """Build the object that user code gets: an instance of the dataclass or pydantic model, or a `Data`."""
        if self._schema.kind is SchemaKind.MAPPING:
            return Data(values, self.names)
        return self._build_instance({name: self._copy_value(name, values) for name in self._schema.fields})

    def _copy_value(self, name: str, values: Mapping[str, Any]) -> Any:
        """Return a copy of a field's value; or the field's default, if the thread is older than the field."""
        if name in values:
            return copy.deepcopy(values[name])
        create_default = self._schema.fields[name].start
        return create_default() if create_default is not None else None

    def _build_instance(self, values: Mapping[str, Any]) -> Any:
        """Return an instance of the class, built without validation and without its `__init__`."""
        data_class = cast(Any, self.data_class)
        if self._schema.kind is SchemaKind.PYDANTIC:
            return data_class.model_construct(**values)
        instance = object.__new__(data_class)
        for name, value in values.items():
            object.__setattr__(instance, name, value)
        return instance

    def changes(self, data: Any, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the new values of the fields in which `data` differs from `values`, from which it was built.

        Raises InvalidUpdateError for a value that does not fit its field's type, and AttributeError for an unknown
        field.
        """
        fields = touched_fields(data)
        self._check_attributes(data)
        return {
            name: self._validate(name, value)
            for name, value in fields.items()
            if not (name in values and _is_same(value, values[name]))
        }

    def _validate(self, name: str, value: Any) -> Any:
        """Return the new value of a field, validated by its type. Raises InvalidUpdateError if it is invalid."""
        field = self._schema.fields.get(name)
        if self.data_class is None or field is None or value is None:
            return value
        try:
            adapter = type_adapter(field.hint)
        except Exception:  # pydantic does not support the class
            return value
        try:
            return adapter.validate_python(value)
        except ValidationError as error:
            problems = "; ".join(problem["msg"] for problem in error.errors(include_url=False))
            raise InvalidUpdateError(
                f"Field {name!r} of the data was set to {repr(value)[:200]}, which does not fit its type {field.hint}: "
                f"{problems}."
            ) from None

    def _check_attributes(self, data: Any) -> None:
        """Raise AttributeError if an attribute was set that is not a field, because its value would be lost."""
        fields = self._schema.fields
        unknown = [name for name in getattr(data, "__dict__", ()) if name not in fields and not name.startswith("_")]
        if unknown and not isinstance(data, Data):
            hint = suggestion(unknown[0], fields, noun="Fields")
            raise AttributeError(f"The data has no field {unknown[0]!r}, but it was set. {hint}")


def read_data(data: Any, schema: type | None = None) -> tuple[DataSchema, dict[str, Any]]:
    """Return the schema and the values of user-supplied data: a class, an instance, a mapping, or None.

    `schema` is the class that declares the fields of a mapping. Raises InvalidConfig for a class that cannot be
    instantiated without arguments, and for anything else.
    """
    if schema is not None:
        return _read_with_schema(DataSchema(schema), data)
    if data is None:
        return DataSchema(), {}
    if isinstance(data, type):
        return _read_class(data)
    if isinstance(data, Data):
        return DataSchema(), field_values(data)
    if isinstance(data, Mapping):
        return DataSchema(), dict(cast("Mapping[str, Any]", data))
    data_class = cast("type[Any]", type(data))
    if dataclasses.is_dataclass(data_class) or hasattr(data_class, "model_fields"):
        return DataSchema(data_class), field_values(data)
    raise InvalidConfig(
        f"The data of a network is {data!r} of type {type(data).__name__}. Pass a mapping, an instance of a dataclass "
        f"or of a pydantic model, or a TypedDict."
    )


def _read_with_schema(schema: DataSchema, data: Any) -> tuple[DataSchema, dict[str, Any]]:
    """Return the schema, and the values of the data. Raises InvalidConfig for an undeclared field."""
    values = field_values(data) if data is not None else _read_class(cast("type", schema.data_class))[1]
    unknown = next((name for name in values if name not in (schema.names or ())), None)
    if unknown is not None:
        hint = suggestion(unknown, schema.names or (), noun="Fields")
        raise InvalidConfig(f"The data has a field {unknown!r}, which {schema.data_class!r} does not have. {hint}")
    return schema, values


def _read_class(data_class: type) -> tuple[DataSchema, dict[str, Any]]:
    """Return the schema of a class, and the values of a new instance; no values for a TypedDict."""
    schema = DataSchema(data_class)
    if isinstance(schema.build({}), Data):
        return schema, {}
    try:
        return schema, field_values(data_class())
    except Exception as error:
        raise InvalidConfig(
            f"The schema of a network's data is {data_class.__qualname__}, which cannot be instantiated without "
            f"arguments: {error}. Pass an instance."
        ) from error


def field_values(data: Any) -> dict[str, Any]:
    """Return the values of all fields of a mapping, a dataclass or a pydantic model, by name."""
    if isinstance(data, Mapping):
        mapping = cast("Mapping[str, Any]", data)
        return {name: mapping[name] for name in mapping}
    fields = getattr(cast("type[Any]", type(data)), "model_fields", None)
    if fields is None:
        fields = {field.name: field for field in dataclasses.fields(data)}
    return {name: getattr(data, name, None) for name in fields}


def touched_fields(data: Any) -> dict[str, Any]:
    """Return the values of the fields that may have changed: in a `Data`, those that were read or set; else all."""
    return data._touched if isinstance(data, Data) else field_values(data)  # pyright: ignore[reportPrivateUsage]


def with_prefix(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of the data under the prefixed names that they have in the state of a graph."""
    return {f"{PREFIX}{name}": value for name, value in fields.items()}


def data_fields(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of the data from the state of a graph, under their names without the prefix."""
    return {name.removeprefix(PREFIX): value for name, value in values.items() if name.startswith(PREFIX)}


def _is_same(value: Any, old: Any) -> bool:
    if value is old:
        return True
    try:
        # 1 == True == 1.0, but a value of another type is a change.
        return type(value) is type(old) and bool(value == old)
    except Exception:  # e.g. the comparison of arrays, which has no truth value
        return False
