"""Types of stored values: registered from a graph, or replaced by stand-ins where the values are not needed."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, TypeVar

from statewright.checkpoint import Checkpointer
from statewright.cli.console.failure import UsageError
from statewright.errors import SerdeError
from statewright.serde.serde import Serde

T = TypeVar("T")


def allow_types(saver: Checkpointer, graph: str | None) -> None:
    """Register the types in the state of a graph with the saver, if a graph is given."""
    if graph is not None:
        from statewright.cli.workflow.load import load_graph

        saver.allow(load_graph(graph).program.stored_types)


@contextmanager
def pointing_to_graph(serde: Serde, graph: str | None) -> Generator[None]:
    """Turn the error about an unknown type into advice to name the graph."""
    try:
        yield
    except SerdeError as error:
        if not _is_of_unknown_type(serde, error):
            raise
        hint = "Its graph knows it: give --graph FILE.py" if graph is None else f"{graph} is not its graph"
        raise UsageError(f"{str(error).rstrip('.')}. {hint}. [{error.code}]") from error


def _is_of_unknown_type(serde: Serde, error: SerdeError) -> bool:
    """Return True if the error is about an unregistered type. Tags belong to the built-in types."""
    return serde.named(error.key_path) is None and not error.key_path.startswith("tag ")


def with_stand_ins(serde: Serde, read: Callable[[], T]) -> T:
    """Call `read` with stand-ins for values of unknown types; they are stored again unchanged.

    For operations that do not use the values. Raises SerdeError if a value of a known type cannot be read.
    """
    while True:
        try:
            return read()
        except SerdeError as error:
            if not _is_of_unknown_type(serde, error):
                raise
            _stand_in(serde, error.key_path)


def _stand_in(serde: Serde, name: str) -> None:
    class StandIn:
        def __init__(self, stored: Any) -> None:
            self.stored = stored

    serde.register(StandIn, name=name, encode=lambda value: value.stored, decode=StandIn)
