"""The types of a state: known to its graph, or taken as they are where nobody looks at the values."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, TypeVar

from statewright.checkpoint import Checkpointer
from statewright.checkpoint.serde import Serde
from statewright.cli.console.failure import WrongUse
from statewright.errors import SerdeError

T = TypeVar("T")


def allow_types(saver: Checkpointer, graph: str | None) -> None:
    """Let values be read and stored whose types the state of the graph in a file names, if one is given."""
    if graph is not None:
        from statewright.cli.workflow.load import load_graph

        saver.allow(load_graph(graph).program.stored_types)


@contextmanager
def pointing_to_graph(serde: Serde, graph: str | None) -> Generator[None]:
    """Says where types come from, if one is missing."""
    try:
        yield
    except SerdeError as error:
        if not _is_of_unknown_type(serde, error):
            raise
        hint = "Its graph knows it: give --graph FILE.py" if graph is None else f"{graph} is not its graph"
        raise WrongUse(f"{str(error).rstrip('.')}. {hint}. [{error.code}]") from error


def _is_of_unknown_type(serde: Serde, error: SerdeError) -> bool:
    """Whether a type is missing: it is what the error names, and nobody knows it. Tags are those of our own types."""
    return serde.named(error.key_path) is None and not error.key_path.startswith("tag ")


def with_stand_ins(serde: Serde, read: Callable[[], T]) -> T:
    """What a function reads, with values of unknown types as stand-ins, which are stored as they were.

    For what does not look into values. Raises SerdeError for what is known and can't be read all the same.
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
