"""Section 4.1 of the states language: the time and memory of a rendering are proportional to the work it is charged.

Templates are drawn from a grammar of loops, filters, methods, long paths and long numbers, over values that are large
in different ways. The lines and calls of Python that a rendering takes are counted, and the bytes that it allocates.
"""

from __future__ import annotations

import os
import random
import tracemalloc
from contextlib import suppress
from typing import Any

import pytest
from tests.work import FULL, count_work, spend_at_most

from statewright.errors import ExpressionError
from statewright.workflow.states.expressions.evaluation import STEP_COST
from statewright.workflow.states.templates import parse_template
from statewright.workflow.states.templates.filters import FILTER_NAMES
from statewright.workflow.states.templates.rendering import Rendering

COUNT = int(os.environ.get("STATEWRIGHT_FUZZ_TEMPLATES", "4000" if FULL else "600")) // 2
WORK = 400_000
EVENTS = 12
"""The most lines and calls of Python for each unit of work; counting the items of a list takes nearly as many."""
BYTES = 20
"""The most bytes for each unit of work."""
START = 1_000
"""Lines and calls that every rendering may take."""
START_BYTES = 100_000

SIZE = 1_600 if FULL else 600
SCOPE: dict[str, Any] = {
    "ascii": "ab, cd-e\n" * (SIZE // 9),
    "lines": "\n" * SIZE,
    "words": "a " * (SIZE // 2),
    "signs": "\"'<&%\x01" * (SIZE // 6),
    "wide": "яж ю\U0001f600" * (SIZE // 5),
    "sharp": "ßŉΐ" * (SIZE // 3),
    "dashes": "a-" * (SIZE // 2),
    "percent": "%s" * (SIZE // 2),
    "word": "x" * SIZE,
    "numbers": list(range(10**9, 10**9 + SIZE)),
    "floats": [number + 1 / 3 for number in range(SIZE)],
    "flags": [True, False, None] * (SIZE // 3),
    "texts": [f"text {number}" for number in range(SIZE)],
    "same": ["the same text"] * SIZE,
    "long": ["y" * 1_000] * 50,
    "empty": [[]] * SIZE,
    "pairs": [[str(number), number] for number in range(SIZE)],
    "maps": [{"a": {"b": number % 7}, "c": str(number)} for number in range(SIZE // 4)],
    "map": {f"key {number}": number for number in range(SIZE)},
    "huge": 7**1_000,
    "large": 2**1_000 - 1,
    "n": 3,
    "x": 2.5,
}
PATH = ".".join("a" * 90)
ATTRIBUTES = ("'a'", "'a.b'", "'c'", "0", "1", "-1", f"'{PATH}'", "'a.b,c'", f"'{','.join(['a.b'] * 40)}'")
NUMBERS = ("0", "1", "3", "1000", "-1", "huge", "large", "x", str(3**100))
TEXTS = ("'a'", "' '", "''", "word", "wide", "signs", "'-' * 1000", "percent")
ARGUMENTS = (*NUMBERS, *TEXTS, "true", "texts", "long", "map", "none")
NAMES = ("attribute", "width", "count", "reverse", "case_sensitive", "start", "default", "fill_with", "by", "indent")
METHODS = (
    *("upper", "split", "rsplit", "splitlines", "partition", "rpartition", "replace", "join", "startswith", "endswith"),
    *(
        "count",
        "index",
        "find",
        "rfind",
        "strip",
        "center",
        "zfill",
        "ljust",
        "expandtabs",
        "title",
        "casefold",
        "items",
    ),
    *("keys", "values", "copy", "get", "append", "extend", "insert", "pop", "sort", "update", "setdefault", "remove"),
)
TESTS = ("odd", "divisibleby", "in", "eq", "lt", "lower", "upper", "string", "defined", "sameas", "truthy")
FUNCTIONS = ("range", "dict", "list", "sorted", "sum", "min", "max", "str", "int", "float", "abs", "len", "any")


class Grammar:
    """Untyped expressions, many of which fail after some work."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def pick(self, choices: Any) -> str:
        return self._random.choice(tuple(choices))

    def arguments(self) -> str:
        args = [self.pick(ARGUMENTS) for _ in range(self._random.randrange(3))]
        if self._random.random() < 0.4:
            args.append(f"attribute={self.pick(ATTRIBUTES)}")
        elif self._random.random() < 0.2:
            args.append(f"{self.pick(NAMES)}={self.pick(ARGUMENTS)}")
        return ", ".join(args)

    def filter(self) -> str:
        name = self.pick(FILTER_NAMES)
        if name in ("map", "select", "reject") and self._random.random() < 0.8:
            inner = self.pick(FILTER_NAMES if name == "map" else TESTS)
            return f"{name}('{inner}'" + (f", {self.pick(ARGUMENTS)})" if self._random.random() < 0.4 else ")")
        if name in ("selectattr", "rejectattr", "groupby"):
            return f"{name}({self.pick(ATTRIBUTES)})"
        return f"{name}({self.arguments()})"

    def value(self, depth: int) -> str:
        if depth == 0:
            return self.pick([*SCOPE, *NUMBERS, "[n, x]", "ns.l", "i"])
        value, other = self.value(depth - 1), self.value(self._random.randrange(depth))
        return self.pick(
            (
                *[f"({value})|{self.filter()}"] * 5,
                *[f"({value}).{self.pick(METHODS)}({self.pick(ARGUMENTS) if self._random.random() < 0.6 else ''})"] * 3,
                f"{self.pick(FUNCTIONS)}({value})",
                f"({value} {self.pick(('+', '-', '*', '/', '//', '%', '~'))} {other})",
                f"({value} {self.pick(('==', '!=', '<', '>=', 'in', 'not in'))} {other})",
                f"({value} is {self.pick(TESTS)} {self.pick(NUMBERS)})",
                f"({value})[{self.pick(('0', '-1', '1:', ':5', '::-1', 'n'))}]",
                f"[{value}, {other}]",
                f"({value} if {other})",
            )
        )

    def block(self, depth: int) -> str:
        if depth == 0:
            return f"{{{{ {self.value(self._random.randrange(1, 4))} }}}}"
        body, value = self.block(depth - 1), self.value(self._random.randrange(2))
        return self.pick(
            (
                f"{{% for i in {value} %}}{body}{{% endfor %}}",
                f"{{% for i in {value} if i %}}{body}{{% endfor %}}",
                f"{{% for i in range(300) %}}{body}{{% endfor %}}",
                f"{{% set ns.l = {value} %}}{body}",
                f"{{% set ns.l = [ns.l, ns.l] %}}{body}",
                f"{{% filter {self.filter()} %}}{body}{{% endfilter %}}",
                f"{{% set i | {self.filter()} %}}{body}{{% endset %}}{{{{ i }}}}",
                f"{{% if {value} %}}{body}{{% endif %}}",
            )
        )

    def template(self) -> str:
        if self._random.random() < 0.4:
            return f"{{{{ {self.value(self._random.randrange(1, 4))} }}}}"
        return "{% set ns = namespace(l=[]) %}" + self.block(self._random.randrange(1, 4))


def render(source: str) -> tuple[int, int, int]:
    """Return the charged units, the lines and calls of Python, and the peak of memory in bytes."""
    template = parse_template(source)
    charged = 0

    def measure() -> None:
        nonlocal charged
        rendering = Rendering(SCOPE, work=WORK, copies=template.mutates)
        with suppress(ExpressionError):
            template.evaluate(rendering, None)
        charged = min(WORK - rendering.work_left, WORK)

    with spend_at_most():
        events = count_work(measure)
        tracemalloc.start()
        measure()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return charged, events, peak


def check(source: str) -> int:
    """Check that a template is charged for its work, and return the charge."""
    charged, events, peak = render(source)
    assert events <= START + EVENTS * charged, (charged, events, source)
    assert peak <= START_BYTES + BYTES * charged, (charged, peak, source)
    return charged


@pytest.mark.parametrize("value", [name for name in SCOPE if name not in ("n", "x")])
@pytest.mark.sampled(3)
def test_4_1_filters_are_charged_for_their_work(value: str) -> None:
    for name in FILTER_NAMES:
        for arguments in ("", "1", "1000, 'a'", f"attribute='{PATH}'", f"'{','.join(['a.b'] * 40)}'"):
            check(f"{{% for i in [1, 2] %}}{{% set r = {value}|{name}({arguments}) %}}{{% endfor %}}")


@pytest.mark.parametrize("part", range(4))
def test_4_1_renderings_are_charged_for_their_work(part: int) -> None:
    heavy = 0
    for number in range(part, COUNT, 4):
        heavy += check(Grammar(number).template()) > 100 * STEP_COST
    assert heavy > COUNT // 4 * 0.1


@pytest.mark.parametrize("method", ["index", "count"])
def test_4_1_a_search_in_a_list_is_charged_for_its_argument(method: str) -> None:
    check(f"{{{{ (flags).{method}(long) }}}}")
