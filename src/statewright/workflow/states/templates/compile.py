"""Compiles the expressions of templates to closures.

Jinja is used for parsing only, because authors know its grammar. Each node is compiled to a function of a rendering,
which charges the work budget for every step in advance. So the limits apply to all operations, and no expression can
reach an attribute of a Python object. Jinja's own sandbox guards attributes, but limits neither work nor memory.

Unsupported nodes are reported with their lines, and the compiled expression is never evaluated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import isfinite
from typing import Any, Final, cast

from jinja2 import nodes

from statewright.errors import ExpressionError, suggestion
from statewright.workflow.states.expressions.evaluation import OPERAND_BITS
from statewright.workflow.states.expressions.functions import FUNCTIONS
from statewright.workflow.states.expressions.methods import KNOWN_METHODS, METHODS
from statewright.workflow.states.expressions.operators import BINARY, describe_kind, get_slice, negate, unary_plus
from statewright.workflow.states.templates.conditions import TESTS, compare
from statewright.workflow.states.templates.filters import FILTER_NAMES, apply_filter
from statewright.workflow.states.templates.mutations import CHANGE_NAMES, CHANGES
from statewright.workflow.states.templates.rendering import PROBLEMS_LIMIT, Rendering, Step, TemplateProblem
from statewright.workflow.states.templates.values import (
    NOTHING,
    Loop,
    Missing,
    Namespace,
    UnresolvedName,
    get_attribute,
    get_subscript,
)

DEPTH_LIMIT: Final = 50
"""Maximum nesting of operations."""
RANGE_LIMIT: Final = 100_000
"""Maximum length and value of `range()`."""
_BINARY: Final = {"Add": "Add", "Sub": "Sub", "Mul": "Mult", "Div": "Div", "FloorDiv": "FloorDiv", "Mod": "Mod"}
_COMPARE: Final = {
    "eq": "Eq",
    "ne": "NotEq",
    "lt": "Lt",
    "lteq": "LtE",
    "gt": "Gt",
    "gteq": "GtE",
    "in": "In",
    "notin": "NotIn",
}
_LOOP_METHODS: Final = ("cycle", "changed")


def _range(rendering: Rendering, *bounds: int) -> list[int]:
    if any(abs(bound) > RANGE_LIMIT for bound in bounds):
        raise ExpressionError(f"range() goes up to {RANGE_LIMIT}")
    numbers = range(*bounds)
    rendering.reserve(len(numbers))
    rendering.spend_steps(len(numbers))
    return list(numbers)


def _text(rendering: Rendering, value: Any = "") -> str:
    return rendering.text_of(value)


def _dict(rendering: Rendering, *maps: Any, **named: Any) -> dict[str, Any]:
    rendering.spend_steps(sum(map(len, (*maps, named))))
    return dict(*maps, **named)


def _namespace(rendering: Rendering, *maps: dict[str, Any], **named: Any) -> Namespace:
    return Namespace(_dict(rendering, *maps, **named))


CALLABLE: Final[dict[str, Callable[..., Any]]] = {
    **FUNCTIONS,
    "range": _range,
    "str": _text,
    "dict": _dict,
    "namespace": _namespace,
}
"""Functions that a template may call by name. Values of the scope are never called."""


def existing(value: Any) -> Any:
    """Return the value. Raises UnresolvedName if it is missing."""
    if isinstance(value, Missing):
        raise UnresolvedName(value)
    return value


class ExpressionCompiler:
    """Compiles each kind of node by the method `_<name of the kind>`."""

    def __init__(self, *, describes: bool = True) -> None:
        """Create a compiler; without `describes`, its problems have no suggestions."""
        self._describes = describes
        self.problems: list[TemplateProblem] = []
        self.names: set[str] = set()
        """Names that are read from the scope, because no enclosing block has assigned them before."""
        self.changes = False
        """True if the expression may modify a list or map."""
        self.local: list[set[str]] = []
        """Names assigned so far, by enclosing block, outermost first."""
        self._depth = 0

    def compile(self, node: nodes.Node) -> Step:
        """Compile an expression, whose value may be Missing."""
        if self._depth >= DEPTH_LIMIT:
            return self.refuse(node, f"more than {DEPTH_LIMIT} operations inside each other", "Use {% set %}.")
        maker = getattr(self, f"_{type(node).__name__.lower()}", None)
        if maker is None:
            return self.refuse(node, f"{type(node).__name__}", "")
        self._depth += 1
        try:
            return self._counted(maker(node))
        finally:
            self._depth -= 1

    def compile_all(self, expressions: Sequence[nodes.Node]) -> tuple[Step, ...]:
        return tuple(map(self.compile, expressions))

    def refuse(self, node: nodes.Node, construct: str, advice: str) -> Step:
        """Report an unsupported construct."""
        if len(self.problems) < PROBLEMS_LIMIT:
            message = f"{construct} is not part of the templates of workflows."
            self.problems.append(TemplateProblem(node.lineno, message, advice))
        return lambda rendering: None

    def _refuse_name(self, node: nodes.Node, construct: str, name: str, names: Iterable[str], noun: str) -> Step:
        """Report a name that is not in a table."""
        describes = self._describes and len(self.problems) < PROBLEMS_LIMIT
        return self.refuse(node, construct, suggestion(name[:40], names, noun=noun) if describes else "")

    @staticmethod
    def _counted(step: Step) -> Step:
        def run(rendering: Rendering) -> Any:
            rendering.step()
            return step(rendering)

        return run

    # -- values

    def _const(self, node: nodes.Const) -> Step:
        value = node.value
        if isinstance(value, int) and value.bit_length() > OPERAND_BITS:
            return self.refuse(node, f"A number of more than {OPERAND_BITS} bits", "Write it as a text.")
        if isinstance(value, float) and not isfinite(value):
            return self.refuse(node, "An infinite number", "Write a smaller one.")
        return lambda rendering: value

    def _templatedata(self, node: nodes.TemplateData) -> Step:
        text = node.data
        return lambda rendering: text

    def _name(self, node: nodes.Name) -> Step:
        name, missing = node.name, Missing(node.name)
        if not any(name in names for names in self.local):
            self.names.add(name)
        return lambda rendering: rendering.lookup(name, missing)

    def _list(self, node: nodes.List | nodes.Tuple) -> Step:
        steps = self.compile_all(node.items)
        return lambda rendering: [existing(step(rendering)) for step in steps]

    _tuple = _list

    def _dict(self, node: nodes.Dict) -> Step:
        pairs = [(self.compile(pair.key), self.compile(pair.value)) for pair in node.items]
        return lambda rendering: {_key(existing(key(rendering))): existing(value(rendering)) for key, value in pairs}

    # -- parts of values

    def _getattr(self, node: nodes.Getattr) -> Step:
        value, name, missing = self.compile(node.node), node.attr, Missing(_path(node))
        return lambda rendering: get_attribute(value(rendering), name, missing)

    def _getitem(self, node: nodes.Getitem) -> Step:
        value = self.compile(node.node)
        if isinstance(node.arg, nodes.Slice):
            part = node.arg
            bounds = [self.compile(bound) if bound else None for bound in (part.start, part.stop, part.step)]
            return _sliced(value, bounds)
        key, missing = self.compile(node.arg), Missing(_path(node))
        return lambda rendering: get_subscript(value(rendering), existing(key(rendering)), missing)

    # -- operators

    def _compile_binary(self, node: nodes.BinExpr) -> Step:
        function = BINARY[_BINARY[type(node).__name__]]
        left, right = self.compile(node.left), self.compile(node.right)
        return lambda rendering: function(rendering, existing(left(rendering)), existing(right(rendering)))

    _add = _sub = _mul = _div = _floordiv = _mod = _compile_binary

    def _and(self, node: nodes.And) -> Step:
        left, right = self.compile(node.left), self.compile(node.right)
        return lambda rendering: left(rendering) and right(rendering)

    def _or(self, node: nodes.Or) -> Step:
        left, right = self.compile(node.left), self.compile(node.right)
        return lambda rendering: left(rendering) or right(rendering)

    def _not(self, node: nodes.Not) -> Step:
        value = self.compile(node.node)
        return lambda rendering: not value(rendering)

    def _neg(self, node: nodes.Neg) -> Step:
        value = self.compile(node.node)
        return lambda rendering: negate(existing(value(rendering)))

    def _pos(self, node: nodes.Pos) -> Step:
        value = self.compile(node.node)
        return lambda rendering: unary_plus(existing(value(rendering)))

    def _concat(self, node: nodes.Concat) -> Step:
        steps = self.compile_all(node.nodes)
        return lambda rendering: _joined(rendering, [step(rendering) for step in steps])

    def _compare(self, node: nodes.Compare) -> Step:
        first = self.compile(node.expr)
        others = [(_COMPARE[operand.op], self.compile(operand.expr)) for operand in node.ops]

        def evaluate(rendering: Rendering) -> bool:
            left = first(rendering)
            for name, step in others:
                right = step(rendering)
                if not compare(rendering, name, left, right):
                    return False
                left = right
            return True

        return evaluate

    def _condexpr(self, node: nodes.CondExpr) -> Step:
        test, then = self.compile(node.test), self.compile(node.expr1)
        otherwise = self.compile(node.expr2) if node.expr2 is not None else _nothing
        return lambda rendering: then(rendering) if test(rendering) else otherwise(rendering)

    # -- calls

    def _filter(self, node: nodes.Filter) -> Step:
        if node.node is None:
            return self.refuse(node, "a filter without a value", "")
        return self.compile_filter(node, self.compile(node.node))

    def compile_filter(self, node: nodes.Filter, value: Step) -> Step:
        """Compile the application of a filter to a value."""
        name = node.name
        if name not in FILTER_NAMES:
            return self._refuse_name(node, f"The filter {name[:40]!r}", name, FILTER_NAMES, "Filters")
        args, named = self._arguments(node)
        return lambda rendering: apply_filter(
            rendering, name, value(rendering), _evaluate_all(rendering, args), _evaluate_named(rendering, named)
        )

    def _test(self, node: nodes.Test) -> Step:
        name = node.name
        if name not in TESTS:
            return self._refuse_name(node, f"The test {name[:40]!r}", name, TESTS, "Tests")
        value = self.compile(node.node)
        test = TESTS[name]
        args, named = self._arguments(node)
        return lambda rendering: test(
            rendering, value(rendering), *_evaluate_all(rendering, args), **_evaluate_named(rendering, named)
        )

    def _call(self, node: nodes.Call) -> Step:
        args, named = self._arguments(node)
        if isinstance(node.node, nodes.Getattr):
            return self._method_call(node.node, args, named)
        name = node.node.name if isinstance(node.node, nodes.Name) else ""
        if name not in CALLABLE:
            construct = f"{name[:40]}()" if name else "A call of a value"
            return self._refuse_name(node, construct, name, CALLABLE, "Functions")
        function = CALLABLE[name]
        return lambda rendering: function(
            rendering, *_evaluate_all(rendering, args), **_evaluate_named(rendering, named)
        )

    def _method_call(self, called: nodes.Getattr, args: tuple[Step, ...], named: dict[str, Step]) -> Step:
        name, value = called.attr, self.compile(called.node)
        if name not in KNOWN_METHODS and name not in CHANGE_NAMES and name not in _LOOP_METHODS:
            return self._refuse_name(called, f".{name[:40]}()", name, KNOWN_METHODS | CHANGE_NAMES, "Methods")
        self.changes = self.changes or name in CHANGE_NAMES
        return lambda rendering: _call_method(
            rendering,
            existing(value(rendering)),
            name,
            _evaluate_all(rendering, args),
            _evaluate_named(rendering, named),
        )

    def _arguments(self, node: Any) -> tuple[tuple[Step, ...], dict[str, Step]]:
        if node.dyn_args is not None or node.dyn_kwargs is not None:
            self.refuse(node, "A star before an argument", "Write the arguments out.")
        return self.compile_all(node.args), {pair.key: self.compile(pair.value) for pair in node.kwargs}


def _nothing(rendering: Rendering) -> Missing:
    return NOTHING


def _evaluate_all(rendering: Rendering, steps: tuple[Step, ...]) -> list[Any]:
    return [existing(step(rendering)) for step in steps]


def _evaluate_named(rendering: Rendering, steps: dict[str, Step]) -> dict[str, Any]:
    return {name: existing(step(rendering)) for name, step in steps.items()}


def _call_method(rendering: Rendering, value: Any, name: str, args: list[Any], named: dict[str, Any]) -> Any:
    if isinstance(value, Loop):
        if name not in _LOOP_METHODS:
            raise ExpressionError(f"loop has no method .{name}()")
        rendering.spend_deep(args)
        return value.cycle(*args) if name == "cycle" else value.changed(*args)
    kind: type[Any] = list if isinstance(value, list) else cast("type[Any]", type(value))  # a Group is a list
    method = CHANGES.get((kind, name)) or METHODS.get(kind, {}).get(name)
    if method is None:
        raise ExpressionError(f"{describe_kind(cast('object', value))} has no method .{name}()")
    return method(rendering, value, *args, **named)


def _joined(rendering: Rendering, values: list[Any]) -> str:
    """Concatenate values as text; missing values are empty."""
    texts = ["" if isinstance(value, Missing) else rendering.text_of(value) for value in values]
    rendering.reserve(sum(map(len, texts)))
    return "".join(texts)


def _sliced(value: Step, bounds: list[Step | None]) -> Step:
    def evaluate(rendering: Rendering) -> Any:
        whole = value(rendering)
        if isinstance(whole, Missing):
            return whole
        start, stop, step = [existing(bound(rendering)) if bound is not None else None for bound in bounds]
        return get_slice(rendering, whole, start, stop, step)

    return evaluate


def _key(value: Any) -> str:
    if not isinstance(value, str | int | float) and value is not None:
        raise ExpressionError(f"{describe_kind(value)} cannot be the key of a map")
    return value if isinstance(value, str) else cast("str", value)


def _path(node: nodes.Expr) -> str:
    """Reconstruct the source of a name or path from the tree, for messages."""
    if isinstance(node, nodes.Name):
        return node.name
    if isinstance(node, nodes.Getattr):
        return f"{_path(node.node)}.{node.attr}"
    if isinstance(node, nodes.Getitem):
        key = repr(node.arg.value) if isinstance(node.arg, nodes.Const) else "..."
        return f"{_path(node.node)}[{key}]"
    return "(...)"
