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


def conversions_of(cls: Any, upgrade: Upgrade | None) -> tuple[Encoder, Decoder]:
    """Return the encoder and the decoder of a class. Raises SerdeError if the class is of an unsupported kind."""
    if issubclass(cls, Flag):
        return (lambda value: value.value), cls  # a combination of flags has no name
    if issubclass(cls, Enum):
        return (lambda value: value.name), _enum_decoder(cls)
    if dataclasses.is_dataclass(cls):
        return _dataclass_encoder(cls), _dataclass_decoder(cls, upgrade)
    if hasattr(cls, "model_fields"):
        return encode_pydantic, _pydantic_decoder(cls, upgrade)
    if hasattr(cls, "_fields") and issubclass(cls, tuple):
        return (lambda value: value._asdict()), _named_tuple_decoder(cls, upgrade)
    reason = "it is not a dataclass, pydantic model, Enum or NamedTuple. Register it with encode= and decode="
    raise SerdeError(type_name(cast(type, cls)), reason)


def _enum_decoder(cls: type[Enum]) -> Decoder:
    def decode(name: str) -> Any:
        try:
            return cls[name]
        except KeyError:
            hint = suggestion(name, cls.__members__, noun="Members")
            raise SerdeError(type_name(cls), f"it no longer has a member {name!r}. {hint}") from None

    return decode


def _dataclass_encoder(cls: Any) -> Encoder:
    names = tuple(field.name for field in dataclasses.fields(cls))
    return lambda value: {name: getattr(value, name) for name in names if hasattr(value, name)}


def _dataclass_decoder(cls: Any, upgrade: Upgrade | None) -> Decoder:
    """Return a decoder that does not call `__init__`: the stored fields already contain its effects."""
    fields = {field.name: field for field in dataclasses.fields(cls)}

    def decode(stored: dict[str, Any]) -> Any:
        values = _current_fields(cls, stored, fields, upgrade)
        instance: Any = object.__new__(cls)
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
    cls: type, stored: dict[str, Any], fields: Iterable[str], upgrade: Upgrade | None
) -> dict[str, Any]:
    """Return the stored fields, converted by `upgrade` if they are not those of the class. Raises SerdeError."""
    values = stored if upgrade is None or stored.keys() == set(fields) else dict(upgrade(stored))
    _check_fields(cls, values, fields)
    return values


def _check_fields(cls: type, stored: Mapping[str, Any], fields: Iterable[str]) -> None:
    """Raise SerdeError if there are stored fields that the class no longer has, rather than drop them silently."""
    removed_names = [name for name in stored if name not in fields]
    if removed_names:
        raise SerdeError(
            type_name(cls),
            f"a value was stored with {', '.join(map(repr, removed_names))}, which the class no longer has. "
            f"Register the class with upgrade=, a function from the stored fields to the current ones",
        )


def encode_pydantic(value: Any) -> list[Any]:
    """Return a list of the parts of a pydantic model, from which empty parts at the end are omitted.

    The parts are its fields, the names of the fields that were set explicitly, extra values, and private values.
    """
    state = value.__getstate__()
    attributes: dict[str, Any] = state["__dict__"]  # also contains cached properties, which are not stored
    names: Any = cast(Any, type(value)).model_fields
    parts: list[Any] = [
        {name: attributes[name] for name in names if name in attributes},
        sorted(state["__pydantic_fields_set__"]),
    ]
    extra: Any = state.get("__pydantic_extra__")
    private: Any = state.get("__pydantic_private__")
    return [*parts, extra, private] if private else [*parts, extra] if extra else parts


def _pydantic_decoder(cls: Any, upgrade: Upgrade | None) -> Decoder:
    """Return a decoder that calls validators only if the fields of the class have changed since a model was stored."""

    def decode(parts: list[Any]) -> Any:
        all_parts: list[Any] = [*parts, None, None]  # with the omitted parts
        stored, explicit_names, extra, private = all_parts[:4]
        allows_extra = cls.model_config.get("extra") == "allow"
        if stored.keys() != cls.model_fields.keys() or (extra and not allows_extra):
            model = _validate(cls, stored, extra or {}, upgrade)
            # Validation marks all stored fields as set explicitly, including those that were not.
            model.__pydantic_fields_set__.difference_update(stored.keys() - set(explicit_names))
            if private and model.__pydantic_private__ is not None:
                model.__pydantic_private__.update(_private_values(cls, private))
            return model
        model = cls.__new__(cls)
        model.__setstate__(
            {
                "__dict__": stored,
                "__pydantic_fields_set__": set(explicit_names),
                "__pydantic_extra__": (extra or {}) if allows_extra else None,
                "__pydantic_private__": _private_values(cls, private or {}) if cls.__private_attributes__ else None,
            }
        )
        return model

    return decode


def _validate(cls: Any, stored: dict[str, Any], extra: dict[str, Any], upgrade: Upgrade | None) -> Any:
    """Return a model of the current class, from the fields of a model that an earlier version of the class stored."""
    values = {**extra, **stored}
    if upgrade is not None:
        values = dict(upgrade(values))
    permitted_extra = extra if cls.model_config.get("extra") == "allow" else {}
    _check_fields(cls, values, {**cls.model_fields, **permitted_extra})
    return cls.model_validate(values, by_name=True, by_alias=False)


def _private_values(cls: Any, stored: dict[str, Any]) -> dict[str, Any]:
    """Return the private values of a model: the stored values, and defaults for attributes that were added since."""
    from pydantic_core import PydanticUndefined

    def default(attribute: Any) -> Any:
        return deepcopy(attribute.default) if attribute.default_factory is None else attribute.default_factory()

    attributes = cls.__private_attributes__
    values = {name: stored[name] if name in stored else default(field) for name, field in attributes.items()}
    return {name: value for name, value in values.items() if value is not PydanticUndefined}


def _named_tuple_decoder(cls: Any, upgrade: Upgrade | None) -> Decoder:
    return lambda stored: cls(**_current_fields(cls, stored, cls._fields, upgrade))
