"""The port of executors: what the runtime asks of a pool of workers in other processes.

An executor knows nothing of graphs and runs. It executes *chunks*: a function, and calls of it that are sent together.
The function and values that many calls need are *shared*: they reach a worker once, however many chunks it executes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from statewright.errors import RemoteCallError


class SharedValue(Protocol):
    """A value that is sent to a worker at most once, when the worker first needs it.

    It can be pickled inside the arguments of a call, in the same executor only. It is kept as long as the process that
    has shared it refers to this object.
    """

    @property
    def key(self) -> str:
        """A name for the value, unique over all executors and processes."""
        ...

    def get(self) -> Any:
        """Return the value. Each call in a worker returns a new copy, so that calls cannot change each other's."""
        ...


@dataclass(slots=True, eq=False, kw_only=True)
class ChunkRequest:
    """Calls of a function that one worker executes one after another."""

    function: SharedValue
    """The pickled function: see `worker.run_chunk`."""
    payload: bytes
    """The pickled list of calls, or `worker.SeparateItems`."""
    resources: Mapping[str, float]
    """The resources that the worker must have, such as `{"cpu": 2, "gpu": 1}`."""
    shared: tuple[SharedValue, ...] = ()
    """Shared values that the calls refer to, to keep them alive."""
    on_begin: Callable[[], object]
    """Called once a worker has begun, or as soon as the executor knows no better. On any thread; must not block."""
    on_end: Callable[[bytes | BaseException], object]
    """Called with the pickled replies; with WorkerDied if the worker has died, so that the calls may be repeated; with
    another error if the chunk could not be executed at all. On any thread; must not block. Not called after `cancel`.
    """


class Executor(Protocol):
    """A pool of workers in other processes. May be used by any number of graphs and threads."""

    @property
    def max_resubmissions(self) -> int:
        """The number of times that a call is sent again after its worker has died with it."""
        ...

    @property
    def is_connected(self) -> bool:
        """True if the other methods return soon. Otherwise event loops call `connect` on a thread first."""
        ...

    def connect(self) -> None:
        """Establish the connection to the workers, which may take seconds. Done by the other methods if necessary."""
        ...

    def find_problems(self, resources: Mapping[str, float]) -> Iterable[str]:
        """Yield the reasons why no worker can ever have these resources, as sentences. The amounts are numbers."""
        ...

    def capacity(self, resources: Mapping[str, float]) -> int:
        """Return how many chunks that need these resources can be executed at once; at least 1."""
        ...

    def dumps(self, value: Any) -> bytes:
        """Return a value as bytes that `pickle.loads` restores in a worker. Raises any exception if it cannot."""
        ...

    def dumps_function(self, function: Any) -> bytes:
        """Return a function as bytes like `dumps`, also if a worker cannot import the main module of this process."""
        ...

    def share(self, value: Any) -> SharedValue:
        """Make a value available to all workers. It must not be changed afterwards."""
        ...

    def submit(self, request: ChunkRequest) -> None:
        """Execute a chunk as soon as there is a free worker."""
        ...

    def cancel(self, request: ChunkRequest) -> None:
        """Give up a chunk. If it is being executed, its worker is killed, in the middle of whatever it does."""
        ...


def find_resource_problems(executor: Executor, resources: Mapping[str, float]) -> Iterable[str]:
    """Yield the reasons why an executor can never provide some resources, wrong amounts included, as sentences."""
    problems = [
        f"the resource {name!r} is {amount!r}, which must be a finite number that is not negative"
        for name, amount in resources.items()
        if not isinstance(amount, int | float) or isinstance(amount, bool) or not 0 <= amount < math.inf  # pyright: ignore[reportUnnecessaryIsInstance]
    ]
    return problems or executor.find_problems(resources)


def pickling_error(what: str, error: BaseException) -> RemoteCallError:
    """Return the error about a value that cannot be sent to a worker; `what` names it."""
    return RemoteCallError(
        f"{what} cannot be sent to another process: {type(error).__name__}: {error}. Use functions and classes that "
        f"can be imported from a module, and values that can be pickled; with cloudpickle installed, lambdas and local "
        f"functions can be sent as well."
    )


def restoring_error(what: str, where: str, error: BaseException) -> RemoteCallError:
    """Return the error about a value that arrived, but cannot be restored; `what` names it, `where` says where."""
    return RemoteCallError(
        f"{what} cannot be restored {where}: {type(error).__name__}: {error}. Its class must be importable there "
        f"from the same module, and pickle must be able to create an equal object: see `__reduce__`."
    )
