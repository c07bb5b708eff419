"""Conversion of dataclasses, pydantic models, enums and named tuples to plain data and back.

A value is rebuilt without calling `__init__` or validators. If the fields of its class have changed since it was
stored, added fields get their defaults, and removed fields are an error unless `upgrade` converts them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from enum import Enum, Flag
from typing import Any, cast

from statewright.errors import SerdeError, suggestion
from statewright.serde.codecs import type_name

Encoder = Callable[[Any], Any]
"""Converts a value to plain data."""
Decoder = Callable[[Any], Any]
"""Converts plain data back to a value."""
Upgrade = Callable[[dict[str, Any]], Mapping[str, Any]]
"""Converts the stored fields of a value to those of the current class."""


def conversions_of(kind: Any, upgrade: Upgrade | None) -> tuple[Encoder, Decoder]:
    """Return the encoder and the decoder of a class. Raises SerdeError unless it is of one of the supported kinds."""
    if issubclass(kind, Flag):
        return (lambda value: value.value), kind  # a combination of flags has no name
    if issubclass(kind, Enum):
        return (lambda value: value.name), _enum_decoder(kind)
    if dataclasses.is_dataclass(kind):
        return _dataclass_encoder(kind), _dataclass_decoder(kind, upgrade)
    if hasattr(kind, "model_fields"):
        return encode_pydantic, _pydantic_decoder(kind, upgrade)
    if hasattr(kind, "_fields") and issubclass(kind, tuple):
        return (lambda value: value._asdict()), _named_tuple_decoder(kind, upgrade)
    reason = "it is not a dataclass, pydantic model, Enum or NamedTuple. Register it with encode= and decode="
    raise SerdeError(type_name(cast(type, kind)), reason)


def _enum_decoder(kind: type[Enum]) -> Decoder:
    def decode(name: str) -> Any:
        try:
            return kind[name]
        except KeyError:
            hint = suggestion(name, kind.__members__, noun="Members")
            raise SerdeError(type_name(kind), f"it no longer has a member {name!r}. {hint}") from None

    return decode


def _dataclass_encoder(kind: Any) -> Encoder:
    names = tuple(field.name for field in dataclasses.fields(kind))
    return lambda value: {name: getattr(value, name) for name in names if hasattr(value, name)}


def _dataclass_decoder(kind: Any, upgrade: Upgrade | None) -> Decoder:
    """Return a decoder that does not call `__init__`, whose effects were stored with the fields."""
    fields = {field.name: field for field in dataclasses.fields(kind)}

    def decode(stored: dict[str, Any]) -> Any:
        values = _current_fields(kind, stored, fields, upgrade)
        instance: Any = object.__new__(kind)
        for name, field in fields.items():
            if name in values:
                object.__setattr__(instance, name, values[name])
            elif field.default is not dataclasses.MISSING:
                object.__setattr__(instance, name, field.default)
            elif field.default_factory is not dataclasses.MISSING:
                object.__setattr__(instance, name, field.default_factory())
            elif field.init:  # a field with init=False may never have been set
                raise TypeError(f"it has no {name!r}, a field without a default. Register the class with upgrade=")
        return instance

    return decode


def _current_fields(
    kind: type, stored: dict[str, Any], fields: Iterable[str], upgrade: Upgrade | None
) -> dict[str, Any]:
    """Return stored fields, converted by `upgrade` if they are not the fields of the class. Raises SerdeError."""
    values = stored if upgrade is None or stored.keys() == set(fields) else dict(upgrade(stored))
    _check_fields(kind, values, fields)
    return values


def _check_fields(kind: type, stored: Mapping[str, Any], fields: Iterable[str]) -> None:
    """Raise SerdeError for stored fields that the class no longer has, rather than drop them silently."""
    removed = [name for name in stored if name not in fields]
    if removed:
        raise SerdeError(
            type_name(kind),
            f"a value was stored with {', '.join(map(repr, removed))}, which the class no longer has. "
            f"Register the class with upgrade=, a function from the stored fields to the current ones",
        )


def encode_pydantic(value: Any) -> list[Any]:
    """Return the parts of a pydantic model: its fields, the names of set fields, extra values and private values."""
    state = value.__getstate__()
    attributes: dict[str, Any] = state["__dict__"]  # with cached properties, which are not stored
    names: Any = cast(Any, type(value)).model_fields
    parts: list[Any] = [
        {name: attributes[name] for name in names if name in attributes},
        sorted(state["__pydantic_fields_set__"]),
    ]
    extra: Any = state.get("__pydantic_extra__")
    private: Any = state.get("__pydantic_private__")
    return [*parts, extra, private] if private else [*parts, extra] if extra else parts


def _pydantic_decoder(kind: Any, upgrade: Upgrade | None) -> Decoder:
    """Return a decoder that calls validators only if the fields of the model have changed."""

    def decode(parts: list[Any]) -> Any:
        padded: list[Any] = [*parts, None, None]
        stored, were_set, extra, private = padded[:4]
        allows_extra = kind.model_config.get("extra") == "allow"
        if stored.keys() != kind.model_fields.keys() or (extra and not allows_extra):
            model = _validate(kind, stored, extra or {}, upgrade)
            # Validation marks all stored fields as set, including those that were not.
            model.__pydantic_fields_set__.difference_update(stored.keys() - set(were_set))
            if private and model.__pydantic_private__ is not None:
                model.__pydantic_private__.update(_private(kind, private))
            return model
        model = kind.__new__(kind)
        model.__setstate__(
            {
                "__dict__": stored,
                "__pydantic_fields_set__": set(were_set),
                "__pydantic_extra__": (extra or {}) if allows_extra else None,
                "__pydantic_private__": _private(kind, private or {}) if kind.__private_attributes__ else None,
            }
        )
        return model

    return decode


def _validate(kind: Any, stored: dict[str, Any], extra: dict[str, Any], upgrade: Upgrade | None) -> Any:
    """Return a model of the current class from the fields of one of an earlier version."""
    values = {**extra, **stored}
    if upgrade is not None:
        values = dict(upgrade(values))
    permitted_extra = extra if kind.model_config.get("extra") == "allow" else {}
    _check_fields(kind, values, {**kind.model_fields, **permitted_extra})
    return kind.model_validate(values, by_name=True, by_alias=False)


def _private(kind: Any, stored: dict[str, Any]) -> dict[str, Any]:
    """Return the private values of a model: the stored ones, and the defaults of those that were added since."""
    from pydantic_core import PydanticUndefined

    def default(attribute: Any) -> Any:
        return deepcopy(attribute.default) if attribute.default_factory is None else attribute.default_factory()

    attributes = kind.__private_attributes__
    values = {name: stored[name] if name in stored else default(field) for name, field in attributes.items()}
    return {name: value for name, value in values.items() if value is not PydanticUndefined}


def _named_tuple_decoder(kind: Any, upgrade: Upgrade | None) -> Decoder:
    return lambda stored: kind(**_current_fields(kind, stored, kind._fields, upgrade))
