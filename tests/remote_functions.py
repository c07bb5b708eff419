"""Nodes for tests of executors. Worker processes import this module, so it holds nothing but functions and classes."""

from __future__ import annotations

import operator
import os
import signal
import time
from pathlib import Path
from typing import Annotated, Any, TypedDict

from statewright import (
    Command,
    RemainingSteps,
    Runtime,
    Send,
    get_config,
    get_runtime,
    get_store,
    get_stream_writer,
    interrupt,
    sleep,
    wait_for_event,
)


class Numbers(TypedDict, total=False):
    items: list[Any]
    factor: int
    results: Annotated[list[Any], operator.add]
    seen: Annotated[dict[str, Any], operator.or_]
    remaining: RemainingSteps


class Fragile(Exception):
    """An error that pickle cannot restore: `__init__` takes other arguments than it passes on."""

    def __init__(self, code: int, *, place: str) -> None:
        self.code = code
        self.place = place
        self.callback = lambda: code  # cannot be pickled
        super().__init__(f"code {code} at {place}")


def square(number: int) -> dict[str, Any]:
    return {"results": [number * number]}


def observe(number: int) -> dict[str, Any]:
    """Do what a log handler and a tracer do in a node."""
    from statewright.observe.capture import current_attempt
    from statewright.observe.logs import current_fields

    return {"results": [(current_fields(), current_attempt())]}


async def square_async(number: int) -> dict[str, Any]:
    return {"results": [number * number]}


def process_of(item: Any) -> dict[str, Any]:
    return {"results": [os.getpid()]}


def scale(state: Numbers) -> dict[str, Any]:
    return {"results": [item * state["factor"] for item in state["items"]]}


def count(state: Numbers) -> dict[str, Any]:
    return {"results": [len(state["items"])]}


def double(item: Any) -> Any:
    return item * 2


def go_on(state: Numbers) -> Any:
    return Command(update={"results": ["sent"]}, goto=[Send("square", 3), Send("square", 4)])


def fail(item: Any) -> Any:
    if item == "builtin":
        raise KeyError("missing")
    if item == "fragile":
        raise Fragile(7, place="here")
    if item == "local":

        class Local(ValueError):
            pass

        raise Local("from a function")
    if item == "group":
        raise ExceptionGroup("several", [Fragile(7, place="here"), ValueError("other")])
    if item == "exit":
        raise SystemExit(3)
    return {"results": [item]}


def return_unpicklable(item: Any) -> Any:
    return {"results": [(lambda: item) if item == "bad" else item]}


def ask_runtime(item: Any, runtime: Runtime, config: Any) -> Any:
    info = runtime.execution_info
    return {
        "seen": {
            "context": runtime.context,
            "tag": config["configurable"]["tag"],
            "key": runtime.idempotency_key == info.task_id,
            "node": info.node,
            "step": info.step,
            "attempt": info.attempt,
            "thread": info.thread_id,
            "factor": runtime.state["factor"],
            "fields": sorted(runtime.state),
            "steps": runtime.remaining_steps,
            "cancelled": runtime.cancel_requested,
        }
    }


def stream(item: Any, runtime: Runtime, writer: Any) -> Any:
    writer(f"begin {item}")
    runtime.stream_writer(f"end {item}")
    runtime.spend(tokens=10)
    return {"results": [item]}


_REFUSED: dict[str, Any] = {
    "interrupt": lambda runtime: interrupt("?"),
    "sleep": lambda runtime: sleep(1),
    "wait_for_event": lambda runtime: wait_for_event("e"),
    "get_runtime": lambda runtime: get_runtime(),
    "get_config": lambda runtime: get_config(),
    "get_store": lambda runtime: get_store(),
    "get_stream_writer": lambda runtime: get_stream_writer(),
    "step": lambda runtime: runtime.step("s", int),
    "store": lambda runtime: runtime.store,
    "control": lambda runtime: runtime.control,
    "drain_requested": lambda runtime: runtime.drain_requested,
    "heartbeat": lambda runtime: runtime.heartbeat(),
    "previous": lambda runtime: runtime.previous,
    "asked": lambda runtime: runtime.asked("k"),
    "start_run": lambda runtime: runtime.start_run("g"),
    "check_saveable": lambda runtime: runtime.check_saveable(1),
    "task": lambda runtime: _call_task(),
    "graph": lambda runtime: _call_graph(),
}
REFUSED = list(_REFUSED)


def use_refused(item: str, runtime: Runtime) -> Any:
    _REFUSED[item](runtime)


def _call_task() -> Any:
    from statewright import task

    return task(square)(2)


def _call_graph() -> Any:
    from statewright import START, StateGraph

    return StateGraph(Numbers).add_node("n", count).add_edge(START, "n").compile().invoke({"items": []})


# -- calls that leave marks in a folder, so that a test can see in which process and how often they ran


def mark(folder: str, name: object) -> None:
    """Add a line with the process id to the file of a name."""
    with (Path(folder) / str(name)).open("a") as file:
        file.write(f"{os.getpid()}\n")


def marks(folder: Path, name: object) -> list[int]:
    """Return the process ids of the marks of a name, in order."""
    path = folder / str(name)
    return [int(line) for line in path.read_text().splitlines()] if path.exists() else []


def die_once(item: tuple[str, int]) -> Any:
    """Mark the call, and kill the process at the first call of item 3."""
    folder, number = item
    mark(folder, number)
    if number == 3 and len(marks(Path(folder), number)) == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return {"results": [number]}


def die_always(item: tuple[str, int]) -> Any:
    folder, number = item
    mark(folder, number)
    if number == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return {"results": [number]}


def block(item: tuple[str, int]) -> Any:
    """Mark the call, and block for item 0 until a file `go` exists."""
    folder, number = item
    mark(folder, number)
    while number == 0 and not (Path(folder) / "go").exists():
        time.sleep(0.01)
    return {"results": [number]}


def stream_and_block(item: tuple[str, int], writer: Any) -> Any:
    writer(f"item {item[1]}")
    return block(item)


def fail_when_told(item: tuple[str, int]) -> Any:
    """Mark the call. Item 1 fails once item 0 has begun; item 0 ends once a file `go` exists."""
    folder, number = item
    if number == 1:
        while not marks(Path(folder), 0):
            time.sleep(0.01)
        raise ValueError("item 1")
    return block(item)


def fail_twice(item: tuple[str, int], runtime: Runtime) -> Any:
    """Fail at the first two attempts."""
    folder, number = item
    mark(folder, number)
    if len(marks(Path(folder), number)) < 3:
        raise ConnectionError("not yet")
    return {"results": [runtime.execution_info.attempt]}


def run_out_of_memory(item: Any) -> Any:
    """Raise MemoryError for the item "large"."""
    return {"results": [len(bytearray(1 << 60)) if item == "large" else item]}


class Pickled:
    """A value that records in a folder how often it is pickled."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def __reduce__(self) -> Any:
        mark(self.folder, "pickled")
        return Pickled, (self.folder,)


def read_large(item: Any, runtime: Runtime) -> Any:
    return {"results": [type(runtime.state["seen"]["large"]).__name__]}


def use_large(state: Numbers) -> Any:
    return {"results": [type(state["seen"]["large"]).__name__]}


def wait_at_the_start(item: tuple[str, int]) -> Any:
    """Mark the first items with their process, and let them wait until a file `go` exists; the others are quick."""
    folder, number = item
    if number < 4:
        mark(folder, "begun")
        while not (Path(folder) / "go").exists():
            time.sleep(0.01)
    return {"results": [number]}


def square_and_pid(number: int) -> list[int]:
    return [number * number, os.getpid()]


def is_running(pid: int) -> bool:
    """Return whether a process exists and is not a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
