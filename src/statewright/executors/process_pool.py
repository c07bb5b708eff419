"""A pool of processes on this machine, for nodes that are busy with the processor.

`concurrent.futures.ProcessPoolExecutor` does not fit: it cannot stop a call that is being executed, all its calls fail
when one worker dies, and nothing shows which call killed it. Here a chunk is assigned to one worker, so only that chunk
is affected by a death, and a worker can be killed to stop its call.

Workers are started by *spawn*, on every system. A fork would copy the locks of all threads in whatever state they are,
and Statewright runs threads. So the main module of a program must be importable without running the program again, as
with `multiprocessing`: `if __name__ == "__main__":`.

One thread, the *manager*, starts and assigns workers and reads their messages. Other threads only append to the queue,
under a lock, and wake the manager.
"""

from __future__ import annotations

import atexit
import itertools
import math
import multiprocessing
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Iterable, Mapping
from contextlib import suppress
from multiprocessing import process as multiprocessing_process
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any, Final, Self

from statewright.errors import InvalidConfig, RemoteCallError, WorkerDied
from statewright.executors.exceptions import pack_error, unpack_error
from statewright.executors.pickling import dumps, dumps_function
from statewright.executors.port import ChunkRequest, SharedValue, pickling_error
from statewright.executors.process_exit import POLL_SECONDS, kill_group, open_exit
from statewright.executors.process_worker import ValueReference, serve

_counter = itertools.count()
_open_pools: weakref.WeakSet[ProcessExecutor] = weakref.WeakSet()
JOIN_SECONDS: Final = 5.0
"""How long to wait for a killed process to be gone."""
MAX_FAILED_STARTS: Final = 3
"""The number of successive workers that may exit before they are ready. After that, calls fail without another start.
"""
PAUSE_SECONDS: Final = 10.0
"""The time for which calls fail then, before another start is attempted."""


def usable_cpus() -> int:
    """Return the number of processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class ProcessExecutor:
    """Executes nodes in processes of this machine. Workers start when they are first needed.

    `max_workers` limits the processes, by default to the number of processors. A node with `resources={"cpu": 2}`
    counts as two. `max_resubmissions` is how often a call is sent again after its worker has died with it. Close the
    pool, or use it in a `with` statement; otherwise its processes end with the program. Raises InvalidConfig.
    """

    def __init__(self, max_workers: int | None = None, *, max_resubmissions: int = 3) -> None:
        for name, value, least in (("max_workers", max_workers, 1), ("max_resubmissions", max_resubmissions, 0)):
            if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < least):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise InvalidConfig(f"{name} is {value!r}. Pass an integer of at least {least}.")
        self.max_workers = max_workers or usable_cpus()
        self.max_resubmissions = max_resubmissions
        self._shared: weakref.WeakValueDictionary[str, _SharedValue] = weakref.WeakValueDictionary()
        """The shared values by their keys. A forked process keeps them, with the nodes that refer to them."""
        self._begin()
        if hasattr(os, "register_at_fork"):
            forget = weakref.WeakMethod(self._forget)
            os.register_at_fork(after_in_child=lambda: (forget() or _do_nothing)())
        _open_pools.add(self)

    def _forget(self) -> None:
        """Begin again after a fork: the workers belong to the parent."""
        workers = self._workers
        self._begin()
        for worker in workers:
            worker.forget()

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._queue: deque[ChunkRequest] = deque()
        self._workers: list[_Worker] = []
        self._manager: threading.Thread | None = None
        self._wake_reader: Connection | None = None
        self._wake_writer: Connection | None = None
        self._failed_starts = 0
        """The number of workers that have exited before they were ready, since the last one that was ready."""
        self._start_failure: tuple[float, RemoteCallError] | None = None
        """When the last start has failed, and why."""
        self._is_closed = False

    # -- the port

    @property
    def is_connected(self) -> bool:
        return True  # workers start in the background

    def connect(self) -> None:
        pass

    def find_problems(self, resources: Mapping[str, float]) -> Iterable[str]:
        for name, amount in resources.items():
            if name != "cpu":
                yield f"a pool of processes has no resource {name!r}, only 'cpu'"
            elif amount > self.max_workers:
                yield f"it needs {amount:g} processors, and the pool has {self.max_workers} workers"

    def capacity(self, resources: Mapping[str, float]) -> int:
        return max(1, self.max_workers // _weight(resources))

    def dumps(self, value: Any) -> bytes:
        return dumps(value)

    def dumps_function(self, function: Any) -> bytes:
        return dumps_function(function)

    def share(self, value: Any) -> SharedValue:
        shared = _SharedValue(f"{os.getpid()}.{next(_counter)}", value)
        self._shared[shared.key] = shared
        return shared

    def submit(self, request: ChunkRequest) -> None:
        with self._lock:
            if self._is_closed:
                raise RemoteCallError("The ProcessExecutor was closed. Create a new one.")
            self._queue.append(request)
            if self._manager is None:
                self._wake_reader, self._wake_writer = multiprocessing.Pipe(duplex=False)
                self._manager = threading.Thread(target=self._manage, name="statewright-processes", daemon=True)
                self._manager.start()
        self._wake()

    def cancel(self, request: ChunkRequest) -> None:
        with self._lock:
            with suppress(ValueError):
                self._queue.remove(request)
                return
            for worker in self._workers:
                if worker.request is request:
                    worker.request = None  # its end is not reported
                    worker.kill()

    def close(self) -> None:
        """Kill the workers. Calls in progress fail with RemoteCallError. The pool cannot be used any more."""
        with self._lock:
            self._is_closed, manager = True, self._manager
        self._wake()
        if manager is not None and manager is not threading.current_thread():
            manager.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def worker_ids(self) -> list[int]:
        """The process ids of the running workers."""
        with self._lock:
            return [worker.process.pid for worker in self._workers if worker.process.pid is not None]

    @property
    def queue_length(self) -> int:
        """The number of chunks that wait for a worker."""
        with self._lock:
            return len(self._queue)

    # -- the manager

    def _wake(self) -> None:
        with self._lock:
            if self._wake_writer is not None:
                with suppress(OSError):
                    self._wake_writer.send_bytes(b"x")

    def _manage(self) -> None:
        """Assign chunks and read messages until the pool is closed. The main function of the manager."""
        reader = self._wake_reader
        assert reader is not None
        try:
            while not self._is_closed:
                self._assign()
                sources: list[Any] = [reader]
                timeout = None
                for worker in self._workers:
                    sources += [worker.connection, worker.exit]
                    timeout = timeout if worker.tells_exit else POLL_SECONDS
                ready: set[Any] = set(wait(sources, timeout))
                if reader in ready:
                    while reader.poll():
                        reader.recv_bytes()
                for worker in tuple(self._workers):
                    if worker.connection in ready:
                        self._read(worker)
                    elif worker.exit in ready or (timeout is not None and worker.has_exited):
                        self._read_rest(worker)
        finally:
            self._end()

    def _assign(self) -> None:
        """Give chunks to idle workers, in order, and start workers if there are not enough."""
        while True:
            with self._lock:
                busy = sum(_weight(worker.request.resources) for worker in self._workers if worker.request is not None)
                if not self._queue or busy + _weight(self._queue[0].resources) > self.max_workers:
                    return
                idle = next((worker for worker in self._workers if worker.is_idle and not worker.has_exited), None)
                if idle is None:
                    starting = sum(not worker.is_ready for worker in self._workers)
                    missing = min(len(self._queue) - starting, self.max_workers - len(self._workers))
                    self._start(missing)
                    return
                request = idle.request = self._queue.popleft()
            dropped = [key for key in idle.known_keys if key not in self._shared]
            idle.known_keys.difference_update(dropped)
            request.on_begin()
            self._send(idle, ("run", dropped, request.function, request.payload))

    def _start(self, count: int) -> None:
        """Start workers. If there are none and none can be started, everything that waits fails. Needs the lock."""
        try:
            if self._start_failure is not None and self._failed_starts >= MAX_FAILED_STARTS:
                failed_at, failure = self._start_failure
                if not self._workers and time.monotonic() - failed_at < PAUSE_SECONDS:
                    raise failure
            for _ in range(count):
                self._workers.append(_Worker())
        except Exception as error:  # OSError, or AssertionError in a daemonic process, which may have no children
            if not self._workers:
                failure = error if isinstance(error, RemoteCallError) else _refusal(error)
                waiting, self._queue = self._queue, deque()
                for request in waiting:
                    request.on_end(failure)

    def _send(self, worker: _Worker, message: tuple[Any, ...]) -> None:
        try:
            worker.connection.send(message)
        except OSError:  # the worker has died, which `_read` handles
            return

    def _read(self, worker: _Worker) -> None:
        """Read one message of a worker. The end of the pipe means that it has died, or will."""
        try:
            kind, *content = worker.connection.recv()
        except (EOFError, OSError):
            self._bury(worker)
            return
        if kind == "ready":
            worker.is_ready = True
            self._failed_starts = 0
        elif kind == "need":
            self._send(worker, ("value", content[0], self._data_of(content[0])))
            worker.known_keys.add(content[0])
        else:
            with self._lock:
                request, worker.request = worker.request, None
            if request is not None:
                request.on_end(content[0] if kind == "done" else unpack_error(content[0]))

    def _read_rest(self, worker: _Worker) -> None:
        """Read what a worker has sent before it exited, or remove it. Children that it has forked may hold its pipe."""
        if worker.connection.poll():
            self._read(worker)
        else:
            self._bury(worker)

    def _data_of(self, key: str) -> Any:
        """Return a shared value as bytes, or the packed error if there is none."""
        shared = self._shared.get(key)
        try:
            if shared is None:
                raise RemoteCallError("A shared value is not available any more, because its superstep has ended.")
            return shared.data()
        except Exception as error:
            return pack_error(error, dumps)

    def _bury(self, worker: _Worker) -> None:
        """Remove a worker that has died, and report its chunk as lost."""
        if not worker.wait(JOIN_SECONDS):  # it runs without its pipe, which a node may have closed
            worker.kill()
            worker.wait(JOIN_SECONDS)
        worker.kill()  # what it has started
        exit_code = worker.process.exitcode
        failure = _start_error(exit_code)
        if not worker.is_ready:
            self._failed_starts += 1
            self._start_failure = (time.monotonic(), failure)
        with self._lock:
            self._workers.remove(worker)
            request = worker.request
            waiting: list[ChunkRequest] = []
            if not worker.is_ready and not any(other.is_ready for other in self._workers):
                waiting = [*self._queue]
                self._queue.clear()
        worker.close()
        if request is not None:
            request.on_end(WorkerDied(_cause_of_death(exit_code)))
        for other in waiting:
            other.on_end(failure)

    def _end(self) -> None:
        with self._lock:
            workers, self._workers = self._workers, []
            waiting = [*self._queue, *(worker.request for worker in workers if worker.request is not None)]
            self._queue.clear()
            self._is_closed, self._manager = True, None
            pipes = [pipe for pipe in (self._wake_reader, self._wake_writer) if pipe is not None]
            self._wake_reader = self._wake_writer = None
        for worker in workers:
            worker.kill()
        for worker in workers:
            worker.wait(JOIN_SECONDS)
            worker.close()
        for pipe in pipes:
            pipe.close()
        for request in waiting:
            request.on_end(RemoteCallError("The ProcessExecutor was closed while it executed this call."))


class _Worker:
    """A worker process, as its parent sees it."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process: SpawnProcess = context.Process(target=serve, args=(theirs,), name="statewright-worker")
        self.request: ChunkRequest | None = None
        """The chunk that it executes."""
        self.is_ready = False
        """True once it reads messages: a long one would block the manager before."""
        self.is_killed = False
        self.known_keys: set[str] = set()
        """The keys of the shared values that it has received."""
        self.process.start()
        theirs.close()
        self._exit = open_exit(self._pid)

    @property
    def _pid(self) -> int:
        assert self.process.pid is not None
        return self.process.pid

    @property
    def is_idle(self) -> bool:
        return self.is_ready and self.request is None and not self.is_killed

    @property
    def exit(self) -> int:
        """The object to wait for until the process has exited; without `tells_exit`, until its children have, too."""
        return self.process.sentinel if self._exit is None else self._exit

    @property
    def tells_exit(self) -> bool:
        """True if `exit` is reported in any case."""
        return self._exit is not None or os.name == "nt"

    @property
    def has_exited(self) -> bool:
        return self.process.exitcode is not None

    def kill(self) -> None:
        """Kill the process and those that it has started."""
        self.is_killed = True
        kill_group(self._pid)
        self.process.kill()

    def wait(self, seconds: float) -> bool:
        """Wait until the process has exited, and return whether it has."""
        deadline = time.monotonic() + seconds
        while not self.has_exited and (left := deadline - time.monotonic()) > 0:
            wait([self.exit], left if self.tells_exit else min(left, POLL_SECONDS))
        return self.has_exited

    def forget(self) -> None:
        """Give up the process in one that was forked from its parent."""
        self._close_files()
        # It would be joined at exit, which multiprocessing prevents only in the processes that it forks itself.
        children: set[Any] = getattr(multiprocessing_process, "_children", set())
        children.discard(self.process)

    def _close_files(self) -> None:
        self.connection.close()
        if self._exit is not None:
            os.close(self._exit)

    def close(self) -> None:
        self._close_files()
        with suppress(ValueError):  # it still runs, which only a hanging system can cause
            self.process.close()


class _SharedValue:
    """A shared value in the process that has shared it. Pickled only if a worker needs it, and then once."""

    __slots__ = ("__weakref__", "_data", "_value", "key")

    def __init__(self, key: str, value: Any) -> None:
        self.key = key
        self._value = value
        self._data: bytes | None = None

    def get(self) -> Any:
        return self._value

    def data(self) -> bytes:
        if self._data is None:
            try:
                self._data = dumps(self._value)
            except Exception as error:
                raise pickling_error("A value of the state, the context or the config", error) from error
        return self._data

    def __reduce__(self) -> Any:
        return ValueReference, (self.key,)


def _weight(resources: Mapping[str, float]) -> int:
    """Return the number of workers that a chunk counts as."""
    return max(1, math.ceil(resources.get("cpu", 1)))


def _cause_of_death(exit_code: int | None) -> str:
    if exit_code is None or exit_code >= 0:
        return f"it exited with code {exit_code}"
    return f"it was killed by signal {-exit_code}"


def _refusal(error: Exception) -> RemoteCallError:
    return RemoteCallError(
        f"A worker process could not be started: {type(error).__name__}: {error}. Free resources of the system, or use "
        f"the executor in a process that may have children, and resume."
    )


def _start_error(exit_code: int | None) -> RemoteCallError:
    return RemoteCallError(
        f"A worker process ended with code {exit_code} before it was ready; its output says why. If the main module of "
        f"your program starts runs, put that under `if __name__ == '__main__':`, since workers import the module too."
    )


def _do_nothing() -> None:
    pass


def _close_all() -> None:
    for pool in tuple(_open_pools):
        pool.close()


atexit.register(_close_all)
