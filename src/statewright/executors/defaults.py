"""The executors that nodes can name without `compile(executors=...)`: `process` and `ray`, shared by all graphs."""

from __future__ import annotations

import threading
from typing import Any, Final

from statewright.executors.port import Executor

DEFAULT_NAMES: Final = ("process", "ray")
_defaults: dict[str, Executor] = {}
_lock = threading.Lock()


def default_executor(name: str) -> Executor | None:
    """Return the executor with a name, created at the first request; None if there is none."""
    if name not in DEFAULT_NAMES:
        return None
    with _lock:
        if name not in _defaults:
            _defaults[name] = _create(name)
        return _defaults[name]


def _create(name: str) -> Any:
    if name == "process":
        from statewright.executors.process_pool import ProcessExecutor

        return ProcessExecutor()
    from statewright.executors.ray_executor import RayExecutor

    return RayExecutor()
