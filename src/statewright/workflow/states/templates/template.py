"""Templates: parsed once, rendered over the names of a scope.

A text without blocks is split into plain text and placeholders. A placeholder that is undefined or not supported is
left unchanged, and does not affect the others. A template with blocks is compiled as a whole.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache, partial
from itertools import islice
from typing import Any, Final, TypeVar, cast

from statewright.errors import ExpressionError
from statewright.workflow.states.expressions.evaluation import WORK_LIMIT, Evaluation, WorkLimitExceeded
from statewright.workflow.states.expressions.expression import ParsedText
from statewright.workflow.states.templates.placeholder import COMPILE_COST, Placeholder, PlaceholderParser
from statewright.workflow.states.templates.rendering import PROBLEMS_LIMIT, Compiled, Rendering, TemplateProblem
from statewright.workflow.states.templates.values import NOTHING, Missing, UnresolvedName

T = TypeVar("T")
Report = Callable[[str], object]
"""A callback for each placeholder that is left unchanged."""
SIZE_LIMIT: Final = 1_000_000
"""Maximum characters of a template."""
DEPTH_LIMIT: Final = 200
"""Maximum nesting of maps and lists in which templates are rendered."""
READ_COST: Final = 10
"""Units of work for each character of a text that is parsed."""
QUICK_WORK: Final = 200_000
"""Units of work that may be done on an event loop, which take a few milliseconds."""
_BLOCK: Final = re.compile(r"\{%[-+]?\s*(?:if|for|set|with|filter|raw|macro|include|import|from|extends|block|call)\b")
_COMMENT: Final = re.compile(r"\{#[-+]?\s")


@dataclass(frozen=True, slots=True, repr=False)
class Template(ParsedText):
    """A text with placeholders or blocks; see `parse_template`."""

    simple: bool
    """True if only paths with filters are supported, not blocks or expressions."""
    _parts: tuple[str | Placeholder, ...] = field(compare=False)
    """Empty for a template with blocks."""
    _blocks: Compiled | None = field(compare=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(parse_template, simple=self.simple), (self.text,)  # closures cannot be pickled

    @property
    def names(self) -> frozenset[str]:
        """The names that it looks up in a scope."""
        if self._blocks is not None:
            return self._blocks.names
        return frozenset(name for part in self._placeholders() for name in part.names)

    @property
    def errors(self) -> tuple[TemplateProblem, ...]:
        """The problems of its blocks. A template with errors cannot be rendered."""
        return self._blocks.problems if self._blocks is not None else ()

    @property
    def warnings(self) -> tuple[TemplateProblem, ...]:
        """The problems of unsupported placeholders, which are left unchanged; at most `PROBLEMS_LIMIT` of them."""
        problems = (
            problem._replace(line=part.line + problem.line - 1)
            for part in self._distinct_placeholders()
            for problem in part.problems[:1]
        )
        return tuple(islice(problems, PROBLEMS_LIMIT))

    @property
    def mutates(self) -> bool:
        """True if it may modify lists or maps, and so needs copies of them."""
        if self._blocks is not None:
            return self._blocks.mutates
        return any(part.mutates for part in self._placeholders())

    @property
    def compiled_length(self) -> int:
        """The number of characters that Jinja parses."""
        if self._blocks is not None:
            return len(self.text)
        return sum(len(part.source) for part in self._distinct_placeholders() if not part.path)

    def render(self, scope: Mapping[str, Any], *, report: Report | None = None, work: int = WORK_LIMIT) -> str:
        """Return the text with values in place of the placeholders.

        A placeholder without a value is left unchanged, and reported. `work` is the limit in units of `Evaluation`.
        Raises ExpressionError, with the line, for a failed operation, and WorkLimitExceeded for one that would take too
        much work or memory.
        """
        return self._render(Rendering(scope, work=work, copies=self.mutates), report)

    def evaluate(self, rendering: Rendering, report: Report | None) -> Any:
        """Render like `render`, but return the value itself if the text is a single placeholder."""
        if len(self._parts) != 1 or not isinstance(self._parts[0], Placeholder):
            return self._render(rendering, report)
        placeholder = self._parts[0]
        with rendering.locating_errors():
            value = _evaluate(placeholder, rendering)
            if value is NOTHING:
                return ""
            if placeholder.filters or placeholder.step is not None:
                with suppress(UnresolvedName):
                    return rendering.to_json(value)
            elif not isinstance(value, Missing):
                return value
        if report is not None:
            report(self.text)
        return self.text

    def _render(self, rendering: Rendering, report: Report | None) -> str:
        with rendering.locating_errors():
            if self._blocks is not None and self._blocks.step is not None:
                self._blocks.step(rendering)
            for part in self._parts:
                if isinstance(part, str):
                    rendering.write(part)
                else:
                    rendering.write_value(_evaluate(part, rendering), part.source)
        if report is not None:
            for source in dict.fromkeys(rendering.unresolved):
                report(source)
        return rendering.get_output()

    def _distinct_placeholders(self) -> Iterable[Placeholder]:
        return {part.source: part for part in self._placeholders()}.values()

    def _placeholders(self) -> list[Placeholder]:
        return [part for part in self._parts if isinstance(part, Placeholder)]


def parse_template(text: str, *, simple: bool = False) -> Template:
    """Parse a template. Raises ExpressionError if it is too long; other problems are its `errors` and `warnings`.

    Pass `simple=True` for untrusted text, to support only paths with filters.
    """
    if len(text) > SIZE_LIMIT:
        raise ExpressionError(
            f"The template has {len(text)} characters; at most {SIZE_LIMIT} are allowed."
            f" Put the text into a data source."
        )
    if simple or not _has_blocks(text):
        return Template(text, simple, tuple(_split(text, PlaceholderParser(simple=simple))), None)
    # Imported here, because few workflows have blocks, and importing Jinja is slow.
    from statewright.workflow.states.templates.blocks import compile_blocks

    return Template(text, simple, (), compile_blocks(text))


_parse_cached: Final = lru_cache(maxsize=256)(parse_template)


def render_values(value: Any, scope: Mapping[str, Any], *, report: Report | None = None, work: int = WORK_LIMIT) -> Any:
    """Return a value with all strings in its maps and lists rendered. Keys of maps are left unchanged.

    For values that authors write. A string that is a single placeholder becomes the value itself. All strings together
    share the limit of work, which includes parsing. Raises ExpressionError.
    """
    return _render_value(value, Evaluation(scope, work=work), report, 0)


def _render_value(value: Any, budget: Evaluation, report: Report | None, depth: int) -> Any:
    if isinstance(value, str):
        return _render_text(value, budget, report) if "{" in value else value
    if not isinstance(value, Mapping | list | tuple):
        return value
    if depth >= DEPTH_LIMIT:
        raise ExpressionError(f"The value has more than {DEPTH_LIMIT} levels of maps and lists. Nest it less deeply.")
    if isinstance(value, Mapping):
        items = cast("Mapping[Any, Any]", value).items()
        return {key: _render_value(item, budget, report, depth + 1) for key, item in items}
    return [_render_value(item, budget, report, depth + 1) for item in cast("list[Any]", value)]


def _render_text(text: str, budget: Evaluation, report: Report | None) -> Any:
    budget.spend(READ_COST * len(text))
    template = _parse_cached(text)
    budget.spend(COMPILE_COST * template.compiled_length)
    rendering = Rendering(budget.scope, work=budget.work_left, copies=template.mutates)
    value = template.evaluate(rendering, report)
    budget.work_left = rendering.work_left
    return value


async def render_off_loop(render: Callable[[int], T]) -> T:
    """Call `render` on the event loop with a small limit of work; if that is exceeded, again on a worker thread.

    `render` must not have side effects, because it may be called twice.
    """
    try:
        return render(QUICK_WORK)
    except WorkLimitExceeded:
        from statewright.runtime.concurrency.worker_threads import call_in_thread

        return await cast("Awaitable[T]", call_in_thread(render, WORK_LIMIT))


def _evaluate(placeholder: Placeholder, rendering: Rendering) -> Any:
    rendering.line = placeholder.line
    rendering.step()
    return placeholder.evaluate(rendering)


def _has_blocks(text: str) -> bool:
    """Return whether a text has a block or a comment of Jinja, unlike `${#names[@]}` and `date +{%H}` in a shell."""
    comment = _COMMENT.search(text)
    return _BLOCK.search(text) is not None or (comment is not None and "#}" in text[comment.end() :])


def _split(text: str, parser: PlaceholderParser) -> Iterator[str | Placeholder]:
    """Yield plain text and placeholders in order."""
    end = 0
    line = 1
    while (opening := text.find("{{", end)) >= 0 and (closing := text.find("}}", opening + 2)) >= 0:
        # The innermost braces count: `{{{a}}` is a brace followed by `{{a}}`.
        start = text.rfind("{{", opening, closing)
        source = text[start : closing + 2]
        line += text.count("\n", end, start)
        if start > end:
            yield text[end:start]
        yield parser.parse(source, line)
        line += source.count("\n")
        end = closing + 2
    if end < len(text):
        yield text[end:]
