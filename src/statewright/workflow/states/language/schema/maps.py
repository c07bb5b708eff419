"""Maps with declared keys: the rules between the keys, and reading.

Reading a map by its schema returns a `ParsedMap`, with the valid values and the positions of all values. The checks of
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
from statewright.workflow.states.language.schema.keys import KeySchema, read_keys
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
    """The keys of a map, and the rules between them. It is a class variable of the class that declares the keys."""

    name: str
    """The name of the definition of the map in the JSON Schema."""
    description: str
    """A phrase for messages, to complete "must be ...", such as `a map with an id`."""
    noun: str = "This"
    """The noun for such a map in messages."""
    one_of: tuple[str, ...] = ()
    """Alternative keys. At least one of them is required."""
    exclusive: tuple[ExclusiveKeys, ...] = ()
    requires: tuple[tuple[str, str], ...] = ()
    """Pairs of keys, the first of which requires the second."""
    advice: str = ""
    """Advice for a value that is not a map."""
    check_mistakes: Callable[[ParsedMap, Diagnostics], Collection[str]] = field(
        default=lambda parsed_map, diagnostics: ()
    )
    """Reports common mistakes in a map, and returns the keys that need no further checks."""
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
        return read_keys(self.model)

    @property
    def keys(self) -> Collection[KeySchema]:
        return self.by_name.values()

    @cached_property
    def current_names(self) -> tuple[str, ...]:
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
        parsed_map = ParsedMap(self, path, node)
        reported_keys = self.check_mistakes(parsed_map, diagnostics)
        parsed_map.names.update((name, name) for name in reported_keys)
        for name, child in node.content.items():
            if name not in reported_keys and not name.startswith(PRIVATE_PREFIX):
                _read_key(parsed_map, name, child, diagnostics)
        if parsed_map.label != self.noun:
            diagnostics.set_label(path, parsed_map.label)
        _check_presence(parsed_map, diagnostics)
        _check_combinations(parsed_map, diagnostics)
        return parsed_map

    def json_schema(self) -> JsonSchema:
        return {"$ref": f"#/$defs/{self.name}"}


@dataclass(slots=True, eq=False)
class ParsedMap:
    """A map in a file, read by its schema."""

    schema: MapSchema
    path: Path
    node: YamlNode
    values: dict[str, Any] = field(default_factory=dict[str, Any])
    """The valid values, by the current names of their keys."""
    names: dict[str, str] = field(default_factory=dict[str, str])
    """The keys as written, by their current names. Keys with invalid values are included."""

    @property
    def content(self) -> dict[str, YamlNode]:
        """The YAML nodes of the values, by the keys as written."""
        return cast("dict[str, YamlNode]", self.node.content)

    def has_key(self, name: str) -> bool:
        return name in self.names

    def at(self, name: str) -> Mark:
        """Return the position of the value of a key, or of the map itself if the key is absent."""
        child = self.content.get(self.names.get(name, name))
        return child.at if child is not None else self.node.at

    def key_at(self, name: str) -> Mark:
        """Return the position of a key, or of the map itself if the key is absent."""
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
        """Return the valid maps under a key: the value itself, the items of a list, or nothing."""
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


def _read_key(parsed_map: ParsedMap, name: str, child: YamlNode, diagnostics: Diagnostics) -> None:
    key = parsed_map.schema.by_name.get(name)
    if key is None:
        _report_unknown(parsed_map, name, diagnostics)
    elif key.ignored:
        message = f"The key {name!r} has no effect here: {key.ignored}"
        diagnostics.warn(Phase.FORM, *parsed_map.key_location(name), message, "Remove it.")
    elif child.content is None and not child.broken:
        return  # null means that the key is absent
    elif not key.current_name:
        _store_value(parsed_map, key, key.name, child, diagnostics)
    elif _is_deprecated_key_used(parsed_map, key, diagnostics):
        _store_value(parsed_map, key, key.current_name, child, diagnostics)


def _store_value(parsed_map: ParsedMap, key: KeySchema, name: str, child: YamlNode, diagnostics: Diagnostics) -> None:
    """Read the value of a key, and store it under its current name."""
    parsed_map.names[name] = key.name
    value = key.type.read(child, (*parsed_map.path, key.name), diagnostics)
    if value is not INVALID:
        parsed_map.values[name] = value


def _is_deprecated_key_used(parsed_map: ParsedMap, key: KeySchema, diagnostics: Diagnostics) -> bool:
    """Report a deprecated key, and return whether its value is used, which requires that the current key is absent."""
    location = parsed_map.key_location(key.name)
    current = parsed_map.content.get(key.current_name)
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


def _report_unknown(parsed_map: ParsedMap, name: str, diagnostics: Diagnostics) -> None:
    """Warn about an unknown key, unless it is probably a misspelt required key, which is reported as missing."""
    guess = _guess_key(parsed_map, name, diagnostics)
    if guess is not None and _is_missing(parsed_map, guess):
        return
    parent = next((key.name for key in parsed_map.schema.keys if _declares_key(key, name)), None)
    advice = f"Move it into {parent!r}." if parent else f"Keys: {', '.join(parsed_map.schema.current_names)}."
    advice = _suggest_space(parsed_map, name) or (f"Did you mean {guess!r}?" if guess else advice)
    message = f"{parsed_map.subject} has an unknown key {shorten(name)!r}, which is ignored."
    diagnostics.warn(Phase.FORM, *parsed_map.key_location(name), message, advice)


def _suggest_space(parsed_map: ParsedMap, name: str) -> str:
    """Return advice for a key in a flow map that contains its value, because no space follows the colon."""
    key, colon, text = name.partition(":")
    return (
        f"Put a space after the colon: '{key}: {shorten(text)}'." if colon and key in parsed_map.schema.by_name else ""
    )


def _declares_key(key: KeySchema, name: str) -> bool:
    """Return whether the value of a key is a map with the key `name`."""
    return isinstance(key.type, MapSchema) and name in key.type.current_names


def _guess_key(parsed_map: ParsedMap, name: str, diagnostics: Diagnostics) -> str | None:
    before_colon = name.partition(":")[0]
    if before_colon in parsed_map.schema.by_name:
        return before_colon
    return parsed_map.schema.by_alias.get(name) or diagnostics.find_similar_name(name, parsed_map.schema.current_names)


def _is_present(parsed_map: ParsedMap, name: str) -> bool:
    child = parsed_map.content.get(name)
    return child is not None and (child.content is not None or child.broken)


def _is_missing(parsed_map: ParsedMap, name: str) -> bool:
    """Return whether a key is required but absent. For a key in `one_of`, all of these keys must be absent."""
    if name in parsed_map.schema.one_of:
        return not any(
            parsed_map.has_key(other) or _is_present(parsed_map, other) for other in parsed_map.schema.one_of
        )
    return parsed_map.schema.by_name[name].required and not _is_present(parsed_map, name)


def _check_presence(parsed_map: ParsedMap, diagnostics: Diagnostics) -> None:
    for key in parsed_map.schema.keys:
        if (
            key.required
            and _is_missing(parsed_map, key.name)
            and not _report_empty(parsed_map, [key.name], diagnostics)
        ):
            _report_missing(parsed_map, [key.name], f"has no {key.name!r}", f"Add {key.name!r}. {key.doc}", diagnostics)
    group = parsed_map.schema.one_of
    if not group or not _is_missing(parsed_map, group[0]):
        return
    # If a key that is present requires one of the group, `_check_combinations` reports that it is missing.
    is_reported = any(parsed_map.has_key(name) for name, required in parsed_map.schema.requires if required in group)
    if not is_reported and not _report_empty(parsed_map, group, diagnostics):
        choices = ", ".join(f"{name!r}" for name in group)
        _report_missing(parsed_map, group, f"has none of the keys {choices}", "Write one of them.", diagnostics)


def _report_empty(parsed_map: ParsedMap, names: Sequence[str], diagnostics: Diagnostics) -> bool:
    """Report the first of these keys that is present without a value. Return False if there is no such key.

    The content of such a key is often found next to it, because it is not indented enough.
    """
    name = next((name for name in names if name in parsed_map.content), None)
    if name is None:
        return False
    key = parsed_map.schema.by_name[name]
    underindented = [
        other for other in parsed_map.content if other not in parsed_map.schema.by_name and _declares_key(key, other)
    ]
    message = f"{parsed_map.subject} has {name!r} without a value."
    advice = f"Write it after the colon. {key.doc}"
    if underindented:
        listed = ", ".join(f"{shorten(other)!r}" for other in underindented)
        message = f"{message} Keys that belong in it are next to it: {listed}."
        advice = f"Indent {listed} deeper than {name!r}."
    diagnostics.error(
        Phase.FORM, (*parsed_map.path, name), parsed_map.node.key_marks.get(name, parsed_map.node.at), message, advice
    )
    return True


def _report_missing(
    parsed_map: ParsedMap, names: Sequence[str], predicate: str, advice: str, diagnostics: Diagnostics
) -> None:
    """Report a missing key.

    The position is that of a misspelt key or of a key that is indented too deep, if there is one, else that of the map.
    """
    at, message = parsed_map.node.at, f"{parsed_map.subject} {predicate}."
    unknown = (
        (name, _guess_key(parsed_map, name, diagnostics))
        for name in parsed_map.content
        if name not in parsed_map.schema.by_name
    )
    misspelt, name = next(((name, guess) for name, guess in unknown if guess in names), (None, None))
    if misspelt is not None:
        at = parsed_map.node.key_marks[misspelt]
        message = f"{message} It has {shorten(misspelt)!r} instead."
        advice = _suggest_space(parsed_map, misspelt) or f"Write it as {name!r}."
    elif (key_at := _find_overindented_key(parsed_map, names[0])) is not None:
        at = key_at
        message = f"{parsed_map.subject} {predicate}: it is written here, as part of the preceding value."
        advice = f"Indent {names[0]!r} like {next(iter(parsed_map.content))!r}."
    diagnostics.error(Phase.FORM, parsed_map.path, at, message, advice)


def _find_overindented_key(parsed_map: ParsedMap, name: str) -> Mark | None:
    """Return the position of a key that is indented too deep, and thus belongs to an item of the preceding list."""
    for key in parsed_map.schema.keys:
        items = parsed_map.content[key.name].content if key.name in parsed_map.content else None
        if isinstance(items, list) and name not in getattr(getattr(key.type, "item", None), "by_name", ()):
            for item in items:
                if name in item.key_marks:
                    return item.key_marks[name]
    return None


def _check_combinations(parsed_map: ParsedMap, diagnostics: Diagnostics) -> None:
    """Report mutually exclusive keys, and keys without the key that they require."""
    reported: set[str] = set()
    for pair in parsed_map.schema.exclusive:
        if parsed_map.has_key(pair.first) and parsed_map.has_key(pair.second):
            reported |= {pair.first, pair.second}
            advice = pair.advice if isinstance(pair.advice, str) else pair.advice(parsed_map)
            message = f"{parsed_map.label} has both {pair.first!r} and {pair.second!r}, which cannot be combined."
            later = max(pair.first, pair.second, key=parsed_map.key_at)
            diagnostics.error(Phase.FORM, *parsed_map.key_location(later), message, advice)
    for name, required in parsed_map.schema.requires:
        if parsed_map.has_key(name) and not parsed_map.has_key(required) and name not in reported:
            message = f"{parsed_map.label} has {name!r} without {required!r}."
            diagnostics.error(Phase.FORM, *parsed_map.key_location(name), message, f"Add {required!r}.")
