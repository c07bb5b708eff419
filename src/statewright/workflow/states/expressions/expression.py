"""Expressions, as the model of a workflow stores them, and conditions over the result of a state."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Mapping
from typing import Any, Final, cast

from statewright.errors import ExpressionError
from statewright.workflow.states.expressions.compile import Program, compile_tree
from statewright.workflow.states.expressions.evaluation import Evaluation
from statewright.workflow.states.expressions.literal import InvalidLiteral, read_literal
from statewright.workflow.states.expressions.operators import UndefinedName
from statewright.workflow.states.expressions.parsed_text import ParsedText

LENGTH_LIMIT: Final = 4096
"""Maximum characters of an expression."""
NODE_LIMIT: Final = 200
"""Maximum names, values, operations and calls of an expression."""
DEPTH_LIMIT: Final = 20
"""Maximum nesting of operations."""
_QUOTE_LIMIT: Final = 80
"""Maximum characters of a text in a message."""
_NAMES_LIMIT: Final = 20


class Expression(ParsedText):
    """A parsed expression over plain JSON values."""

    __slots__ = ("_program",)
    _program: Program

    def __init__(self, text: str) -> None:
        object.__setattr__(self, "text", text)
        object.__setattr__(self, "_program", compile_tree(_read(text)))

    @property
    def unsupported(self) -> tuple[str, ...]:
        """A sentence for each unsupported construct. An expression with one of them never has a value."""
        return self._program.unsupported

    def evaluate(self, scope: Mapping[str, Any]) -> Any:
        """Return the value of the expression: a JSON value, possibly a part of the scope itself.

        Raises ExpressionError, and nothing else, for every failure.
        """
        try:
            return self.compute(scope)
        except UndefinedName as missing:
            raise ExpressionError(f"{_quoted(self.text)}: {_undefined(missing.name, scope)}") from None
        except ExpressionError as error:
            raise ExpressionError(f"{_quoted(self.text)}: {error}.") from None
        except Exception as error:
            raise ExpressionError(f"{_quoted(self.text)} cannot be evaluated: {_reason(error)}") from error

    def compute(self, scope: Mapping[str, Any]) -> Any:
        """Evaluate without converting errors, for callers that treat all of them alike: may raise any Exception."""
        return self._program.step(Evaluation(scope))


def parse_expression(text: str) -> Expression:
    """Parse an expression.

    Raises ExpressionError if it does not parse, or is too long, too large or too deep. Valid Python that is not part of
    the language is listed in `Expression.unsupported`.
    """
    return Expression(text)


def _read(text: str) -> ast.expr:
    source = text.strip()
    if not source:
        raise ExpressionError("The expression is empty. Write a condition, e.g. status == 'success'.")
    if len(text) > LENGTH_LIMIT:
        raise ExpressionError(
            f"The expression {_quoted(text)} has {len(text)} characters; at most {LENGTH_LIMIT} are allowed."
            f" Compute the value in the state, and test its result."
        )
    tree = _parse(text, " ".join(source.splitlines()))
    _measure(text, tree)
    return tree


def _parse(text: str, source: str) -> ast.expr:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(source, mode="eval").body
    except SyntaxError as error:
        column = (error.offset or len(source) + 1) + text.index(source[0])
        raise ExpressionError(
            f"{_quoted(text)} is not a valid expression: {error.msg} at column {column}. {_advice(source, error.msg)}"
        ) from None
    except (ValueError, MemoryError, RecursionError) as error:
        raise ExpressionError(
            f"{_quoted(text)} is not a valid expression: {error or 'it is nested too deeply'}."
        ) from None


def _advice(source: str, complaint: str) -> str:
    if "{{" in source or "{%" in source:
        return "Write names in expressions without braces: status == 'success'."
    guess = _as_python(source)
    hint = f" Did you mean {_quoted(guess)}?" if _parses(guess) else ""
    if "&&" in source or "||" in source:
        return f"Write `and` and `or` for && and ||.{hint}"
    if "unterminated string" in complaint:
        return "Close the quote."
    return hint.lstrip() or "Expressions look like those of Python: count > 10 and status == 'active'."


_STRING_OR_SIGN: Final = re.compile(r"""'[^']*'|"[^"]*"|===?|!==?|<>|[<>]=|=|&&|\|\||!""")
_SIGNS: Final = {"=": "==", "===": "==", "!==": "!=", "<>": "!=", "&&": "and", "||": "or", "!": "not "}


def _as_python(source: str) -> str:
    """Return the text with operators of other languages replaced by Python's: `score = 5` by `score == 5`."""
    return _STRING_OR_SIGN.sub(lambda match: _SIGNS.get(match[0], match[0]), source)


def _parses(source: str) -> bool:
    try:
        ast.parse(source, mode="eval")
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return False
    return True


def _measure(text: str, tree: ast.expr) -> None:
    count = 0
    waiting: list[tuple[ast.AST, int]] = [(tree, 1)]
    while waiting:
        node, depth = waiting.pop()
        count += isinstance(node, ast.expr)
        if count > NODE_LIMIT or depth > DEPTH_LIMIT:
            limit = f"{NODE_LIMIT} parts" if count > NODE_LIMIT else f"{DEPTH_LIMIT} operations inside each other"
            raise ExpressionError(
                f"The expression {_quoted(text)} is too large: at most {limit} are allowed. Split it."
            )
        waiting.extend((child, depth + 1) for child in ast.iter_child_nodes(node) if not _is_sign(child))


def _is_sign(node: ast.AST) -> bool:
    return isinstance(node, ast.expr_context | ast.operator | ast.cmpop | ast.boolop | ast.unaryop)


def _quoted(text: str) -> str:
    source = text.strip()
    return repr(source if len(source) <= _QUOTE_LIMIT else source[: _QUOTE_LIMIT - 3] + "...")


def _undefined(name: str, scope: Mapping[str, Any]) -> str:
    names = sorted(str(key) for key in scope)
    listed = ", ".join(names[:_NAMES_LIMIT]) + (" and more" if len(names) > _NAMES_LIMIT else "")
    return f"there is no {name!r}. Names: {listed or 'none'}."


def _reason(error: Exception) -> str:
    message = str(error)
    return f"{message[:200]}." if message else f"{type(error).__name__}."


# -- conditions
#
# A condition tests the result of one state. Texts of the result are converted first, as models write 'true' and "15"
# where they mean true and 15.

CONVERTED: Final = 10_000
"""Maximum characters of a text that is converted; longer ones stay text."""
_BEGINS_VALUE: Final = frozenset("0123456789+-.\"'([{NTFrRuU \t\r\n")
_BOOLEANS: Final = {"true": True, "false": False}


def holds(expression: Expression, result: Any) -> bool:
    """Return whether a condition holds for the parsed result of a state. A failed evaluation counts as false."""
    try:
        return bool(expression.compute(condition_scope(result)))
    except Exception:
        return False


class _Scope(dict[str, Any]):
    """The names that a condition may read, converted on access: results are large, and conditions short."""

    __slots__ = ("_result",)

    def __init__(self, result: dict[str, Any]) -> None:
        self._result = result
        self["keys"] = list(result)

    def __missing__(self, name: str) -> Any:
        value = self._result[name]
        self[name] = value = convert_text(value) if isinstance(value, str) else value
        return value


def condition_scope(result: Any) -> Mapping[str, Any]:
    """Return the names that a condition may read: the keys of a map, and `keys`, their list."""
    return _Scope(cast(dict[str, Any], result)) if isinstance(result, dict) else {"keys": []}


def convert_text(text: str) -> Any:
    """Return the value that a text spells, or the text itself: 'True' is true, '15' a number, '[1, 2]' a list."""
    if len(text) > CONVERTED or not text:
        return text
    word = _BOOLEANS.get(text.lower())
    if word is not None:
        return word
    if text[0] not in _BEGINS_VALUE:
        return text
    try:
        return read_literal(text)
    except InvalidLiteral:
        return text
