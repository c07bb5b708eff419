"""A template as a workflow holds it: parsed once, rendered over the names of a scope.

A text without blocks is split into words and placeholders, and each placeholder stands for itself: one that has no
value, or that is not understood, stays as it was written, and the others are filled in. A template with blocks is
compiled as a whole.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from statewright.errors import ExpressionError
from statewright.workflow.states.expressions.evaluation import WORK_LIMIT, WorkLimitExceeded
from statewright.workflow.states.templates.placeholder import Placeholder, read_placeholder
from statewright.workflow.states.templates.rendering import Rendering
from statewright.workflow.states.templates.values import Missing

if TYPE_CHECKING:
    from statewright.workflow.states.templates.blocks import CompiledBlocks
    from statewright.workflow.states.templates.compile import TemplateProblem

T = TypeVar("T")
Report = Callable[[str], object]
"""Called with each placeholder that stays as written."""
SIZE_LIMIT: Final = 1_000_000
"""Characters of a template."""
QUICK_WORK: Final = 200_000
"""Units of work that may be done on an event loop: some milliseconds."""
_BLOCK: Final = re.compile(r"\{%[-+]?\s*(?:if|for|set|with|filter|raw|macro|include|import|from|extends|block|call)\b")
_COMMENT: Final = re.compile(r"\{#[-+]?\s")


class Template:
    """A text with placeholders or blocks. Equal to every other of the same text."""

    __slots__ = ("_blocks", "_parts", "simple", "text")
    text: str
    """As the author wrote it."""
    simple: bool
    """Whether it has nothing but paths with filters: no blocks, no expressions."""
    _parts: tuple[str | Placeholder, ...]
    _blocks: CompiledBlocks | None

    def __init__(self, text: str, *, simple: bool = False) -> None:
        if len(text) > SIZE_LIMIT:
            raise ExpressionError(
                f"A template has {len(text)} characters, and at most {SIZE_LIMIT} are allowed."
                f" Put the text into a data source."
            )
        blocks = _compile_blocks(text) if not simple and _has_blocks(text) else None
        object.__setattr__(self, "text", text)
        object.__setattr__(self, "simple", simple)
        object.__setattr__(self, "_blocks", blocks)
        object.__setattr__(self, "_parts", (text,) if blocks else tuple(_split(text, simple=simple)))

    @property
    def names(self) -> frozenset[str]:
        """The names that it looks up in a scope."""
        if self._blocks is not None:
            return self._blocks.names
        return frozenset(name for part in self._placeholders() for name in part.names)

    @property
    def errors(self) -> tuple[TemplateProblem, ...]:
        """What is wrong with its blocks. With any of these it cannot be rendered."""
        return self._blocks.problems if self._blocks is not None else ()

    @property
    def warnings(self) -> tuple[TemplateProblem, ...]:
        """The placeholders that are not understood, and stay as they are written."""
        return tuple(
            problem._replace(line=part.line + problem.line - 1)
            for part in self._placeholders()
            for problem in part.problems[:1]
        )

    def render(self, scope: Mapping[str, Any], *, report: Report | None = None, work: int = WORK_LIMIT) -> str:
        """Return the text with values in place of the placeholders.

        A placeholder that has no value stays as it was written, and `report` is called with it. `work` is in units of
        `Evaluation`. Raises ExpressionError, with the line, for what cannot be rendered, and WorkLimitExceeded for what
        would take too much work or memory.
        """
        blocks = self._blocks
        rendering = Rendering(scope, work=work, copies=self._changes)
        with rendering.locating_errors():
            if blocks is not None:
                blocks.render(rendering)
            else:
                for part in self._parts:
                    _write(part, rendering)
        if report is not None:
            for source in dict.fromkeys(rendering.unresolved):
                report(source)
        return rendering.finish()

    def value(self, scope: Mapping[str, Any], *, report: Report | None = None, work: int = WORK_LIMIT) -> Any:
        """As `render`, but return the value itself, not a copy of it, for a text that is one placeholder."""
        if len(self._parts) != 1 or not isinstance(self._parts[0], Placeholder):
            return self.render(scope, report=report, work=work)
        rendering = Rendering(scope, work=work, copies=self._changes)
        with rendering.locating_errors():
            value = _value_of(self._parts[0], rendering)
        if not isinstance(value, Missing):
            return value
        if report is not None:
            report(self.text)
        return self.text

    @property
    def _changes(self) -> bool:
        """Whether it may change a list or map, so that it has to work on copies."""
        if self._blocks is not None:
            return self._blocks.changes
        return any(part.changes for part in self._placeholders())

    def _placeholders(self) -> list[Placeholder]:
        return [part for part in self._parts if isinstance(part, Placeholder)]

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"A template is immutable: {name!r} cannot be set.")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"A template is immutable: {name!r} cannot be deleted.")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Template):
            return NotImplemented
        return self.text == other.text and self.simple == other.simple

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return f"Template({self.text!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (self.text, self.simple)

    def __copy__(self) -> Template:
        return self

    def __deepcopy__(self, memo: object) -> Template:
        return self


def parse_template(text: str, *, simple: bool = False) -> Template:
    """Parse a template. Raises ExpressionError only if it is too large: see `errors` and `warnings` of the answer.

    A text that comes from outside has to be `simple`: it may name values, and do nothing else.
    """
    return Template(text, simple=simple)


@lru_cache(maxsize=256)
def _parsed(text: str) -> Template:
    return Template(text)


def _restored(text: str, simple: bool) -> Template:
    return Template(text, simple=simple)


def render_values(value: Any, scope: Mapping[str, Any], *, report: Report | None = None, work: int = WORK_LIMIT) -> Any:
    """Return a value with each text in it rendered, in maps and lists of any depth. Keys of maps stay as they are.

    For what authors wrote. A text that is one placeholder becomes the value itself. Each text may use so much work.
    Raises ExpressionError.
    """
    if isinstance(value, str):
        return _parsed(value).value(scope, report=report, work=work) if "{" in value else value
    if isinstance(value, Mapping):
        items = cast("Mapping[Any, Any]", value).items()
        return {key: render_values(item, scope, report=report, work=work) for key, item in items}
    if isinstance(value, list | tuple):
        return [render_values(item, scope, report=report, work=work) for item in cast("list[Any]", value)]
    return value


async def rendered_off_loop(render: Callable[[int], T]) -> T:
    """Call `render` with a limit of work: on the event loop if it is quick, else again on a worker thread.

    Rendering changes nothing, so it may begin anew.
    """
    try:
        return render(QUICK_WORK)
    except WorkLimitExceeded:
        from statewright.runtime.thread_calls import call_in_thread

        return await cast("Awaitable[T]", call_in_thread(render, WORK_LIMIT))


def _value_of(part: Placeholder, rendering: Rendering) -> Any:
    rendering.line = part.line
    rendering.step()
    return part.evaluate(rendering)


def _write(part: str | Placeholder, rendering: Rendering) -> None:
    if isinstance(part, str):
        rendering.write(part)
        return
    value = _value_of(part, rendering)
    if isinstance(value, Missing):
        rendering.unresolved.append(part.source)
        rendering.write(part.source)
    else:
        rendering.write(rendering.text_of(value))


def _has_blocks(text: str) -> bool:
    """Whether there is a block or a comment. `${#names[@]}` of a shell is none, nor is `date +{%H}`."""
    comment = _COMMENT.search(text)
    return _BLOCK.search(text) is not None or (comment is not None and "#}" in text[comment.end() :])


def _compile_blocks(text: str) -> CompiledBlocks:
    # Few workflows have blocks; the others need not wait for the import of Jinja.
    from statewright.workflow.states.templates.blocks import compile_blocks

    return compile_blocks(text)


def _split(text: str, *, simple: bool) -> list[str | Placeholder]:
    parts: list[str | Placeholder] = []
    # A long text repeats its placeholders: each is read once.
    read: dict[str, Placeholder] = {}
    done = at = 0
    line = 1
    while (opened := text.find("{{", at)) >= 0 and (closed := text.find("}}", opened + 2)) >= 0:
        # The innermost braces count: `{{{a}}` is a brace before `{{a}}`.
        start = text.rfind("{{", opened, closed)
        source = text[start : closed + 2]
        line += text.count("\n", done, start)
        if source not in read:
            read[source] = read_placeholder(source, line=line, simple=simple)
        parts += [text[done:start], read[source]]
        line += source.count("\n")
        done = at = closed + 2
    return [part for part in (*parts, text[done:]) if part != ""]
