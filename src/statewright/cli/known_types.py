"""The types of a state: known to its graph, or taken as they are where nobody looks at the values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from statewright.checkpoint import Checkpointer
from statewright.checkpoint.serde import Serde
from statewright.cli.failure import WrongUse
from statewright.errors import SerdeError

T = TypeVar("T")


def allow_types(saver: Checkpointer, graph: str | None) -> None:
    """Let values be read and stored whose types the state of the graph in a file names, if one is given."""
    if graph is not None:
        from statewright.cli.load import load_graph

        saver.allow(load_graph(graph).program.stored_types)


@contextmanager
def pointing_to_graph(graph: str | None) -> Iterator[None]:
    """Says where the types of a state come from, if one is missing."""
    try:
        yield
    except SerdeError as error:
        hint = (
            "Name the graph that the thread is of: --graph FILE.py"
            if graph is None
            else f"{graph} does not name it: give the graph that the thread is of"
        )
        raise WrongUse(f"{error} {hint}. [{error.code}]") from error


def with_stand_ins(serde: Serde, read: Callable[[], T]) -> T:
    """What a function reads, with values of unknown types as stand-ins, which are stored as they were.

    For what does not look into values. Raises SerdeError for what is known and can't be read all the same.
    """
    while True:
        try:
            return read()
        except SerdeError as error:
            # The type that nobody knows is where the error is; once it has a stand-in, an error is another one.
            if serde.named(error.key_path) is not None:
                raise
            _stand_in(serde, error.key_path)


def _stand_in(serde: Serde, name: str) -> None:
    def init(self: Any, stored: Any) -> None:
        self.stored = stored

    kind = type("StandIn", (), {"__init__": init})
    serde.register(kind, name=name, encode=lambda value: value.stored, decode=kind)
