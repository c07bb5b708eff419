"""The cases, in the order of the table, and the choice among them."""

from collections.abc import Sequence
from types import ModuleType

from benchmarks.cases import (
    agents,
    chain,
    claims,
    compiling,
    concurrent_runs,
    distribution,
    durable,
    fan_out,
    idle,
    importing,
    instruction_count,
    ledger_commits,
    loop,
    messages,
    nesting,
    page,
    postgres,
    service,
    short_runs,
    states,
    task_memory,
    worker_threads,
    workers,
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
    distribution,
    nesting,
    durable,
    postgres,
    ledger_commits,
    claims,
    workers,
    idle,
    states,
    agents,
    service,
    page,
    importing,
    compiling,
)


FIGURES: tuple[Figure, ...] = tuple(figure for case in _CASES for figure in case.FIGURES)


def choose(names: Sequence[str], *, with_long: bool) -> list[Figure]:
    """Return the figures of the cases with these names, or parts of names; those of all cases if there are none."""
    return [
        figure
        for case in _CASES
        for figure in case.FIGURES
        if (with_long or not figure.is_long) and _is_selected(case, figure, names)
    ]


def _is_selected(case: ModuleType, figure: Figure, names: Sequence[str]) -> bool:
    module = case.__name__.rpartition(".")[2]
    return not names or any(name in module or name in figure.name for name in names)
