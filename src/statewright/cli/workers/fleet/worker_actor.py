"""The Ray actor of a worker. The supervisor calls its methods in their order, one at a time.

Ray creates an actor only after its module was imported, and reports it as pending until then. So this module imports
little, and the rest is imported with the argument of `load`. No method may be a coroutine function, because Ray would
then call all methods on an event loop.

The modules are imported on every node, so the nodes need the same version of the package.
"""

from __future__ import annotations

import os
import socket
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from statewright.cli.workers.fleet.hosted_worker import HostedWorker, WorkerSpec


class ActorLocation(NamedTuple):
    """The node, host and process of an actor."""

    node: str
    host: str
    pid: int


class WorkerActor:
    """A worker in the process of an actor."""

    def __init__(self) -> None:
        self._worker: HostedWorker | None = None

    def locate(self) -> ActorLocation:
        """Return where the actor was placed."""
        ray: Any = import_module("ray")
        return ActorLocation(ray.get_runtime_context().get_node_id(), socket.gethostname(), os.getpid())

    def load(self, spec: WorkerSpec) -> str | None:
        """Load the project and open the database. Return why that is impossible; None if it has succeeded."""
        from statewright.cli.workers.fleet.hosted_worker import HostedWorker

        self._worker = HostedWorker(spec)
        return self._worker.load()

    def begin(self) -> str:
        """Begin to advance runs, and return the id of the worker in the ledger."""
        assert self._worker is not None
        return self._worker.begin(self.locate()._asdict())

    def join(self) -> None:
        """Advance runs until the worker is asked to drain, and return when it has drained."""
        assert self._worker is not None
        self._worker.join()
