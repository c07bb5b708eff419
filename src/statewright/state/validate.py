"""Validation of values against the types in a schema.

For most values a simple test shows that they conform, for example that the type is `str` and the value is a `str`. Such
a *fast check* takes about 100 ns. Only values that do not pass it are validated by pydantic, which converts them or
raises an error, and which is not imported before it is needed. Updates of fields with a reducer are not validated,
because only the reducer knows which types of updates it accepts.
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

FastCheck = Callable[[Any], bool]
"""Returns True only for values that certainly conform to a type."""
_SCALAR_TYPES = (str, int, float, bool, bytes, type(None))


class FieldCheck:
    """Validates values against the type of one field."""

    def __init__(self, field: Field, annotation: Any = None) -> None:
        self._name = field.name
        self._annotation = field.hint if annotation is None else annotation
        self.certainly_conforms: FastCheck = (fast_check_for(field.hint) if annotation is None else None) or _never
        self._adapter: Any = None

    def __call__(self, value: Any) -> Any:
        """Return the value, converted to the type if needed. Raises InvalidUpdateError if that is not possible."""
        return value if self.certainly_conforms(value) else self._validate(value)

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
    """Return the value, converted to `hint` if needed. Raises InvalidUpdateError if that is not possible.

    `hint` is a type, or a JSON Schema as a mapping. `name` is the name of the value in the error.
    """
    if isinstance(hint, Mapping):
        return _check_json(name, cast("Mapping[str, Any]", hint), value)
    return FieldCheck(Field(name, hint, LastValue(), None))(value)


def check_schema(owner: str, schema: Any) -> None:
    """Raise InvalidUpdateError if `schema` is neither a type nor a JSON Schema against which values can be validated.

    `owner` describes the function to which it was passed, for the error.
    """
    if isinstance(schema, Mapping):
        _json_validator(owner, cast("Mapping[str, Any]", schema))
    elif schema is not None and fast_check_for(schema) is None:
        try:
            type_adapter(schema)
        except Exception as error:
            raise InvalidUpdateError(
                f"{owner} was called with schema={schema!r}, against which values cannot be validated. "
                f"Pass a type, or a JSON Schema as a dict."
            ) from error


def _check_json(name: str, schema: Mapping[str, Any], value: Any) -> Any:
    """Return the value. Raises InvalidUpdateError if it does not conform to a JSON Schema."""
    validator = _json_validator(name, schema)
    try:
        error = next(iter(validator.iter_errors(value)), None)
    except ValueError as not_json:
        raise InvalidUpdateError(
            f"Field {name!r} must be a JSON value, but is of type {type(value).__name__}: {not_json}"
        ) from not_json
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
    """The checks of the fields of a schema, except fields whose updates may have another type than the field."""

    def __init__(self, fields: Mapping[str, Field], annotations: Mapping[str, Any]) -> None:
        """`annotations` are the annotations of fields with constraints, which are used in place of their types."""
        self._checks = {
            name: FieldCheck(field, annotations.get(name)) for name, field in fields.items() if is_checkable(field)
        }

    def check(self, update: dict[str, Any]) -> dict[str, Any]:
        """Return an update with validated values; return the same object if nothing was converted.

        The value in an Overwrite is validated in the same way. Raises InvalidUpdateError for an invalid value.
        """
        checked = update
        for name, value in update.items():
            check = self._checks.get(name)
            if check is not None and not check.certainly_conforms(value):
                checked = dict(update) if checked is update else checked
                checked[name] = Overwrite(check(value.value)) if type(value) is Overwrite else check(value)
        return checked


def is_checkable(field: Field) -> bool:
    """Return whether the updates of a field have the type of the field.

    They do if the field has no reducer, or if updates are lists whose items are appended to a list.
    """
    channel = field.channel
    return type(channel) in (LastValue, AnyValue) or (type(channel) is Append and not channel.items)


def constrained_annotations(schema: StateSchema) -> dict[str, Any]:
    """Return the annotations of fields with constraints in a pydantic model, by field. They contain the constraints."""
    if schema.kind is not SchemaKind.PYDANTIC:
        return {}
    annotated: dict[str, Any] = {}
    for name, info in schema.source.model_fields.items():
        if info.metadata:
            annotated[name] = typing.Annotated[(info.annotation, info)]  # pyright: ignore  # built at run time
    return annotated


def type_adapter(annotation: Any) -> Any:
    """Return a pydantic TypeAdapter for an annotation. For classes that pydantic does not know, it uses isinstance."""
    from pydantic import ConfigDict, PydanticUserError, TypeAdapter

    annotation = modern_typeddict(annotation)
    try:
        return TypeAdapter(annotation, config=ConfigDict(arbitrary_types_allowed=True))
    except PydanticUserError:  # no configuration may be passed for a model, dataclass or TypedDict, which has its own
        return TypeAdapter(annotation)


def modern_typeddict(annotation: Any) -> Any:
    """Replace TypedDicts of `typing` in an annotation with equivalent TypedDicts of `typing_extensions`.

    Pydantic refuses those of `typing` below Python 3.12. Where a TypedDict contains itself, it becomes
    `dict[str, Any]`.
    """
    return _modernize(annotation, ())


def _modernize(hint: Any, enclosing: tuple[Any, ...]) -> Any:
    """Do what `modern_typeddict` does; `enclosing` are the TypedDicts that contain the hint."""
    if isinstance(hint, type) and typing.is_typeddict(hint):
        return _modernize_class(hint, enclosing)
    arguments = typing.get_args(hint)
    origin: Any = typing.get_origin(hint)
    if not arguments or origin is Literal:
        return hint
    if origin is typing.Annotated:
        return typing.Annotated[(_modernize(arguments[0], enclosing), *arguments[1:])]  # pyright: ignore  # built at run time
    modern = tuple(_modernize(argument, enclosing) if argument is not ... else argument for argument in arguments)
    if all(new is old for new, old in zip(modern, arguments, strict=True)):
        return hint
    if origin in (typing.Union, types.UnionType):
        return typing.Union[modern]  # pyright: ignore  # noqa: UP007  # built at run time
    return cast(Any, origin)[modern] if isinstance(origin, type) else hint


def _modernize_class(annotation: Any, enclosing: tuple[Any, ...]) -> Any:
    from typing_extensions import TypedDict

    if annotation in enclosing:
        return dict[str, Any]
    entries: dict[str, Any] = {}
    for name, hint in typing.get_type_hints(annotation, include_extras=True).items():
        modern = _modernize(unqualified(hint), (*enclosing, annotation))
        entries[name] = modern if is_required(annotation, name, hint) else typing.NotRequired[modern]
    return allow_any_class(TypedDict(annotation.__name__, entries))  # pyright: ignore  # built at run time


def allow_any_class(typeddict: Any) -> Any:
    """Permit classes that pydantic does not know in the fields of a TypedDict, and return the TypedDict."""
    from pydantic import ConfigDict

    typeddict.__pydantic_config__ = ConfigDict(arbitrary_types_allowed=True)
    return typeddict


def unqualified(hint: Any) -> Any:
    """Return a hint without an enclosing Required, NotRequired or Final."""
    while typing.get_origin(hint) in (typing.Required, typing.NotRequired, typing.Final):
        hint = typing.get_args(hint)[0]
    return hint


def is_required(source: Any, name: str, hint: Any) -> bool:
    """Return whether a key of a TypedDict is required.

    `hint` is the resolved hint of the key, which is needed because `__required_keys__` may be wrong if annotations are
    strings.
    """
    origin = typing.get_origin(hint)
    if origin in (typing.Required, typing.NotRequired):
        return origin is typing.Required
    return name in source.__required_keys__


def fast_check_for(hint: Any) -> FastCheck | None:
    """Return a fast check for values of a type; None if there is none."""
    if hint is Any or hint is object:
        return _always
    if hint is None:
        return _exactly(type(None))
    if hint in _SCALAR_TYPES:
        return _exactly(hint)
    origin = typing.get_origin(hint)
    if hint in (list, dict, set, tuple):
        return _exactly(hint)
    if origin in (typing.Union, types.UnionType):
        return _any_of([fast_check_for(option) for option in typing.get_args(hint)])
    if origin is Literal:
        return _one_of(typing.get_args(hint))
    if origin in (list, set, dict):
        element_checks = [fast_check_for(argument) for argument in typing.get_args(hint)]
        return _collection(origin, element_checks) if element_checks else _exactly(origin)
    if isinstance(hint, type) and not hasattr(hint, "__required_keys__"):
        return _exactly(hint)
    return None


def _never(value: Any) -> bool:
    return False


def _always(value: Any) -> bool:
    return True


def _exactly(cls: type) -> FastCheck:
    return lambda value: type(value) is cls


def _any_of(checks: list[FastCheck | None]) -> FastCheck:
    present_checks = [check for check in checks if check is not None]
    return lambda value: any(check(value) for check in present_checks)


def _one_of(literals: tuple[Any, ...]) -> FastCheck:
    # Pairs with the type, because 1 == True.
    typed_literals: set[tuple[Any, Any]] = {(type(literal), literal) for literal in literals}
    return lambda value: type(value) in _SCALAR_TYPES and (type(value), value) in typed_literals


def _collection(cls: type, element_checks: list[FastCheck | None]) -> FastCheck | None:
    """Return a fast check for a list, set or dict; None unless there is one for its items, or its keys and values."""
    checks = [check for check in element_checks if check is not None]
    if len(checks) != len(element_checks):
        return None
    if cls is dict:
        check_key, check_item = checks
        return lambda value: (
            type(value) is dict and all(check_key(key) and check_item(item) for key, item in cast(Any, value).items())
        )
    (check_item,) = checks
    return lambda value: type(value) is cls and all(map(check_item, value))
