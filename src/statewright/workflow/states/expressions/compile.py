"""Compilation of the syntax tree of an expression to closures.

Python's parser creates the tree; each node becomes a function of one evaluation. A kind of node without a method here
is not part of the language: it is reported, and the whole expression has no value. The table is an allowlist, so future
syntax of Python stays unsupported until it is added here.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, cast

from statewright.errors import ExpressionError
from statewright.workflow.states.expressions.evaluation import OPERAND_BITS, Evaluation, checked_operand
from statewright.workflow.states.expressions.functions import FUNCTIONS, TYPES
from statewright.workflow.states.expressions.literal import key_text
from statewright.workflow.states.expressions.methods import KNOWN_METHODS, call_method
from statewright.workflow.states.expressions.operators import (
    BINARY,
    COMPARE,
    Operator,
    UndefinedName,
    get_item,
    get_key,
    get_slice,
    negate,
    unary_plus,
)

Step = Callable[[Evaluation], Any]
WORDS: Final[dict[str, Any]] = {"true": True, "false": False, "null": None}
"""Words of JSON, which are values and not names."""
_FORMAT: Final = re.compile(r"[<>^]?\d{0,2},?(\.\d{1,2})?[dfs%]?")
"""The formats that an f-string may use: sizes of two digits at most."""
_QUOTE_LIMIT: Final = 40
"""Maximum characters of a name in a message."""
_UNARY: Final[dict[type[ast.unaryop], Callable[[Any], Any]]] = {
    ast.Not: lambda value: not value,
    ast.USub: negate,
    ast.UAdd: unary_plus,
}
_NOUNS: Final[dict[str, str]] = {
    "Lambda": "`lambda`",
    "ListComp": "a comprehension",
    "SetComp": "a comprehension",
    "DictComp": "a comprehension",
    "GeneratorExp": "a comprehension",
    "NamedExpr": "`:=`",
    "Starred": "a star before a value",
    "Set": "a set, or a name in braces (write names without braces)",
    "Await": "`await`",
    "Yield": "`yield`",
    "YieldFrom": "`yield`",
}
_SIGNS: Final[dict[str, str]] = {
    "Pow": "**",
    "BitAnd": "& (write `and`)",
    "BitOr": "| (write `or`)",
    "BitXor": "^",
    "LShift": "<<",
    "RShift": ">>",
    "MatMult": "@",
    "Invert": "~ (write `not`)",
}


@dataclass(frozen=True, slots=True)
class Program:
    """A compiled expression."""

    step: Step
    unsupported: tuple[str, ...]


def compile_tree(tree: ast.expr) -> Program:
    """Compile a tree, and describe everything in it that is not part of the language."""
    compiler = _Compiler()
    step = compiler.step(tree)
    unsupported = tuple(dict.fromkeys(compiler.unsupported))
    if unsupported:
        return Program(_refusal(unsupported), unsupported)
    return Program(_with_plain_keys(step) if compiler.makes_maps else step, ())


def _refusal(unsupported: tuple[str, ...]) -> Step:
    def refuse(evaluation: Evaluation) -> Any:
        raise ExpressionError(" ".join(unsupported).rstrip("."))

    return refuse


def _with_plain_keys(step: Step) -> Step:
    """Convert the keys of maps in the result to text; during the evaluation they may be numbers."""

    def compute(evaluation: Evaluation) -> Any:
        return _with_text_keys(step(evaluation))

    return compute


def _with_text_keys(value: Any) -> Any:
    if isinstance(value, list):
        return [_with_text_keys(item) for item in cast(list[Any], value)]
    if isinstance(value, dict):
        return {key_text(key): _with_text_keys(item) for key, item in cast(dict[Any, Any], value).items()}
    return value


class _Compiler:
    """Compiles each kind of node by the method `_<name of the kind>`."""

    def __init__(self) -> None:
        self.unsupported: list[str] = []
        self.makes_maps = False

    def step(self, node: ast.expr) -> Step:
        maker = getattr(self, f"_{type(node).__name__.lower()}", None)
        if maker is None:
            name = type(node).__name__
            return self._refuse(node, _NOUNS.get(name, f"`{name}`"))
        return maker(node)

    def _refuse(self, node: ast.expr, construct: str) -> Step:
        self.unsupported.append(f"{construct} at column {node.col_offset + 1} is not part of the expression language.")
        return _nothing

    def _steps(self, nodes: list[ast.expr]) -> tuple[Step, ...]:
        return tuple(self.step(node) for node in nodes)

    def _constant(self, node: ast.Constant) -> Step:
        value: Any = node.value
        if not (value is None or isinstance(value, bool | int | float | str)):
            return self._refuse(node, f"`{type(value).__name__}`")
        if isinstance(value, float) and value * 0 != 0:
            return self._refuse(node, "an infinite number")
        if isinstance(value, int) and value.bit_length() > OPERAND_BITS:
            return self._refuse(node, f"a number of more than {OPERAND_BITS} bits")
        return lambda evaluation: value

    def _name(self, node: ast.Name) -> Step:
        name = node.id
        if name in WORDS:
            value = WORDS[name]
            return lambda evaluation: value
        if name.startswith("__"):
            return self._refuse(node, f"the name {name[:_QUOTE_LIMIT]!r}")
        return _reader(name)

    def _boolop(self, node: ast.BoolOp) -> Step:
        return _boolean(self._steps(node.values), decides=isinstance(node.op, ast.Or))

    def _unaryop(self, node: ast.UnaryOp) -> Step:
        function = _UNARY.get(type(node.op))
        if function is None:
            return self._refuse(node, _SIGNS["Invert"])
        operand = self.step(node.operand)
        return lambda evaluation: function(operand(evaluation))

    def _binop(self, node: ast.BinOp) -> Step:
        sign = type(node.op).__name__
        function = BINARY.get(sign)
        left, right = self.step(node.left), self.step(node.right)
        if function is None:
            return self._refuse(node, _SIGNS.get(sign, sign))
        return lambda evaluation: function(evaluation, left(evaluation), right(evaluation))

    def _compare(self, node: ast.Compare) -> Step:
        first, *others = self._steps([node.left, *node.comparators])
        functions = [COMPARE[type(sign).__name__] for sign in node.ops]
        if len(others) == 1:
            function, second = functions[0], others[0]
            return lambda evaluation: function(evaluation, first(evaluation), second(evaluation))
        return _chain(first, tuple(zip(functions, others, strict=True)))

    def _ifexp(self, node: ast.IfExp) -> Step:
        test, then, otherwise = self._steps([node.test, node.body, node.orelse])
        return lambda evaluation: then(evaluation) if test(evaluation) else otherwise(evaluation)

    def _list(self, node: ast.List | ast.Tuple) -> Step:
        steps = self._steps(node.elts)
        return lambda evaluation: [step(evaluation) for step in steps]

    _tuple = _list
    """A tuple is a list, as in JSON."""

    def _dict(self, node: ast.Dict) -> Step:
        keys = [key for key in node.keys if key is not None]
        if len(keys) < len(node.keys):
            return self._refuse(node, "`**`")
        self.makes_maps = True
        pairs = tuple(zip(self._steps(keys), self._steps(node.values), strict=True))
        return lambda evaluation: {key(evaluation): value(evaluation) for key, value in pairs}

    def _subscript(self, node: ast.Subscript) -> Step:
        value = self.step(node.value)
        if isinstance(node.slice, ast.Slice):
            return self._slice(value, node.slice)
        key = self.step(node.slice)
        return lambda evaluation: get_item(value(evaluation), key(evaluation))

    def _slice(self, value: Step, part: ast.Slice) -> Step:
        if part.step is not None:
            return self._refuse(part.step, "the step of a slice")
        start = self.step(part.lower) if part.lower else _nothing
        stop = self.step(part.upper) if part.upper else _nothing
        return lambda evaluation: get_slice(evaluation, value(evaluation), start(evaluation), stop(evaluation))

    def _attribute(self, node: ast.Attribute) -> Step:
        name = node.attr
        value = self.step(node.value)
        if name.startswith("__"):
            return self._refuse(node, f"the name {name[:_QUOTE_LIMIT]!r}")
        return lambda evaluation: get_key(value(evaluation), name)

    def _call(self, node: ast.Call) -> Step:
        if node.keywords:
            return self._refuse(node, "an argument with a name")
        if isinstance(node.func, ast.Attribute):
            return self._method(node, node.func)
        if not isinstance(node.func, ast.Name):
            self.step(node.func)
            return self._refuse(node, "a call of a value")
        if node.func.id == "isinstance":
            return self._isinstance(node)
        args = self._steps(node.args)
        function = FUNCTIONS.get(node.func.id)
        if function is None:
            return self._refuse(node, f"{node.func.id[:_QUOTE_LIMIT]}()")
        return lambda evaluation: function(evaluation, *[arg(evaluation) for arg in args])

    def _method(self, node: ast.Call, called: ast.Attribute) -> Step:
        name = called.attr
        value, args = self.step(called.value), self._steps(node.args)
        if name not in KNOWN_METHODS:
            return self._refuse(node, f".{name[:_QUOTE_LIMIT]}()")
        return lambda evaluation: call_method(evaluation, value(evaluation), name, [arg(evaluation) for arg in args])

    def _isinstance(self, node: ast.Call) -> Step:
        kinds = node.args[1] if len(node.args) == 2 else None
        listed = kinds.elts if isinstance(kinds, ast.Tuple | ast.List) else [kinds]
        types = tuple(TYPES[kind.id] for kind in listed if isinstance(kind, ast.Name) and kind.id in TYPES)
        if len(types) < len(listed) or not types:
            return self._refuse(node, f"isinstance() with other types than {', '.join(TYPES)}")
        value = self.step(node.args[0])
        return lambda evaluation: isinstance(value(evaluation), types)

    def _joinedstr(self, node: ast.JoinedStr) -> Step:
        steps = self._steps(node.values)

        def join(evaluation: Evaluation) -> str:
            parts = [step(evaluation) for step in steps]
            evaluation.reserve(sum(map(len, parts)))
            return "".join(parts)

        return join

    def _formattedvalue(self, node: ast.FormattedValue) -> Step:
        spec = _format_of(node)
        if spec is None:
            return self._refuse(node.value, "such a format of a value in an f-string")
        value = self.step(node.value)
        as_text = FUNCTIONS["str"]
        if not spec:
            return lambda evaluation: as_text(evaluation, value(evaluation))
        return lambda evaluation: _formatted(evaluation, value(evaluation), spec)


def _format_of(node: ast.FormattedValue) -> str | None:
    """Return the format of an f-string value, empty for none; None if it is not part of the language."""
    if node.conversion != -1:
        return None
    if node.format_spec is None:
        return ""
    parts = node.format_spec.values if isinstance(node.format_spec, ast.JoinedStr) else [node.format_spec]
    text = "".join(str(part.value) if isinstance(part, ast.Constant) else "{" for part in parts)
    return text if _FORMAT.fullmatch(text) else None


def _formatted(evaluation: Evaluation, value: Any, spec: str) -> str:
    if not isinstance(value, str | int | float):
        raise ExpressionError("only texts and numbers can be formatted")
    evaluation.spend_deep(value)
    return format(checked_operand(value), spec)


def _nothing(evaluation: Evaluation) -> Any:
    return None


def _reader(name: str) -> Step:
    def read(evaluation: Evaluation) -> Any:
        try:
            return evaluation.scope[name]
        except KeyError:
            raise UndefinedName(name) from None

    return read


def _boolean(steps: tuple[Step, ...], *, decides: bool) -> Step:
    """Compile `and`, which a false value decides, or `or`, which a true value decides."""

    def compute(evaluation: Evaluation) -> Any:
        value = None
        for step in steps:
            value = step(evaluation)
            if bool(value) is decides:
                break
        return value

    return compute


def _chain(first: Step, others: tuple[tuple[Operator, Step], ...]) -> Step:
    """Compile `1 < value < 100`: each value is evaluated once, and none after the first failed comparison."""

    def compare(evaluation: Evaluation) -> Any:
        left = first(evaluation)
        answer = None
        for function, step in others:
            right = step(evaluation)
            answer = function(evaluation, left, right)
            if not answer:
                break
            left = right
        return answer

    return compare
