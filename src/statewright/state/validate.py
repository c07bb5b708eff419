"""Validation of values against the types of a schema, by pydantic, which is loaded when it is first needed.

Most values can be seen to conform without pydantic: the type is `str`, and so is the value. Such a *glance* costs no
import and about 100 ns. Only a value that does not pass it is validated by pydantic, which converts it or raises.
Updates of fields with a reducer are not validated, because their type is known only to the reducer.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, Literal, cast

from statewright.channels import AnyValue, Append, LastValue, Overwrite
from statewright.data.json_schema import UnusableSchema, json_schema_validator
from statewright.errors import InvalidUpdateError
from statewright.state.fields import Field
from statewright.state.schema import SchemaKind, StateSchema

Glance = Callable[[Any], bool]
_EXACT = (str, int, float, bool, bytes, type(None))


class FieldCheck:
    """Validates values against the type of one field."""

    def __init__(self, field: Field, annotation: Any = None) -> None:
        self._name = field.name
        self._annotation = field.hint if annotation is None else annotation
        self.glance: Glance = (glance_for(field.hint) if annotation is None else None) or _never
        """Returns True for values that certainly conform."""
        self._adapter: Any = None

    def __call__(self, value: Any) -> Any:
        """Return the value, converted if its type needs it. Raises InvalidUpdateError."""
        return value if self.glance(value) else self._validate(value)

    def _validate(self, value: Any) -> Any:
        from pydantic import ValidationError

        if self._adapter is None:
            self._adapter = type_adapter(self._annotation)
        try:
            return self._adapter.validate_python(value)
        except ValidationError as error:
            detail = error.errors(include_url=False)[0]
            path = "".join(f"[{part!r}]" for part in detail["loc"])
            raise InvalidUpdateError(
                f"Field {self._name!r}{path}: {detail['msg']}; found {detail['input']!r} "
                f"of type {type(detail['input']).__name__}."
            ) from error


def check_value(name: str, hint: Any, value: Any) -> Any:
    """Return the value, converted to `hint` if needed. Raises InvalidUpdateError, which calls the value `name`.

    `hint` is a type, or a JSON Schema as a mapping.
    """
    if isinstance(hint, Mapping):
        return _check_json(name, cast("Mapping[str, Any]", hint), value)
    return FieldCheck(Field(name, hint, LastValue(), None))(value)


def check_schema(owner: str, schema: Any) -> None:
    """Raise InvalidUpdateError if no value can be validated against `schema`; `owner` is the function it belongs to."""
    if isinstance(schema, Mapping):
        _json_validator(owner, cast("Mapping[str, Any]", schema))
    elif schema is not None and glance_for(schema) is None:
        try:
            type_adapter(schema)
        except Exception as error:
            raise InvalidUpdateError(
                f"{owner} was called with schema={schema!r}, which is not a type that values can be validated against. "
                f"Pass a type, or a JSON Schema as a dict."
            ) from error


def _check_json(name: str, schema: Mapping[str, Any], value: Any) -> Any:
    """Return the value. Raises InvalidUpdateError if it does not conform to a JSON Schema."""
    validator = _json_validator(name, schema)
    try:
        error = next(iter(validator.iter_errors(value)), None)
    except ValueError as unreadable:
        raise InvalidUpdateError(
            f"Field {name!r} must be JSON, but is of type {type(value).__name__}: {unreadable}"
        ) from unreadable
    if error is None:
        return value
    path = "".join(f"[{part!r}]" for part in error.instance_path)
    raise InvalidUpdateError(f"Field {name!r}{path}: {error.message}.")


def _json_validator(owner: str, schema: Mapping[str, Any]) -> Any:
    try:
        return json_schema_validator(schema, extra="states")
    except UnusableSchema as error:
        raise InvalidUpdateError(f"The schema of {owner} cannot be used: {error}") from error


class SchemaChecks:
    """The checks of all fields of a schema whose updates have the type of the field."""

    def __init__(self, fields: Mapping[str, Field], sources: Mapping[str, Any]) -> None:
        self._checks = {
            name: FieldCheck(field, sources.get(name)) for name, field in fields.items() if is_checkable(field)
        }

    def check(self, update: dict[str, Any]) -> dict[str, Any]:
        """Return the update with validated values; the same object if nothing was converted.

        For an Overwrite its value is validated. Raises InvalidUpdateError.
        """
        checked = update
        for name, value in update.items():
            check = self._checks.get(name)
            if check is not None and not check.glance(value):
                checked = dict(update) if checked is update else checked
                checked[name] = Overwrite(check(value.value)) if type(value) is Overwrite else check(value)
        return checked


def is_checkable(field: Field) -> bool:
    """Return whether updates have the type of the field: without a reducer, or lists that are appended to a list."""
    channel = field.channel
    return type(channel) in (LastValue, AnyValue) or (type(channel) is Append and not channel.items)


def constrained_annotations(schema: StateSchema) -> dict[str, Any]:
    """Return the annotations of the fields of a pydantic model that have constraints, which are part of the type."""
    if schema.kind is not SchemaKind.PYDANTIC:
        return {}
    annotated: dict[str, Any] = {}
    for name, info in schema.source.model_fields.items():
        if info.metadata:
            annotated[name] = typing.Annotated[(info.annotation, info)]  # pyright: ignore  # built at run time
    return annotated


def type_adapter(annotation: Any) -> Any:
    """Return the pydantic adapter for an annotation; classes unknown to pydantic are checked by isinstance."""
    from pydantic import ConfigDict, PydanticUserError, TypeAdapter

    annotation = modern_typeddict(annotation)
    try:
        return TypeAdapter(annotation, config=ConfigDict(arbitrary_types_allowed=True))
    except PydanticUserError:  # a model, dataclass or TypedDict has its own configuration
        return TypeAdapter(annotation)


def modern_typeddict(annotation: Any) -> Any:
    """Replace the TypedDicts of typing in a hint, which pydantic refuses below Python 3.12, by typing_extensions ones.

    A TypedDict that is nested in itself becomes `dict[str, Any]` there.
    """
    return _modern(annotation, ())


def _modern(hint: Any, above: tuple[Any, ...]) -> Any:
    if isinstance(hint, type) and typing.is_typeddict(hint):
        return _modern_class(hint, above)
    arguments = typing.get_args(hint)
    origin: Any = typing.get_origin(hint)
    if not arguments or origin is Literal:
        return hint
    if origin is typing.Annotated:
        return typing.Annotated[(_modern(arguments[0], above), *arguments[1:])]  # pyright: ignore  # built at run time
    modern = tuple(_modern(argument, above) if argument is not ... else argument for argument in arguments)
    if all(new is old for new, old in zip(modern, arguments, strict=True)):
        return hint
    if origin in (typing.Union, types.UnionType):
        return typing.Union[modern]  # pyright: ignore  # noqa: UP007  # built at run time
    return cast(Any, origin)[modern] if isinstance(origin, type) else hint


def _modern_class(annotation: Any, above: tuple[Any, ...]) -> Any:
    from typing_extensions import TypedDict

    if annotation in above:
        return dict[str, Any]
    entries: dict[str, Any] = {}
    for name, hint in typing.get_type_hints(annotation, include_extras=True).items():
        modern = _modern(unqualified(hint), (*above, annotation))
        entries[name] = modern if is_required(annotation, name, hint) else typing.NotRequired[modern]
    return allow_any_class(TypedDict(annotation.__name__, entries))  # pyright: ignore  # built at run time


def allow_any_class(typeddict: Any) -> Any:
    """Permit classes unknown to pydantic in the fields of a TypedDict, and return it."""
    from pydantic import ConfigDict

    typeddict.__pydantic_config__ = ConfigDict(arbitrary_types_allowed=True)
    return typeddict


def unqualified(hint: Any) -> Any:
    """Return a hint without Required, NotRequired or Final around it."""
    while typing.get_origin(hint) in (typing.Required, typing.NotRequired, typing.Final):
        hint = typing.get_args(hint)[0]
    return hint


def is_required(source: Any, name: str, hint: Any) -> bool:
    """Return whether a key of a TypedDict is required, by its resolved hint, since annotations may be strings."""
    origin = typing.get_origin(hint)
    if origin in (typing.Required, typing.NotRequired):
        return origin is typing.Required
    return name in source.__required_keys__


def glance_for(hint: Any) -> Glance | None:
    """Return a cheap test that is true only for values that certainly conform to `hint`; None if there is none."""
    if hint is Any or hint is object:
        return _anything
    if hint is None:
        return _exactly(type(None))
    if hint in _EXACT:
        return _exactly(hint)
    origin = typing.get_origin(hint)
    if hint in (list, dict, set, tuple):
        return _exactly(hint)
    if origin in (typing.Union, types.UnionType):
        return _any_of([glance_for(option) for option in typing.get_args(hint)])
    if origin is Literal:
        return _one_of(typing.get_args(hint))
    if origin in (list, set, dict):
        parts = [glance_for(part) for part in typing.get_args(hint)]
        return _collection(origin, parts) if parts else _exactly(origin)
    if isinstance(hint, type) and not hasattr(hint, "__required_keys__"):
        return _exactly(hint)
    return None


def _never(value: Any) -> bool:
    return False


def _anything(value: Any) -> bool:
    return True


def _exactly(kind: type) -> Glance:
    return lambda value: type(value) is kind


def _any_of(options: list[Glance | None]) -> Glance:
    glances = [option for option in options if option is not None]
    return lambda value: any(glance(value) for glance in glances)


def _one_of(options: tuple[Any, ...]) -> Glance:
    kinds: set[tuple[Any, Any]] = {(type(option), option) for option in options}
    return lambda value: type(value) in _EXACT and (type(value), value) in kinds


def _collection(kind: type, parts: list[Glance | None]) -> Glance | None:
    glances = [part for part in parts if part is not None]
    if len(glances) != len(parts):
        return None
    if kind is dict:
        key, content = glances
        return lambda value: type(value) is dict and all(key(k) and content(v) for k, v in cast(Any, value).items())
    item = glances[0]
    return lambda value: type(value) is kind and all(map(item, value))
