"""Parsed expressions, and their evaluation as conditions on the result of a state."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, Self, cast

from statewright.errors import ExpressionError
from statewright.text import shorten
from statewright.workflow.states.expressions.compile import Step, compile_tree
from statewright.workflow.states.expressions.evaluation import Evaluation
from statewright.workflow.states.expressions.literal import InvalidLiteral, read_literal
from statewright.workflow.states.expressions.operators import UndefinedName

LENGTH_LIMIT: Final = 4096
"""Maximum characters of an expression."""
NODE_LIMIT: Final = 200
"""Maximum names, values, operations and calls of an expression."""
DEPTH_LIMIT: Final = 20
"""Maximum nesting of operations."""
_NAMES_LIMIT: Final = 20
"""Maximum names in a message."""


@dataclass(frozen=True, slots=True)
class ParsedText:
    """Base class of expressions and templates: immutable, compared by their text, and never copied."""

    text: str
    """The text as the author wrote it."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.text!r})"

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self


@dataclass(frozen=True, slots=True, repr=False)
class Expression(ParsedText):
    """A parsed expression over plain JSON values; see `parse_expression`."""

    _step: Step = field(compare=False)
    unsupported: tuple[str, ...] = field(compare=False)
    """A sentence for each unsupported construct. An expression that contains such a construct has no value."""

    def __reduce__(self) -> tuple[Any, ...]:
        return parse_expression, (self.text,)  # closures cannot be pickled

    def evaluate(self, scope: Mapping[str, Any]) -> Any:
        """Return the value of the expression: a JSON value, which may be a part of the scope itself.

        Raises ExpressionError for every failure.
        """
        try:
            return self.compute(scope)
        except UndefinedName as error:
            raise ExpressionError(f"{_quote(self.text)}: {error}. {_list_names(scope)}") from None
        except ExpressionError as error:
            raise ExpressionError(f"{_quote(self.text)}: {error}.") from None
        except Exception as error:
            reason = str(error)[:200] or type(error).__name__
            raise ExpressionError(f"{_quote(self.text)} cannot be evaluated: {reason}.") from error

    def compute(self, scope: Mapping[str, Any]) -> Any:
        """Evaluate like `evaluate`, but do not convert errors. For callers that treat all exceptions alike."""
        return self._step(Evaluation(scope))


def parse_expression(text: str) -> Expression:
    """Parse an expression.

    Raises ExpressionError if it is not valid Python, or is too long, too large or nested too deeply. Valid Python that
    is not part of the language is listed in `Expression.unsupported`.
    """
    source = text.strip()
    if not source:
        raise ExpressionError("The expression is empty. Write a condition, e.g. status == 'success'.")
    if len(text) > LENGTH_LIMIT:
        raise ExpressionError(
            f"The expression {_quote(text)} has {len(text)} characters; at most {LENGTH_LIMIT} are allowed."
            f" Compute the value in the state, and test its result."
        )
    tree = _parse(text, " ".join(source.splitlines()))  # in YAML, an expression may span several lines
    _check_size(text, tree)
    return Expression(text, *compile_tree(tree))


def _parse(text: str, source: str) -> ast.expr:
    try:
        return _parse_python(source)
    except SyntaxError as error:
        # The column is that in `text`, which may begin with spaces.
        column = (error.offset or len(source) + 1) + text.index(source[0])
        advice = _suggest_correction(source, error.msg)
        raise ExpressionError(
            f"{_quote(text)} is not a valid expression: {error.msg} at column {column}. {advice}"
        ) from None
    except (ValueError, MemoryError, RecursionError) as error:
        raise ExpressionError(
            f"{_quote(text)} is not a valid expression: {error or 'it is nested too deeply'}."
        ) from None


def _parse_python(source: str) -> ast.expr:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python warns about `x is 1`, which has a meaning here
        return ast.parse(source, mode="eval").body


_STRING_OR_OPERATOR: Final = re.compile(r"""'[^']*'|"[^"]*"|===?|!==?|<>|[<>]=|=|&&|\|\||!""")
_PYTHON_OPERATORS: Final = {"=": "==", "===": "==", "!==": "!=", "<>": "!=", "&&": "and", "||": "or", "!": "not "}


def _suggest_correction(source: str, message: str) -> str:
    """Return advice about a syntax error."""
    if "{{" in source or "{%" in source:
        return "Write names in expressions without braces: status == 'success'."
    # Replace operators of other languages with those of Python: `score = 5` becomes `score == 5`.
    corrected = _STRING_OR_OPERATOR.sub(lambda match: _PYTHON_OPERATORS.get(match[0], match[0]), source)
    hint = ""
    with suppress(SyntaxError, ValueError, MemoryError, RecursionError):
        _parse_python(corrected)
        hint = f" Did you mean {_quote(corrected)}?"
    if "&&" in source or "||" in source:
        return f"Write `and` and `or` for && and ||.{hint}"
    if "unterminated string" in message:
        return "Close the quote."
    return hint.lstrip() or "Expressions look like those of Python: count > 10 and status == 'active'."


def _check_size(text: str, tree: ast.expr) -> None:
    count = 0
    stack: list[tuple[ast.AST, int]] = [(tree, 1)]
    while stack:
        node, depth = stack.pop()
        if isinstance(node, ast.expr):
            count += 1
            if count > NODE_LIMIT or depth > DEPTH_LIMIT:
                limit = f"{NODE_LIMIT} parts" if count > NODE_LIMIT else f"{DEPTH_LIMIT} nested operations"
                raise ExpressionError(
                    f"The expression {_quote(text)} is too large: at most {limit} are allowed. Split it."
                )
        stack.extend((child, depth + 1) for child in ast.iter_child_nodes(node))


def _quote(text: str) -> str:
    return repr(shorten(text.strip(), 80))


def _list_names(scope: Mapping[str, Any]) -> str:
    names = sorted(str(key) for key in scope)
    listed = ", ".join(names[:_NAMES_LIMIT]) + (" and more" if len(names) > _NAMES_LIMIT else "")
    return f"Names: {listed or 'none'}."


# -- conditions
#
# A condition tests the result of one state. Strings in the result are converted first, because models write "true" and
# "15" where they mean true and 15.

CONVERSION_LIMIT: Final = 10_000
"""Maximum characters of a string that is converted; longer strings stay strings."""
_VALUE_STARTS: Final = frozenset("0123456789+-.\"'([{NTFrRuU \t\r\n")
"""Characters with which the text of a value may begin."""
_BOOLEANS: Final = {"true": True, "false": False}


def holds(expression: Expression, result: Any) -> bool:
    """Return whether a condition holds for the parsed result of a state. If its evaluation fails, it does not hold."""
    try:
        return bool(expression.compute(make_condition_scope(result)))
    except Exception:
        return False


class _ConditionScope(dict[str, Any]):
    """The names that a condition may read. Values are converted on access, because conditions read few of them."""

    __slots__ = ("_result",)

    def __init__(self, result: dict[str, Any]) -> None:
        self._result = result
        self["keys"] = list(result)

    def __missing__(self, name: str) -> Any:
        value = self._result[name]
        self[name] = value = _convert(value) if isinstance(value, str) else value
        return value


def make_condition_scope(result: Any) -> Mapping[str, Any]:
    """Return the names that a condition may read: the keys of a result that is a map, and `keys`, a list of them."""
    return _ConditionScope(cast(dict[str, Any], result)) if isinstance(result, dict) else {"keys": []}


def _convert(text: str) -> Any:
    """Return the value that a string spells, or the string: 'True' is true, '15' a number, '[1, 2]' a list."""
    if len(text) > CONVERSION_LIMIT or not text:
        return text
    boolean = _BOOLEANS.get(text.lower())
    if boolean is not None:
        return boolean
    if text[0] not in _VALUE_STARTS:
        return text
    try:
        return read_literal(text)
    except InvalidLiteral:
        return text
