"""Reading of YAML from the events of the parser.

The text is untrusted, and a few nested aliases may stand for billions of values. So values are built from events. This
makes it possible to limit size, depth and aliases, and to report duplicate keys, which a YAML loader would drop. Every
error in the text becomes a Problem, so `read_document` never raises.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final, cast

import yaml
from yaml import events

from statewright.errors import Problem
from statewright.workflow.states.language.yaml.nodes import Document, Mark, YamlNode, format_json, problem_at, shorten
from statewright.workflow.states.language.yaml.scalars import TAG_PREFIX, Scalar, read_as, read_plain
from statewright.workflow.states.language.yaml.syntax import QuotedText, explain_syntax_error
from statewright.workflow.states.language.yaml.text import (
    UnreadableText,
    compute_line_numbers,
    decode_text,
    split_lines,
)

MAX_DEPTH: Final = 50
"""Maximum nesting of maps and lists."""
_TOO_DEEP: Final = f"The value is nested deeper than {MAX_DEPTH} levels."
MAX_WEIGHT: Final = 200_000
"""Maximum weight of all values together. Each value weighs 1, plus 1 for every 64 characters. An alias weighs as much
as the value to which it refers."""

Event = Any
"""An event of PyYAML, which has no type annotations."""
_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def read_document(text: str | bytes) -> Document:
    """Parse a YAML file, and report everything in it that is not plain data."""
    problems: list[Problem] = []
    try:
        root = _EventReader(decode_text(text), problems).read()
    except UnreadableText as error:
        # An error on the same line as an earlier problem is probably a consequence of that problem.
        is_new = all(problem.line != error.problem.line for problem in problems)
        return Document(None, (*problems, error.problem) if is_new else tuple(problems))
    if not problems and (root is None or root.content is None):
        problems.append(problem_at(Mark(1, 1), "The file is empty.", "Write at least 'states:' with one state."))
    return Document(root, tuple(problems))


def _get_loader() -> Any:
    """Return the loader that uses libyaml if it is installed, else the loader that uses the parser in Python."""
    return getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _EventReader:
    """Converts the events of one text to nodes."""

    def __init__(self, text: str, problems: list[Problem]) -> None:
        self._text = text
        self._problems = problems
        self._events: Iterator[Event] = cast(Any, yaml.parse(text, Loader=_get_loader()))
        self._anchors: dict[str, YamlNode | None] = {}
        """The values of anchors, by name; None for an anchor whose value is still being read."""
        self._weight = 0
        self._last_quoted_text: QuotedText | None = None
        self._file_lines: list[str] | None = None

    def read(self) -> YamlNode | None:
        """Return the root of the only document; None if there is none.

        Raises UnreadableText if parsing cannot continue.
        """
        root: YamlNode | None = None
        while not isinstance(event := self._next(), events.StreamEndEvent):
            if isinstance(event, events.DocumentStartEvent):
                if root is not None:
                    self._report(event, "A second document begins here.", "Keep only one workflow in a file.")
                    break
                root = self._read_value(self._next(), 1)
        return root

    def _next(self) -> Event:
        try:
            return next(self._events)
        except (yaml.YAMLError, ValueError, OverflowError) as error:  # the last two for invalid escapes
            raise explain_syntax_error(error, self._text, self._last_quoted_text) from None

    def _report(self, event: Event, message: str, suggestion: str) -> None:
        self._problems.append(problem_at(_mark(event), message, suggestion))

    def _read_value(self, event: Event, depth: int) -> YamlNode:
        """Read the value that starts with an event."""
        if isinstance(event, events.AliasEvent):
            return self._read_alias(event, depth)
        if isinstance(event, events.ScalarEvent):
            return self._set_anchor(event, self._read_scalar(event))
        if depth > MAX_DEPTH:
            raise UnreadableText(_mark(event), _TOO_DEEP, "Use fewer levels of maps and lists.")
        anchor: str | None = event.anchor
        if anchor is not None:
            self._anchors[anchor] = None
        node = YamlNode(None, _mark(event))
        self._add_weight(1, event)
        self._check_collection_tag(event, node)
        if isinstance(event, events.SequenceStartEvent):
            self._read_list(node, depth)
        else:
            self._read_map(node, event, depth)
        return self._set_anchor(event, node)

    def _set_anchor(self, event: Event, node: YamlNode) -> YamlNode:
        anchor: str | None = event.anchor
        if anchor is not None:
            self._anchors[anchor] = node
        return node

    def _add_weight(self, weight: int, event: Event) -> None:
        self._weight += weight
        if self._weight > MAX_WEIGHT:
            raise UnreadableText(
                _mark(event),
                "The file contains too many values, counting each alias with the size of its target.",
                "Remove parts of it, or use fewer aliases.",
            )

    def _read_alias(self, event: Event, depth: int) -> YamlNode:
        name: str = event.anchor
        target = self._anchors.get(name)
        if target is None:
            label = shorten(name)
            if name in self._anchors:
                message, advice = f"The alias *{label} refers to a value that contains it.", "Write the value out."
            else:
                message = f"The alias *{label} refers to an anchor that does not exist."
                advice = f"Put '&{label}' before the intended value, or put quotes around text that begins with '*'."
            self._report(event, message, advice)
            return YamlNode(None, _mark(event), broken=True)
        if depth + target.height - 1 > MAX_DEPTH + 1:  # scalars may be one level deeper than maps and lists
            raise UnreadableText(_mark(event), _TOO_DEEP, "Use fewer aliases.")
        self._add_weight(target.weight, event)
        return target

    # -- lists and maps

    def _read_list(self, node: YamlNode, depth: int) -> None:
        items: list[YamlNode] = []
        while not isinstance(event := self._next(), events.SequenceEndEvent):
            items.append(self._read_value(event, depth + 1))
        _fill_node(node, items, items)

    def _read_map(self, node: YamlNode, start: Event, depth: int) -> None:
        content: dict[str, YamlNode] = {}
        merged: list[YamlNode] = []
        first_key: str | None = None
        while not isinstance(event := self._next(), events.MappingEndEvent):
            key = self._read_key(event, start, node, depth)
            value = self._read_value(self._next(), depth + 1)
            if key is None:
                continue
            if key == "<<" and _is_plain(event):
                merged.append(value)
            elif key in content:
                # If the first key is repeated, this is probably a list item without its dash. The other keys of the
                # item are then repeated too, which is not reported.
                if not node.broken:
                    self._report_duplicate(event, key, node.key_marks[key], is_first=key == first_key)
                node.broken |= key == first_key
            else:
                first_key = key if first_key is None else first_key
                content[key] = value
                node.key_marks[key] = _mark(event)
        for merge_value in merged:
            self._merge(merge_value, content, node, start)
        _fill_node(node, content, list(content.values()))

    def _report_duplicate(self, event: Event, key: str, earlier: Mark, *, is_first: bool) -> None:
        at = _mark(event)
        message = f"The key {shorten(key)!r} is written twice in one map: on line {earlier.line} and on line {at.line}."
        advice = "Keep one of them."
        if is_first and earlier.line != at.line:
            advice = "Keep one of them, or put '- ' before it if a new item of a list begins here."
        self._report(event, message, advice)

    def _read_key(self, event: Event, start: Event, parent: YamlNode, depth: int) -> str | None:
        """Return a key as a string; None if it cannot be used as a key. Report a key that is not a string."""
        key = self._read_value(event, depth + 1)
        if key.broken:
            return None
        if isinstance(key.content, str):
            return key.content
        if isinstance(key.content, list | dict):
            parent.broken = True
            if _opens_template(start, event):
                message = "YAML reads text that begins with '{{' as a map."
                self._report(start, message, "Put it in quotes, such as '{{name}}'.")
            else:
                message = "A list or a map is used as a key."
                self._report(event, message, "Use a string as the key, in quotes if necessary.")
            return None
        self._report(
            event,
            f"The key {shorten(key.source) or 'null'} is not a string: YAML reads it as {format_json(key.content)}.",
            f"Put it in quotes: '{shorten(key.source)}'." if key.source else "Give it a name.",
        )
        return key.source or None

    def _merge(self, value: YamlNode, content: dict[str, YamlNode], target: YamlNode, event: Event) -> None:
        """Merge the value of a key `<<`, which is a map or a list of maps, into the content of a map.

        Keys that the target contains itself take precedence, then those of maps that were merged earlier.
        """
        sources = value.content if isinstance(value.content, list) else [value]
        for source in sources:
            if isinstance(source.content, dict):
                self._add_weight(source.weight, event)
                for key, child in source.content.items():
                    if key not in content:
                        content[key] = child
                        target.key_marks[key] = source.key_marks[key]
            elif not source.broken:
                message = "The key '<<' merges maps, but this value is not a map."
                self._problems.append(
                    problem_at(source.at, message, "Write an alias of a map, or put the key in quotes.")
                )

    def _check_collection_tag(self, event: Event, node: YamlNode) -> None:
        tag: str | None = event.tag
        tag_name = "seq" if isinstance(event, events.SequenceStartEvent) else "map"
        if tag not in (None, "!", TAG_PREFIX + tag_name):
            node.broken = True
            self._report(event, *_describe_tag(tag))

    # -- scalars

    def _read_scalar(self, event: Event) -> YamlNode:
        text: str = event.value
        style: str | None = event.style
        node = YamlNode(text, _mark(event), text, bool(style), style == "|", weight=1 + len(text) // 64)
        self._add_weight(node.weight, event)
        if style in ("'", '"'):
            self._last_quoted_text = QuotedText(node.at, Mark(event.end_mark.line + 1, event.end_mark.column + 1))
        if style != "|" and "{" in text:
            node.lines = self._number_lines(event, text)
        if _SURROGATE.search(text):
            node.content, node.broken = "", True
            self._report(event, "The text contains half of a surrogate pair.", "Write the character itself.")
            return node
        try:
            node.content = self._parse_scalar(event, text)
        except LookupError:
            node.broken = True
            self._report(event, *_describe_tag(event.tag))
        except ValueError:
            node.content, node.broken = None, True
            message = f"{shorten(text)} is not a valid number in JSON."
            self._report(event, message, "Write a finite number, or put it in quotes.")
        return node

    def _number_lines(self, event: Event, text: str) -> tuple[int, ...]:
        """Return the line of the file for each line of a scalar's text; empty if they cannot be determined."""
        start, end = event.start_mark, event.end_mark
        if start.line == end.line:
            return (start.line + 1,) * (text.count("\n") + 1)
        if self._file_lines is None:
            self._file_lines = split_lines(self._text)
        lines = self._file_lines[start.line : end.line + 1]
        lines[-1] = lines[-1][: end.column]
        lines[0] = lines[0][start.column :]
        return compute_line_numbers(text, lines, start.line + 1, event.style)

    def _parse_scalar(self, event: Event, text: str) -> Scalar:
        """Return the value of a scalar.

        Raises LookupError for a tag that is not allowed or does not match the text, and ValueError for a number that is
        not finite.
        """
        tag: str | None = event.tag
        if tag is None or (tag == "!" and _is_plain(event)):
            return read_plain(text) if _is_plain(event) else text
        if tag in ("!", TAG_PREFIX + "timestamp"):
            return text
        if not tag.startswith(TAG_PREFIX):
            raise LookupError(tag)
        return read_as(tag.removeprefix(TAG_PREFIX), text)


def _fill_node(node: YamlNode, content: list[YamlNode] | dict[str, YamlNode], children: Sequence[YamlNode]) -> None:
    node.content = content
    node.weight = 1 + sum(child.weight for child in children)
    node.height = 1 + max((child.height for child in children), default=0)


def _mark(event: Event) -> Mark:
    at = event.start_mark
    return Mark(at.line + 1, at.column + 1)


def _is_plain(event: Event) -> bool:
    """Return whether a scalar has neither quotes nor a tag."""
    return isinstance(event, events.ScalarEvent) and not event.style and event.tag is None


def _opens_template(outer: Event, inner: Event) -> bool:
    """Return whether two nested maps start with `{{`, like a template without quotes."""
    first, second = outer.start_mark, inner.start_mark
    in_braces = getattr(outer, "flow_style", False) and isinstance(inner, events.MappingStartEvent)
    return bool(in_braces) and (first.line, first.column + 1) == (second.line, second.column)


def _describe_tag(tag: str | None) -> tuple[str, str]:
    label = shorten((tag or "").replace(TAG_PREFIX, "!!"))
    if label in ("!!int", "!!float", "!!bool", "!!null"):
        return f"The value does not match its tag {label}.", "Remove the tag, or correct the value."
    return (
        f"The tag {label!r} is not allowed: a workflow is plain data.",
        "Remove it, or put quotes around text that begins with '!'.",
    )
