"""Static measures of one Python file."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from dataclasses import dataclass
from pathlib import Path

_BRANCHES = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.ExceptHandler, ast.IfExp, ast.comprehension, ast.match_case)
_BLOCKS = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.Try, ast.With, ast.AsyncWith, ast.Match)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_TODO = re.compile(r"#.*\b(TODO|FIXME|XXX)\b")


@dataclass(frozen=True)
class FunctionMeasure:
    """One function: its location, and its measures."""

    name: str
    line: int
    length: int
    """Lines, from `def` to the last."""
    nesting: int
    """Maximum nesting depth of its blocks."""
    complexity: int
    """Cyclomatic complexity: one plus the number of branches."""


@dataclass(frozen=True)
class FileMeasure:
    """One file. `problem` says why it could not be measured."""

    path: str
    lines: int = 0
    functions: tuple[FunctionMeasure, ...] = ()
    todos: int = 0
    problem: str | None = None


def measure_file(root: Path, path: Path) -> FileMeasure:
    """Measure a file. A file that cannot be read or parsed is a finding, not an error."""
    name = path.name if path == root else str(path.relative_to(root))
    try:
        source = path.read_bytes()
        text = _decoded(source)
        tree = ast.parse(source, filename=name)
    except (OSError, SyntaxError, ValueError, RecursionError) as error:
        return FileMeasure(name, problem=f"{type(error).__name__}: {error}")
    functions = tuple(_measure(node) for node in ast.walk(tree) if isinstance(node, _FUNCTIONS))
    return FileMeasure(name, text.count("\n") + 1, functions, _todos(text))


def _decoded(source: bytes) -> str:
    """Read the text, in the encoding that the file declares."""
    encoding, _ = tokenize.detect_encoding(io.BytesIO(source).readline)
    return source.decode(encoding)


def _measure(node: ast.FunctionDef | ast.AsyncFunctionDef) -> FunctionMeasure:
    length = (node.end_lineno or node.lineno) - node.lineno + 1
    return FunctionMeasure(node.name, node.lineno, length, _nesting(node), 1 + _branches(node))


def _nesting(node: ast.AST) -> int:
    inner = [_nesting(child) for child in ast.iter_child_nodes(node) if not isinstance(child, _FUNCTIONS)]
    return max(inner, default=0) + isinstance(node, _BLOCKS)


def _branches(node: ast.AST) -> int:
    own = isinstance(node, _BRANCHES) + (len(node.values) - 1 if isinstance(node, ast.BoolOp) else 0)
    return own + sum(_branches(child) for child in ast.iter_child_nodes(node) if not isinstance(child, _FUNCTIONS))


def _todos(text: str) -> int:
    return sum(1 for line in text.splitlines() if _TODO.search(line))
