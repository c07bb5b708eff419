"""Nodes as tasks of Ray, on this machine or on a cluster.

Every chunk is one Ray task. Ray places it where its resources are, and restarts workers and machines; what a chunk
means, when it is sent again and what its results are is decided by the dispatcher, as for any executor. So Ray's own
retries are off: they would repeat a whole chunk with the call that has killed it, and count separately.

Nothing of a run lives in Ray. The state of a superstep is in the object store while the superstep runs, and the results
are saved by the run as chunks return: if the driver dies, the next one sends only the calls without a saved result.

References to objects must travel as arguments of a task. Inside bytes that we pickle, Ray could not see them, and would
keep the objects for ever. So a shared value is pickled as its key, and the task carries a table of references.
"""

from __future__ import annotations

import itertools
import os
import pickle
import threading
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

from statewright.errors import InvalidConfig, RemoteCallError, WorkerDied
from statewright.executors.exceptions import pack_error, unpack_error
from statewright.executors.port import ChunkRequest, SharedValue, pickling_error
from statewright.executors.worker import run_chunk
from statewright.extras import optional

_counter = itertools.count()
CAPACITY_SECONDS: Final = 1.0
"""The time for which the resources of the cluster are cached: a query costs as much as sending a chunk."""
INLINE_BYTES: Final = 64 * 1024
"""Functions up to this size are sent with each chunk, which costs less than an object in the store."""
_OPTIONS: Final = {"cpu": "num_cpus", "gpu": "num_gpus", "memory": "memory"}
_DONE, _FAILED = b"d", b"f"


class RayExecutor:
    """Executes nodes as tasks of Ray. Connects at first use, unless `ray.init` was called before.

    `address` is that of a cluster, as for `ray.init`: by default that of RAY_ADDRESS, of a cluster on this machine, or
    of a new one. `init` are further arguments of `ray.init`, and `options` those of each task (`runtime_env`,
    `scheduling_strategy` and so on). The `resources` of a node are `cpu` (1 by default), `gpu`, `memory` in bytes, and
    custom resources of the cluster. `max_resubmissions` is how often a call is sent again after its worker has died.
    Raises MissingLibrary if Ray is not installed, and InvalidConfig for options that belong to nodes.
    """

    def __init__(
        self,
        address: str | None = None,
        *,
        init: Mapping[str, Any] | None = None,
        options: Mapping[str, Any] | None = None,
        max_resubmissions: int = 3,
    ) -> None:
        owned = sorted({"num_cpus", "num_gpus", "resources", "max_retries", "retry_exceptions"} & set(options or ()))
        if owned:
            raise InvalidConfig(
                f"options= has {', '.join(owned)}. Give the resources to the nodes: "
                f"add_node(..., resources={{'cpu': 2, 'gpu': 1}}); repetitions are decided by max_resubmissions."
            )
        if find_spec("ray") is None:
            with optional("RayExecutor needs", extra="ray"):
                raise ModuleNotFoundError("No module named 'ray'", name="ray")
        self.max_resubmissions = max_resubmissions
        self._address = address
        self._init = {"ignore_reinit_error": True, **(init or {})}
        self._options = dict(options or {})
        self._lock = threading.Lock()
        self._ray: Any = None
        self._session = ("", "")
        """The ids of the node and the job of this process. One of them is another after each `ray.init`."""
        self._tasks: dict[tuple[tuple[str, float], ...], Any] = {}
        """The remote function with the options for some resources."""
        self._references: dict[ChunkRequest, Any] = {}
        """The references of the results of chunks in flight."""
        self._resources: tuple[float, Mapping[str, float]] = (0.0, {})
        """When the resources of the cluster were asked for, and the answer."""

    # -- the port

    @property
    def is_connected(self) -> bool:
        return self._ray is not None and bool(self._ray.is_initialized())

    def connect(self) -> None:
        self._connected()

    def find_problems(self, resources: Mapping[str, float]) -> Iterable[str]:
        return ()  # a cluster may grow

    def capacity(self, resources: Mapping[str, float]) -> int:
        total = self._cluster_resources()
        names = {"cpu": "CPU", "gpu": "GPU"}
        needs = {"cpu": 1.0, **resources}
        counts = [total.get(names.get(name, name), 0.0) // amount for name, amount in needs.items() if amount > 0]
        return max(1, int(min(counts, default=1)))

    def dumps(self, value: Any) -> bytes:
        return _dumps(value)

    def dumps_function(self, function: Any) -> bytes:
        return _dumps(function)

    def share(self, value: Any) -> SharedValue:
        return _SharedValue(self, value)

    def submit(self, request: ChunkRequest) -> None:
        ray = self._connected()
        function: Any = request.function
        data: bytes = function.get()
        references = {
            shared.key: [shared.put()]  # in a list, so that Ray does not fetch the object before the task begins
            for shared in request.shared
            if isinstance(shared, _SharedValue) and shared.is_stored
        }
        if len(data) > INLINE_BYTES:
            references[function.key] = [function.put()]
        reference = self._task_for(request.resources).remote(
            function.key, data if len(data) <= INLINE_BYTES else None, request.payload, references
        )
        with self._lock:
            self._references[request] = reference
        request.on_begin()
        future: Future[bytes] = reference.future()
        future.add_done_callback(lambda done: self._finish(ray, request, done))

    def cancel(self, request: ChunkRequest) -> None:
        with self._lock:
            reference = self._references.pop(request, None)
        if reference is not None:
            with suppress(Exception):  # the connection is gone, and the task with it
                self._connected().cancel(reference, force=True)

    # -- Ray

    def put(self, value: Any) -> tuple[tuple[str, str], Any]:
        """Put a value into the object store, and return the session and its reference."""
        ray = self._connected()
        return self._session, ray.put(value)

    def is_current(self, session: tuple[str, str]) -> bool:
        """Return whether references of a session can be used."""
        self._connected()
        return session == self._session

    def _connected(self) -> Any:
        """Return the module `ray`, connected to a cluster."""
        if self._ray is None or not self._ray.is_initialized():
            with self._lock:
                module: Any = import_module("ray")  # large, and needed only by programs that use it
                if not module.is_initialized():
                    module.init(address=self._address, **self._init)
                self._ray = module
        context = self._ray.get_runtime_context()
        session = (context.get_node_id(), context.get_job_id())
        if session != self._session:  # the program has connected again: what belongs to a former cluster is useless
            with self._lock:
                self._session = session
                self._tasks.clear()
                self._resources = (0.0, {})
        return self._ray

    def _task_for(self, resources: Mapping[str, float]) -> Any:
        key = tuple(sorted(resources.items()))
        with self._lock:
            if key not in self._tasks:
                needs = {"cpu": 1.0, **resources}
                options = {option: needs.pop(name) for name, option in _OPTIONS.items() if name in needs}
                task = self._ray.remote(_execute)
                self._tasks[key] = task.options(**self._options, **options, resources=needs, max_retries=0)
            return self._tasks[key]

    def _cluster_resources(self) -> Mapping[str, float]:
        asked_at, resources = self._resources
        if time.monotonic() - asked_at > CAPACITY_SECONDS or not resources:
            resources = self._connected().cluster_resources()
            self._resources = (time.monotonic(), resources)
        return resources

    def _finish(self, ray: Any, request: ChunkRequest, done: Future[bytes]) -> None:
        """Report the end of a task, on a thread of Ray."""
        with self._lock:
            if self._references.pop(request, None) is None:  # cancelled
                return
        try:
            data = done.result()
        except BaseException as error:
            request.on_end(_outcome_of(ray.exceptions, error))
            return
        request.on_end(data[1:] if data[:1] == _DONE else unpack_error(pickle.loads(data[1:])))


class _SharedValue:
    """A shared value in the driver. It is put into the object store when it is first sent."""

    __slots__ = ("_executor", "_lock", "_stored", "_value", "key")

    def __init__(self, executor: RayExecutor, value: Any) -> None:
        self.key = f"{os.getpid()}.{next(_counter)}.{os.urandom(4).hex()}"
        self._executor = executor
        self._value = value
        self._lock = threading.Lock()
        self._stored: tuple[tuple[str, str], Any] | None = None
        """The session and the reference."""

    @property
    def is_stored(self) -> bool:
        return self._stored is not None

    def get(self) -> Any:
        return self._value

    def put(self) -> Any:
        """Return the reference of the value in the object store."""
        with self._lock:
            if self._stored is None or not self._executor.is_current(self._stored[0]):
                try:
                    self._stored = self._executor.put(self._value)
                except (TypeError, pickle.PicklingError) as error:
                    raise pickling_error("A value of the state", error) from error
            return self._stored[1]

    def __reduce__(self) -> Any:
        self.put()
        return RayReference, (self.key,)


# -- in a worker

_table: dict[str, Any] = {}
"""The references that the current task carries, by the keys of their shared values. A worker executes one task at once.
"""


class RayReference:
    """A shared value in a worker of Ray."""

    __slots__ = ("key",)

    def __init__(self, key: str) -> None:
        self.key = key

    def get(self) -> Any:
        """Return a new copy of the value. Large arrays in it are views of the object store, and read-only."""
        reference = _table.get(self.key)
        if reference is None:  # a thread that a node has left running, while the worker executes another task
            raise RemoteCallError(
                "A shared value was used after its node had ended, or outside a worker. Read it in the node."
            )
        return import_module("ray").get(reference[0])


class _SentFunction:
    """The function of a chunk, which came with it or is in the object store."""

    __slots__ = ("_data", "key")

    def __init__(self, key: str, data: bytes | None) -> None:
        self.key = key
        self._data = data

    def get(self) -> Any:
        return self._data if self._data is not None else RayReference(self.key).get()


def _execute(key: str, function: bytes | None, payload: bytes, references: dict[str, Any]) -> bytes:
    """Execute a chunk: the function of every Ray task."""
    _table.clear()
    _table.update(references)
    try:
        return _DONE + run_chunk(_SentFunction(key, function), payload, _dumps)
    except Exception as error:
        return _FAILED + pickle.dumps(pack_error(error, _dumps))


def _dumps(value: Any) -> bytes:
    """Return a value as bytes. Definitions in the main module of the program are pickled by value, as Ray does."""
    try:
        data = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
        if b"__main__" not in data:
            return data
    except RemoteCallError:
        raise
    except Exception:
        pass  # cloudpickle may be able to; otherwise its error is as good
    module: Any = import_module("ray.cloudpickle")
    return module.dumps(value)


def _outcome_of(exceptions: Any, error: BaseException) -> BaseException:
    """Return what the failure of a task means: WorkerDied if it may be sent again."""
    lost = ("WorkerCrashedError", "NodeDiedError", "OutOfMemoryError", "ObjectLostError", "LocalRayletDiedError")
    kinds = tuple(kind for name in lost if isinstance(kind := getattr(exceptions, name, None), type))
    if isinstance(error, kinds):
        lines = str(error).strip().splitlines() or [type(error).__name__]
        return WorkerDied(f"{type(error).__name__}: {lines[0]}")
    cause = getattr(error, "cause", None)
    failure = cause if isinstance(cause, BaseException) else error
    return RemoteCallError(f"Ray could not execute a task: {type(failure).__name__}: {failure}")
