"""The port that every store obeys: memory across threads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from statewright.store.model import Item, Namespace, SearchItem


@runtime_checkable
class Store(Protocol):
    """Values by namespace and key. Writes take effect at once: they are no part of a superstep."""

    def get(self, namespace: Namespace, key: str) -> Item | None: ...

    def put(self, namespace: Namespace, key: str, value: Mapping[str, Any]) -> None:
        """Keep a copy of `value`, replacing what was there. Raises InvalidUpdateError for a bad namespace."""
        ...

    def delete(self, namespace: Namespace, key: str) -> None:
        """Remove an item; nothing happens where there is none."""
        ...

    def search(
        self,
        prefix: Namespace,
        *,
        filter: Mapping[str, Any] | None = None,  # noqa: A002  # the field's word
        limit: int = 10,
        offset: int = 0,
    ) -> list[SearchItem]:
        """Items under `prefix` whose values hold what `filter` says, the last updated first."""
        ...

    def list_namespaces(
        self, *, prefix: Namespace = (), max_depth: int | None = None, limit: int = 100, offset: int = 0
    ) -> Sequence[Namespace]:
        """Namespaces in use, sorted, cut to `max_depth` labels."""
        ...
