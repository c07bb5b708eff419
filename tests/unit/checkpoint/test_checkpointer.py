"""The port `Checkpointer`: which objects satisfy it, and the parameters of its methods."""

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
    """Return an object with all methods of the port but one."""
    return type("Incomplete", (), {name: getattr(InMemorySaver, name) for name in METHODS if name != missing})()


def test_any_object_with_the_methods_of_the_port_is_a_checkpointer() -> None:
    assert isinstance(InMemorySaver(), Checkpointer)
    assert isinstance(without("nothing"), Checkpointer)


@pytest.mark.parametrize("method", METHODS)
def test_an_object_without_one_of_the_methods_is_not_a_checkpointer(method: str) -> None:
    assert not isinstance(without(method), Checkpointer)


@pytest.mark.parametrize("value", [None, object(), {}, InMemorySaver.load])
def test_other_values_are_not_checkpointers(value: object) -> None:
    assert not isinstance(value, Checkpointer)


@pytest.mark.parametrize("method", METHODS)
def test_the_in_memory_saver_has_the_signatures_of_the_port(method: str) -> None:
    def parameters(owner: type) -> list[tuple[str, Any, Any]]:
        signature = inspect.signature(getattr(owner, method))
        return [(parameter.name, parameter.kind, parameter.default) for parameter in signature.parameters.values()]

    assert parameters(InMemorySaver) == parameters(Checkpointer)


def test_the_port_requires_no_other_methods() -> None:
    required = {name for name, member in vars(Checkpointer).items() if inspect.isfunction(member) and name[0] != "_"}
    assert required == set(METHODS)
