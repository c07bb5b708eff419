"""Maps with declared keys: the rules between the keys, and reading.

Reading a map by its schema returns a `ParsedMap`: its valid values, and the positions of all values. The checks of
references and expressions use it, even if other values are invalid.

A mistake is reported once, where it was probably made: a misspelt required key is not also reported as missing, and a
key at the wrong level of indentation is reported at its own position.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, cast

from statewright.workflow.states.language.diagnostics import Diagnostics, Phase
from statewright.workflow.states.language.schema.keys import KeySchema, keys_of
from statewright.workflow.states.language.schema.value_types import INVALID, JsonSchema, ValueType
from statewright.workflow.states.language.yaml.nodes import Mark, Path, YamlNode, shorten

PRIVATE_PREFIX: Final = "meta_"
"""Prefix of keys that belong to a user interface."""


@dataclass(frozen=True, slots=True)
class ExclusiveKeys:
    """Two mutually exclusive keys."""

    first: str
    second: str
    advice: str | Callable[[ParsedMap], str]
    """The advice, or a function that returns it for a map with both keys."""


@dataclass(eq=False)
class MapSchema(ValueType):
    """The keys of a map, and the rules between them. A class variable of the class that declares the keys."""

    name: str
    """The name of its definition in the JSON Schema."""
    description: str
    """A phrase for messages, to complete "must be ...", such as `a map with an id`."""
    noun: str = "This"
    """The noun for such a map in messages."""
    one_of: tuple[str, ...] = ()
    """Keys of which at least one is required."""
    exclusive: tuple[ExclusiveKeys, ...] = ()
    requires: tuple[tuple[str, str], ...] = ()
    """Pairs of keys, the first of which requires the second."""
    advice: str = ""
    """Advice for a value that is not a map."""
    check_mistakes: Callable[[ParsedMap, Diagnostics], Collection[str]] = field(default=lambda part, diagnostics: ())
    """A function that reports common mistakes, and returns the keys that need no further checks."""
    model: type[Any] = field(init=False, repr=False)
    """The class that declares the keys."""

    def __set_name__(self, owner: type[Any], name: str) -> None:
        self.model = owner

    @property
    def doc(self) -> str:
        """The first line of the docstring of the class."""
        return (self.model.__doc__ or "").partition("\n")[0]

    @cached_property
    def by_name(self) -> Mapping[str, KeySchema]:
        """The keys, in the order of their declaration."""
        return keys_of(self.model)

    @property
    def keys(self) -> Collection[KeySchema]:
        return self.by_name.values()

    @cached_property
    def current(self) -> tuple[str, ...]:
        """The names of the keys that are neither deprecated nor ignored."""
        return tuple(key.name for key in self.keys if not key.current_name and not key.ignored)

    @cached_property
    def by_alias(self) -> Mapping[str, str]:
        """The keys by their aliases."""
        return {alias: key.name for key in self.keys for alias in key.aliases}

    def describe(self) -> str:
        return self.description

    def read(self, node: YamlNode, path: Path, diagnostics: Diagnostics) -> ParsedMap | Any:
        """Read a map; return INVALID if the value is not a map."""
        if not isinstance(node.content, dict) or node.broken:
            name = node.content if isinstance(node.content, str) and node.content else "the_state"
            return self.reject(node, path, diagnostics, self.advice.replace("the_state", shorten(name)))
        part = ParsedMap(self, path, node)
        checked = self.check_mistakes(part, diagnostics)
        part.names.update((name, name) for name in checked)
        for name, child in node.content.items():
            if name not in checked and not name.startswith(PRIVATE_PREFIX):
                _read_key(part, name, child, diagnostics)
        if part.label != self.noun:
            diagnostics.set_label(path, part.label)
        _check_presence(part, diagnostics)
        _check_combinations(part, diagnostics)
        return part

    def json_schema(self) -> JsonSchema:
        return {"$ref": f"#/$defs/{self.name}"}


@dataclass(slots=True, eq=False)
class ParsedMap:
    """A map of a file, read by its schema."""

    schema: MapSchema
    path: Path
    node: YamlNode
    values: dict[str, Any] = field(default_factory=dict[str, Any])
    """Valid values, by the current names of their keys."""
    names: dict[str, str] = field(default_factory=dict[str, str])
    """The names of all present keys as written, by their current names; also those of invalid values."""

    @property
    def content(self) -> dict[str, YamlNode]:
        """The YAML nodes of the values, by keys as written."""
        return cast("dict[str, YamlNode]", self.node.content)

    def has_key(self, name: str) -> bool:
        return name in self.names

    def at(self, name: str) -> Mark:
        """Return the position of the value of a key; of the map itself if the key is absent."""
        child = self.content.get(self.names.get(name, name))
        return child.at if child is not None else self.node.at

    def key_at(self, name: str) -> Mark:
        """Return the position of a key; of the map itself if the key is absent."""
        return self.node.key_marks.get(self.names.get(name, name), self.node.at)

    def path_to(self, name: str) -> Path:
        return (*self.path, self.names.get(name, name))

    def location(self, name: str) -> tuple[Path, Mark]:
        """Return the path and the position of the value of a key, for messages."""
        return self.path_to(name), self.at(name)

    def key_location(self, name: str) -> tuple[Path, Mark]:
        """Return the path and the position of a key, for messages."""
        return self.path_to(name), self.key_at(name)

    def parts(self, name: str) -> tuple[ParsedMap, ...]:
        """Return the valid maps under a key: none, one, or those in a list."""
        value: Any = self.values.get(name, ())
        return (value,) if isinstance(value, ParsedMap) else tuple(value)

    @property
    def label(self) -> str:
        """The name of this map in messages: its noun, with its id or name if it has one."""
        name = self.values.get("id", self.values.get("name"))
        return f"{self.schema.noun} {shorten(name)!r}" if isinstance(name, str) else self.schema.noun

    @property
    def subject(self) -> str:
        """The label as the subject of a sentence: `State 'plan'`, `This state`, `The condition`."""
        named = self.label != self.schema.noun or self.schema.noun.startswith(("The ", "This", "'"))
        return self.label if named else f"This {self.schema.noun[:1].lower()}{self.schema.noun[1:]}"


def _read_key(part: ParsedMap, name: str, child: YamlNode, diagnostics: Diagnostics) -> None:
    key = part.schema.by_name.get(name)
    if key is None:
        _report_unknown(part, name, diagnostics)
    elif key.ignored:
        message = f"The key {name!r} has no effect here: {key.ignored}"
        diagnostics.warn(Phase.FORM, *part.key_location(name), message, "Remove it.")
    elif child.content is None and not child.broken:
        return  # null counts as absent
    elif not key.current_name:
        _store_value(part, key, key.name, child, diagnostics)
    elif _is_deprecated_key_used(part, key, diagnostics):
        _store_value(part, key, key.current_name, child, diagnostics)


def _store_value(part: ParsedMap, key: KeySchema, name: str, child: YamlNode, diagnostics: Diagnostics) -> None:
    """Read the value of a key, and store it under its current name."""
    part.names[name] = key.name
    value = key.type.read(child, (*part.path, key.name), diagnostics)
    if value is not INVALID:
        part.values[name] = value


def _is_deprecated_key_used(part: ParsedMap, key: KeySchema, diagnostics: Diagnostics) -> bool:
    """Report a deprecated key, and return whether its value is used: not if the current key is present."""
    location = part.key_location(key.name)
    current = part.content.get(key.current_name)
    if current is None or current.content is None:
        diagnostics.warn(Phase.FORM, *location, f"The key {key.name!r} is deprecated.", f"Write {key.current_name!r}.")
        return True
    message = f"The keys {key.name!r} and {key.current_name!r} mean the same, and both are present."
    advice = f"Keep only {key.current_name!r}."
    if key.both_allowed:
        diagnostics.warn(Phase.FORM, *location, f"{message} {key.current_name!r} takes precedence.", advice)
    else:
        diagnostics.error(Phase.FORM, *location, message, advice)
    return False


def _report_unknown(part: ParsedMap, name: str, diagnostics: Diagnostics) -> None:
    """Warn about an unknown key, unless it is probably a misspelt required key, which is reported as missing."""
    guess = _guess_key(part, name, diagnostics)
    if guess is not None and _is_missing(part, guess):
        return
    parent = next((key.name for key in part.schema.keys if _declares_key(key, name)), None)
    advice = f"Move it into {parent!r}." if parent else f"Keys: {', '.join(part.schema.current)}."
    advice = _suggest_space(part, name) or (f"Did you mean {guess!r}?" if guess else advice)
    message = f"{part.subject} has an unknown key {shorten(name)!r}, which is ignored."
    diagnostics.warn(Phase.FORM, *part.key_location(name), message, advice)


def _suggest_space(part: ParsedMap, name: str) -> str:
    """Return advice for a key in a flow map that contains its value, because no space follows the colon."""
    key, colon, text = name.partition(":")
    return f"Put a space after the colon: '{key}: {shorten(text)}'." if colon and key in part.schema.by_name else ""


def _declares_key(key: KeySchema, name: str) -> bool:
    """Return whether the value of a key is a map with the key `name`."""
    return isinstance(key.type, MapSchema) and name in key.type.current


def _guess_key(part: ParsedMap, name: str, diagnostics: Diagnostics) -> str | None:
    before_colon = name.partition(":")[0]
    if before_colon in part.schema.by_name:
        return before_colon
    return part.schema.by_alias.get(name) or diagnostics.near_miss(name, part.schema.current)


def _is_present(part: ParsedMap, name: str) -> bool:
    child = part.content.get(name)
    return child is not None and (child.content is not None or child.broken)


def _is_missing(part: ParsedMap, name: str) -> bool:
    """Return whether a key is required but absent. Of the keys in `one_of`, another one may be present instead."""
    if name in part.schema.one_of:
        return not any(part.has_key(other) or _is_present(part, other) for other in part.schema.one_of)
    return part.schema.by_name[name].required and not _is_present(part, name)


def _check_presence(part: ParsedMap, diagnostics: Diagnostics) -> None:
    for key in part.schema.keys:
        if key.required and _is_missing(part, key.name) and not _report_empty(part, [key.name], diagnostics):
            _report_missing(part, [key.name], f"has no {key.name!r}", f"Add {key.name!r}. {key.doc}", diagnostics)
    group = part.schema.one_of
    is_needed = any(part.has_key(name) for name, required in part.schema.requires if required in group)
    if group and _is_missing(part, group[0]) and not is_needed and not _report_empty(part, group, diagnostics):
        choices = ", ".join(f"{name!r}" for name in group)
        _report_missing(part, group, f"has none of the keys {choices}", "Write one of them.", diagnostics)


def _report_empty(part: ParsedMap, names: Sequence[str], diagnostics: Diagnostics) -> bool:
    """Report the first of the keys that has no value. Its content is often found next to it, indented too little."""
    name = next((name for name in names if name in part.content), None)
    if name is None:
        return False
    key = part.schema.by_name[name]
    outdented = [other for other in part.content if other not in part.schema.by_name and _declares_key(key, other)]
    message = f"{part.subject} has {name!r} without a value."
    advice = f"Write it after the colon. {key.doc}"
    if outdented:
        listed = ", ".join(f"{shorten(other)!r}" for other in outdented)
        message = f"{message} Keys that belong in it are next to it: {listed}."
        advice = f"Indent {listed} deeper than {name!r}."
    diagnostics.error(Phase.FORM, (*part.path, name), part.node.key_marks.get(name, part.node.at), message, advice)
    return True


def _report_missing(
    part: ParsedMap, names: Sequence[str], predicate: str, advice: str, diagnostics: Diagnostics
) -> None:
    """Report a missing key: at a misspelt key or a key that is indented too deep, if there is one, else at the map."""
    at, message = part.node.at, f"{part.subject} {predicate}."
    unknown = ((name, _guess_key(part, name, diagnostics)) for name in part.content if name not in part.schema.by_name)
    misspelt, name = next(((name, guess) for name, guess in unknown if guess in names), (None, None))
    if misspelt is not None:
        at = part.node.key_marks[misspelt]
        message = f"{message} It has {shorten(misspelt)!r} instead."
        advice = _suggest_space(part, misspelt) or f"Write it as {name!r}."
    elif (too_deep := _find_too_deep(part, names[0])) is not None:
        at = too_deep
        message = f"{part.subject} {predicate}: it is written here, as part of the preceding value."
        advice = f"Indent {names[0]!r} like {next(iter(part.content))!r}."
    diagnostics.error(Phase.FORM, part.path, at, message, advice)


def _find_too_deep(part: ParsedMap, name: str) -> Mark | None:
    """Return the position of a key that is indented too deep, and thus belongs to an item of the preceding list."""
    for key in part.schema.keys:
        items = part.content[key.name].content if key.name in part.content else None
        if isinstance(items, list) and name not in getattr(getattr(key.type, "item", None), "by_name", ()):
            for item in items:
                if name in item.key_marks:
                    return item.key_marks[name]
    return None


def _check_combinations(part: ParsedMap, diagnostics: Diagnostics) -> None:
    """Report mutually exclusive keys, and keys without the key that they require."""
    reported: set[str] = set()
    for pair in part.schema.exclusive:
        if part.has_key(pair.first) and part.has_key(pair.second):
            reported |= {pair.first, pair.second}
            advice = pair.advice if isinstance(pair.advice, str) else pair.advice(part)
            message = f"{part.label} has both {pair.first!r} and {pair.second!r}, which cannot be combined."
            later = max(pair.first, pair.second, key=part.key_at)
            diagnostics.error(Phase.FORM, *part.key_location(later), message, advice)
    for name, required in part.schema.requires:
        if part.has_key(name) and not part.has_key(required) and name not in reported:
            message = f"{part.label} has {name!r} without {required!r}."
            diagnostics.error(Phase.FORM, *part.key_location(name), message, f"Add {required!r}.")
