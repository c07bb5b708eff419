"""Compiles templates with blocks: `{% if %}`, `{% for %}`, `{% set %}`, `{% with %}` and `{% filter %}`.

See `compile` for their expressions. A block becomes a function of one rendering, which writes to its output.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple, cast

from jinja2 import Environment, TemplateSyntaxError, nodes

from statewright.errors import ExpressionError
from statewright.workflow.states.expressions.functions import items_of
from statewright.workflow.states.expressions.operators import describe_kind
from statewright.workflow.states.templates.compile import ExpressionCompiler, existing
from statewright.workflow.states.templates.rendering import Rendering, Step, TemplateProblem
from statewright.workflow.states.templates.values import Loop, Missing, Namespace, UnresolvedName

Block = Callable[[Rendering], None]
Assign = Callable[[Rendering, Any], None]
BLOCKS_LIMIT: Final = 100_000
"""Maximum characters of a template with blocks."""
NESTING_LIMIT: Final = 50
"""Maximum nesting of blocks."""
ENVIRONMENT: Final = Environment(keep_trailing_newline=True, cache_size=0, autoescape=False)
"""Used for parsing only."""
_DASHED: Final = re.compile(r"\w+(?:-\w+)+")
_TAGS: Final = {
    "Block": "{% block %}",
    "CallBlock": "{% call %}",
    "Extends": "{% extends %}",
    "FromImport": "{% import %}",
    "Import": "{% import %}",
    "Include": "{% include %}",
    "Macro": "{% macro %}",
    "ScopedEvalContextModifier": "{% autoescape %}",
}


class CompiledBlocks:
    """A compiled template with blocks, or its problems."""

    def __init__(
        self, block: Block, names: frozenset[str], *, changes: bool, problems: tuple[TemplateProblem, ...]
    ) -> None:
        self._block = block
        self.names = names
        self.changes = changes
        self.problems = problems

    def render(self, rendering: Rendering) -> None:
        """Write the text to the output. Raises ExpressionError, and whatever a wrong operation raises."""
        for problem in self.problems[:1]:
            rendering.line = problem.line
            raise ExpressionError(f"{problem.message} {problem.suggestion}")
        rendering.frames.append({})
        self._block(rendering)


def compile_blocks(source: str) -> CompiledBlocks:
    """Compile a template. A result with `problems` raises the first of them when it is rendered."""
    compiler = _BlockCompiler()
    block: Block = _nothing
    if len(source) > BLOCKS_LIMIT:
        message = f"A template with blocks has {len(source)} characters, and at most {BLOCKS_LIMIT} are allowed."
        compiler.problems.append(TemplateProblem(1, message, "Split it, or put the text into a data source."))
        return CompiledBlocks(block, frozenset(), changes=False, problems=tuple(compiler.problems))
    with _reported(compiler, "template"):
        tree = ENVIRONMENT.parse(source)
        compiler.sources = iter(_placeholders(source))
        compiler.local.append(set())
        block = compiler.compile_body(tree.body)
    return CompiledBlocks(block, frozenset(compiler.names), changes=compiler.changes, problems=tuple(compiler.problems))


class CompiledPlaceholder(NamedTuple):
    """The one expression of a text `{{ ... }}`."""

    step: Step | None
    """None if there are problems."""
    names: frozenset[str] = frozenset()
    changes: bool = False
    """True if the expression may modify a list or map."""
    problems: tuple[TemplateProblem, ...] = ()


def compile_placeholder(source: str, *, describes: bool = True) -> CompiledPlaceholder:
    """Compile the expression of a placeholder, with its braces. Without `describes`, problems have no suggestion."""
    compiler = ExpressionCompiler(describes=describes)
    step: Step | None = None
    with _reported(compiler, "placeholder"):
        body = ENVIRONMENT.parse(source).body
        expressions = cast("nodes.Output", body[0]).nodes if len(body) == 1 else []
        if len(expressions) == 1 and not isinstance(expressions[0], nodes.TemplateData):
            step = compiler.compile(expressions[0])
        else:
            compiler.problems.append(TemplateProblem(1, "This is not one placeholder.", ""))
    step = None if compiler.problems else step
    return CompiledPlaceholder(step, frozenset(compiler.names), compiler.changes, tuple(compiler.problems))


@contextmanager
def _reported(compiler: ExpressionCompiler, noun: str) -> Generator[None]:
    """Convert errors of Jinja's parser to a problem."""
    try:
        yield
    except TemplateSyntaxError as error:
        message = error.message or "syntax error"
        problem = TemplateProblem(error.lineno, f"{message[:1].upper()}{message[1:].rstrip('.')}.", "")
        compiler.problems.append(problem)
    except (RecursionError, MemoryError, ValueError):
        message = f"The {noun} is nested too deeply, or a number is too long."
        compiler.problems.append(TemplateProblem(1, message, ""))


def _placeholders(source: str) -> list[str]:
    """Return every `{{ ... }}` of a template with its braces, in order."""
    placeholders: list[str] = []
    parts: list[str] | None = None
    begins_block = False
    for line, kind, text in ENVIRONMENT.lex(source):
        if begins_block and kind == "name" and text == "print":  # it creates outputs without braces
            raise TemplateSyntaxError("{% print %} is not part of the templates of workflows", line)
        begins_block = kind == "block_begin" or (begins_block and kind == "whitespace")
        if kind == "variable_begin":
            parts = []
        if parts is not None:
            parts.append(text)
        if kind == "variable_end" and parts is not None:
            placeholders.append("".join(parts))
            parts = None
    return placeholders


class _BlockCompiler(ExpressionCompiler):
    """Compiles each kind of block by the method `_<name of the kind>_block`."""

    def __init__(self) -> None:
        super().__init__()
        self.sources: Iterator[str] = iter(())
        """The remaining placeholders in source order, since Jinja's tree does not keep the source text."""
        self._nesting = 0

    def compile_body(self, body: list[nodes.Node]) -> Block:
        """Compile a sequence of blocks."""
        if self._nesting >= NESTING_LIMIT:
            self.refuse(body[0], f"more than {NESTING_LIMIT} blocks inside each other", "Split the template.")
            return _nothing
        self._nesting += 1
        blocks = [self._block(node) for node in body]
        self._nesting -= 1
        if len(blocks) == 1:
            return blocks[0]

        def render(rendering: Rendering) -> None:
            for block in blocks:
                block(rendering)

        return render

    def _block(self, node: nodes.Node) -> Block:
        maker = getattr(self, f"_{type(node).__name__.lower()}_block", None)
        if maker is None:
            name = type(node).__name__
            self.refuse(node, _TAGS.get(name, name), "Templates have if, for, set, with, filter and raw.")
            return _nothing
        block, line = maker(node), node.lineno

        def render(rendering: Rendering) -> None:
            rendering.line = line
            rendering.step()
            block(rendering)

        return render

    def _output_block(self, node: nodes.Output) -> Block:
        writers: list[Block] = []
        for child in node.nodes:
            if isinstance(child, nodes.TemplateData):
                writers.append(_writer_of_text(child.data))
            else:
                source = next(self.sources)
                if (key := exact_key(source)) is not None and _DASHED.fullmatch(key):
                    self.names.add(key)
                writers.append(_writer_of_value(self.compile(child), source, child.lineno))

        def render(rendering: Rendering) -> None:
            for write in writers:
                write(rendering)

        return render

    def _if_block(self, node: nodes.If) -> Block:
        branches = [
            (self.compile(branch.test), self._line(branch), self.compile_body(branch.body))
            for branch in (node, *node.elif_)
        ]
        otherwise = self.compile_body(node.else_) if node.else_ else _nothing

        def render(rendering: Rendering) -> None:
            for test, line, body in branches:
                rendering.line = line
                if test(rendering):
                    body(rendering)
                    return
            otherwise(rendering)

        return render

    @staticmethod
    def _line(node: nodes.Node) -> int:
        return node.lineno

    def _for_block(self, node: nodes.For) -> Block:
        if node.recursive:
            self.refuse(node, "A recursive loop", "Use loops inside each other.")
        items = self.compile(node.iter)
        self.local.append({"loop"})
        assign = self._target(node.target)
        test = self.compile(node.test) if node.test is not None else None
        body = self.compile_body(node.body)
        self.local.pop()
        otherwise = self.compile_body(node.else_) if node.else_ else _nothing

        def render(rendering: Rendering) -> None:
            turns = _turns(rendering, items(rendering))
            frames = rendering.frames
            if test is not None:
                turns = [item for item in turns if _passes(rendering, assign, item, test)]
            if not turns:
                otherwise(rendering)
                return
            loop = Loop(turns)
            for loop.index0, item in enumerate(turns):
                frames.append({"loop": loop})
                rendering.step()
                assign(rendering, item)
                body(rendering)
                frames.pop()

        return render

    def _assign_block(self, node: nodes.Assign) -> Block:
        value = self.compile(node.node)
        assign = self._target(node.target)
        return lambda rendering: assign(rendering, value(rendering))

    def _assignblock_block(self, node: nodes.AssignBlock) -> Block:
        result = self._filtered(node.filter, self._scoped_body(node.body))
        assign = self._target(node.target)
        return lambda rendering: assign(rendering, result(rendering))

    def _filterblock_block(self, node: nodes.FilterBlock) -> Block:
        result = self._filtered(node.filter, self._scoped_body(node.body))
        return lambda rendering: rendering.write(rendering.text_of(existing(result(rendering))))

    def _with_block(self, node: nodes.With) -> Block:
        values = self.compile_all(node.values)
        self.local.append(set())
        assigns = [self._target(target) for target in node.targets]
        body = self.compile_body(node.body) if node.body else _nothing
        self.local.pop()

        def render(rendering: Rendering) -> None:
            results = [value(rendering) for value in values]
            rendering.frames.append({})
            for assign, value in zip(assigns, results, strict=True):
                assign(rendering, value)
            body(rendering)
            rendering.frames.pop()

        return render

    def _scoped_body(self, body: list[nodes.Node]) -> Block:
        """Compile a body whose assignments end with it."""
        self.local.append(set())
        block = self.compile_body(body) if body else _nothing
        self.local.pop()

        def render(rendering: Rendering) -> None:
            rendering.frames.append({})
            block(rendering)
            rendering.frames.pop()

        return render

    def _filtered(self, node: nodes.Filter | None, body: Block) -> Step:
        """Compile a body that is rendered to a text and passed through filters."""
        if node is None:

            def capture(rendering: Rendering) -> str:
                before = rendering.capture()
                body(rendering)
                return rendering.release(before)

            return capture
        inner = self._filtered(cast("nodes.Filter | None", node.node), body)
        return self.compile_filter(node, inner)

    def _target(self, node: nodes.Node) -> Assign:
        """Compile an assignment to a name, several names, or a value of a namespace."""
        if isinstance(node, nodes.Name):
            name = node.name
            self.local[-1].add(name)

            def assign(rendering: Rendering, value: Any) -> None:
                rendering.frames[-1][name] = value

            return assign
        if isinstance(node, nodes.Tuple):
            return _unpacking([self._target(item) for item in node.items])
        if isinstance(node, nodes.NSRef):
            return self._namespace_target(node)
        self.refuse(node, "Such a target of {% set %}", "Set a name, or a value of a namespace().")
        return lambda rendering, value: None

    def _namespace_target(self, node: nodes.NSRef) -> Assign:
        name, attribute, missing = node.name, node.attr, Missing(node.name)

        def assign(rendering: Rendering, value: Any) -> None:
            namespace = rendering.lookup(name, missing)
            if not isinstance(namespace, Namespace):
                raise ExpressionError(f"{name!r} is not a namespace: {{% set {name} = namespace() %}} makes one")
            namespace.values[attribute] = value

        return assign


def _nothing(rendering: Rendering) -> None:
    return None


def _writer_of_text(text: str) -> Block:
    return lambda rendering: rendering.write(text)


def _writer_of_value(step: Step, source: str, line: int) -> Block:
    """Write the value of a placeholder, or its source if it is undefined."""
    key = exact_key(source)

    def write(rendering: Rendering) -> None:
        rendering.line = line
        value = rendering.scope.get(key, _UNSET) if key is not None else _UNSET
        if value is _UNSET:
            try:
                value = step(rendering)
            except UnresolvedName as error:
                value = Missing(error.missing.path)
        rendering.write_value(value, source)

    return write


def exact_key(source: str) -> str | None:
    """Return the text between the braces, which may itself be a key of the scope; None for a plain name."""
    inner = source[2:-2]
    key = inner.removeprefix(inner[:1] if inner[:1] in "+-" else "").removesuffix("-").strip()
    return None if key.isidentifier() else key


_UNSET: Final = object()


def _turns(rendering: Rendering, value: Any) -> list[Any]:
    if isinstance(value, Missing):
        return []
    if not isinstance(value, str | list | dict):
        raise ExpressionError(f"a loop needs a list, map or text, not {describe_kind(value)}")
    return items_of(rendering, value)


def _passes(rendering: Rendering, assign: Assign, item: Any, test: Step) -> bool:
    rendering.frames.append({})
    rendering.step()
    assign(rendering, item)
    passes = bool(test(rendering))
    rendering.frames.pop()
    return passes


def _unpacking(targets: list[Assign]) -> Assign:
    def assign(rendering: Rendering, value: Any) -> None:
        if not isinstance(value, list) or len(cast("list[Any]", value)) != len(targets):
            raise ExpressionError(
                f"{len(targets)} names need a list of as many items, not {describe_kind(cast('object', value))}"
            )
        for target, item in zip(targets, cast("list[Any]", value), strict=True):
            target(rendering, item)

    return assign
