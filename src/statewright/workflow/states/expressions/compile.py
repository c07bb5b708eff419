"""Compilation of the syntax tree of an expression to closures.

Python's parser creates the tree. Each node becomes a function of one evaluation, so the tree is inspected once, however
often the expression is evaluated. A kind of node without a `visit_` method is not part of the language: it is reported,
and the whole expression has no value, even if evaluation would never reach the node. Since this is an allowlist, new
syntax of Python is not supported until it is added here.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from typing import Any, Final, cast

from statewright.errors import ExpressionError
from statewright.workflow.states.expressions.evaluation import OPERAND_BITS, Evaluation, check_operand
from statewright.workflow.states.expressions.functions import FUNCTIONS, METHOD_NAMES, TYPES, call_method
from statewright.workflow.states.expressions.literal import key_to_string
from statewright.workflow.states.expressions.operators import (
    BINARY,
    COMPARE,
    UndefinedName,
    get_item,
    get_key,
    get_slice,
    negate,
    unary_plus,
)

Step = Callable[[Evaluation], Any]
"""A compiled node, which returns its value."""
JSON_CONSTANTS: Final[dict[str, Any]] = {"true": True, "false": False, "null": None}
"""The constants of JSON, which Python reads as names."""
_FORMAT: Final = re.compile(r"[<>^]?\d{0,2},?(\.\d{1,2})?[dfs%]?")
"""The formats that an f-string may use: sizes of two digits at most."""
_QUOTE_LIMIT: Final = 40
"""Maximum characters of a name in a message."""
_UNARY: Final[dict[type[ast.unaryop], Callable[[Any], Any]]] = {
    ast.Not: lambda value: not value,
    ast.USub: negate,
    ast.UAdd: unary_plus,
}
_CONSTRUCTS: Final[dict[str, str]] = {
    "Lambda": "`lambda`",
    **dict.fromkeys(("ListComp", "SetComp", "DictComp", "GeneratorExp"), "a comprehension"),
    "NamedExpr": "`:=`",
    "Starred": "a star before a value",
    "Set": "a set, or a name in braces (write names without braces)",
    "Await": "`await`",
    "Yield": "`yield`",
    "YieldFrom": "`yield`",
}
"""Unsupported constructs as messages describe them, by their names in Python's `ast`."""
_OPERATORS: Final[dict[str, str]] = {
    "Pow": "**",
    "BitAnd": "& (write `and`)",
    "BitOr": "| (write `or`)",
    "BitXor": "^",
    "LShift": "<<",
    "RShift": ">>",
    "MatMult": "@",
    "Invert": "~ (write `not`)",
}
"""Unsupported operators as messages describe them, by their names in Python's `ast`."""


def compile_tree(tree: ast.expr) -> tuple[Step, tuple[str, ...]]:
    """Compile a tree. Also return a sentence for each construct that is not part of the language."""
    compiler = _Compiler()
    step: Step = compiler.visit(tree)
    unsupported = tuple(dict.fromkeys(compiler.unsupported))
    if unsupported:

        def refuse(evaluation: Evaluation) -> Any:
            raise ExpressionError(" ".join(unsupported).rstrip("."))

        return refuse, unsupported
    if compiler.has_map:
        # Keys may be numbers during the evaluation, but the result is a JSON value.
        return lambda evaluation: _with_string_keys(step(evaluation)), ()
    return step, ()


def _with_string_keys(value: Any) -> Any:
    """Return a copy of a value in which the keys of all maps are strings."""
    if isinstance(value, list):
        return [_with_string_keys(item) for item in cast(list[Any], value)]
    if isinstance(value, dict):
        return {key_to_string(key): _with_string_keys(item) for key, item in cast(dict[Any, Any], value).items()}
    return value


class _Compiler(ast.NodeVisitor):
    """Compiles a node to a `Step`."""

    def __init__(self) -> None:
        self.unsupported: list[str] = []
        self.has_map = False
        """True if the expression creates a map."""

    def generic_visit(self, node: ast.AST) -> Step:
        name = type(node).__name__
        return self._reject(cast(ast.expr, node), _CONSTRUCTS.get(name, f"`{name}`"))

    def _reject(self, node: ast.expr, construct: str) -> Step:
        self.unsupported.append(f"{construct} at column {node.col_offset + 1} is not part of the expression language.")
        return _evaluate_to_none

    def _visit_all(self, nodes: list[ast.expr]) -> tuple[Step, ...]:
        return tuple(self.visit(node) for node in nodes)

    def visit_Constant(self, node: ast.Constant) -> Step:
        value: Any = node.value
        if not (value is None or isinstance(value, bool | int | float | str)):
            return self._reject(node, f"`{type(value).__name__}`")
        if isinstance(value, float) and value * 0 != 0:
            return self._reject(node, "an infinite number")
        if isinstance(value, int) and value.bit_length() > OPERAND_BITS:
            return self._reject(node, f"a number with more than {OPERAND_BITS} bits")
        return lambda evaluation: value

    def visit_Name(self, node: ast.Name) -> Step:
        name = node.id
        if name in JSON_CONSTANTS:
            value = JSON_CONSTANTS[name]
            return lambda evaluation: value
        if name.startswith("__"):
            return self._reject(node, f"the name {name[:_QUOTE_LIMIT]!r}")

        def read(evaluation: Evaluation) -> Any:
            try:
                return evaluation.scope[name]
            except KeyError:
                raise UndefinedName(name) from None

        return read

    def visit_BoolOp(self, node: ast.BoolOp) -> Step:
        steps = self._visit_all(node.values)
        decisive_value = isinstance(node.op, ast.Or)  # a true operand decides `or`, and a false operand decides `and`

        def compute(evaluation: Evaluation) -> Any:
            value = None
            for step in steps:
                value = step(evaluation)
                if bool(value) is decisive_value:
                    break
            return value

        return compute

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Step:
        function = _UNARY.get(type(node.op))
        if function is None:
            return self._reject(node, _OPERATORS["Invert"])
        operand = self.visit(node.operand)
        return lambda evaluation: function(operand(evaluation))

    def visit_BinOp(self, node: ast.BinOp) -> Step:
        name = type(node.op).__name__
        function = BINARY.get(name)
        left, right = self.visit(node.left), self.visit(node.right)
        if function is None:
            return self._reject(node, _OPERATORS.get(name, name))
        return lambda evaluation: function(evaluation, left(evaluation), right(evaluation))

    def visit_Compare(self, node: ast.Compare) -> Step:
        first, *others = self._visit_all([node.left, *node.comparators])
        functions = [COMPARE[type(operator).__name__] for operator in node.ops]
        if len(others) == 1:
            function, second = functions[0], others[0]
            return lambda evaluation: function(evaluation, first(evaluation), second(evaluation))
        comparisons = tuple(zip(functions, others, strict=True))

        def compare(evaluation: Evaluation) -> Any:
            # As in Python, `1 < value < 100` evaluates each operand once, and none after the first failed comparison.
            left = first(evaluation)
            result = None
            for function, step in comparisons:
                right = step(evaluation)
                result = function(evaluation, left, right)
                if not result:
                    break
                left = right
            return result

        return compare

    def visit_IfExp(self, node: ast.IfExp) -> Step:
        test, then, otherwise = self._visit_all([node.test, node.body, node.orelse])
        return lambda evaluation: then(evaluation) if test(evaluation) else otherwise(evaluation)

    def visit_List(self, node: ast.List | ast.Tuple) -> Step:
        steps = self._visit_all(node.elts)
        return lambda evaluation: [step(evaluation) for step in steps]

    visit_Tuple = visit_List
    """The value of a tuple is a list, because JSON has no tuples."""

    def visit_Dict(self, node: ast.Dict) -> Step:
        keys = [key for key in node.keys if key is not None]
        if len(keys) < len(node.keys):
            return self._reject(node, "`**`")
        self.has_map = True
        pairs = tuple(zip(self._visit_all(keys), self._visit_all(node.values), strict=True))
        return lambda evaluation: {key(evaluation): value(evaluation) for key, value in pairs}

    def visit_Subscript(self, node: ast.Subscript) -> Step:
        value = self.visit(node.value)
        if isinstance(node.slice, ast.Slice):
            return self._compile_slice(value, node.slice)
        key = self.visit(node.slice)
        return lambda evaluation: get_item(value(evaluation), key(evaluation))

    def _compile_slice(self, value: Step, node: ast.Slice) -> Step:
        if node.step is not None:
            return self._reject(node.step, "the step of a slice")
        start = self.visit(node.lower) if node.lower else _evaluate_to_none
        stop = self.visit(node.upper) if node.upper else _evaluate_to_none
        return lambda evaluation: get_slice(evaluation, value(evaluation), start(evaluation), stop(evaluation))

    def visit_Attribute(self, node: ast.Attribute) -> Step:
        name = node.attr
        value = self.visit(node.value)
        if name.startswith("__"):
            return self._reject(node, f"the name {name[:_QUOTE_LIMIT]!r}")
        return lambda evaluation: get_key(value(evaluation), name)

    def visit_Call(self, node: ast.Call) -> Step:
        if node.keywords:
            return self._reject(node, "a keyword argument")
        if isinstance(node.func, ast.Attribute):
            return self._compile_method(node, node.func)
        if not isinstance(node.func, ast.Name):
            self.visit(node.func)
            return self._reject(node, "a call of anything but a function or method")
        if node.func.id == "isinstance":
            return self._compile_isinstance(node)
        args = self._visit_all(node.args)
        function = FUNCTIONS.get(node.func.id)
        if function is None:
            return self._reject(node, f"{node.func.id[:_QUOTE_LIMIT]}()")
        return lambda evaluation: function(evaluation, *[arg(evaluation) for arg in args])

    def _compile_method(self, node: ast.Call, method: ast.Attribute) -> Step:
        name = method.attr
        value, args = self.visit(method.value), self._visit_all(node.args)
        if name not in METHOD_NAMES:
            return self._reject(node, f".{name[:_QUOTE_LIMIT]}()")
        return lambda evaluation: call_method(evaluation, value(evaluation), name, [arg(evaluation) for arg in args])

    def _compile_isinstance(self, node: ast.Call) -> Step:
        type_arg = node.args[1] if len(node.args) == 2 else None
        type_nodes = type_arg.elts if isinstance(type_arg, ast.Tuple | ast.List) else [type_arg]
        types = tuple(TYPES[item.id] for item in type_nodes if isinstance(item, ast.Name) and item.id in TYPES)
        if len(types) < len(type_nodes) or not types:
            return self._reject(node, f"isinstance() with types other than {', '.join(TYPES)}")
        value = self.visit(node.args[0])
        return lambda evaluation: isinstance(value(evaluation), types)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> Step:
        steps = self._visit_all(node.values)

        def join(evaluation: Evaluation) -> str:
            parts = [step(evaluation) for step in steps]
            evaluation.reserve(sum(map(len, parts)))
            return "".join(parts)

        return join

    def visit_FormattedValue(self, node: ast.FormattedValue) -> Step:
        spec = _read_format(node)
        if spec is None:
            return self._reject(node.value, "this format in an f-string")
        value, to_string = self.visit(node.value), FUNCTIONS["str"]
        if not spec:
            return lambda evaluation: to_string(evaluation, value(evaluation))

        def format_value(evaluation: Evaluation) -> str:
            operand = value(evaluation)
            if not isinstance(operand, str | int | float):
                raise ExpressionError("only strings and numbers can be formatted")
            evaluation.spend_deep(operand)
            return format(check_operand(operand), spec)

        return format_value


def _read_format(node: ast.FormattedValue) -> str | None:
    """Return the format of a value in an f-string, which may be empty; None if it is not part of the language."""
    if node.conversion != -1:
        return None
    if node.format_spec is None:
        return ""
    parts = node.format_spec.values if isinstance(node.format_spec, ast.JoinedStr) else [node.format_spec]
    text = "".join(str(part.value) if isinstance(part, ast.Constant) else "{" for part in parts)
    return text if _FORMAT.fullmatch(text) else None


def _evaluate_to_none(evaluation: Evaluation) -> Any:
    return None
