"""The port of savers: who obeys it, and what its methods take."""

import inspect
from typing import Any

import pytest

from statewright.checkpoint import Checkpointer, InMemorySaver

METHODS = [
    "load",
    "allow",
    "commit",
    "save_results",
    "events",
    "renew",
    "lease",
    "want",
    "history",
    "branches",
    "namespaces",
    "threads",
    "prune",
    "copy_thread",
    "delete_thread",
]


def without(missing: str) -> object:
    """An object with all methods of the port but one."""
    return type("Incomplete", (), {name: getattr(InMemorySaver, name) for name in METHODS if name != missing})()


def test_a_saver_is_told_by_its_methods_and_not_by_its_class() -> None:
    assert isinstance(InMemorySaver(), Checkpointer)
    assert isinstance(without("nothing"), Checkpointer)


@pytest.mark.parametrize("method", METHODS)
def test_an_object_that_lacks_a_method_is_no_saver(method: str) -> None:
    assert not isinstance(without(method), Checkpointer)


@pytest.mark.parametrize("value", [None, object(), {}, InMemorySaver.load])
def test_other_values_are_no_savers(value: object) -> None:
    assert not isinstance(value, Checkpointer)


@pytest.mark.parametrize("method", METHODS)
def test_the_saver_in_memory_takes_what_the_port_says(method: str) -> None:
    def parameters(owner: type) -> list[tuple[str, Any, Any]]:
        found = inspect.signature(getattr(owner, method)).parameters.values()
        return [(one.name, one.kind, one.default) for one in found]

    assert parameters(InMemorySaver) == parameters(Checkpointer)


def test_the_port_asks_for_nothing_else() -> None:
    asked = {name for name, member in vars(Checkpointer).items() if inspect.isfunction(member) and name[0] != "_"}
    assert asked == set(METHODS)
