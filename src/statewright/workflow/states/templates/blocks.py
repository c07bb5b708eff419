"""Templates with `{% if %}`, `{% for %}` and `{% set %}`: Jinja's language, in a narrower room than its own sandbox.

Jinja parses; then only nodes of `_ALLOWED` may stand in the tree, and those that touch values are replaced by what is
bounded (`sandbox`). Values are copied first, so a template may change what it was given and never the context. A
placeholder without a value is written as it stood.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

from jinja2 import TemplateError, nodes
from jinja2.environment import Template as JinjaTemplate
from jinja2.meta import find_undeclared_variables

from statewright.errors import ExpressionError
from statewright.workflow.states.expressions.budget import Run
from statewright.workflow.states.templates.filters import OUTPUT_LIMIT
from statewright.workflow.states.templates.placeholder import read_placeholder
from statewright.workflow.states.templates.sandbox import ENVIRONMENT, FUNCTIONS, RUN, WORK_LIMIT, TooMuch

_DASHED: Final = re.compile(r"[^\W\d]\w*(?:-[^\W\d]\w*)+")
"""A name with dashes, and no number less one."""
_ALLOWED: Final = (
    *(nodes.Template, nodes.Output, nodes.TemplateData, nodes.If, nodes.For, nodes.Assign, nodes.AssignBlock),
    *(nodes.Name, nodes.NSRef, nodes.Const, nodes.List, nodes.Tuple, nodes.Dict, nodes.Pair),
    *(nodes.Keyword, nodes.Getattr, nodes.Getitem, nodes.Slice, nodes.Call, nodes.Filter, nodes.Test),
    *(nodes.CondExpr, nodes.Compare, nodes.Operand, nodes.And, nodes.Or, nodes.Not, nodes.Neg, nodes.Pos),
    *(nodes.Add, nodes.Sub, nodes.Mul, nodes.Div, nodes.FloorDiv, nodes.Mod, nodes.Concat),
)
"""Kinds of nodes, each for itself: a kind that Jinja learns later is none of them."""
_FORBIDDEN_NAMES: Final = ("self", "super", "caller")
"""In Jinja they are no variables."""


class JinjaBlocks:
    """A compiled template with blocks."""

    __slots__ = ("_template", "names")

    def __init__(self, template: JinjaTemplate, names: frozenset[str]) -> None:
        self._template = template
        self.names = names

    def render(self, scope: Mapping[str, Any]) -> str | None:
        """The text; None if something in it cannot be worked out.

        Raises ExpressionError if the text becomes too large, or its loops too long.
        """
        run = Run(scope)
        run.left = WORK_LIMIT
        parts: list[str] = []
        total = 0
        try:
            given = {name: _copied(scope[name]) for name in self.names if name in scope}
            for part in self._template.generate({**given, RUN: run}):
                total += len(part)
                if total > OUTPUT_LIMIT:
                    raise TooMuch(f"A template with blocks becomes longer than {OUTPUT_LIMIT} characters.")
                parts.append(part)
        except TooMuch:
            raise
        except Exception:
            return None
        return "".join(parts)


def compile_blocks(source: str) -> JinjaBlocks | None:
    """What renders a template with blocks; None if it is not well formed, or uses what is not allowed."""
    try:
        tree = ENVIRONMENT.parse(source)
        _check(tree)
        dashed = _written_out(tree, _placeholders(source))
        _guard(tree)
        names = dashed | frozenset(find_undeclared_variables(tree))
        # Jinja compiles trees too, which its types do not say.
        code = ENVIRONMENT.compile(cast(Any, tree))
    except (TemplateError, ExpressionError, SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return JinjaBlocks(JinjaTemplate.from_code(ENVIRONMENT, code, {}), names)


def _check(tree: nodes.Template) -> None:
    """Raises ExpressionError if there is anything in the tree that is not known to be harmless."""
    for node in _all_nodes(tree):
        if type(node) not in _ALLOWED:
            raise ExpressionError(f"{type(node).__name__} is no part of templates")
        if isinstance(node, nodes.Name) and (node.name.startswith("__") or node.name in _FORBIDDEN_NAMES):
            raise ExpressionError(f"{node.name!r} is no name here")
        if isinstance(node, nodes.For) and node.recursive:
            raise ExpressionError("loops do not call themselves")
        if isinstance(node, nodes.Filter | nodes.Test | nodes.Call):
            _check_call(node)


def _check_call(node: Any) -> None:
    if node.dyn_args is not None or node.dyn_kwargs is not None:
        raise ExpressionError("stars are no part of templates")
    if isinstance(node, nodes.Filter) and (node.node is None or node.name.startswith("_")):
        raise ExpressionError("a filter follows a value")
    if isinstance(node, nodes.Call):
        called = node.node
        if not (isinstance(called, nodes.Getattr) or (isinstance(called, nodes.Name) and called.name in FUNCTIONS)):
            raise ExpressionError("only methods of values are called, and " + ", ".join(FUNCTIONS))


def _all_nodes(node: nodes.Node) -> Iterator[nodes.Node]:
    waiting = [node]
    while waiting:
        one = waiting.pop()
        yield one
        waiting.extend(one.iter_child_nodes())


def _placeholders(source: str) -> list[str]:
    """Every `{{ ... }}` of the source with its braces, in order."""
    found: list[str] = []
    parts: list[str] | None = None
    for _, kind, text in ENVIRONMENT.lex(source):
        if kind == "variable_begin":
            parts = []
        if parts is not None:
            parts.append(text)
        if kind == "variable_end" and parts is not None:
            found.append("".join(parts))
            parts = None
    return found


def _written_out(tree: nodes.Template, sources: list[str]) -> frozenset[str]:
    """Gives each placeholder of the tree its source, and answers the names with dashes among them."""
    waiting = iter(sources)
    dashed: set[str] = set()
    for output in tree.find_all(nodes.Output):
        for place, child in enumerate(output.nodes):
            if isinstance(child, nodes.TemplateData):
                continue
            source = next(waiting)
            read = read_placeholder(source)
            if read.root is not None and _DASHED.fullmatch(read.root) and not read.filters:
                dashed.add(read.root)
                output.nodes[place] = _filter(nodes.Const(None), "_dashed", nodes.Const(source))
            else:
                output.nodes[place] = _filter(child, "_shown", nodes.Const(source))
    return frozenset(dashed)


def _guard(node: nodes.Node) -> None:
    """Replaces what touches values by what is bounded."""
    for child in node.iter_child_nodes():
        _guard(child)
    for field, value in node.iter_fields():
        if isinstance(value, list):
            value[:] = [_guarded(one) for one in cast(list[Any], value)]
        else:
            setattr(node, field, _guarded(value))
    if isinstance(node, nodes.For):
        node.iter = _filter(node.iter, "_turns")
    if isinstance(node, nodes.Operand):
        node.expr = _filter(node.expr, "_looked_at")
    if isinstance(node, nodes.Getitem) and isinstance(node.arg, nodes.Slice):
        node.node = _filter(node.node, "_looked_at")


def _guarded(node: Any) -> Any:
    if isinstance(node, nodes.Call) and isinstance(node.node, nodes.Getattr):
        called = node.node
        return _filter(called.node, "_method", nodes.Const(called.attr), *node.args, named=node.kwargs)
    if isinstance(node, nodes.Call) and isinstance(node.node, nodes.Name):
        return _filter(nodes.Const(node.node.name, lineno=node.lineno), "_function", *node.args, named=node.kwargs)
    if isinstance(node, nodes.Concat):
        return _filter(node.nodes[0], "_concat", *node.nodes[1:])
    return node


def _filter(value: Any, name: str, *args: nodes.Expr, named: list[nodes.Keyword] | None = None) -> nodes.Filter:
    return nodes.Filter(value, name, list(args), named or [], None, None, lineno=value.lineno)


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in cast(dict[str, Any], value).items()}
    return [_copied(item) for item in cast(list[Any], value)] if isinstance(value, list | tuple) else value
