"""A template as a workflow holds it: parsed once, rendered over the names of a scope."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final, Protocol, cast

from statewright.errors import ExpressionError
from statewright.workflow.states.items import MISSING
from statewright.workflow.states.templates.placeholder import Placeholder, read_placeholder

SIZE_LIMIT: Final = 1_000_000
"""Characters of a template."""
BLOCKS_LIMIT: Final = 100_000
"""Characters of a template with blocks; in a longer one blocks are text."""
RENDERED_LIMIT: Final = 10_000_000
"""Characters of a rendered text."""
_BLOCK: Final = re.compile(r"\{%[-+]?\s*(?:if|for|set)\b")
_COMMENT: Final = re.compile(r"\{#[-+]?\s")


class Blocks(Protocol):
    """A template with blocks, as `blocks.py` compiles it."""

    @property
    def names(self) -> frozenset[str]:
        """What it reads from the scope."""
        ...

    def render(self, scope: Mapping[str, Any]) -> str | None:
        """The text; None if something in it cannot be worked out."""
        ...


class Template:
    """A text with placeholders. Equal to every other of the same text."""

    __slots__ = ("_blocks", "_may_have_blocks", "_parts", "text")
    text: str
    """As the author wrote it."""
    _parts: tuple[str | Placeholder, ...]
    _blocks: Blocks | None
    _may_have_blocks: bool

    def __init__(self, text: str, *, blocks: bool = True) -> None:
        if len(text) > SIZE_LIMIT:
            raise ExpressionError(
                f"A template has {len(text)} characters; at most {SIZE_LIMIT} are read."
                f" Put the text into a data source."
            )
        has_blocks = blocks and _has_blocks(text)
        object.__setattr__(self, "text", text)
        object.__setattr__(self, "_may_have_blocks", blocks)
        object.__setattr__(self, "_blocks", _compile_blocks(text) if has_blocks else None)
        object.__setattr__(self, "_parts", (text,) if has_blocks else tuple(_split(text)))

    @property
    def names(self) -> frozenset[str]:
        """The names that it looks up in a scope."""
        if self._blocks is not None:
            return self._blocks.names
        roots = (part.root for part in self._parts if isinstance(part, Placeholder))
        return frozenset(root for root in roots if root is not None)

    def render(self, scope: Mapping[str, Any]) -> str:
        """The text with values for placeholders; what has no value stays as it was written.

        Raises ExpressionError if the text becomes too large, or a loop too long.
        """
        if self._blocks is not None:
            rendered = self._blocks.render(scope)
            return self.text if rendered is None else rendered
        words = [part if isinstance(part, str) else part.text(scope) for part in self._parts]
        if len(words) > 1 and sum(map(len, words)) > RENDERED_LIMIT:
            raise ExpressionError(
                f"A template becomes longer than {RENDERED_LIMIT} characters. Pass less to it, or split the work."
            )
        return "".join(words)

    def value(self, scope: Mapping[str, Any]) -> Any:
        """As `render`, but of a text that is one placeholder and nothing else the value itself, not a copy of it."""
        if len(self._parts) == 1 and isinstance(self._parts[0], Placeholder):
            found = self._parts[0].value(scope)
            return self.text if found is MISSING else found
        return self.render(scope)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"A template does not change: {name!r} cannot be set.")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"A template does not change: {name!r} cannot be deleted.")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Template):
            return NotImplemented
        return self.text == other.text and self._may_have_blocks == other._may_have_blocks

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return f"Template({self.text!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (self.text, self._may_have_blocks)

    def __copy__(self) -> Template:
        return self

    def __deepcopy__(self, memo: object) -> Template:
        return self


def parse_template(text: str, *, blocks: bool = True) -> Template:
    """The template that a text spells. What is no placeholder and no block is text; only its size can be wrong.

    Without `blocks` there are only placeholders: for texts that come from outside. Raises ExpressionError if it is too
    large.
    """
    return Template(text, blocks=blocks)


@lru_cache(maxsize=256)
def _parsed(text: str) -> Template:
    return Template(text)


def _again(text: str, blocks: bool) -> Template:
    return Template(text, blocks=blocks)


def render_values(value: Any, scope: Mapping[str, Any]) -> Any:
    """The same value with each text in it rendered as a template, in maps and lists of any depth. Keys stay.

    For what authors wrote; a text that is one placeholder becomes the value itself. Raises ExpressionError.
    """
    if isinstance(value, str):
        return _parsed(value).value(scope) if "{" in value else value
    if isinstance(value, Mapping):
        return {key: render_values(item, scope) for key, item in cast(Mapping[Any, Any], value).items()}
    if isinstance(value, list | tuple):
        return [render_values(item, scope) for item in cast(list[Any], value)]
    return value


def _has_blocks(text: str) -> bool:
    """Whether there is a block or a comment. `${#names[@]}` of a shell is none, nor is `date +{%H}`."""
    if len(text) > BLOCKS_LIMIT:
        return False
    comment = _COMMENT.search(text)
    return _BLOCK.search(text) is not None or (comment is not None and "#}" in text[comment.end() :])


def _compile_blocks(text: str) -> Blocks | None:
    # Few workflows have blocks; the others need not wait for Jinja.
    from statewright.workflow.states.templates.blocks import compile_blocks

    return compile_blocks(text)


def _split(text: str) -> list[str | Placeholder]:
    parts: list[str | Placeholder] = []
    # A long text repeats its placeholders: each is read once.
    read: dict[str, Placeholder] = {}
    done = at = 0
    while (opened := text.find("{{", at)) >= 0 and (closed := text.find("}}", opened + 2)) >= 0:
        # The innermost braces count: `{{{a}}` is a brace before `{{a}}`.
        start = text.rfind("{{", opened, closed)
        source = text[start : closed + 2]
        if source not in read:
            read[source] = read_placeholder(source)
        parts += [text[done:start], read[source]]
        done = at = closed + 2
    return [part for part in (*parts, text[done:]) if part != ""]
