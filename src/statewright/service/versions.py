"""Which version of a workflow a name or an id means.

The lookup is a generator of questions to the ledger, as the core of a run is: whoever is on an event loop awaits the
answers, and whoever is on the thread of a node waits for them.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, TypeVar

from statewright.async_futures import aresolve
from statewright.errors import InvalidRequest, NotFound, suggestion
from statewright.futures import resolve
from statewright.runs import Ledger, Order, StoredDefinition, where
from statewright.service.catalog import PROJECT, Catalog
from statewright.service.request import StartRun

T = TypeVar("T")
Asking = Generator[Any, Any, T]
"""Yields answers that may come later, is sent what they are, and returns what was looked for."""


async def asked(asking: Asking[T]) -> T:
    """What a lookup finds, on an event loop."""
    answer: Any = None
    while True:
        try:
            question = asking.send(answer)
        except StopIteration as found:
            return found.value
        answer = await aresolve(question)


def asked_here(asking: Asking[T]) -> T:
    """What a lookup finds, on a thread that may wait."""
    answer: Any = None
    while True:
        try:
            question = asking.send(answer)
        except StopIteration as found:
            return found.value
        answer = resolve(question)


class Versions:
    """Finds stored versions; those that were read once are known, for they never change."""

    def __init__(self, ledger: Ledger, catalog: Catalog) -> None:
        self._ledger = ledger
        self._catalog = catalog
        self._known: dict[str, StoredDefinition] = {}

    def meant(self, workspace_id: str, wanted: StartRun) -> Asking[StoredDefinition]:
        """The version that is to be run. Raises NotFound, and InvalidRequest if none or two are named."""
        if (wanted.graph is None) == (wanted.definition_id is None):
            raise InvalidRequest("A run is of a graph or of a definition: give graph or definitionId, and not both.")
        if wanted.definition_id is not None:
            return (yield from self.stored(workspace_id, wanted.definition_id))
        return (yield from self.newest(workspace_id, str(wanted.graph)))

    def stored(self, workspace_id: str, identity: str) -> Asking[StoredDefinition]:
        """A version of the workspace or of the project. Raises NotFound."""
        allowed = (workspace_id, PROJECT)
        found = self._known.get(identity)
        if (
            found is None or found.workspace_id not in allowed
        ):  # what belongs to others takes as long as what is not there
            found = yield self._ledger.get(StoredDefinition, identity)
            if found is not None:
                self._known[identity] = found
        if found is None or found.workspace_id not in allowed:
            raise NotFound(f"There is no definition {identity!r}.")
        return found

    def newest(self, workspace_id: str, name: str) -> Asking[StoredDefinition]:
        """What is served under a name, else the newest version that the workspace has. Raises NotFound."""
        served = self._catalog.get(name)
        if served is not None:
            return (yield from self.stored(PROJECT, served.definition_id))
        conditions = where(workspace_id=workspace_id, name=name)
        newest = Order("created_at", descending=True)
        found: Sequence[StoredDefinition] = yield self._ledger.find(StoredDefinition, conditions, order=newest, limit=1)
        if found:
            return found[0]
        own: Sequence[StoredDefinition] = yield self._ledger.find(StoredDefinition, where(workspace_id=workspace_id))
        names = {*(one.name for one in own), *(one.name for one in self._catalog.served)}
        raise NotFound(f"There is no graph {name!r}. " + suggestion(name, names, noun="Graphs"))
