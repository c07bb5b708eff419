"""A form describes a map of the language as data: its keys, and which of them need or exclude each other.

Reading by a form gives a `Part`: the values that are right, and the places of all. The same description becomes JSON
Schema in `language`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, cast

from statewright.workflow.states.language.diagnostics import Diagnostics, Phase
from statewright.workflow.states.language.model import Mark
from statewright.workflow.states.language.value_kinds import INVALID, Kind, Schema, refuse
from statewright.workflow.states.language.yaml.nodes import Path, YamlNode, shortened

PRIVATE_PREFIX: Final = "meta_"
"""Keys that begin so belong to a user interface."""


@dataclass(frozen=True, slots=True)
class Key:
    """A key of a map."""

    name: str
    kind: Kind
    doc: str
    required: bool = False
    default: Any = None
    """What holds where the key is not given. For the reader: the model knows it too."""
    stands_for: str = ""
    """The name of the key that is used today, for one that is deprecated."""
    both_allowed: bool = False
    """Of a deprecated key: whether it may stand beside its successor, which then wins."""
    ignored: str = ""
    """Why the key does nothing, for one that is accepted all the same."""
    also: tuple[str, ...] = ()
    """What people write when they mean this key, though it does not look like it."""


@dataclass(frozen=True, slots=True)
class ExclusiveKeys:
    """Two keys that cannot stand in one map."""

    first: str
    second: str
    repair: str | Callable[[Part], str]
    """What to do, or a function that says it for the part where it was found."""


@dataclass(frozen=True)
class MapSchema:
    """The keys of a map, and what holds between them."""

    name: str
    """In JSON Schema."""
    words: str
    """As in "must be ...": `a map with the keys ...`."""
    doc: str
    keys: tuple[Key, ...]
    one_of: tuple[str, ...] = ()
    """At least one of these must be given."""
    clashes: tuple[ExclusiveKeys, ...] = ()
    needs: tuple[tuple[str, str], ...] = ()
    """Pairs: the first key makes no sense without the second."""
    noun: str = "This"
    """What a message calls such a map."""
    advice: str = ""
    """What to write instead of something that is no map."""
    misspelt: Callable[[Part, Diagnostics], Collection[str]] = field(default=lambda part, findings: ())
    """Notes a spelling that is known to be wrong; the answer is the keys that need no other look."""

    @cached_property
    def by_name(self) -> Mapping[str, Key]:
        return {key.name: key for key in self.keys}

    @cached_property
    def current(self) -> tuple[str, ...]:
        """The names that an author should use."""
        return tuple(key.name for key in self.keys if not key.stands_for and not key.ignored)

    @cached_property
    def by_habit(self) -> Mapping[str, str]:
        """What people write, to the key that they mean."""
        return {habit: key.name for key in self.keys for habit in key.also}

    def read(self, written: YamlNode, path: Path, findings: Diagnostics) -> Part | Any:
        """The part that is written there, or INVALID if it is no map at all."""
        if not isinstance(written.content, dict) or written.broken:
            name = written.content if isinstance(written.content, str) and written.content else "the_state"
            return refuse(self, written, path, findings, self.advice.replace("the_state", shortened(name)))
        part = Part(self, path, written)
        seen = self.misspelt(part, findings)
        part.names.update((name, name) for name in seen)
        for name, child in written.content.items():
            if name not in seen and not name.startswith(PRIVATE_PREFIX):
                _read_key(part, name, child, findings)
        if part.label != self.noun:
            findings.name(path, part.label)
        _check_presence(part, findings)
        _check_company(part, findings)
        return part

    def schema(self) -> Schema:
        return {"$ref": f"#/$defs/{self.name}"}


@dataclass(slots=True, eq=False)
class Part:
    """A map of a file, read by its form."""

    form: MapSchema
    path: Path
    written: YamlNode
    values: dict[str, Any] = field(default_factory=dict[str, Any])
    """Of the keys that are given and right, by the names that are used today."""
    names: dict[str, str] = field(default_factory=dict[str, str])
    """Of every key that is given, right or wrong: the name under which it is written."""

    @property
    def content(self) -> dict[str, YamlNode]:
        """What is written there, key by key."""
        return cast("dict[str, YamlNode]", self.written.content)

    def given(self, name: str) -> bool:
        return name in self.names

    def at(self, name: str) -> Mark:
        """Where the value of a key stands; the map itself for one that is not given."""
        child = self.content.get(self.names.get(name, name))
        return child.at if child is not None else self.written.at

    def key_at(self, name: str) -> Mark:
        """Where a key stands; the map itself for one that is not given."""
        return self.written.key_marks.get(self.names.get(name, name), self.written.at)

    def path_to(self, name: str) -> Path:
        return (*self.path, self.names.get(name, name))

    @property
    def label(self) -> str:
        """What a message calls this map: with its id, if it has one."""
        identity = self.values.get("id", self.values.get("name"))
        return f"{self.form.noun} {shortened(identity)!r}" if isinstance(identity, str) else self.form.noun

    @property
    def subject(self) -> str:
        """The label as the subject of a sentence: `State 'plan'`, `This state`, `The condition`."""
        named = self.label != self.form.noun or self.form.noun.startswith(("The ", "This", "'"))
        return self.label if named else f"This {self.form.noun[:1].lower()}{self.form.noun[1:]}"


def _read_key(part: Part, name: str, child: YamlNode, findings: Diagnostics) -> None:
    key = part.form.by_name.get(name)
    if key is None:
        _note_unknown(part, name, findings)
    elif key.ignored:
        message = f"The key {name!r} does nothing here: {key.ignored}"
        findings.warn(Phase.FORM, part.path_to(name), part.key_at(name), message, "Remove it.")
    elif child.content is None and not child.broken:
        return  # null is the same as not given
    elif not key.stands_for:
        _take(part, key, key.name, child, findings)
    elif _may_stand_for(part, key, findings):
        _take(part, key, key.stands_for, child, findings)


def _take(part: Part, key: Key, name: str, child: YamlNode, findings: Diagnostics) -> None:
    """Read the value of a key, and keep it under the name that is used today."""
    part.names[name] = key.name
    value = key.kind.read(child, (*part.path, key.name), findings)
    if value is not INVALID:
        part.values[name] = value


def _may_stand_for(part: Part, key: Key, findings: Diagnostics) -> bool:
    """Whether a deprecated key counts. It is worth a warning in any case, or an error beside its successor."""
    successor = part.content.get(key.stands_for)
    where = part.path_to(key.name), part.key_at(key.name)
    advice = f"Write {key.stands_for!r} alone."
    if successor is None or successor.content is None:
        findings.warn(Phase.FORM, *where, f"The key {key.name!r} is deprecated.", f"Write {key.stands_for!r}.")
        return True
    message = f"The keys {key.name!r} and {key.stands_for!r} mean the same, and both are given."
    if key.both_allowed:
        findings.warn(Phase.FORM, *where, f"{message} The second one counts.", advice)
    else:
        findings.error(Phase.FORM, *where, message, advice)
    return False


def _note_unknown(part: Part, name: str, findings: Diagnostics) -> None:
    """Warn of an unknown key, unless it was meant to be one whose absence is reported anyway."""
    meant = _meant(part, name, findings)
    if meant is not None and _is_missing(part, meant):
        return
    below = next((key.name for key in part.form.keys if _holds(key, name)), None)
    advice = f"Move it into {below!r}." if below else f"Keys: {', '.join(part.form.current)}."
    advice = _no_space(part, name) or (f"Did you mean {meant!r}?" if meant else advice)
    message = f"{part.subject} has no key {shortened(name)!r}; it is ignored."
    findings.warn(Phase.FORM, part.path_to(name), part.key_at(name), message, advice)


def _no_space(part: Part, name: str) -> str:
    """Return advice for a key in braces whose colon is not followed by a space, so that the value belongs to it."""
    key, colon, text = name.partition(":")
    return f"Put a space after the colon: '{key}: {shortened(text)}'." if colon and key in part.form.by_name else ""


def _holds(key: Key, name: str) -> bool:
    """Whether a key holds a map to which `name` belongs."""
    return isinstance(key.kind, MapSchema) and name in key.kind.current


def _meant(part: Part, name: str, findings: Diagnostics) -> str | None:
    before_colon = name.partition(":")[0]
    if before_colon in part.form.by_name:
        return before_colon
    return part.form.by_habit.get(name) or findings.near_miss(name, part.form.current)


def _is_given(part: Part, name: str) -> bool:
    child = part.content.get(name)
    return child is not None and (child.content is not None or child.broken)


def _is_missing(part: Part, name: str) -> bool:
    """Whether a key must be there and is not, or none of its group is."""
    if name in part.form.one_of:
        return not any(part.given(one) or _is_given(part, one) for one in part.form.one_of)
    return part.form.by_name[name].required and not _is_given(part, name)


def _check_presence(part: Part, findings: Diagnostics) -> None:
    for key in part.form.keys:
        if key.required and _is_missing(part, key.name) and not _note_empty(part, [key.name], findings):
            _note_missing(part, [key.name], f"Add {key.name!r}. {key.doc}", f"has no {key.name!r}", findings)
    group = part.form.one_of
    lonely = any(part.given(name) for name, company in part.form.needs if company in group)
    if group and _is_missing(part, group[0]) and not lonely and not _note_empty(part, group, findings):
        choices = ", ".join(f"{name!r}" for name in group)
        _note_missing(part, group, "Write one of them.", f"has none of the keys {choices}", findings)


def _note_empty(part: Part, names: Sequence[str], findings: Diagnostics) -> bool:
    """Note a key without a value, which is often written in the right place with its content indented too little."""
    name = next((name for name in names if name in part.content), None)
    if name is None:
        return False
    key = part.form.by_name[name]
    beside = [other for other in part.content if other not in part.form.by_name and _holds(key, other)]
    message = f"{part.subject} has {name!r} without a value."
    advice = f"Write it after the colon. {key.doc}"
    if beside:
        listed = ", ".join(f"{shortened(other)!r}" for other in beside)
        message = f"{message} Beside it, and not in it: {listed}."
        advice = f"Indent {listed} deeper than {name!r}."
    findings.error(Phase.FORM, (*part.path, name), part.written.key_marks.get(name, part.written.at), message, advice)
    return True


def _note_missing(part: Part, names: Sequence[str], advice: str, said: str, findings: Diagnostics) -> None:
    """Note that a key is missing, with what was written instead, or where it is written."""
    others = ((name, _meant(part, name, findings)) for name in part.content if name not in part.form.by_name)
    instead, meant = next(((name, meant) for name, meant in others if meant in names), (None, None))
    if instead is not None:
        message = f"{part.subject} {said}. It has {shortened(instead)!r} instead."
        advice = _no_space(part, instead) or f"Write it as {meant!r}."
        findings.error(Phase.FORM, part.path, part.written.key_marks[instead], message, advice)
        return
    at = _written_too_deep(part, names[0])
    if at is not None:
        message = f"{part.subject} {said}: it is written here, as a part of what comes before."
        findings.error(Phase.FORM, part.path, at, message, f"Indent {names[0]!r} as {next(iter(part.content))!r} is.")
        return
    findings.error(Phase.FORM, part.path, part.written.at, f"{part.subject} {said}.", advice)


def _written_too_deep(part: Part, name: str) -> Mark | None:
    """Return where a key stands that is indented too deep, and so belongs to an item of the list before it."""
    for key in part.form.keys:
        items = part.content[key.name].content if key.name in part.content else None
        if isinstance(items, list) and name not in getattr(getattr(key.kind, "item", None), "by_name", ()):
            marks = (item.key_marks[name] for item in items if name in item.key_marks)
            if (mark := next(marks, None)) is not None:
                return mark
    return None


def _check_company(part: Part, findings: Diagnostics) -> None:
    """Note keys that cannot stand together, and those that stand alone and should not."""
    refused: set[str] = set()
    for clash in part.form.clashes:
        if part.given(clash.first) and part.given(clash.second):
            refused |= {clash.first, clash.second}
            repair = clash.repair if isinstance(clash.repair, str) else clash.repair(part)
            message = f"{part.label} has both {clash.first!r} and {clash.second!r}, which cannot be combined."
            later = max(clash.first, clash.second, key=part.key_at)
            findings.error(Phase.FORM, part.path_to(later), part.key_at(later), message, repair)
    for name, company in part.form.needs:
        if part.given(name) and not part.given(company) and name not in refused:
            message = f"{part.label} has {name!r} without {company!r}."
            findings.error(Phase.FORM, part.path_to(name), part.key_at(name), message, f"Add {company!r}.")
