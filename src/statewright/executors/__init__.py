"""Executors that run nodes in other processes: on this machine (`ProcessExecutor`) or on a Ray cluster (`RayExecutor`).

A node asks for one by name, `add_node(..., executor="process")`, and `compile(executors={...})` says what the names
mean. The modules are imported on first use, so that importing Statewright loads neither `multiprocessing` nor Ray.

    chunks       how many calls are sent together, by measured cost
    dispatcher   packs calls into chunks, and delivers results: windows, losses, cancellation; shared by all executors
    loop_calls   calls that coroutines await; remote_function: for code that is not a node of its own
    port         the protocol that an executor implements
    worker       the execution of a chunk in a worker
    exceptions   errors as bytes that keep their type
    process_pool, process_worker      the two ends of a pool of processes
    process_exit                      the exit of a process, and of those that it has started
    ray_executor                      tasks of Ray
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

__all__ = ["Executor", "ProcessExecutor", "RayExecutor", "RemoteFunction"]

if TYPE_CHECKING:
    from statewright.executors.port import Executor
    from statewright.executors.process_pool import ProcessExecutor
    from statewright.executors.ray_executor import RayExecutor
    from statewright.executors.remote_function import RemoteFunction

_MODULES = {
    "Executor": "port",
    "ProcessExecutor": "process_pool",
    "RayExecutor": "ray_executor",
    "RemoteFunction": "remote_function",
}

if not TYPE_CHECKING:  # a type checker that saw this function would accept any name

    def __getattr__(name: str) -> object:
        module = _MODULES.get(name)
        if module is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(f"{__name__}.{module}"), name)
        globals()[name] = value
        return value
