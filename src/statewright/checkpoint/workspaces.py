"""Workspaces of threads: the same id in two workspaces identifies two unrelated threads."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, Protocol, runtime_checkable

from statewright.checkpoint.checkpointer import Checkpointer
from statewright.futures import MaybeFuture
from statewright.ids import checked_name


@runtime_checkable
class WorkspaceCheckpointer(Checkpointer, Protocol):
    """A checkpointer that keeps the threads of several workspaces apart. A service needs one.

    Each object is bound to one workspace. All methods of the port, lists and `prune` included, see the threads of that
    workspace and no others.
    """

    @property
    def workspace(self) -> str:
        """The workspace to which this object is bound."""
        ...

    @property
    def scope(self) -> Hashable:
        """Equal for objects that see the same threads: the same data and the same workspace."""
        ...

    def for_workspace(self, workspace: str) -> WorkspaceCheckpointer:
        """Return a checkpointer of the same data that is bound to another workspace; it needs no closing."""
        ...

    def workspaces(self) -> MaybeFuture[Sequence[str]]:
        """List the workspaces that have threads, sorted."""
        ...


def scope_of(saver: object) -> Hashable:
    """Return a key for the data and workspace of a saver; savers that share both have equal keys."""
    return getattr(saver, "scope", id(saver))


def check_workspace(workspace: Any) -> str:
    """Return the name of a workspace. Raises InvalidConfig unless it is a valid, non-empty string."""
    return checked_name("workspace", workspace)
