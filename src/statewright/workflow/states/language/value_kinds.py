"""The kinds of values that a key can hold: how each is read from a file, and how JSON Schema says it.

A kind answers INVALID for what it cannot take, after it has said why.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from statewright.workflow.states.language.diagnostics import Diagnostics, Phase
from statewright.workflow.states.language.yaml.nodes import Path, YamlNode, json_word, shortened

INVALID: Final[Any] = object()
"""Stands for a value that was refused."""

Schema = dict[str, Any]


class Kind(Protocol):
    """A kind of values."""

    @property
    def words(self) -> str:
        """What it is, as in "must be ...": `a text`."""
        ...

    def read(self, written: YamlNode, path: Path, findings: Diagnostics) -> Any:
        """The value, or INVALID after a problem was noted."""
        ...

    def schema(self) -> Schema: ...


def describe(written: YamlNode) -> str:
    """What was found instead of what should be there, for a message."""
    if isinstance(written.content, dict):
        return "a map"
    if isinstance(written.content, list):
        return "a list"
    if written.quoted:
        return f"the text {shortened(written.source)!r}"
    if isinstance(written.content, str):
        return f"the text {shortened(written.content)!r}" if written.content else "empty"
    return shortened(json_word(written.content))


def refuse(kind: Kind, written: YamlNode, path: Path, findings: Diagnostics, advice: str = "") -> Any:
    """Note that a value is not of its kind. The answer is INVALID."""
    if not written.broken:
        name = next((step for step in reversed(path) if isinstance(step, str)), "the document")
        what = f"An item of '{shortened(name)}'" if path and isinstance(path[-1], int) else f"{shortened(name)!r}"
        message = f"{what} must be {kind.words}, and is {describe(written)}."
        findings.error(Phase.FORM, path, written.at, message, advice or f"Write {kind.words}.")
    return INVALID


@dataclass(frozen=True, slots=True)
class Text:
    """A text."""

    empty: bool = True
    """Whether it may be empty."""
    advice: str = ""
    """What to write instead of a list or a map."""

    @property
    def words(self) -> str:
        return "a text" if self.empty else "a text that is not empty"

    def read(self, written: YamlNode, path: Path, findings: Diagnostics) -> Any:
        if isinstance(written.content, str) and (written.content or self.empty) and not written.broken:
            return written.content
        return refuse(self, written, path, findings, self._help(written))

    def _help(self, written: YamlNode) -> str:
        if isinstance(written.content, list | dict):
            return self.advice
        return f"Put it in quotes: '{shortened(written.source)}'." if written.source else ""

    def schema(self) -> Schema:
        return {"type": "string"} if self.empty else {"type": "string", "minLength": 1}


@dataclass(frozen=True, slots=True)
class Number:
    """A number from `low` to `high`."""

    low: float
    high: float | None = None
    whole: bool = False
    range_phase: Phase = Phase.FORM
    """Where a number out of range is reported."""

    @property
    def words(self) -> str:
        kind = "a whole number" if self.whole else "a number"
        return f"{kind} from {self.low} to {self.high}" if self.high is not None else f"{kind} of at least {self.low}"

    def read(self, written: YamlNode, path: Path, findings: Diagnostics) -> Any:
        value = written.content
        if isinstance(value, bool) or not isinstance(value, int | float):
            return refuse(self, written, path, findings, _number_help(written))
        if self.whole and value != int(value):
            return refuse(self, written, path, findings)
        if value < self.low or (self.high is not None and value > self.high):
            message = f"{str(path[-1])!r} must be {self.words}, and is {describe(written)}."
            findings.error(self.range_phase, path, written.at, message, f"Write {self.words}.")
            return INVALID
        return int(value) if self.whole else float(value)

    def schema(self) -> Schema:
        limits = {"minimum": self.low} if self.high is None else {"minimum": self.low, "maximum": self.high}
        return {"type": "integer" if self.whole else "number", **limits}


def _number_help(written: YamlNode) -> str:
    """What to write instead of a text that looks like a number."""
    try:
        value = float(written.source[:30]) if isinstance(written.content, str) else None
    except ValueError:
        return ""
    if value is None:
        return ""
    return "Write it without quotes." if written.quoted else f"YAML reads this as a text; write {value!r}."


@dataclass(frozen=True, slots=True)
class Flag:
    """True or false, or a word that stands for something else."""

    words_too: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        return " or ".join(["true or false", *(f"'{word}'" for word in self.words_too)])

    def read(self, written: YamlNode, path: Path, findings: Diagnostics) -> Any:
        value = written.content
        if isinstance(value, bool) or value in self.words_too:
            return value
        is_word = isinstance(value, str) and value.lower() in ("true", "false", "yes", "no", "on", "off")
        return refuse(self, written, path, findings, "Write it without quotes." if is_word else "")

    def schema(self) -> Schema:
        return {"enum": [True, False, *self.words_too]} if self.words_too else {"type": "boolean"}


@dataclass(frozen=True, slots=True)
class Choice:
    """One of some words. What is wrong with a refused word is said by those who refuse it."""

    options: tuple[str, ...]

    @property
    def words(self) -> str:
        return " or ".join(f"'{option}'" for option in self.options)

    def read(self, written: YamlNode, path: Path, findings: Diagnostics) -> Any:
        if isinstance(written.content, str) and written.content in self.options:
            return written.content
        guess = findings.near_miss(written.content, self.options) if isinstance(written.content, str) else None
        return refuse(self, written, path, findings, f"Did you mean {guess!r}?" if guess else "")

    def schema(self) -> Schema:
        return {"enum": list(self.options)}


@dataclass(frozen=True, slots=True)
class Anything:
    """Whatever JSON can say."""

    @property
    def words(self) -> str:
        return "a value"

    def read(self, written: YamlNode, path: Path, findings: Diagnostics) -> Any:
        return INVALID if written.broken else written.plain()

    def schema(self) -> Schema:
        return {}


@dataclass(frozen=True, slots=True)
class Map:
    """A map of whatever the author wants."""

    @property
    def words(self) -> str:
        return "a map"

    def read(self, written: YamlNode, path: Path, findings: Diagnostics) -> Any:
        if isinstance(written.content, dict) and not written.broken:
            return written.plain()
        return refuse(self, written, path, findings)

    def schema(self) -> Schema:
        return {"type": "object"}


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list. Its value is a tuple, without the items that were refused."""

    item: Kind
    at_least: int = 0
    distinct: bool = False
    advice: str = ""
    """What to write instead of an empty list."""

    @property
    def words(self) -> str:
        return "a list" if not self.at_least else "a list that is not empty"

    def read(self, written: YamlNode, path: Path, findings: Diagnostics) -> Any:
        if not isinstance(written.content, list) or written.broken:
            return refuse(self, written, path, findings, _list_help(written, self.item))
        if len(written.content) < self.at_least:
            findings.error(Phase.FORM, path, written.at, f"{str(path[-1])!r} is an empty list.", self.advice)
            return INVALID
        read = [self.item.read(item, (*path, place), findings) for place, item in enumerate(written.content)]
        if self.distinct:
            _note_twins(read, written.content, path, findings)
        return tuple(value for value in read if value is not INVALID)

    def schema(self) -> Schema:
        schema: Schema = {"type": "array", "items": self.item.schema()}
        if self.at_least:
            schema["minItems"] = self.at_least
        return {**schema, "uniqueItems": True} if self.distinct else schema


def _list_help(written: YamlNode, item: Kind) -> str:
    """Return what to write in place of what is no list."""
    keys: Collection[str] = getattr(item, "current", ())
    if not isinstance(written.content, dict):
        form = f"Write it as a list: [{shortened(written.source)}]."
        return f"Write a list, and in it {item.words}." if keys else form
    first = next(iter(written.content), None)
    # A map of items by their ids, as other languages have it, or an item whose dash was forgotten.
    if "id" in keys and first is not None and first not in keys:
        return f"Write a list: '- id: {shortened(first)}' in place of '{shortened(first)}:'."
    return f"Put '- ' before {first!r}." if first in keys else "Write a list, with '- ' before each item."


def _note_twins(read: Sequence[Any], written: Sequence[YamlNode], path: Path, findings: Diagnostics) -> None:
    seen: set[str] = set()
    for place, (value, item) in enumerate(zip(read, written, strict=True)):
        if isinstance(value, str) and value in seen:
            message = f"{shortened(value)!r} stands twice in the list."
            findings.error(Phase.FORM, (*path, place), item.at, message, "Remove one of them.")
        elif isinstance(value, str):
            seen.add(value)
