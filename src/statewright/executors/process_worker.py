"""The worker process of a `ProcessExecutor`.

It executes one chunk at a time and talks to its parent over a pipe. Messages to it: `("run", dropped, function,
payload)`, and `("value", key, data)` in reply to its own `("need", key)`. Its messages: `("ready",)`, `("need", key)`,
`("done", data)` and `("failed", packed error)`.

It ends when the pipe is closed, and at once, even in the middle of a call, when its parent has died: a result
without a receiver is not worth the processor time, and the next driver sends the call again. The processes that nodes
have started end with it. A Ctrl-C in the terminal is for the parent, which decides what it means.
"""

from __future__ import annotations

import os
import pickle
import signal
import threading
from collections.abc import Iterable
from multiprocessing import parent_process
from multiprocessing.connection import Connection, wait
from typing import Any

from statewright.errors import RemoteCallError
from statewright.executors.exceptions import pack_error, unpack_error
from statewright.executors.pickling import dumps
from statewright.executors.port import restoring_error
from statewright.executors.process_exit import POLL_SECONDS, exit_with_group, lead_group, open_exit
from statewright.executors.worker import forget_functions, run_chunk


class WorkerStore:
    """The shared values that this process has received, as bytes."""

    def __init__(self) -> None:
        self._connection: Connection | None = None
        self._data: dict[str, bytes] = {}
        self._lock = threading.Lock()
        self._is_running = False

    def connect(self, connection: Connection) -> None:
        self._connection = connection

    def disconnect(self) -> None:
        """Close the pipe in a process that a node has forked: only the worker uses it, and its end must be seen."""
        connection, self._connection = self._connection, None
        self._lock = threading.Lock()
        if connection is not None:
            connection.close()

    def begin(self, dropped: Iterable[str]) -> None:
        """Begin a chunk: values may be requested. Delete those that the parent has dropped."""
        with self._lock:
            self._is_running = True
            for key in dropped:
                self._data.pop(key, None)

    def end(self) -> None:
        """End a chunk: a thread that a node has left running may not use the pipe."""
        with self._lock:
            self._is_running = False

    def load(self, key: str) -> Any:
        """Return a new copy of a value, requesting it from the parent the first time."""
        with self._lock:
            data = self._data.get(key)
            if data is None:
                if self._connection is None or not self._is_running:
                    raise RemoteCallError(
                        "A shared value was used after its node had ended, or outside a worker. Read it in the node."
                    )
                self._connection.send(("need", key))
                _, _, data = self._connection.recv()
                if not isinstance(data, bytes):
                    raise unpack_error(data)
                self._data[key] = data
        try:
            return pickle.loads(data)
        except Exception as error:
            raise restoring_error("A value of the state, the context or the config", "in a worker", error) from error


store = WorkerStore()


class ValueReference:
    """A shared value in a worker."""

    __slots__ = ("key",)

    def __init__(self, key: str) -> None:
        self.key = key

    def get(self) -> Any:
        """Return a new copy of the value."""
        return store.load(self.key)


def serve(connection: Connection) -> None:
    """Execute chunks until the pipe is closed. The main function of the process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    lead_group()
    threading.Thread(target=_exit_with_parent, name="statewright-parent", daemon=True).start()
    store.connect(connection)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=store.disconnect)
        os.set_inheritable(connection.fileno(), False)  # it was, for this process
    try:
        connection.send(("ready",))
        while True:
            _, dropped, function, payload = connection.recv()
            store.begin(dropped)
            forget_functions(dropped)
            try:
                message: tuple[str, Any] = ("done", run_chunk(function, payload, dumps))
            except BaseException as error:
                message = ("failed", pack_error(error, dumps))
            store.end()
            connection.send(message)
    except (EOFError, OSError):  # the parent has closed the pipe
        return


def _exit_with_parent() -> None:
    parent = parent_process()
    if parent is None or parent.pid is None:
        return
    exit_of_parent = open_exit(parent.pid)
    if os.name == "nt":
        wait([parent.sentinel])
    elif exit_of_parent is not None and os.getppid() == parent.pid:
        wait([exit_of_parent])
    else:  # the sentinel is a pipe, which children that the parent has forked hold open
        while os.getppid() == parent.pid and not wait([parent.sentinel], POLL_SECONDS):
            pass
    exit_with_group()
