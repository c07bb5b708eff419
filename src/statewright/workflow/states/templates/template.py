"""Templates: parsed once, rendered over the names of a scope.

A text without blocks is split into plain text and placeholders. A placeholder that is undefined or not supported is
left unchanged and does not affect the others. A template with blocks is compiled as a whole.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from statewright.errors import ExpressionError
from statewright.workflow.states.expressions.evaluation import WORK_LIMIT, Evaluation, WorkLimitExceeded
from statewright.workflow.states.expressions.parsed_text import ParsedText
from statewright.workflow.states.templates.placeholder import (
    COMPILE_COST,
    Placeholder,
    Reading,
    read_placeholder,
)
from statewright.workflow.states.templates.rendering import PROBLEMS_LIMIT, Rendering, TemplateProblem
from statewright.workflow.states.templates.values import NOTHING, Missing, UnresolvedName

if TYPE_CHECKING:
    from statewright.workflow.states.templates.blocks import CompiledBlocks

T = TypeVar("T")
Report = Callable[[str], object]
"""Called with each placeholder that is left unchanged."""
SIZE_LIMIT: Final = 1_000_000
"""Maximum characters of a template."""
DEPTH_LIMIT: Final = 200
"""Maximum nesting of maps and lists in which templates are rendered."""
READ_COST: Final = 10
"""Units of work for each character of a text that is read as a template."""
QUICK_WORK: Final = 200_000
"""Units of work that may be done on an event loop: a few milliseconds."""
_BLOCK: Final = re.compile(r"\{%[-+]?\s*(?:if|for|set|with|filter|raw|macro|include|import|from|extends|block|call)\b")
_COMMENT: Final = re.compile(r"\{#[-+]?\s")


class Template(ParsedText):
    """A text with placeholders or blocks."""

    __slots__ = ("_blocks", "_parts", "simple")
    simple: bool
    """True if only paths with filters are supported, not blocks or expressions."""
    _parts: tuple[str | Placeholder, ...]
    _blocks: CompiledBlocks | None

    def __init__(self, text: str, simple: bool = False) -> None:
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
    def _arguments(self) -> tuple[Any, ...]:
        return self.text, self.simple

    @property
    def names(self) -> frozenset[str]:
        """The names that it looks up in a scope."""
        if self._blocks is not None:
            return self._blocks.names
        return frozenset(name for part in self._placeholders() for name in part.names)

    @property
    def errors(self) -> tuple[TemplateProblem, ...]:
        """Problems of its blocks. A template with errors cannot be rendered."""
        return self._blocks.problems if self._blocks is not None else ()

    @property
    def warnings(self) -> tuple[TemplateProblem, ...]:
        """Problems of placeholders, which are left unchanged: the first of them, if there are many."""
        problems = (
            problem._replace(line=part.line + problem.line - 1)
            for part in self._different_placeholders()
            for problem in part.problems[:1]
        )
        return tuple(islice(problems, PROBLEMS_LIMIT))

    def render(self, scope: Mapping[str, Any], *, report: Report | None = None, work: int = WORK_LIMIT) -> str:
        """Return the text with values in place of the placeholders.

        A placeholder that has no value stays as it was written, and `report` is called with it. `work` is in units of
        `Evaluation`. Raises ExpressionError, with the line, for what cannot be rendered, and WorkLimitExceeded for what
        would take too much work or memory.
        """
        return self._render(Rendering(scope, work=work, copies=self.changes), report)

    def _render(self, rendering: Rendering, report: Report | None) -> str:
        blocks = self._blocks
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
        """Render the template, or return the value itself, uncopied, if the text is a single placeholder."""
        return self.value_in(Rendering(scope, work=work, copies=self.changes), report)

    def value_in(self, rendering: Rendering, report: Report | None) -> Any:
        """Return the value, within a rendering of its own that pays for it."""
        if len(self._parts) != 1 or not isinstance(self._parts[0], Placeholder):
            return self._render(rendering, report)
        placeholder = self._parts[0]
        with rendering.locating_errors():
            value = _value_of(placeholder, rendering)
            if value is NOTHING:
                return ""
            if placeholder.filters or placeholder.step is not None:
                with suppress(UnresolvedName):
                    return rendering.result_of(value)
            elif not isinstance(value, Missing):
                return value
        if report is not None:
            report(self.text)
        return self.text

    @property
    def compiled_length(self) -> int:
        """The number of characters that Jinja has to parse."""
        if self._blocks is not None:
            return len(self.text)
        return sum(len(part.source) for part in self._different_placeholders() if not part.path)

    @property
    def changes(self) -> bool:
        """True if it may modify lists or maps, and so needs copies of them."""
        if self._blocks is not None:
            return self._blocks.changes
        return any(part.changes for part in self._placeholders())

    def _different_placeholders(self) -> Iterable[Placeholder]:
        return {part.source: part for part in self._placeholders()}.values()

    def _placeholders(self) -> list[Placeholder]:
        return [part for part in self._parts if isinstance(part, Placeholder)]


def parse_template(text: str, *, simple: bool = False) -> Template:
    """Parse a template. Raises ExpressionError only if it is too large; see its `errors` and `warnings`.

    Pass `simple=True` for untrusted text: it may refer to values, and nothing else.
    """
    return Template(text, simple)


@lru_cache(maxsize=256)
def _cached_template(text: str) -> Template:
    return Template(text)


def render_values(value: Any, scope: Mapping[str, Any], *, report: Report | None = None, work: int = WORK_LIMIT) -> Any:
    """Return a value with each text in it rendered, in maps and lists of any depth. Keys of maps stay as they are.

    For values written by authors. A text that is a single placeholder becomes the value itself. All texts share the
    work limit, which includes parsing. Raises ExpressionError.
    """
    return _ValueRenderer(scope, report, work).render(value, 0)


class _ValueRenderer:
    def __init__(self, scope: Mapping[str, Any], report: Report | None, work: int) -> None:
        self._budget = Evaluation(scope, work=work)
        self._report = report

    def render(self, value: Any, depth: int) -> Any:
        if isinstance(value, str):
            return self._render_text(value) if "{" in value else value
        if not isinstance(value, Mapping | list | tuple):
            return value
        if depth >= DEPTH_LIMIT:
            raise ExpressionError(f"The value has more than {DEPTH_LIMIT} maps and lists inside each other.")
        if isinstance(value, Mapping):
            return {key: self.render(item, depth + 1) for key, item in cast("Mapping[Any, Any]", value).items()}
        return [self.render(item, depth + 1) for item in cast("list[Any]", value)]

    def _render_text(self, text: str) -> Any:
        budget = self._budget
        budget.spend(READ_COST * len(text))
        template = _cached_template(text)
        budget.spend(COMPILE_COST * template.compiled_length)
        rendering = Rendering(budget.scope, work=budget.work_left, copies=template.changes)
        value = template.value_in(rendering, self._report)
        budget.work_left = rendering.work_left
        return value


async def render_off_loop(render: Callable[[int], T]) -> T:
    """Call `render` with a work limit: on the event loop if it is quick, else again on a worker thread.

    Rendering has no side effects, so it can be restarted.
    """
    try:
        return render(QUICK_WORK)
    except WorkLimitExceeded:
        from statewright.runtime.concurrency.worker_threads import call_in_thread

        return await cast("Awaitable[T]", call_in_thread(render, WORK_LIMIT))


def _value_of(part: Placeholder, rendering: Rendering) -> Any:
    rendering.line = part.line
    rendering.step()
    return part.evaluate(rendering)


def _write(part: str | Placeholder, rendering: Rendering) -> None:
    if isinstance(part, str):
        rendering.write(part)
        return
    rendering.write_value(_value_of(part, rendering), part.source)


def _has_blocks(text: str) -> bool:
    """Return whether a text has a block or comment. `${#names[@]}` of a shell is neither, nor is `date +{%H}`."""
    comment = _COMMENT.search(text)
    return _BLOCK.search(text) is not None or (comment is not None and "#}" in text[comment.end() :])


def _compile_blocks(text: str) -> CompiledBlocks:
    # Few workflows have blocks; the others must not wait for the import of Jinja.
    from statewright.workflow.states.templates.blocks import compile_blocks

    return compile_blocks(text)


def _split(text: str, *, simple: bool) -> list[str | Placeholder]:
    parts: list[str | Placeholder] = []
    # A long text repeats its placeholders: each is parsed once.
    read: dict[str, Placeholder] = {}
    reading = Reading()
    done = at = 0
    line = 1
    while (opened := text.find("{{", at)) >= 0 and (closed := text.find("}}", opened + 2)) >= 0:
        # The innermost braces delimit: `{{{a}}` is a brace before `{{a}}`.
        start = text.rfind("{{", opened, closed)
        source = text[start : closed + 2]
        line += text.count("\n", done, start)
        if source not in read:
            read[source] = read_placeholder(source, line=line, simple=simple, reading=reading)
        parts += [text[done:start], read[source]]
        line += source.count("\n")
        done = at = closed + 2
    return [part for part in (*parts, text[done:]) if part != ""]
