"""The types of values in workflow files, each with its reading and its JSON Schema.

Reading an invalid value reports a problem, and returns INVALID.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from statewright.workflow.states.language.diagnostics import Diagnostics, Phase
from statewright.workflow.states.language.yaml.nodes import Path, YamlNode, format_json, shorten

INVALID: Final[Any] = object()
"""Returned in place of an invalid value."""

JsonSchema = dict[str, Any]


class ValueType:
    """Base class of the types of values."""

    __slots__ = ()

    def describe(self) -> str:
        """Return a phrase for messages, to complete "must be ...", such as `a string`."""
        raise NotImplementedError

    def json_schema(self) -> JsonSchema:
        raise NotImplementedError

    def read(self, node: YamlNode, path: Path, diagnostics: Diagnostics) -> Any:
        """Return the value; report a problem and return INVALID if it is not valid."""
        if not node.broken and self.is_valid(node.content):
            return node.plain()
        return self.reject(node, path, diagnostics, self.suggest(node, diagnostics))

    def is_valid(self, content: Any) -> bool:
        """Return whether the content of a node is of this type."""
        raise NotImplementedError

    def suggest(self, node: YamlNode, diagnostics: Diagnostics) -> str:
        """Return advice for an invalid value. An empty string means to write what `describe` returns."""
        return ""

    def reject(self, node: YamlNode, path: Path, diagnostics: Diagnostics, advice: str = "") -> Any:
        """Report a value of the wrong type, and return INVALID."""
        if not node.broken:
            name = next((step for step in reversed(path) if isinstance(step, str)), "the document")
            subject = f"An item of '{shorten(name)}'" if path and isinstance(path[-1], int) else f"{shorten(name)!r}"
            message = f"{subject} must be {self.describe()}, but is {describe_value(node)}."
            diagnostics.error(Phase.FORM, path, node.at, message, advice or f"Write {self.describe()}.")
        return INVALID


def describe_value(node: YamlNode) -> str:
    """Describe a value for a message."""
    if isinstance(node.content, dict):
        return "a map"
    if isinstance(node.content, list):
        return "a list"
    if node.quoted:
        return f"the text {shorten(node.source)!r}"
    if isinstance(node.content, str):
        return f"the text {shorten(node.content)!r}" if node.content else "empty"
    return shorten(format_json(node.content))


@dataclass(frozen=True, slots=True)
class Text(ValueType):
    """A string."""

    empty: bool = True
    """True if it may be empty."""
    advice: str = ""
    """Advice if it is a list or a map instead."""
    rule: Mapping[str, Any] = field(default_factory=dict[str, Any], hash=False)
    """Further keywords of its JSON Schema, for rules that other checks report."""

    def describe(self) -> str:
        return "a string" if self.empty else "a string that is not empty"

    def is_valid(self, content: Any) -> bool:
        return isinstance(content, str) and (self.empty or content != "")

    def suggest(self, node: YamlNode, diagnostics: Diagnostics) -> str:
        if isinstance(node.content, list | dict):
            return self.advice
        return f"Put it in quotes: '{shorten(node.source)}'." if node.source else ""

    def json_schema(self) -> JsonSchema:
        return {"type": "string", **({} if self.empty else {"minLength": 1}), **self.rule}


@dataclass(frozen=True, slots=True)
class Number(ValueType):
    """A number from `low` to `high`."""

    low: float
    high: float | None = None
    whole: bool = False
    range_phase: Phase = Phase.FORM
    """The phase in which a number out of range is reported."""

    def describe(self) -> str:
        kind = "a whole number" if self.whole else "a number"
        return f"{kind} from {self.low} to {self.high}" if self.high is not None else f"{kind} of at least {self.low}"

    def read(self, node: YamlNode, path: Path, diagnostics: Diagnostics) -> Any:
        value = node.content
        if isinstance(value, bool) or not isinstance(value, int | float):
            return self.reject(node, path, diagnostics, _suggest_number(node))
        if self.whole and value != int(value):
            return self.reject(node, path, diagnostics)
        if value < self.low or (self.high is not None and value > self.high):
            message = f"{str(path[-1])!r} must be {self.describe()}, but is {describe_value(node)}."
            diagnostics.error(self.range_phase, path, node.at, message, f"Write {self.describe()}.")
            return INVALID
        return int(value) if self.whole else float(value)

    def json_schema(self) -> JsonSchema:
        limits = {"minimum": self.low} if self.high is None else {"minimum": self.low, "maximum": self.high}
        return {"type": "integer" if self.whole else "number", **limits}


def _suggest_number(node: YamlNode) -> str:
    """Return advice for a text that looks like a number."""
    try:
        value = float(node.source[:30]) if isinstance(node.content, str) else None
    except ValueError:
        return ""
    if value is None:
        return ""
    return "Write it without quotes." if node.quoted else f"YAML reads this as a string; write {value!r}."


@dataclass(frozen=True, slots=True)
class Flag(ValueType):
    """True or false, or one of several words."""

    extra_words: tuple[str, ...] = ()

    def describe(self) -> str:
        return " or ".join(["true or false", *(f"'{word}'" for word in self.extra_words)])

    def is_valid(self, content: Any) -> bool:
        return isinstance(content, bool) or content in self.extra_words

    def suggest(self, node: YamlNode, diagnostics: Diagnostics) -> str:
        value = node.content
        is_word = isinstance(value, str) and value.lower() in ("true", "false", "yes", "no", "on", "off")
        return "Write it without quotes." if is_word else ""

    def json_schema(self) -> JsonSchema:
        return {"enum": [True, False, *self.extra_words]} if self.extra_words else {"type": "boolean"}


@dataclass(frozen=True, slots=True)
class Choice(ValueType):
    """One of several words."""

    options: tuple[str, ...]

    def describe(self) -> str:
        return " or ".join(f"'{option}'" for option in self.options)

    def is_valid(self, content: Any) -> bool:
        return content in self.options

    def suggest(self, node: YamlNode, diagnostics: Diagnostics) -> str:
        guess = diagnostics.near_miss(node.content, self.options) if isinstance(node.content, str) else None
        return f"Did you mean {guess!r}?" if guess else ""

    def json_schema(self) -> JsonSchema:
        return {"enum": list(self.options)}


@dataclass(frozen=True, slots=True)
class Anything(ValueType):
    """Any JSON value."""

    def describe(self) -> str:
        return "a value"

    def is_valid(self, content: Any) -> bool:
        return True

    def json_schema(self) -> JsonSchema:
        return {}


@dataclass(frozen=True, slots=True)
class Map(ValueType):
    """A map with any keys."""

    def describe(self) -> str:
        return "a map"

    def is_valid(self, content: Any) -> bool:
        return isinstance(content, dict)

    def json_schema(self) -> JsonSchema:
        return {"type": "object"}


@dataclass(frozen=True, slots=True)
class ListOf(ValueType):
    """A list, read as a tuple without its invalid items."""

    item: ValueType = Anything()
    at_least: int = 0
    distinct: bool = False
    advice: str = ""
    """Advice for an empty list."""

    def describe(self) -> str:
        return "a list" if not self.at_least else "a list that is not empty"

    def read(self, node: YamlNode, path: Path, diagnostics: Diagnostics) -> Any:
        if not isinstance(node.content, list) or node.broken:
            return self.reject(node, path, diagnostics, _suggest_list(node, self.item))
        if len(node.content) < self.at_least:
            diagnostics.error(Phase.FORM, path, node.at, f"{str(path[-1])!r} is an empty list.", self.advice)
            return INVALID
        values = [self.item.read(item, (*path, index), diagnostics) for index, item in enumerate(node.content)]
        if self.distinct:
            _check_duplicates(values, node.content, path, diagnostics)
        return tuple(value for value in values if value is not INVALID)

    def json_schema(self) -> JsonSchema:
        schema: JsonSchema = {"type": "array", "items": self.item.json_schema()}
        if self.at_least:
            schema["minItems"] = self.at_least
        return {**schema, "uniqueItems": True} if self.distinct else schema


def _suggest_list(node: YamlNode, item: ValueType) -> str:
    """Return advice for a value that is not a list."""
    keys: Collection[str] = getattr(item, "current", ())
    if not isinstance(node.content, dict):
        return f"Write a list with {item.describe()}." if keys else f"Write it as a list: [{shorten(node.source)}]."
    first = next(iter(node.content), None)
    # Either a map of items by their ids, as in other languages, or an item without its dash.
    if "id" in keys and first is not None and first not in keys:
        return f"Write a list: '- id: {shorten(first)}' in place of '{shorten(first)}:'."
    return f"Put '- ' before {first!r}." if first in keys else "Write a list, with '- ' before each item."


def _check_duplicates(values: Sequence[Any], nodes: Sequence[YamlNode], path: Path, diagnostics: Diagnostics) -> None:
    seen: set[str] = set()
    for index, (value, node) in enumerate(zip(values, nodes, strict=True)):
        if isinstance(value, str) and value in seen:
            message = f"{shorten(value)!r} occurs twice in the list."
            diagnostics.error(Phase.FORM, (*path, index), node.at, message, "Remove one of them.")
        elif isinstance(value, str):
            seen.add(value)
