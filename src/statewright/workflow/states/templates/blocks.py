"""Compilation of templates with blocks: `{% if %}`, `{% for %}`, `{% set %}`, `{% with %}` and `{% filter %}`.

Each block becomes a function that writes to the output of a rendering. The module `compile` compiles the expressions
inside blocks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any, Final, cast

from jinja2 import Environment, TemplateSyntaxError, nodes

from statewright.errors import ExpressionError
from statewright.workflow.states.expressions.functions import list_items
from statewright.workflow.states.expressions.operators import describe_type
from statewright.workflow.states.expressions.paths import MISSING
from statewright.workflow.states.templates.compile import ExpressionCompiler, require
from statewright.workflow.states.templates.rendering import CompiledText, Rendering, Step, TemplateProblem
from statewright.workflow.states.templates.values import Loop, Missing, Namespace, UnresolvedName

Block = Callable[[Rendering], None]
"""A compiled statement, which writes to the output."""
Assignment = Callable[[Rendering, Any], None]
"""A compiled target of `{% set %}` or `{% for %}`: a function that assigns a value to it."""
SOURCE_LIMIT: Final = 100_000
"""Maximum characters of a template with blocks."""
NESTING_LIMIT: Final = 50
"""Maximum nesting of blocks."""
ENVIRONMENT: Final = Environment(keep_trailing_newline=True, cache_size=0, autoescape=False)
"""Jinja's environment, which is used for parsing only."""
_DASHED_NAME: Final = re.compile(r"\w+(?:-\w+)+")
"""A name with dashes, which Jinja parses as a difference."""
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
"""The tags of unsupported statements, by their names in Jinja's tree."""


def compile_blocks(source: str) -> CompiledText:
    """Compile a template. If it has `problems`, rendering it raises the first of them."""
    compiler = _BlockCompiler()
    body: Block = _write_nothing
    if len(source) > SOURCE_LIMIT:
        message = f"The template has {len(source)} characters. With blocks, at most {SOURCE_LIMIT} are allowed."
        compiler.problems.append(TemplateProblem(1, message, "Split it, or put the text into a data source."))
    else:
        with _collect_errors(compiler, "template"):
            tree = ENVIRONMENT.parse(source)
            if compiler.find_placeholders(source):
                body = compiler.compile_body(tree.body)
    problems = tuple(compiler.problems)

    def render(rendering: Rendering) -> None:
        if problems:
            problem = problems[0]
            rendering.line = problem.line
            raise ExpressionError(f"{problem.message} {problem.suggestion}".rstrip())
        rendering.frames.append({})
        body(rendering)

    return CompiledText(render, frozenset(compiler.names), compiler.mutates, problems)


def compile_placeholder(source: str, *, with_suggestions: bool = True) -> CompiledText:
    """Compile a placeholder, including its braces."""
    compiler = ExpressionCompiler(with_suggestions=with_suggestions)
    step: Step | None = None
    with _collect_errors(compiler, "placeholder"):
        body = ENVIRONMENT.parse(source).body
        expressions = cast("nodes.Output", body[0]).nodes if len(body) == 1 else []
        if len(expressions) == 1 and not isinstance(expressions[0], nodes.TemplateData):
            step = compiler.compile(expressions[0])
        else:
            compiler.problems.append(TemplateProblem(1, "This is not a single placeholder.", ""))
    problems = tuple(compiler.problems)
    return CompiledText(None if problems else step, frozenset(compiler.names), compiler.mutates, problems)


@contextmanager
def _collect_errors(compiler: ExpressionCompiler, text_name: str) -> Generator[None]:
    """Convert an error that Jinja's parser or the compiler raises to one of the compiler's problems."""
    try:
        yield
    except TemplateSyntaxError as error:
        message = error.message or "syntax error"
        problem = TemplateProblem(error.lineno, f"{message[:1].upper()}{message[1:].rstrip('.')}.", "")
        compiler.problems.append(problem)
    except (RecursionError, MemoryError, ValueError):  # ValueError: Python limits the digits of an int
        message = f"The {text_name} is nested too deeply, or a number is too long."
        compiler.problems.append(TemplateProblem(1, message, ""))


class _BlockCompiler(ExpressionCompiler):
    """Compiles statements to `Block`s, and expressions to `Step`s."""

    def __init__(self) -> None:
        super().__init__()
        self.local_names.append(set())
        self._placeholders: Iterator[str] = iter(())
        """The sources of the remaining placeholders, in order. Jinja's tree does not contain them."""
        self._nesting = 0

    def find_placeholders(self, source: str) -> bool:
        """Find every `{{ ... }}` in a template. Report `{% print %}`, and return False if there is one."""
        placeholders: list[str] = []
        parts: list[str] | None = None
        begins_block = False
        for line, token_type, text in ENVIRONMENT.lex(source):
            if begins_block and token_type == "name" and text == "print":
                # Jinja's tree does not distinguish it from a placeholder, so outputs would not match their sources.
                self.report_unsupported(line, "{% print %}", "Write {{ ... }} instead.")
                return False
            begins_block = token_type == "block_begin" or (begins_block and token_type == "whitespace")
            if token_type == "variable_begin":
                parts = []
            if parts is not None:
                parts.append(text)
            if token_type == "variable_end" and parts is not None:
                placeholders.append("".join(parts))
                parts = None
        self._placeholders = iter(placeholders)
        return True

    def compile_body(self, body: list[nodes.Node]) -> Block:
        """Compile a sequence of blocks."""
        if body and self._nesting >= NESTING_LIMIT:
            return self.reject(body[0], f"A nesting of more than {NESTING_LIMIT} blocks", "Split the template.")
        self._nesting += 1
        blocks = [self._compile_block(node) for node in body]
        self._nesting -= 1
        return blocks[0] if len(blocks) == 1 else _make_sequence(blocks)

    def _compile_block(self, node: nodes.Node) -> Block:
        block: Block = self.visit(node)
        line = node.lineno

        def render(rendering: Rendering) -> None:
            rendering.line = line
            rendering.step()
            block(rendering)

        return render

    def generic_visit(self, node: nodes.Node, *args: Any, **kwargs: Any) -> Step:
        if not isinstance(node, nodes.Stmt):
            return super().generic_visit(node)
        name = type(node).__name__
        return self.reject(node, _TAGS.get(name, name), "Supported tags: if, for, set, with, filter and raw.")

    def visit_Output(self, node: nodes.Output) -> Block:
        writers: list[Block] = []
        for child in node.nodes:
            if isinstance(child, nodes.TemplateData):
                writers.append(_make_text_writer(child.data))
                continue
            source = next(self._placeholders)
            key = _read_key(source)
            # `a-b` may be a single name, but the tree contains only `a` and `b`.
            if key is not None and _DASHED_NAME.fullmatch(key):
                self.names.add(key)
            writers.append(_make_value_writer(self.compile(child), key, source, child.lineno))
        return _make_sequence(writers)

    def visit_If(self, node: nodes.If) -> Block:
        branches = [
            (self.compile(branch.test), branch.lineno, self.compile_body(branch.body)) for branch in (node, *node.elif_)
        ]
        otherwise = self.compile_body(node.else_)

        def render(rendering: Rendering) -> None:
            for test, line, body in branches:
                rendering.line = line
                if test(rendering):
                    body(rendering)
                    return
            otherwise(rendering)

        return render

    def visit_For(self, node: nodes.For) -> Block:
        if node.recursive:
            self.reject(node, "A recursive loop", "Use nested loops.")
        items = self.compile(node.iter)
        self.local_names.append({"loop"})
        assign = self._compile_target(node.target)
        test = self.compile(node.test) if node.test is not None else None
        body = self.compile_body(node.body)
        self.local_names.pop()
        otherwise = self.compile_body(node.else_)

        def render(rendering: Rendering) -> None:
            values = _list_loop_items(rendering, items(rendering))
            frames = rendering.frames
            if test is not None:
                values = [value for value in values if _is_selected(rendering, assign, value, test)]
            if not values:
                otherwise(rendering)
                return
            loop = Loop(values)
            for loop.index0, value in enumerate(values):  # assigns each index to the attribute of `loop`
                frames.append({"loop": loop})
                rendering.step()
                assign(rendering, value)
                body(rendering)
                frames.pop()

        return render

    def visit_Assign(self, node: nodes.Assign) -> Block:
        value = self.compile(node.node)
        assign = self._compile_target(node.target)
        return lambda rendering: assign(rendering, value(rendering))

    def visit_AssignBlock(self, node: nodes.AssignBlock) -> Block:
        value = self._compile_captured(node.body, node.filter)
        assign = self._compile_target(node.target)
        return lambda rendering: assign(rendering, value(rendering))

    def visit_FilterBlock(self, node: nodes.FilterBlock) -> Block:
        value = self._compile_captured(node.body, node.filter)
        return lambda rendering: rendering.write(rendering.to_text(require(value(rendering))))

    def visit_With(self, node: nodes.With) -> Block:
        values = self.compile_all(node.values)
        self.local_names.append(set())
        assigns = [self._compile_target(target) for target in node.targets]
        body = self.compile_body(node.body)
        self.local_names.pop()

        def render(rendering: Rendering) -> None:
            results = [value(rendering) for value in values]
            rendering.frames.append({})
            for assign, value in zip(assigns, results, strict=True):
                assign(rendering, value)
            body(rendering)
            rendering.frames.pop()

        return render

    def _compile_captured(self, body: list[nodes.Node], filters: nodes.Filter | None) -> Step:
        """Compile a body whose output becomes a value, to which filters are applied.

        Variables that the body sets are local to it.
        """
        self.local_names.append(set())
        block = self.compile_body(body)
        self.local_names.pop()

        def capture(rendering: Rendering) -> str:
            rendering.frames.append({})
            text = rendering.capture(block)
            rendering.frames.pop()
            return text

        return self._compile_filters(filters, capture)

    def _compile_filters(self, node: nodes.Filter | None, value: Step) -> Step:
        if node is None:
            return value
        return self.compile_filter(node, self._compile_filters(cast("nodes.Filter | None", node.node), value))

    def _compile_target(self, node: nodes.Node) -> Assignment:
        """Compile an assignment to a name, several names, or a value of a namespace."""
        if isinstance(node, nodes.Name):
            name = node.name
            self.local_names[-1].add(name)

            def assign(rendering: Rendering, value: Any) -> None:
                rendering.frames[-1][name] = value

            return assign
        if isinstance(node, nodes.Tuple):
            return _make_item_assignment([self._compile_target(item) for item in node.items])
        if isinstance(node, nodes.NSRef):
            return self._compile_namespace_target(node)
        self.reject(node, "This target of {% set %}", "Set a name, or a value of a namespace().")
        return lambda rendering, value: None

    def _compile_namespace_target(self, node: nodes.NSRef) -> Assignment:
        name, attribute, missing = node.name, node.attr, Missing(node.name)

        def assign(rendering: Rendering, value: Any) -> None:
            namespace = rendering.lookup(name, missing)
            if not isinstance(namespace, Namespace):
                raise ExpressionError(f"{name!r} is not a namespace: create it with {{% set {name} = namespace() %}}")
            namespace.values[attribute] = value

        return assign


def _write_nothing(rendering: Rendering) -> None:
    return None


def _make_sequence(blocks: list[Block]) -> Block:
    """Return a block that renders several blocks in order."""

    def render(rendering: Rendering) -> None:
        for block in blocks:
            block(rendering)

    return render


def _make_text_writer(text: str) -> Block:
    return lambda rendering: rendering.write(text)


def _make_value_writer(step: Step, key: str | None, source: str, line: int) -> Block:
    """Return a block that writes the value of a placeholder, or its source if it is undefined."""

    def write(rendering: Rendering) -> None:
        rendering.line = line
        value = rendering.scope.get(key, MISSING) if key is not None else MISSING
        if value is MISSING:
            try:
                value = step(rendering)
            except UnresolvedName as error:
                value = Missing(error.missing.path)  # not NOTHING itself, which is written as an empty string
        rendering.write_value(value, source)

    return write


def _read_key(source: str) -> str | None:
    """Return the text between the braces, if all of it may be one key of the scope; None for a plain name.

    A plain name is not looked up as a key, because a variable of the template takes precedence over the scope.
    """
    content = source[2:-2]
    # Remove the characters that control whitespace, as in `{{- name -}}`.
    key = content.removeprefix(content[:1] if content[:1] in "+-" else "").removesuffix("-").strip()
    return None if key.isidentifier() else key


def _list_loop_items(rendering: Rendering, value: Any) -> list[Any]:
    if isinstance(value, Missing):
        return []
    if not isinstance(value, str | list | dict):
        raise ExpressionError(f"a loop needs a list, map or string, not {describe_type(value)}")
    return list_items(rendering, value)


def _is_selected(rendering: Rendering, assign: Assignment, item: Any, test: Step) -> bool:
    """Return whether an item passes the `if` of a `{% for %}`."""
    rendering.frames.append({})
    rendering.step()
    assign(rendering, item)
    is_selected = bool(test(rendering))
    rendering.frames.pop()
    return is_selected


def _make_item_assignment(targets: list[Assignment]) -> Assignment:
    """Return an assignment of the items of a list to several targets."""

    def assign(rendering: Rendering, value: Any) -> None:
        if not isinstance(value, list) or len(cast("list[Any]", value)) != len(targets):
            is_list = isinstance(value, list)
            actual = f"a list of {len(cast('list[Any]', value))}" if is_list else describe_type(cast("object", value))
            raise ExpressionError(f"{len(targets)} names need a list of {len(targets)} items, not {actual}")
        for target, item in zip(targets, cast("list[Any]", value), strict=True):
            target(rendering, item)

    return assign
