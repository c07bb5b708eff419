"""The room in which templates with blocks run: what their filters, methods and functions do, and what they cost.

Narrower than Jinja's own sandbox. A dot reads a key of a map and no attribute; calls are of a table; texts and lists
grow only so far; and loops, comparisons and filters pay for what they pass over. See `blocks` for what may be written.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, cast

from jinja2 import Undefined, pass_context
from jinja2.runtime import ChainableUndefined, Context, LoopContext
from jinja2.sandbox import SandboxedEnvironment
from jinja2.utils import Namespace

from statewright.errors import ExpressionError
from statewright.workflow.states.expressions.budget import Run, check_made, extent
from statewright.workflow.states.expressions.methods import METHODS
from statewright.workflow.states.expressions.operators import BINARY
from statewright.workflow.states.templates.filters import FILTERS, OUTPUT_LIMIT, as_words
from statewright.workflow.states.templates.placeholder import read_placeholder, with_default

RANGE_LIMIT: Final = 100_000
WORK_LIMIT: Final = 4_000_000
"""Characters and items over which one rendering may pass; each costs more than in an expression."""
_TURN: Final = 25
"""What a turn of a loop costs of the work that one rendering may do."""
RUN: Final = "__run"
"""Where a rendering keeps its budget: authors cannot write such a name."""
_TESTS: Final = (
    *("defined", "undefined", "none", "boolean", "true", "false", "string", "number", "integer", "float"),
    *("mapping", "sequence", "iterable", "odd", "even", "divisibleby", "lower", "upper", "eq", "equalto", "ne"),
    *("lt", "lessthan", "le", "gt", "greaterthan", "ge", "==", "!=", "<", "<=", ">", ">="),
)
_OF_LOOPS: Final = (
    *("index", "index0", "revindex", "revindex0", "first", "last", "length", "depth", "depth0"),
    *("previtem", "nextitem"),
)
_SIGNS: Final = {"+": "Add", "-": "Sub", "*": "Mult", "/": "Div", "//": "FloorDiv", "%": "Mod"}
_PLAIN: Final = (str, int, float, list, dict, type(None))


class TooMuch(ExpressionError):
    """A template does or makes more than it may."""


def _run_of(context: Context) -> Run:
    return cast(Run, context.parent[RUN])


def _spend(context: Context, value: object, *, each: int = 1, deep: bool = False) -> None:
    """Pays for one pass over a value; `deep` for one over all that it holds, as often as it holds it."""
    run = _run_of(context)
    if deep and isinstance(value, list | dict):
        run.left -= extent(cast(object, value), max(run.left, 0))
    else:
        run.left -= each * (len(cast(list[Any], value)) if isinstance(value, str | list | dict) else 1)
    if run.left < 0:
        raise TooMuch("A template with blocks works for too long. Shorten its loops, or pass less to them.")


@pass_context
def _shown(context: Context, value: Any, source: str) -> str:
    """A value as text, or the placeholder as the author wrote it."""
    if isinstance(value, str):
        return value
    if not isinstance(value, _PLAIN):
        return source
    if extent(cast(object, value), OUTPUT_LIMIT) > OUTPUT_LIMIT:
        raise TooMuch(f"A template with blocks becomes longer than {OUTPUT_LIMIT} characters.")
    return as_words(value)


@pass_context
def _dashed(context: Context, value: Any, source: str) -> str:
    """The value of a key with dashes, which is a difference in Jinja."""
    return read_placeholder(source).text(context.parent)


@pass_context
def _turns(context: Context, value: Any) -> Any:
    """What a loop goes over, paid for."""
    if isinstance(value, Undefined):
        return []
    if not isinstance(value, str | list | dict):
        raise ExpressionError("loops go over lists, maps and texts")
    _spend(context, cast(object, value), each=_TURN)
    return list(cast(list[Any], value))


@pass_context
def _looked_at(context: Context, value: Any) -> Any:
    """What is compared or cut, paid for."""
    _spend(context, value, deep=True)
    return value


@pass_context
def _concat(context: Context, *values: Any) -> str:
    words = [_shown(context, value, "") for value in values]
    check_made(sum(map(len, words)))
    return "".join(words)


@pass_context
def _method(context: Context, value: object, name: str, *args: Any, **named: Any) -> Any:
    """What a method of a value answers; those of the table of expressions, and those that change a copy."""
    function = _CHANGES.get((type(value), name)) or METHODS.get(type(value), {}).get(name)
    if function is None:
        raise ExpressionError(f"there is no method {name!r}")
    _spend(context, value, deep=isinstance(value, list))
    return function(value, *args, **named)


def _extend(items: list[Any], others: list[Any]) -> None:
    check_made(len(items) + len(others))
    items.extend(list(others))


def _update(found: dict[str, Any], *others: dict[str, Any], **named: Any) -> None:
    found.update(*others, **named)


def _set_default(found: dict[str, Any], key: str, value: Any = None) -> Any:
    return found.setdefault(key, value)


def _text_join(separator: str, items: list[Any]) -> str:
    return cast(str, FILTERS["join"](items, separator))


def _append(items: list[Any], value: Any) -> None:
    items.append(value)


def _pop_item(items: list[Any], place: int = -1) -> Any:
    return items.pop(place)


def _pop_key(found: dict[str, Any], key: str, default: Any = None) -> Any:
    return found.pop(key, default)


_CHANGES: Final[dict[tuple[type, str], Callable[..., Any]]] = {
    (list, "append"): _append,
    (list, "extend"): _extend,
    (list, "pop"): _pop_item,
    (dict, "update"): _update,
    (dict, "setdefault"): _set_default,
    (dict, "pop"): _pop_key,
    (str, "join"): _text_join,
}


def _paid(function: Callable[..., Any]) -> Callable[..., Any]:
    """A filter that pays for the value it passes over, and finds nothing in nothing."""

    @pass_context
    def call(context: Context, value: Any, *args: Any, **named: Any) -> Any:
        if isinstance(value, Undefined):
            return value
        if not isinstance(value, _PLAIN):
            raise ExpressionError("the filter is for plain values")
        _spend(context, cast(object, value), deep=function not in _SHALLOW)
        return function(value, *args, **named)

    return call


def _first(value: list[Any]) -> Any:
    return value[0]


def _last(value: list[Any]) -> Any:
    return value[-1]


_SHALLOW: Final = (_first, _last, FILTERS["length"], FILTERS["safe"])
"""Filters that do not look at what their value holds."""


def _default_of(value: Any, default: Any = "", boolean: Any = False) -> Any:
    return default if isinstance(value, Undefined) else with_default(value, default, boolean)


def _range(*bounds: int) -> list[int]:
    if max(map(abs, bounds)) > RANGE_LIMIT:
        raise ExpressionError(f"range() goes to {RANGE_LIMIT}")
    return list(range(*bounds))


def _function(name: str, *args: Any, **named: Any) -> Any:
    """What a function of the table answers; a name of the scope is never called."""
    return FUNCTIONS[name](*args, **named)


FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {"range": _range, "namespace": Namespace, "dict": dict}
"""What a template may call by name."""
_GUARDS: Final[dict[str, Callable[..., Any]]] = {
    "_shown": _shown,
    "_dashed": _dashed,
    "_turns": _turns,
    "_looked_at": _looked_at,
    "_concat": _concat,
    "_method": _method,
    "_function": _function,
}


class _Environment(SandboxedEnvironment):
    """Jinja's sandbox without the attributes of Python's objects, and with operators that are bounded."""

    intercepted_binops = frozenset(_SIGNS)

    def getattr(self, obj: Any, attribute: str) -> Any:
        """A key of a map; of the objects of Jinja, what a loop counts and a namespace holds."""
        if isinstance(obj, Undefined):
            return obj
        if isinstance(obj, LoopContext) and attribute in _OF_LOOPS:
            return getattr(obj, attribute)
        if isinstance(obj, Namespace) and not attribute.startswith("_"):
            return getattr(obj, attribute, self.undefined(name=attribute))
        return self.getitem(obj, attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        """A key of a map, an item of a list, a character of a text."""
        if isinstance(obj, Undefined):
            return obj
        try:
            if isinstance(obj, dict) or (isinstance(obj, str | list) and isinstance(argument, int)):
                return cast(Any, obj)[argument]
        except (LookupError, TypeError):
            pass
        return self.undefined(name=str(argument)[:40])

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """As in expressions."""
        return BINARY[_SIGNS[operator]](left, right)


def _environment() -> SandboxedEnvironment:
    environment = _Environment(keep_trailing_newline=True, undefined=ChainableUndefined, optimized=False, cache_size=0)
    environment.globals.clear()
    environment.filters = {name: _paid(function) for name, function in FILTERS.items()}
    environment.filters |= {"first": _paid(_first), "last": _paid(_last), "default": _default_of, **_GUARDS}
    environment.tests = {name: environment.tests[name] for name in _TESTS}
    return environment


ENVIRONMENT: Final = _environment()
"""Shared by all templates: it holds nothing of theirs."""
