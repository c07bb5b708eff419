"""Conversion of pydantic's errors to problems of a document.

Pydantic validates workflow definitions and project files. Each of its errors becomes a problem in terms that the author
of the file knows: the position in the document, the expected and the actual value, and the closest valid key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date, datetime, time
from operator import length_hint
from types import UnionType
from typing import Annotated, Any, Final, Literal, NamedTuple, Union, cast, get_args, get_origin

from pydantic import AfterValidator, ValidationError, WrapValidator
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError

from statewright.data.jsonable import quoted
from statewright.errors import Problem, StatewrightError, suggestion

DocumentPath = tuple[str | int, ...]
"""The path of a value: the keys and indexes that lead to it from the top of the document."""
UNKNOWN_KEY: Final = ("extra_forbidden", "unexpected_keyword_argument")
"""Pydantic's error types for a key that is not a field of a model, or of a dataclass."""
_MAX_COMPARED: Final = 60
"""The maximum number of characters of an invalid key that are compared with the valid keys, which is slow."""
_EXPECTED: Final = {
    "string_type": "a string",
    "int_type": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "list_type": "a list",
    "tuple_type": "a list",
    **dict.fromkeys(("dict_type", "model_type", "model_attributes_type", "dataclass_type"), "a map"),
}
_KINDS: Final = {
    bool: "a boolean",
    str: "a string",
    int: "a number",
    float: "a number",
    list: "a list",
    dict: "a map",
    type(None): "null",
    **dict.fromkeys((date, datetime, time), "a date or time"),
}


# -- annotations of fields


def unexpected(expected: str) -> PydanticCustomError:
    """Return the error for an unexpected value; `expected` describes a valid one, such as `a list of strings`."""
    return PydanticCustomError("expected", "{expected}", {"expected": expected})


def expects(expected: str) -> WrapValidator:
    """Return a validator that replaces all errors of a value with a single one, which says what was expected.

    `expected` describes a valid value, such as `a number above 0`.
    """

    def validate(value: Any, handler: Callable[[Any], Any]) -> Any:
        try:
            return handler(value)
        except ValidationError:
            raise unexpected(expected) from None

    return WrapValidator(validate)


def checked(check: Callable[[Any], object]) -> AfterValidator:
    """Return a validator that reports a StatewrightError raised by `check` as a problem of the value."""

    def validate(value: Any) -> Any:
        try:
            check(value)
        except StatewrightError as error:
            raise ValueError(str(error)) from None
        return value

    return AfterValidator(validate)


# -- errors as problems


def problems_from(
    error: ValidationError,
    model: type[Any],
    *,
    within: DocumentPath = (),
    position_of: Callable[[DocumentPath], tuple[int, int]] = lambda _: (0, 0),
    format_path: Callable[[DocumentPath], str] | None = None,
    map_noun: str = "a map",
    is_secret: Callable[[DocumentPath], bool] = lambda _: False,
) -> Iterator[Problem]:
    """Yield the problems of a document, or of the value in it at the path `within`.

    `position_of` returns the line and the column of a path. `map_noun` is the word for a map in this format, e.g. `a
    table` in TOML. A validator may raise ValueError with two arguments, a message and a suggestion. Values at
    paths for which `is_secret` is true are never quoted.
    """
    for details in cast("list[Any]", error.errors(include_url=False)):
        match = _locate(model, details["loc"])
        path, message, advice = (*within, *match.path), "", ""
        match details["type"]:
            case kind if kind in UNKNOWN_KEY:
                message, advice = f"Unknown key {path[-1]!r}.", suggest_key(str(path[-1]), match.container_types)
            case "missing" | "missing_argument":
                path, key = path[:-1], path[-1]
                message, advice = f"{key!r} is missing.", _example(match.container_types, str(key))
            case "union_tag_not_found":
                message = f"{details['ctx']['discriminator']} is missing."
            case "union_tag_invalid":
                key, tag = details["ctx"]["discriminator"].strip("'"), details["ctx"]["tag"]
                path, message = (*path, key), f"{tag!r} is not a valid {key}."
                advice = suggestion(tag, _tags(match.types, key), noun=f"{key.capitalize()}s")
            case "value_error":
                message, advice = (*details["ctx"]["error"].args, "", "")[:2]
            case "too_short" if length_hint(details["input"]) >= details["ctx"]["min_length"]:
                continue  # the list has enough items, but some are invalid, and reported by other errors
            case _:
                value = "" if is_secret(path) else f": {quoted(details['input'])}"
                kind = describe_kind(details["input"], map_noun)
                message = f"It must {_requirement(details, map_noun)}, but is {kind}{value}."
        yield Problem((format_path or format_json_path)(path), *position_of(path), message, advice)


def format_json_path(path: DocumentPath) -> str:
    """Return a path in the form `steps[0].name`."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".")


def describe_kind(value: Any, map_noun: str = "a map") -> str:
    """Return the name of the type of a value in a document."""
    kind = _KINDS.get(cast("type[Any]", type(value)), f"of type {type(value).__name__}")
    return map_noun if kind == "a map" else kind


def suggest_key(key: str, models: Iterable[type[Any]]) -> str:
    """Return a hint for an unknown key: the most similar key of the models, and all their keys."""
    return suggestion(key[:_MAX_COMPARED], [alias for model in models for alias in _fields_by_key(model)], noun="Keys")


def _requirement(details: Any, map_noun: str) -> str:
    expected = details.get("ctx", {}).get("expected") or _EXPECTED.get(details["type"])
    if expected:
        return f"be {map_noun if expected == 'a map' else expected}"
    # pydantic writes `Input should be ...` and `String should have ...`.
    return details["msg"].partition(" should ")[2].partition(" after validation")[0] or "be valid"


def _example(models: Iterable[type[Any]], key: str) -> str:
    examples = [field.examples for model in models for alias, field in _fields_by_key(model).items() if alias == key]
    return f"Write {examples[0][0]}." if examples and examples[0] else ""


# -- resolving the location of an error against the types of a model


class _Match(NamedTuple):
    """The value of a document in which an error occurred."""

    path: DocumentPath
    """The location that pydantic reports, without the tags of unions, which are not part of the document."""
    container_types: list[type[Any]]
    """The possible types of the container that directly holds the value."""
    types: list[type[Any]]
    """The possible types of the value itself."""


def _locate(model: type[Any], location: DocumentPath) -> _Match:
    """Resolve the location of an error, by following it from the model through the types of fields and items."""
    path: DocumentPath = ()
    container_types, types = [model], [model]
    for part in location:
        tagged_types = [cls for cls in types if part in _tags([cls])]
        if len(types) > 1 and tagged_types:
            types = tagged_types
            continue
        path, container_types = (*path, part), types
        types = [inner for cls in types for inner in _inner_types(cls, part)]
    return _Match(path, container_types, types)


def _inner_types(cls: Any, part: str | int) -> Iterator[Any]:
    """Yield the types of an item of a container."""
    if isinstance(part, str) and part in _fields_by_key(cls):
        yield from _allowed_types(_fields_by_key(cls)[part].annotation)
    elif arguments := get_args(cls):
        yield from _allowed_types(arguments[-1] if get_origin(cls) in (dict, Mapping) else arguments[0])


def _allowed_types(annotation: Any) -> Iterator[Any]:
    """Yield the types that an annotation allows."""
    if get_origin(annotation) is Annotated:
        yield from _allowed_types(get_args(annotation)[0])
    elif get_origin(annotation) in (Union, UnionType):
        for member in get_args(annotation):
            yield from _allowed_types(member)
    else:
        yield annotation


def _fields_by_key(cls: Any) -> dict[str, FieldInfo]:
    """Return the fields of a model by their names in documents."""
    fields: dict[str, FieldInfo] = getattr(cls, "__pydantic_fields__", {})
    return {field.alias or name: field for name, field in fields.items()}


def _tags(types: Iterable[type[Any]], key: str | None = None) -> list[str]:
    """Return the tags that distinguish the models of a union: the values of their literal fields, or of field `key`."""
    return [
        tag
        for cls in types
        for alias, field in _fields_by_key(cls).items()
        if key in (None, alias) and get_origin(field.annotation) is Literal
        for tag in get_args(field.annotation)
    ]
