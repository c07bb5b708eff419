"""Reading a YAML text: event by event, so that size, depth and aliases are bounded before anything is built.

The text is not trusted. Everything that is wrong with it is a Problem; no text makes the reading raise. The events are
those of the parser, so a key that is written twice is seen.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final, cast

import yaml
from yaml import events

from statewright.errors import Problem
from statewright.workflow.states.language.model import Mark
from statewright.workflow.states.language.yaml.nodes import Document, YamlNode, json_word, shortened
from statewright.workflow.states.language.yaml.scalars import TAG_PREFIX, Scalar, read_as, read_plain
from statewright.workflow.states.language.yaml.syntax import QuotedText, syntax_refusal
from statewright.workflow.states.language.yaml.text import Refused, line_numbers, plain_text, problem_at, split_lines

MAX_DEPTH: Final = 50
"""Of maps and lists in each other."""
MAX_WEIGHT: Final = 200_000
"""Of all values together: one for each, and one for every 64 characters. An alias weighs what it stands for."""

_HALF_PAIR: Final = re.compile("[\ud800-\udfff]")


def read_document(text: str | bytes) -> Document:
    """The values of a YAML file, and everything that keeps them from being plain data."""
    problems: list[Problem] = []
    try:
        decoded = plain_text(text)
        root = _Reader(decoded, problems).read()
    except Refused as refusal:
        # A line that was reported is not reported again for what came of it.
        is_new = all(problem.line != refusal.problem.line for problem in problems)
        return Document(None, (*problems, refusal.problem) if is_new else tuple(problems))
    if not problems and (root is None or root.content is None):
        problems.append(problem_at(Mark(1, 1), "The file is empty.", "Write at least 'states:' with one state."))
    return Document(root, tuple(problems))


def _loader() -> Any:
    """The parser: that of libyaml where there is one."""
    return getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Reader:
    """Turns the events of one text into values."""

    def __init__(self, text: str, problems: list[Problem]) -> None:
        self._text = text
        self._problems = problems
        self._events: Iterator[events.Event] = cast(Any, yaml.parse(text, Loader=_loader()))
        self._anchors: dict[str, YamlNode | None] = {}
        """None for one whose value is still being read."""
        self._weight = 0
        self._quoted: QuotedText | None = None
        self._file_lines: list[str] | None = None

    def read(self) -> YamlNode | None:
        """The value of the one document; None if there is none. Raises Refused if reading has to stop."""
        root: YamlNode | None = None
        while not isinstance(event := self._next(), events.StreamEndEvent):
            if isinstance(event, events.DocumentStartEvent):
                if root is not None:
                    self._report(event, "A second document begins here.", "Keep one workflow in a file.")
                    break
                root = self._value(self._next(), 1)
        return root

    def _next(self) -> events.Event:
        try:
            return next(self._events)
        except (yaml.YAMLError, ValueError, OverflowError) as error:
            raise syntax_refusal(error, self._text, self._quoted) from None

    def _report(self, event: events.Event, message: str, suggestion: str) -> None:
        self._problems.append(problem_at(_mark(event), message, suggestion))

    def _value(self, event: events.Event, depth: int) -> YamlNode:
        """The value that begins with an event."""
        if isinstance(event, events.AliasEvent):
            return self._alias(event, depth)
        if isinstance(event, events.ScalarEvent):
            return self._anchored(event, self._scalar(event))
        if depth > MAX_DEPTH:
            raise Refused(_mark(event), f"This is nested deeper than {MAX_DEPTH} levels.", "Make it flatter.")
        anchor = cast("str | None", cast(Any, event).anchor)
        if anchor is not None:
            self._anchors[anchor] = None
        written = YamlNode(None, _mark(event))
        self._spend(1, event)
        self._check_collection_tag(event, written)
        if isinstance(event, events.SequenceStartEvent):
            self._fill_list(written, depth)
        else:
            self._fill_map(written, event, depth)
        return self._anchored(event, written)

    def _anchored(self, event: events.Event, written: YamlNode) -> YamlNode:
        anchor = cast("str | None", cast(Any, event).anchor)
        if anchor is not None:
            self._anchors[anchor] = written
        return written

    def _spend(self, weight: int, event: events.Event) -> None:
        self._weight += weight
        if self._weight > MAX_WEIGHT:
            raise Refused(
                _mark(event),
                "The file holds too many values, counting each alias as what it stands for.",
                "Take parts out of it, or use fewer aliases.",
            )

    def _alias(self, event: events.AliasEvent, depth: int) -> YamlNode:
        name = cast(str, cast(Any, event).anchor)
        meant = self._anchors.get(name)
        if meant is None:
            self._report(event, *_unusable_alias(name, known=name in self._anchors))
            return YamlNode(None, _mark(event), broken=True)
        if depth + meant.height - 1 > MAX_DEPTH + 1:
            raise Refused(_mark(event), f"This is nested deeper than {MAX_DEPTH} levels.", "Use fewer aliases.")
        self._spend(meant.weight, event)
        return meant

    # -- lists and maps

    def _fill_list(self, written: YamlNode, depth: int) -> None:
        items: list[YamlNode] = []
        while not isinstance(event := self._next(), events.SequenceEndEvent):
            items.append(self._value(event, depth + 1))
        _close(written, items, items)

    def _fill_map(self, written: YamlNode, start: events.Event, depth: int) -> None:
        content: dict[str, YamlNode] = {}
        merged: list[YamlNode] = []
        first: str | None = None
        while not isinstance(event := self._next(), events.MappingEndEvent):
            key = self._key(event, start, written, depth)
            value = self._value(self._next(), depth + 1)
            if key is None:
                continue
            if key == "<<" and _is_plain(event):
                merged.append(value)
            elif key in content:
                # Where the first key comes again, an item of a list begins without its dash: one mistake, said once.
                if not written.broken:
                    self._report_twice(event, key, written.key_marks[key], begins_anew=key == first)
                written.broken |= key == first
            else:
                first = key if first is None else first
                content[key] = value
                written.key_marks[key] = _mark(event)
        for source in merged:
            self._merge(source, content, written, start)
        _close(written, content, list(content.values()))

    def _report_twice(self, event: events.Event, key: str, earlier: Mark, *, begins_anew: bool) -> None:
        at = _mark(event)
        message = (
            f"The key {shortened(key)!r} is written twice in one map: in line {earlier.line} and in line {at.line}."
        )
        advice = "Keep one of them."
        if begins_anew and earlier.line != at.line:
            advice = "Keep one of them, or put '- ' before it if a new item of a list begins here."
        self._report(event, message, advice)

    def _key(self, event: events.Event, start: events.Event, above: YamlNode, depth: int) -> str | None:
        """A key as text; None if it is none that could be used, which has been reported."""
        key = self._value(event, depth + 1)
        if key.broken:
            return None
        if isinstance(key.content, str):
            return key.content
        if isinstance(key.content, list | dict):
            above.broken = True
            self._report(start if _is_braces(start, event) else event, *_unusable_key(_is_braces(start, event)))
            return None
        self._report(
            event,
            f"The key {shortened(key.source) or 'null'} is not a text: YAML reads it as {json_word(key.content)}.",
            f"Put it in quotes: '{shortened(key.source)}'." if key.source else "Give it a name.",
        )
        return key.source or None

    def _merge(self, source: YamlNode, content: dict[str, YamlNode], into: YamlNode, event: events.Event) -> None:
        """Add what is merged in by `<<`. What is written in the map itself wins, then what comes first."""
        parts = source.content if isinstance(source.content, list) else [source]
        for part in parts:
            if isinstance(part.content, dict):
                self._spend(part.weight, event)
                for key, value in part.content.items():
                    if key not in content:
                        content[key] = value
                        into.key_marks[key] = part.key_marks[key]
            elif not part.broken:
                message = "The key '<<' merges maps, and this is none."
                self._problems.append(
                    problem_at(part.at, message, "Write an alias of a map, or put the key in quotes.")
                )

    def _check_collection_tag(self, event: events.Event, written: YamlNode) -> None:
        tag = cast("str | None", cast(Any, event).tag)
        kind = "seq" if isinstance(event, events.SequenceStartEvent) else "map"
        if tag not in (None, "!", TAG_PREFIX + kind):
            written.broken = True
            self._report(event, *_refused_tag(tag))

    # -- words

    def _scalar(self, event: events.ScalarEvent) -> YamlNode:
        told = cast(Any, event)
        word = cast(str, told.value)
        style = cast("str | None", told.style)
        written = YamlNode(word, _mark(event), word, bool(style), style == "|", weight=1 + len(word) // 64)
        self._spend(written.weight, event)
        if style in ("'", '"'):
            self._quoted = QuotedText(written.at, Mark(told.end_mark.line + 1, told.end_mark.column + 1))
        if style != "|" and "{" in word:
            written.lines = self._lines_of(event, word)
        if _HALF_PAIR.search(word):
            written.content, written.broken = "", True
            self._report(event, "This text holds half of a surrogate pair.", "Write the character itself.")
            return written
        try:
            written.content = self._read_word(event, word)
        except LookupError:
            written.broken = True
            self._report(event, *_refused_tag(told.tag))
        except ValueError:
            written.content, written.broken = None, True
            message = f"{shortened(word)} is not a number that JSON knows."
            self._report(event, message, "Write a finite number, or put it in quotes.")
        return written

    def _lines_of(self, event: events.ScalarEvent, word: str) -> tuple[int, ...]:
        """Return the lines on which the lines of a text are written; nothing if it stands on one line."""
        told = cast(Any, event)
        start, end, style = told.start_mark, told.end_mark, cast("str | None", told.style)
        if start.line == end.line:
            return (start.line + 1,) * (word.count("\n") + 1)
        if self._file_lines is None:
            self._file_lines = split_lines(self._text)
        lines = self._file_lines[start.line : end.line + 1]
        lines[-1] = lines[-1][: end.column]
        lines[0] = lines[0][start.column :]
        return line_numbers(word, lines, start.line + 1, style)

    def _read_word(self, event: events.ScalarEvent, word: str) -> Scalar:
        """The value of a word. Raises LookupError where its tag is no plain one or does not fit."""
        tag = cast("str | None", cast(Any, event).tag)
        if tag is None or (tag == "!" and _is_plain(event)):
            return read_plain(word) if _is_plain(event) else word
        if tag in ("!", TAG_PREFIX + "timestamp"):
            return word
        if not tag.startswith(TAG_PREFIX):
            raise LookupError(tag)
        return read_as(tag.removeprefix(TAG_PREFIX), word)


def _close(written: YamlNode, content: list[YamlNode] | dict[str, YamlNode], children: Sequence[YamlNode]) -> None:
    written.content = content
    written.weight = 1 + sum(child.weight for child in children)
    written.height = 1 + max((child.height for child in children), default=0)


def _mark(event: Any) -> Mark:
    at = event.start_mark
    return Mark(at.line + 1, at.column + 1)


def _is_plain(event: Any) -> bool:
    """Whether a word stands there without quotes and without a tag."""
    return isinstance(event, events.ScalarEvent) and not cast(Any, event).style and cast(Any, event).tag is None


def _is_braces(outer: events.Event, inner: events.Event) -> bool:
    """Whether two maps begin as `{{`, as a template without quotes does."""
    first, second = cast(Any, outer).start_mark, cast(Any, inner).start_mark
    in_braces = getattr(outer, "flow_style", False) and isinstance(inner, events.MappingStartEvent)
    return bool(in_braces) and (first.line, first.column + 1) == (second.line, second.column)


# -- sentences


def _unusable_alias(name: str, *, known: bool) -> tuple[str, str]:
    if known:
        return f"The alias *{shortened(name)} refers to the value that it stands in.", "Write the value out."
    return (
        f"The alias *{shortened(name)} refers to an anchor that is not there.",
        f"Put '&{shortened(name)}' before the value that is meant, or quotes around a text that begins with '*'.",
    )


def _unusable_key(braces: bool) -> tuple[str, str]:
    if braces:
        return "A text that begins with '{{' is read as a map.", "Put it in quotes, such as '{{name}}'."
    return "A list or a map is used as a key.", "Use a text as the key, in quotes if need be."


def _refused_tag(tag: str | None) -> tuple[str, str]:
    shown = shortened((tag or "").replace(TAG_PREFIX, "!!"))
    if shown in ("!!int", "!!float", "!!bool", "!!null"):
        return f"What follows is not what its tag {shown} says.", "Remove the tag, or correct the value."
    return (
        f"The tag {shown!r} is not allowed: a workflow is plain data.",
        "Remove it, or put quotes around a text that begins with '!'.",
    )
