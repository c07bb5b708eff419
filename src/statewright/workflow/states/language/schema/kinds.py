"""The types of values in workflow files: how each is read, and its JSON Schema.

Reading reports a problem for an invalid value, and returns INVALID.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from statewright.workflow.states.language.diagnostics import Diagnostics, Phase
from statewright.workflow.states.language.yaml.nodes import Path, YamlNode, json_word, shorten

INVALID: Final[Any] = object()
"""Stands for an invalid value."""

JsonSchema = dict[str, Any]


class Kind(Protocol):
    """A type of values."""

    @property
    def words(self) -> str:
        """The description, as in "must be ...": `a text`."""
        ...

    def read(self, node: YamlNode, path: Path, diagnostics: Diagnostics) -> Any:
        """Return the value; report a problem and return INVALID if it is not valid."""
        ...

    def json_schema(self) -> JsonSchema: ...


def describe(node: YamlNode) -> str:
    """Describe a value for a message."""
    if isinstance(node.content, dict):
        return "a map"
    if isinstance(node.content, list):
        return "a list"
    if node.quoted:
        return f"the text {shorten(node.source)!r}"
    if isinstance(node.content, str):
        return f"the text {shorten(node.content)!r}" if node.content else "empty"
    return shorten(json_word(node.content))


def refuse(kind: Kind, node: YamlNode, path: Path, diagnostics: Diagnostics, advice: str = "") -> Any:
    """Report a value of the wrong type, and return INVALID."""
    if not node.broken:
        name = next((step for step in reversed(path) if isinstance(step, str)), "the document")
        what = f"An item of '{shorten(name)}'" if path and isinstance(path[-1], int) else f"{shorten(name)!r}"
        message = f"{what} must be {kind.words}, and is {describe(node)}."
        diagnostics.error(Phase.FORM, path, node.at, message, advice or f"Write {kind.words}.")
    return INVALID


@dataclass(frozen=True, slots=True)
class Text:
    """A text."""

    empty: bool = True
    """True if it may be empty."""
    advice: str = ""
    """Advice for a list or a map in its place."""
    rule: Mapping[str, Any] = field(default_factory=dict[str, Any], hash=False)
    """Further keywords of its JSON Schema, for rules that other checks report."""

    @property
    def words(self) -> str:
        return "a text" if self.empty else "a text that is not empty"

    def read(self, node: YamlNode, path: Path, diagnostics: Diagnostics) -> Any:
        if isinstance(node.content, str) and (node.content or self.empty) and not node.broken:
            return node.content
        return refuse(self, node, path, diagnostics, self._help(node))

    def _help(self, node: YamlNode) -> str:
        if isinstance(node.content, list | dict):
            return self.advice
        return f"Put it in quotes: '{shorten(node.source)}'." if node.source else ""

    def json_schema(self) -> JsonSchema:
        return {"type": "string", **({} if self.empty else {"minLength": 1}), **self.rule}


@dataclass(frozen=True, slots=True)
class Number:
    """A number from `low` to `high`."""

    low: float
    high: float | None = None
    whole: bool = False
    range_phase: Phase = Phase.FORM
    """The phase in which a number out of range is reported."""

    @property
    def words(self) -> str:
        kind = "a whole number" if self.whole else "a number"
        return f"{kind} from {self.low} to {self.high}" if self.high is not None else f"{kind} of at least {self.low}"

    def read(self, node: YamlNode, path: Path, diagnostics: Diagnostics) -> Any:
        value = node.content
        if isinstance(value, bool) or not isinstance(value, int | float):
            return refuse(self, node, path, diagnostics, _number_help(node))
        if self.whole and value != int(value):
            return refuse(self, node, path, diagnostics)
        if value < self.low or (self.high is not None and value > self.high):
            message = f"{str(path[-1])!r} must be {self.words}, and is {describe(node)}."
            diagnostics.error(self.range_phase, path, node.at, message, f"Write {self.words}.")
            return INVALID
        return int(value) if self.whole else float(value)

    def json_schema(self) -> JsonSchema:
        limits = {"minimum": self.low} if self.high is None else {"minimum": self.low, "maximum": self.high}
        return {"type": "integer" if self.whole else "number", **limits}


def _number_help(node: YamlNode) -> str:
    """Return advice for a text that looks like a number."""
    try:
        value = float(node.source[:30]) if isinstance(node.content, str) else None
    except ValueError:
        return ""
    if value is None:
        return ""
    return "Write it without quotes." if node.quoted else f"YAML reads this as a text; write {value!r}."


@dataclass(frozen=True, slots=True)
class Flag:
    """True or false, or one of some words."""

    words_too: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        return " or ".join(["true or false", *(f"'{word}'" for word in self.words_too)])

    def read(self, node: YamlNode, path: Path, diagnostics: Diagnostics) -> Any:
        value = node.content
        if isinstance(value, bool) or value in self.words_too:
            return value
        is_word = isinstance(value, str) and value.lower() in ("true", "false", "yes", "no", "on", "off")
        return refuse(self, node, path, diagnostics, "Write it without quotes." if is_word else "")

    def json_schema(self) -> JsonSchema:
        return {"enum": [True, False, *self.words_too]} if self.words_too else {"type": "boolean"}


@dataclass(frozen=True, slots=True)
class Choice:
    """One of some words."""

    options: tuple[str, ...]

    @property
    def words(self) -> str:
        return " or ".join(f"'{option}'" for option in self.options)

    def read(self, node: YamlNode, path: Path, diagnostics: Diagnostics) -> Any:
        if isinstance(node.content, str) and node.content in self.options:
            return node.content
        guess = diagnostics.near_miss(node.content, self.options) if isinstance(node.content, str) else None
        return refuse(self, node, path, diagnostics, f"Did you mean {guess!r}?" if guess else "")

    def json_schema(self) -> JsonSchema:
        return {"enum": list(self.options)}


@dataclass(frozen=True, slots=True)
class Anything:
    """Any JSON value."""

    @property
    def words(self) -> str:
        return "a value"

    def read(self, node: YamlNode, path: Path, diagnostics: Diagnostics) -> Any:
        return INVALID if node.broken else node.plain()

    def json_schema(self) -> JsonSchema:
        return {}


@dataclass(frozen=True, slots=True)
class Map:
    """A map with any keys."""

    @property
    def words(self) -> str:
        return "a map"

    def read(self, node: YamlNode, path: Path, diagnostics: Diagnostics) -> Any:
        if isinstance(node.content, dict) and not node.broken:
            return node.plain()
        return refuse(self, node, path, diagnostics)

    def json_schema(self) -> JsonSchema:
        return {"type": "object"}


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list, read as a tuple without its invalid items."""

    item: Kind = Anything()
    at_least: int = 0
    distinct: bool = False
    advice: str = ""
    """Advice for an empty list."""

    @property
    def words(self) -> str:
        return "a list" if not self.at_least else "a list that is not empty"

    def read(self, node: YamlNode, path: Path, diagnostics: Diagnostics) -> Any:
        if not isinstance(node.content, list) or node.broken:
            return refuse(self, node, path, diagnostics, _list_help(node, self.item))
        if len(node.content) < self.at_least:
            diagnostics.error(Phase.FORM, path, node.at, f"{str(path[-1])!r} is an empty list.", self.advice)
            return INVALID
        read = [self.item.read(item, (*path, index), diagnostics) for index, item in enumerate(node.content)]
        if self.distinct:
            _note_twins(read, node.content, path, diagnostics)
        return tuple(value for value in read if value is not INVALID)

    def json_schema(self) -> JsonSchema:
        schema: JsonSchema = {"type": "array", "items": self.item.json_schema()}
        if self.at_least:
            schema["minItems"] = self.at_least
        return {**schema, "uniqueItems": True} if self.distinct else schema


def _list_help(node: YamlNode, item: Kind) -> str:
    """Return advice for a value that is not a list."""
    keys: Collection[str] = getattr(item, "current", ())
    if not isinstance(node.content, dict):
        form = f"Write it as a list: [{shorten(node.source)}]."
        return f"Write a list, and in it {item.words}." if keys else form
    first = next(iter(node.content), None)
    # A map of items by their ids, as in other languages, or an item without its dash.
    if "id" in keys and first is not None and first not in keys:
        return f"Write a list: '- id: {shorten(first)}' in place of '{shorten(first)}:'."
    return f"Put '- ' before {first!r}." if first in keys else "Write a list, with '- ' before each item."


def _note_twins(read: Sequence[Any], node: Sequence[YamlNode], path: Path, diagnostics: Diagnostics) -> None:
    seen: set[str] = set()
    for index, (value, item) in enumerate(zip(read, node, strict=True)):
        if isinstance(value, str) and value in seen:
            message = f"{shorten(value)!r} occurs twice in the list."
            diagnostics.error(Phase.FORM, (*path, index), item.at, message, "Remove one of them.")
        elif isinstance(value, str):
            seen.add(value)
