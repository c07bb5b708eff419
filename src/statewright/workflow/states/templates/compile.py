"""Compilation of the expressions of templates to closures.

Jinja's parser creates the tree. Each node becomes a function of one rendering, which pays for a step and for the data
that it reads and creates. A kind of node without a `visit_` method is reported with its line, and the expression that
contains it is never evaluated.

The value of an undefined name is a `Missing`, which tests and `default` accept. All other operations call `require` on
their operands, which raises UnresolvedName; the placeholder that contains the operation is then left unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import isfinite
from typing import Any, Final, cast

from jinja2 import nodes
from jinja2.visitor import NodeVisitor

from statewright.errors import ExpressionError, suggestion
from statewright.workflow.states.expressions.evaluation import OPERAND_BITS
from statewright.workflow.states.expressions.functions import FUNCTIONS, METHOD_NAMES, METHODS
from statewright.workflow.states.expressions.operators import BINARY, describe_type, get_slice, negate, unary_plus
from statewright.workflow.states.templates.filters import FILTER_NAMES, apply_filter
from statewright.workflow.states.templates.mutations import MUTATION_NAMES, MUTATIONS
from statewright.workflow.states.templates.rendering import PROBLEMS_LIMIT, Rendering, Step, TemplateProblem
from statewright.workflow.states.templates.tests import TESTS, compare
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
"""Maximum absolute value of the bounds of `range()`."""
_COMPARISONS: Final = {
    "eq": "Eq",
    "ne": "NotEq",
    "lt": "Lt",
    "lteq": "LtE",
    "gt": "Gt",
    "gteq": "GtE",
    "in": "In",
    "notin": "NotIn",
}
"""The names of comparisons in Python's `ast`, by their names in Jinja's tree."""
_LOOP_METHODS: Final = ("cycle", "changed")
Arguments = tuple[list[Any], dict[str, Any]]
"""Positional and named arguments of a call."""


def _range(rendering: Rendering, *bounds: int) -> list[int]:
    if any(abs(bound) > RANGE_LIMIT for bound in bounds):
        raise ExpressionError(f"the bounds of range() must lie between -{RANGE_LIMIT} and {RANGE_LIMIT}")
    numbers = range(*bounds)
    rendering.reserve(len(numbers))
    rendering.spend_steps(len(numbers))
    return list(numbers)


def _text(rendering: Rendering, value: Any = "") -> str:
    return rendering.to_text(value)


def _dict(rendering: Rendering, *maps: Any, **kwargs: Any) -> dict[str, Any]:
    rendering.spend_steps(sum(map(len, (*maps, kwargs))))
    return dict(*maps, **kwargs)


def _namespace(rendering: Rendering, *maps: dict[str, Any], **kwargs: Any) -> Namespace:
    return Namespace(_dict(rendering, *maps, **kwargs))


TEMPLATE_FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    **FUNCTIONS,
    "range": _range,
    "str": _text,
    "dict": _dict,
    "namespace": _namespace,
}
"""The functions that a template may call, by name. Values of the scope are never called."""


def require(value: Any) -> Any:
    """Return the value. Raises UnresolvedName if it is missing."""
    if isinstance(value, Missing):
        raise UnresolvedName(value)
    return value


class ExpressionCompiler(NodeVisitor):
    """Compiles nodes to `Step`s."""

    def __init__(self, *, with_suggestions: bool = True) -> None:
        """Create a compiler. With `with_suggestions`, problems suggest similar names, which is slow."""
        self._with_suggestions = with_suggestions
        self.problems: list[TemplateProblem] = []
        self.names: set[str] = set()
        """The names that are read from the scope, because no enclosing block has assigned them before."""
        self.mutates = False
        """True if the expression may modify a list or map."""
        self.local_names: list[set[str]] = []
        """The names assigned so far by each enclosing block, outermost first."""
        self._depth = 0

    def compile(self, node: nodes.Node) -> Step:
        """Compile an expression, whose value may be Missing."""
        if self._depth >= DEPTH_LIMIT:
            return self.reject(node, f"A nesting of more than {DEPTH_LIMIT} operations", "Use {% set %}.")
        self._depth += 1
        step: Step = self.visit(node)
        self._depth -= 1

        def run(rendering: Rendering) -> Any:
            rendering.step()
            return step(rendering)

        return run

    def compile_all(self, expressions: Sequence[nodes.Node]) -> tuple[Step, ...]:
        """Compile several expressions."""
        return tuple(map(self.compile, expressions))

    def report_unsupported(self, line: int, construct: str, advice: str) -> None:
        """Report an unsupported construct."""
        if len(self.problems) < PROBLEMS_LIMIT:
            self.problems.append(TemplateProblem(line, f"{construct} is not supported in workflow templates.", advice))

    def reject(self, node: nodes.Node, construct: str, advice: str) -> Step:
        """Report a node that is not supported, and return a step to use in its place."""
        self.report_unsupported(node.lineno, construct, advice)
        return lambda rendering: None

    def _reject_name(self, node: nodes.Node, construct: str, name: str, names: Iterable[str], label: str) -> Step:
        """Reject a node with an unknown name. The advice lists all `names` after the `label`."""
        has_suggestion = self._with_suggestions and len(self.problems) < PROBLEMS_LIMIT
        return self.reject(node, construct, suggestion(name[:40], names, noun=label) if has_suggestion else "")

    def generic_visit(self, node: nodes.Node, *args: Any, **kwargs: Any) -> Step:
        return self.reject(node, type(node).__name__, "")

    # -- values

    def visit_Const(self, node: nodes.Const) -> Step:
        value = node.value
        if isinstance(value, int) and value.bit_length() > OPERAND_BITS:
            return self.reject(node, f"A number of more than {OPERAND_BITS} bits", "Write it as a string.")
        if isinstance(value, float) and not isfinite(value):
            return self.reject(node, "An infinite number", "Write a smaller one.")
        return lambda rendering: value

    def visit_TemplateData(self, node: nodes.TemplateData) -> Step:
        text = node.data
        return lambda rendering: text

    def visit_Name(self, node: nodes.Name) -> Step:
        name, missing = node.name, Missing(node.name)
        if not any(name in names for names in self.local_names):
            self.names.add(name)
        return lambda rendering: rendering.lookup(name, missing)

    def visit_List(self, node: nodes.List | nodes.Tuple) -> Step:
        steps = self.compile_all(node.items)
        return lambda rendering: [require(step(rendering)) for step in steps]

    visit_Tuple = visit_List

    def visit_Dict(self, node: nodes.Dict) -> Step:
        pairs = [(self.compile(pair.key), self.compile(pair.value)) for pair in node.items]
        return lambda rendering: {
            _check_key(require(key(rendering))): require(value(rendering)) for key, value in pairs
        }

    # -- parts of values

    def visit_Getattr(self, node: nodes.Getattr) -> Step:
        value, name, missing = self.compile(node.node), node.attr, Missing(_format_path(node))
        return lambda rendering: get_attribute(value(rendering), name, missing)

    def visit_Getitem(self, node: nodes.Getitem) -> Step:
        value = self.compile(node.node)
        if isinstance(node.arg, nodes.Slice):
            node_slice = node.arg
            bound_nodes = (node_slice.start, node_slice.stop, node_slice.step)
            bounds = [self.compile(bound) if bound else None for bound in bound_nodes]

            def evaluate(rendering: Rendering) -> Any:
                container = value(rendering)
                if isinstance(container, Missing):
                    return container
                start, stop, step = [require(bound(rendering)) if bound is not None else None for bound in bounds]
                return get_slice(rendering, container, start, stop, step)

            return evaluate
        key, missing = self.compile(node.arg), Missing(_format_path(node))
        return lambda rendering: get_subscript(value(rendering), require(key(rendering)), missing)

    # -- operators

    def _visit_binary(self, node: nodes.BinExpr) -> Step:
        name = type(node).__name__
        function = BINARY["Mult" if name == "Mul" else name]  # the table uses the names in Python's `ast`
        left, right = self.compile(node.left), self.compile(node.right)
        return lambda rendering: function(rendering, require(left(rendering)), require(right(rendering)))

    visit_Add = visit_Sub = visit_Mul = visit_Div = visit_FloorDiv = visit_Mod = _visit_binary

    def visit_And(self, node: nodes.And) -> Step:
        left, right = self.compile(node.left), self.compile(node.right)
        return lambda rendering: left(rendering) and right(rendering)

    def visit_Or(self, node: nodes.Or) -> Step:
        left, right = self.compile(node.left), self.compile(node.right)
        return lambda rendering: left(rendering) or right(rendering)

    def visit_Not(self, node: nodes.Not) -> Step:
        value = self.compile(node.node)
        return lambda rendering: not value(rendering)

    def visit_Neg(self, node: nodes.Neg) -> Step:
        value = self.compile(node.node)
        return lambda rendering: negate(require(value(rendering)))

    def visit_Pos(self, node: nodes.Pos) -> Step:
        value = self.compile(node.node)
        return lambda rendering: unary_plus(require(value(rendering)))

    def visit_Concat(self, node: nodes.Concat) -> Step:
        steps = self.compile_all(node.nodes)

        def evaluate(rendering: Rendering) -> str:
            values = [step(rendering) for step in steps]
            texts = ["" if isinstance(value, Missing) else rendering.to_text(value) for value in values]
            rendering.reserve(sum(map(len, texts)))
            return "".join(texts)

        return evaluate

    def visit_Compare(self, node: nodes.Compare) -> Step:
        first = self.compile(node.expr)
        others = [(_COMPARISONS[operand.op], self.compile(operand.expr)) for operand in node.ops]

        def evaluate(rendering: Rendering) -> bool:
            left = first(rendering)
            for name, step in others:
                right = step(rendering)
                if not compare(rendering, name, left, right):
                    return False
                left = right
            return True

        return evaluate

    def visit_CondExpr(self, node: nodes.CondExpr) -> Step:
        test, then = self.compile(node.test), self.compile(node.expr1)
        otherwise = self.compile(node.expr2) if node.expr2 is not None else _evaluate_to_nothing
        return lambda rendering: then(rendering) if test(rendering) else otherwise(rendering)

    # -- calls

    def visit_Filter(self, node: nodes.Filter) -> Step:
        if node.node is None:
            return self.reject(node, "A filter without a value", "")
        return self.compile_filter(node, self.compile(node.node))

    def compile_filter(self, node: nodes.Filter, value: Step) -> Step:
        """Compile the application of a filter to a value."""
        name = node.name
        if name not in FILTER_NAMES:
            return self._reject_name(node, f"The filter {name[:40]!r}", name, FILTER_NAMES, "Filters")
        arguments = self._compile_arguments(node)
        return lambda rendering: apply_filter(rendering, name, value(rendering), *arguments(rendering))

    def visit_Test(self, node: nodes.Test) -> Step:
        name = node.name
        if name not in TESTS:
            return self._reject_name(node, f"The test {name[:40]!r}", name, TESTS, "Tests")
        test, value, arguments = TESTS[name], self.compile(node.node), self._compile_arguments(node)
        return lambda rendering: _invoke(test, [rendering, value(rendering)], *arguments(rendering))

    def visit_Call(self, node: nodes.Call) -> Step:
        arguments = self._compile_arguments(node)
        if isinstance(node.node, nodes.Getattr):
            return self._compile_method_call(node.node, arguments)
        name = node.node.name if isinstance(node.node, nodes.Name) else ""
        if name not in TEMPLATE_FUNCTIONS:
            construct = f"{name[:40]}()" if name else "A call of anything but a function or method"
            return self._reject_name(node, construct, name, TEMPLATE_FUNCTIONS, "Functions")
        function = TEMPLATE_FUNCTIONS[name]
        return lambda rendering: _invoke(function, [rendering], *arguments(rendering))

    def _compile_method_call(self, method: nodes.Getattr, arguments: Callable[[Rendering], Arguments]) -> Step:
        name, value = method.attr, self.compile(method.node)
        if name not in METHOD_NAMES and name not in MUTATION_NAMES and name not in _LOOP_METHODS:
            return self._reject_name(method, f".{name[:40]}()", name, METHOD_NAMES | MUTATION_NAMES, "Methods")
        self.mutates = self.mutates or name in MUTATION_NAMES
        return lambda rendering: _call_method(rendering, require(value(rendering)), name, *arguments(rendering))

    def _compile_arguments(self, node: Any) -> Callable[[Rendering], Arguments]:
        if node.dyn_args is not None or node.dyn_kwargs is not None:
            self.reject(node, "Unpacking arguments with a star", "Write the arguments out.")
        args, kwargs = self.compile_all(node.args), {pair.key: self.compile(pair.value) for pair in node.kwargs}

        def evaluate(rendering: Rendering) -> Arguments:
            arg_values = [require(step(rendering)) for step in args]
            return arg_values, {name: require(step(rendering)) for name, step in kwargs.items()}

        return evaluate


def _evaluate_to_nothing(rendering: Rendering) -> Missing:
    return NOTHING


def _invoke(function: Callable[..., Any], leading: list[Any], args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Call a function with leading arguments, followed by the arguments in the template."""
    return function(*leading, *args, **kwargs)


def _call_method(rendering: Rendering, value: Any, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if isinstance(value, Loop):
        if name not in _LOOP_METHODS:
            raise ExpressionError(f"loop has no method .{name}()")
        rendering.spend_deep(args)
        return value.cycle(*args) if name == "cycle" else value.changed(*args)
    value_type: type[Any] = list if isinstance(value, list) else cast("type[Any]", type(value))  # a Group is a list
    method = MUTATIONS.get((value_type, name)) or METHODS.get(value_type, {}).get(name)
    if method is None:
        raise ExpressionError(f"{describe_type(cast('object', value))} has no method .{name}()")
    return method(rendering, value, *args, **kwargs)


def _check_key(value: Any) -> Any:
    if not isinstance(value, str | int | float) and value is not None:
        raise ExpressionError(f"{describe_type(value)} cannot be the key of a map")
    return value


def _format_path(node: nodes.Expr) -> str:
    """Return a name or path as text for messages. It is reconstructed from the tree, which lacks the source."""
    if isinstance(node, nodes.Name):
        return node.name
    if isinstance(node, nodes.Getattr):
        return f"{_format_path(node.node)}.{node.attr}"
    if isinstance(node, nodes.Getitem):
        key = repr(node.arg.value) if isinstance(node.arg, nodes.Const) else "..."
        return f"{_format_path(node.node)}[{key}]"
    return "(...)"
