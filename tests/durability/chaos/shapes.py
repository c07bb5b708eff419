"""The shapes: a graph each, with the input and the options of its threads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from tests.durability.chaos.graphs import (
    NodeFactory,
    chain,
    deferred,
    effects,
    fan,
    forks,
    joins,
    loop,
    retries,
    subgraphs,
    updates,
    waits,
)
from tests.durability.chaos.notes import DiscardedNotes, Notes, NoteTaker

from statewright import StateGraph
from statewright.clock import SystemClock
from statewright.runtime.invocation.run import LEASE

DURABILITIES: Final = ("sync", "async", "exit")
FORKED_AT: Final = {("main", 0): "early", ("main", 1): "late", ("early", 2): "later"}
"""The branches that are forked at a question, by its branch and round."""
FORKED_AT_END: Final = "afterwards"
"""A branch that is forked from the oldest checkpoint of `main` once `main` is done."""


class Shape(NamedTuple):
    """A graph, and how its threads are advanced."""

    build: Callable[[NodeFactory], StateGraph]
    input: Mapping[str, Any]
    options: Mapping[str, Any] = {}
    """Options of `compile`."""
    edits: bool = False
    """True if states are edited at a breakpoint."""
    forks: bool = False
    """True if threads are forked."""
    copies: bool = False
    """True if threads are copied."""
    saves_midway: bool = True
    """True if runs become idle before they are done, or save results of steps, so that they save under `exit` too."""
    threads: int = 3
    """The number of threads that are advanced concurrently, without their copies."""


SHAPES: Final[Mapping[str, Shape]] = {
    "chain": Shape(chain, {"log": ["in"]}, saves_midway=False, threads=4),
    "loop": Shape(loop, {"words": ["in"]}, saves_midway=False, threads=2),
    "fan": Shape(fan, {"log": []}, saves_midway=False),
    "joins": Shape(joins, {"log": ["in"]}, saves_midway=False),
    "deferred": Shape(deferred, {"log": ["in"]}, saves_midway=False),
    "subgraphs": Shape(subgraphs, {"log": ["in"]}),
    "waits": Shape(waits, {"log": ["in"]}),
    "retries": Shape(retries, {"log": ["in"]}),
    "effects": Shape(effects, {"log": ["in"]}),
    "updates": Shape(updates, {"log": ["in"]}, {"interrupt_before": ["review"]}, edits=True),
    "forks": Shape(forks, {"log": ["in"]}, forks=True),
    "copies": Shape(forks, {"log": ["in"]}, forks=True, copies=True, threads=2),
    "copied calls": Shape(subgraphs, {"log": ["in"]}, copies=True, threads=2),
}


class ShiftedClock(SystemClock):
    """A system clock that is so far ahead that the leases of all earlier generations have expired."""

    def __init__(self, generation: int) -> None:
        self._ahead = generation * (LEASE + timedelta(seconds=1))

    def now(self) -> datetime:
        return super().now() + self._ahead


def compile_app(shape: str, saver: Any, notes: Notes, driver: str = "sync", generation: int = 0) -> Any:
    """Compile the graph of a shape with a saver."""
    graph = SHAPES[shape].build(NodeFactory(notes, driver))
    clock, instruments = ShiftedClock(generation), [] if isinstance(notes, DiscardedNotes) else [NoteTaker(notes)]
    return graph.compile(saver, clock=clock, instruments=instruments, **SHAPES[shape].options)
