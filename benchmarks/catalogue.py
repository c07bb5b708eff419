"""The cases, in the order of the table, and the choice among them."""

from collections.abc import Sequence
from types import ModuleType

from benchmarks.cases import (
    agents,
    chain,
    compiling,
    concurrent_runs,
    durable,
    fan_out,
    importing,
    instruction_count,
    loop,
    messages,
    nesting,
    service,
    short_runs,
    states,
    task_memory,
    worker_threads,
)
from benchmarks.figure import Figure

_CASES = (
    loop,
    instruction_count,
    chain,
    fan_out,
    task_memory,
    messages,
    concurrent_runs,
    short_runs,
    worker_threads,
    nesting,
    durable,
    states,
    agents,
    service,
    importing,
    compiling,
)


FIGURES: tuple[Figure, ...] = tuple(figure for case in _CASES for figure in case.FIGURES)


def choose(names: Sequence[str], *, with_long: bool) -> list[Figure]:
    """The figures of the cases so named, or of all when none is; a part of a name is enough."""
    return [
        figure
        for case in _CASES
        for figure in case.FIGURES
        if (with_long or not figure.is_long) and _is_wanted(case, figure, names)
    ]


def _is_wanted(case: ModuleType, figure: Figure, names: Sequence[str]) -> bool:
    module = case.__name__.rpartition(".")[2]
    return not names or any(name in module or name in figure.name for name in names)
