"""The conformance suite of savers with workspaces: it detects every method that reaches other workspaces."""

from __future__ import annotations

from typing import Any

import pytest

from statewright.checkpoint import InMemorySaver
from statewright.errors import StatewrightError
from statewright.testing import CheckpointerConformance, WorkspaceCheckpointerConformance

WORKSPACE_TESTS = sorted(
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
    for name in WORKSPACE_TESTS:
        try:
            getattr(Suite(), name)()
        except (AssertionError, IndexError, StatewrightError):  # any other error is a mistake in this file
            failed.add(name)
    return failed


def saver_sharing(method: str) -> type[InMemorySaver]:
    """Create a class of savers one method of which always works on the same workspace."""

    def shared(self: InMemorySaver, *args: Any, **options: Any) -> Any:
        return getattr(InMemorySaver, method)(self.for_workspace("one"), *args, **options)

    return type(f"Shares{method.title()}", (InMemorySaver,), {method: shared})


class IgnoresWorkspaces(InMemorySaver):
    def for_workspace(self, workspace: str) -> Any:
        return self


class HasOneScope(InMemorySaver):
    scope = "everything"


class HasAScopePerObject(InMemorySaver):
    @property
    def scope(self) -> Any:
        return id(self)


class ListsEmptyWorkspaces(InMemorySaver):
    def workspaces(self) -> list[str]:
        return sorted(self._workspaces)


class AcceptsAnyName(InMemorySaver):
    def _bind(self, workspace: Any) -> None:
        super()._bind(workspace or "one" if isinstance(workspace, str | None) else "one")


def test_the_in_memory_saver_passes() -> None:
    assert broken_promises(InMemorySaver) == set()


@pytest.mark.parametrize("method", METHODS)
def test_a_method_that_reaches_other_workspaces_is_detected(method: str) -> None:
    assert broken_promises(saver_sharing(method))


@pytest.mark.parametrize(
    "kind", [IgnoresWorkspaces, HasOneScope, HasAScopePerObject, ListsEmptyWorkspaces, AcceptsAnyName]
)
def test_savers_that_confuse_workspaces_are_detected(kind: Any) -> None:
    assert broken_promises(kind)


def test_a_subclass_of_the_suite_must_define_make_saver() -> None:
    with pytest.raises(NotImplementedError):
        WorkspaceCheckpointerConformance().make_saver()
