"""The suite for checkpointers with workspaces: it finds every method that sees threads of other workspaces."""

from __future__ import annotations

from typing import Any

import pytest

from statewright.checkpoint import InMemorySaver
from statewright.errors import StatewrightError
from statewright.testing import CheckpointerConformance, WorkspaceCheckpointerConformance

OF_WORKSPACES = sorted(
    name
    for name in set(dir(WorkspaceCheckpointerConformance)) - set(dir(CheckpointerConformance))
    if name.startswith("test_")
)
METHODS = [
    "load",
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


def broken_promises(kind: Any) -> set[str]:
    """Name the tests of workspaces that a saver fails."""

    class Suite(WorkspaceCheckpointerConformance):
        def make_saver(self) -> Any:
            return kind()

    failed: set[str] = set()
    for name in OF_WORKSPACES:
        try:
            getattr(Suite(), name)()
        except (AssertionError, IndexError, StatewrightError):  # anything else is a mistake of this file
            failed.add(name)
    return failed


def sharing(method: str) -> type[InMemorySaver]:
    """Make a class of savers of which one method works on the threads of one workspace, whichever is meant."""

    def shared(self: InMemorySaver, *args: Any, **options: Any) -> Any:
        return getattr(InMemorySaver, method)(self.for_workspace("one"), *args, **options)

    return type(f"Shares{method.title()}", (InMemorySaver,), {method: shared})


class IgnoresNames(InMemorySaver):
    def for_workspace(self, workspace: str) -> Any:
        return self


class KnowsOneScope(InMemorySaver):
    scope = "everything"


class KnowsItsOwnScope(InMemorySaver):
    @property
    def scope(self) -> Any:
        return id(self)


class ListsEmptyOnes(InMemorySaver):
    def workspaces(self) -> list[str]:
        return sorted(self._workspaces)


class TakesAnyName(InMemorySaver):
    def _bind(self, workspace: Any) -> None:
        super()._bind(workspace or "one" if isinstance(workspace, str | None) else "one")


def test_the_saver_in_memory_keeps_all_promises() -> None:
    assert broken_promises(InMemorySaver) == set()


@pytest.mark.parametrize("method", METHODS)
def test_a_method_that_sees_other_workspaces_is_found(method: str) -> None:
    assert broken_promises(sharing(method))


@pytest.mark.parametrize("kind", [IgnoresNames, KnowsOneScope, KnowsItsOwnScope, ListsEmptyOnes, TakesAnyName])
def test_savers_that_mistake_workspaces_are_found(kind: Any) -> None:
    assert broken_promises(kind)


def test_a_saver_has_to_be_made_by_those_who_derive_the_suite() -> None:
    with pytest.raises(NotImplementedError):
        WorkspaceCheckpointerConformance().make_saver()
