"""Templates, which are parsed once and rendered with the values of a scope.

A template without blocks is split into plain text and placeholders. A placeholder that is undefined or not supported is
left unchanged, and does not affect other placeholders. A template with blocks is compiled as a whole.
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
from statewright.workflow.states.templates.rendering import PROBLEMS_LIMIT, CompiledText, Rendering, TemplateProblem
from statewright.workflow.states.templates.values import NOTHING, Missing, UnresolvedName

T = TypeVar("T")
UnresolvedCallback = Callable[[str], object]
"""Called with each placeholder that is left unchanged, because it is undefined or not supported."""
SIZE_LIMIT: Final = 1_000_000
"""Maximum characters of a template."""
DEPTH_LIMIT: Final = 200
"""Maximum nesting of maps and lists in which templates are rendered."""
READ_COST: Final = 10
"""Units of work for each character of text that is parsed."""
QUICK_WORK: Final = 200_000
"""Units of work that may be done on an event loop. They take a few milliseconds."""
_BLOCK: Final = re.compile(r"\{%[-+]?\s*(?:if|for|set|with|filter|raw|macro|include|import|from|extends|block|call)\b")
_COMMENT: Final = re.compile(r"\{#[-+]?\s")


@dataclass(frozen=True, slots=True, repr=False)
class Template(ParsedText):
    """Text with placeholders or blocks; see `parse_template`."""

    simple: bool
    """True if only paths with filters are supported, not blocks or expressions."""
    _parts: tuple[str | Placeholder, ...] = field(compare=False)
    """The plain text and the placeholders, in order; empty for a template with blocks."""
    _blocks: CompiledText | None = field(compare=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(parse_template, simple=self.simple), (self.text,)  # closures cannot be pickled

    @property
    def names(self) -> frozenset[str]:
        """The names that the template looks up in a scope."""
        if self._blocks is not None:
            return self._blocks.names
        return frozenset(name for part in self._list_placeholders() for name in part.names)

    @property
    def errors(self) -> tuple[TemplateProblem, ...]:
        """The problems of the template's blocks. A template with errors cannot be rendered."""
        return self._blocks.problems if self._blocks is not None else ()

    @property
    def warnings(self) -> tuple[TemplateProblem, ...]:
        """The problems of unsupported placeholders, which are left unchanged; at most `PROBLEMS_LIMIT` of them."""
        problems = (
            problem._replace(line=part.line + problem.line - 1)
            for part in self._list_distinct_placeholders()
            for problem in part.problems[:1]
        )
        return tuple(islice(problems, PROBLEMS_LIMIT))

    @property
    def mutates(self) -> bool:
        """True if the template may modify lists or maps, and so needs copies of them."""
        if self._blocks is not None:
            return self._blocks.mutates
        return any(part.mutates for part in self._list_placeholders())

    @property
    def compiled_length(self) -> int:
        """The number of characters of the template that Jinja parses."""
        if self._blocks is not None:
            return len(self.text)
        return sum(len(part.source) for part in self._list_distinct_placeholders() if not part.path)

    def render(
        self, scope: Mapping[str, Any], *, on_unresolved: UnresolvedCallback | None = None, work: int = WORK_LIMIT
    ) -> str:
        """Return the text with values in place of the placeholders.

        A placeholder without a value is left unchanged, and passed to `on_unresolved`. `work` is the limit of work in
        the units of `Evaluation`. Raises ExpressionError, which names the line, if an operation fails, and
        WorkLimitExceeded if an operation would take too much work or memory.
        """
        return self._render(Rendering(scope, work=work, copies=self.mutates), on_unresolved)

    def evaluate(self, rendering: Rendering, on_unresolved: UnresolvedCallback | None) -> Any:
        """Render like `render`, but return the value itself if the text is a single placeholder."""
        if len(self._parts) != 1 or not isinstance(self._parts[0], Placeholder):
            return self._render(rendering, on_unresolved)
        placeholder = self._parts[0]
        with rendering.locate_errors():
            value = _evaluate_placeholder(placeholder, rendering)
            if value is NOTHING:
                return ""
            if placeholder.filters or placeholder.step is not None:
                with suppress(UnresolvedName):
                    return rendering.to_json(value)
            elif not isinstance(value, Missing):
                return value
        if on_unresolved is not None:
            on_unresolved(self.text)
        return self.text

    def _render(self, rendering: Rendering, on_unresolved: UnresolvedCallback | None) -> str:
        with rendering.locate_errors():
            if self._blocks is not None and self._blocks.step is not None:
                self._blocks.step(rendering)
            for part in self._parts:
                if isinstance(part, str):
                    rendering.write(part)
                else:
                    rendering.write_value(_evaluate_placeholder(part, rendering), part.source)
        if on_unresolved is not None:
            for source in dict.fromkeys(rendering.unresolved):
                on_unresolved(source)
        return rendering.get_output()

    def _list_distinct_placeholders(self) -> Iterable[Placeholder]:
        return {part.source: part for part in self._list_placeholders()}.values()

    def _list_placeholders(self) -> list[Placeholder]:
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


def render_values(
    value: Any, scope: Mapping[str, Any], *, on_unresolved: UnresolvedCallback | None = None, work: int = WORK_LIMIT
) -> Any:
    """Return a value with all strings in its maps and lists rendered as templates. Keys of maps are left unchanged.

    Use it only for values that authors write. A string that consists of a single placeholder is replaced by the
    placeholder's value, which need not be a string. All strings together share the limit of work, which includes
    parsing. Raises ExpressionError.
    """
    return _render_value(value, Evaluation(scope, work=work), on_unresolved, 0)


def _render_value(value: Any, budget: Evaluation, on_unresolved: UnresolvedCallback | None, depth: int) -> Any:
    if isinstance(value, str):
        return _render_text(value, budget, on_unresolved) if "{" in value else value
    if not isinstance(value, Mapping | list | tuple):
        return value
    if depth >= DEPTH_LIMIT:
        raise ExpressionError(f"The value has more than {DEPTH_LIMIT} levels of maps and lists. Nest it less deeply.")
    if isinstance(value, Mapping):
        items = cast("Mapping[Any, Any]", value).items()
        return {key: _render_value(item, budget, on_unresolved, depth + 1) for key, item in items}
    return [_render_value(item, budget, on_unresolved, depth + 1) for item in cast("list[Any]", value)]


def _render_text(text: str, budget: Evaluation, on_unresolved: UnresolvedCallback | None) -> Any:
    budget.spend(READ_COST * len(text))
    template = _parse_cached(text)
    budget.spend(COMPILE_COST * template.compiled_length)
    rendering = Rendering(budget.scope, work=budget.work_left, copies=template.mutates)
    value = template.evaluate(rendering, on_unresolved)
    budget.work_left = rendering.work_left
    return value


async def render_off_loop(render: Callable[[int], T]) -> T:
    """Call `render` on the event loop with a small limit of work.

    If it exceeds this limit, call it again on a worker thread with the full limit. So it must not have side effects.
    """
    try:
        return render(QUICK_WORK)
    except WorkLimitExceeded:
        from statewright.runtime.concurrency.thread_calls import call_in_thread

        return await cast("Awaitable[T]", call_in_thread(render, WORK_LIMIT))


def _evaluate_placeholder(placeholder: Placeholder, rendering: Rendering) -> Any:
    rendering.line = placeholder.line
    rendering.step()
    return placeholder.evaluate(rendering)


def _has_blocks(text: str) -> bool:
    """Return whether text contains a block or a comment of Jinja.

    Syntax of a shell such as `${#names[@]}` and `date +{%H}` is neither.
    """
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
