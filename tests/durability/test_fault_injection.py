"""Any external call of the runtime may raise, be late, hang or be cancelled; every run still ends.

Random graphs with policies, siblings, subgraphs, sends, steps and streams run once to count the calls that leave the
runtime. Then each runs again with a fault at one of these calls. A run must end with the injected error or the correct
result, must hold no resources afterwards, and the thread must continue to the correct result.

The guard is a time after which a run counts as hung; no test depends on the speed of the machine.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import AfterValidator, create_model

from statewright import (
    START,
    CachePolicy,
    CircuitBreaker,
    InMemoryCache,
    InMemorySaver,
    RateLimit,
    RetryPolicy,
    RunControl,
    Runtime,
    Send,
    StateGraph,
)
from statewright.clock import SystemClock
from statewright.errors import NodeTimeoutError, RunCancelled
from statewright.futures import LightFuture, is_future
from statewright.runtime import Instrument
from statewright.runtime.concurrency.private_loop import _idle_loops as idle_loops
from statewright.runtime.concurrency.worker_threads import workers
from statewright.storage.sqlite import SqliteSaver

FULL = bool(os.environ.get("STATEWRIGHT_FULL"))
GRAPHS = 40 if FULL else 3
FAULTS = 25 if FULL else 4
GUARD = 600.0
"""Seconds after which a run counts as hung."""
LONG = 600.0
THREAD = {"configurable": {"thread_id": "1"}}
KINDS = ("raise", "late", "cancel", "hang")
SAVER_METHODS = ("load", "commit", "save_results", "renew", "lease", "want", "events")


class Injected(Exception):
    """The error of a fault."""


class Faults:
    """Counts the calls that leave the runtime, and makes one of them fail."""

    def __init__(self, kind: str = "", at: int = -1, *, answers: bool = False) -> None:
        self.kind = kind
        self.at = at
        self.answers = answers
        """True if a saver raises in its future rather than immediately."""
        self.labels: list[str] = []
        self.struck: str | None = None
        self.cancel: Callable[[], object] = lambda: None
        self.reached = threading.Event()
        self.released = threading.Event()
        self.steps: Counter[str] = Counter()
        self.is_over = False
        self._lock = threading.Lock()

    def point(self, label: str, *, may_hang: bool = False) -> bool:
        """Note a call; return whether its future must raise."""
        with self._lock:
            if self.is_over:
                return False
            number = len(self.labels)
            self.labels.append(label)
            strikes = self.struck is None and self.at >= 0 and number >= self.at
            if not strikes or (self.kind == "hang" and not may_hang):
                return False
            self.struck = label
        if self.kind == "raise":
            if self.answers and label.startswith("saver."):
                return True
            raise Injected(label)
        if self.kind == "cancel":
            self.cancel()
        else:
            self.reached.set()
            assert self.released.wait(4 * GUARD)
        return False


class FaultyClock(SystemClock):
    def __init__(self, faults: Faults) -> None:
        self._faults = faults

    def now(self) -> Any:
        self._faults.point("clock.now")
        return super().now()

    def monotonic(self) -> float:
        self._faults.point("clock.monotonic")
        return super().monotonic()

    def call_later(self, seconds: float, callback: Callable[[], object]) -> Any:
        self._faults.point("clock.call_later")
        return super().call_later(seconds, callback)

    def wait(self, woken: threading.Event, seconds: float) -> None:
        self._faults.point("clock.wait")
        super().wait(woken, seconds)


class FaultyCache(InMemoryCache):
    def __init__(self, faults: Faults) -> None:
        super().__init__()
        self._faults = faults

    def get(self, key: Any) -> Any:
        self._faults.point("cache.get")
        return super().get(key)

    def put(self, key: Any, result: Any, **options: Any) -> Any:
        self._faults.point("cache.put")
        return super().put(key, result, **options)


class Watching(Instrument):
    def __init__(self, faults: Faults) -> None:
        self._faults = faults

    def on_run_started(self, event: Any) -> None:
        self._faults.point("instrument.run_started")

    def on_task_started(self, event: Any) -> None:
        self._faults.point("instrument.task_started")

    def on_task_finished(self, event: Any) -> None:
        self._faults.point("instrument.task_finished")

    def on_superstep_finished(self, event: Any) -> None:
        self._faults.point("instrument.superstep_finished")

    def on_run_finished(self, event: Any) -> None:
        self._faults.point("instrument.run_finished")


def faulty_saver(saver: Any, faults: Faults) -> Any:
    """A saver with a fault point before each call of a method."""

    def calling(name: str) -> Any:
        def call(_: Any, *args: Any, **options: Any) -> Any:
            if faults.point(f"saver.{name}"):
                answer: LightFuture[Any] = LightFuture()
                answer.set_exception(Injected(f"answer of saver.{name}"))
                return answer
            return getattr(saver, name)(*args, **options)

        return call

    methods = {name: calling(name) for name in SAVER_METHODS}
    other = {
        name: (lambda _, *args, name=name, **options: getattr(saver, name)(*args, **options))
        for name in dir(type(saver))
        if not name.startswith("_") and name not in methods and callable(getattr(saver, name))
    }
    faulty: Any = type("FaultySaver", (), {**other, **methods})()
    if hasattr(saver, "serde"):
        faulty.serde = saver.serde
    return faulty


class RandomGraph:
    """A graph of layers, the same for the same seed."""

    def __init__(self, seed: int, faults: Faults, *, timeout: float) -> None:
        self._faults = faults
        self._random = random.Random(seed)
        self._timeout = timeout
        self._schema = self._state() if seed % 3 else {"log": self._add, "n": int}

    def build(self) -> StateGraph:
        """The whole graph; its nodes append their names to the log in any order."""
        graph = StateGraph(self._schema)
        before = [START]
        for layer in range(self._random.randint(1, 3)):
            names = [self._node(graph, f"n{layer}{number}") for number in range(self._random.choice([1, 2, 3]))]
            for name in names:
                graph.add_edge(before if len(before) > 1 else before[0], name)
            before = names
        if self._random.random() < 0.6:
            self._fan_out(graph, before[0])
        return graph

    def _node(self, graph: StateGraph, name: str) -> str:
        if self._random.random() < 0.3 and name.endswith("0"):  # two subgraphs would both write every field
            inner = StateGraph(self._schema)
            for part in ("x", "y")[: self._random.choice([1, 2])]:
                inner.add_node(f"{name}{part}", self._function(f"{name}{part}", False)).add_edge(START, f"{name}{part}")
            graph.add_node(name, inner.compile())
        else:
            policies = self._policies()
            graph.add_node(name, self._function(name, "timeout" in policies), **policies)
        return name

    def _fan_out(self, graph: StateGraph, name: str) -> None:
        count = self._random.randint(1, 4)

        def route(state: Any) -> list[Send]:
            self._faults.point("route")
            return [Send("worker", {"log": [], "n": number}) for number in range(count)]

        policies = self._policies()
        graph.add_node("worker", self._function("worker", "timeout" in policies), **policies)
        graph.add_conditional_edges(name, route, ["worker"])

    def _policies(self) -> dict[str, Any]:
        chosen: dict[str, Any] = {}
        chance = self._random.random
        if chance() < 0.35:
            retry_on = self._policy("retry_on", lambda error: isinstance(error, Injected | NodeTimeoutError))
            chosen["retry_policy"] = RetryPolicy(initial_interval=0.001, jitter=False, retry_on=retry_on)
        if chance() < 0.25:
            chosen["cache_policy"] = CachePolicy(key_func=self._policy("key_func", lambda state: time.monotonic_ns()))
        if chance() < 0.35:
            chosen["timeout"] = self._timeout
        if chance() < 0.2:
            counts = self._policy("counts", lambda error: True)
            chosen["circuit_breaker"] = CircuitBreaker(failure_threshold=50, counts=counts)
        if chance() < 0.2:
            chosen["rate_limit"] = RateLimit(limit=10_000, per=1)
        if chance() < 0.25:
            chosen["max_concurrency"] = 1
        return chosen

    def _policy(self, label: str, function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def policy(argument: Any) -> Any:
            self._faults.point(f"policy.{label}")
            return function(argument)

        return policy

    def _function(self, name: str, has_timeout: bool) -> Any:
        faults, steps = self._faults, self._random.random() < 0.3

        def step() -> str:
            faults.point("step")
            return name

        def effect(key: str) -> None:
            faults.steps[key] += 1

        def node(state: Any, runtime: Runtime[Any]) -> Any:
            faults.point(f"node.{name}", may_hang=has_timeout)
            runtime.stream_writer(name)
            if steps:
                runtime.step("point", step)
                runtime.step("effect", effect, runtime.execution_info.task_id)
            return {"log": [name]}

        async def anode(state: Any, runtime: Runtime[Any]) -> Any:
            await asyncio.sleep(0)
            if has_timeout and faults.kind == "hang" and faults.struck is None and len(faults.labels) >= faults.at:
                faults.struck = f"node.{name}"
                await asyncio.Event().wait()  # a call that blocks its event loop cannot time out
            faults.point(f"node.{name}")
            return {"log": [name]}

        return node if steps or self._random.random() < 0.6 else anode

    def _add(self, old: list[str], new: list[str]) -> list[str]:
        self._faults.point("reducer")
        return [*old, *new]

    def _state(self) -> Any:
        def checked(value: int) -> int:
            self._faults.point("validator")
            return value

        fields: dict[str, Any] = {
            "log": (Annotated[list[str], self._add], []),
            "n": (Annotated[int, AfterValidator(checked)], 0),
        }
        return create_model("State", **fields)


class Case:
    """One run of one graph with one fault."""

    def __init__(self, seed: int, driver: str, saver: Any, faults: Faults) -> None:
        self._driver = driver
        self._faults = faults
        timeout = 0.05 if faults.kind == "hang" else LONG
        graph = RandomGraph(seed, faults, timeout=timeout).build()
        chance = random.Random(seed)
        self._options: dict[str, Any] = {"durability": chance.choice(["sync", "async", "exit"])}
        if chance.random() < 0.3:
            self._options["max_concurrency"] = chance.choice([1, 2])
        self._streams = chance.random() < 0.5
        self.saver = saver
        self.app = graph.compile(
            faulty_saver(saver, faults),
            cache=FaultyCache(faults),
            clock=FaultyClock(faults),
            instruments=[Watching(faults)],
            validate="all",
        )
        self.log: Any = None
        self.error: BaseException | None = None
        self.left_tasks: list[str] = []

    def run(self, input_: Any) -> bool:
        """Run to the end; return False if the run hangs."""
        self.log = self.error = None
        thread = threading.Thread(target=self._run, args=(input_,), daemon=True)
        thread.start()
        deadline = time.monotonic() + GUARD
        while thread.is_alive() and time.monotonic() < deadline:
            if self._faults.reached.is_set() and self._faults.kind == "late":
                self._settle()
                self._faults.released.set()
            thread.join(0.002)
        self._faults.released.set()  # calls that hung past their timeout may end now
        return not thread.is_alive()

    def _settle(self) -> None:
        """Let the other calls continue until they wait for the late one."""
        count = -1
        while count != len(self._faults.labels):
            count = len(self._faults.labels)
            time.sleep(0.003)

    def _run(self, input_: Any) -> None:
        try:
            result = self._sync(input_) if self._driver == "sync" else asyncio.run(self._async(input_))
            self.log = log_of(result) if result is not None else None
        except BaseException as error:
            self.error = error

    def _sync(self, input_: Any) -> Any:
        control = RunControl()
        self._faults.cancel = control.request_cancel
        if self._streams:
            for _ in self.app.stream(
                input_, THREAD, stream_mode=["updates", "custom"], control=control, **self._options
            ):
                pass
            return None
        return self.app.invoke(input_, THREAD, control=control, **self._options)

    async def _async(self, input_: Any) -> Any:
        control, loop = RunControl(), asyncio.get_running_loop()
        main = asyncio.current_task()
        assert main is not None
        by_control = self._faults.at % 2 == 0
        self._faults.cancel = (
            control.request_cancel if by_control else lambda: loop.call_soon_threadsafe(main.cancel) and None
        )
        try:
            if self._streams:
                modes = ["updates", "custom"]
                async for _ in self.app.astream(input_, THREAD, stream_mode=modes, control=control, **self._options):
                    pass
                return None
            return await self.app.ainvoke(input_, THREAD, control=control, **self._options)
        finally:
            self.left_tasks = [str(task) for task in asyncio.all_tasks() if task is not main]

    # -- checks after the run

    def held(self) -> list[str]:
        """The resources that the run still holds after everything had time to end."""
        deadline = time.monotonic() + GUARD
        while (resources := list(self._held())) and time.monotonic() < deadline:
            time.sleep(0.002)
        return resources

    def _held(self) -> Iterator[str]:
        lease = self.saver.lease("1")
        lease = lease.result() if is_future(lease) else lease
        if lease is not None:
            yield f"the lease {lease}"
        for node in self.app.program.nodes.values():
            for slots in node.policies.slots if node.policies is not None else ():
                if slots._free != 1 or slots._waiters:  # pyright: ignore[reportPrivateUsage]
                    yield f"a slot of {node.name}"
            for circuit in node.policies.circuits if node.policies is not None else ():
                if circuit._probing:  # pyright: ignore[reportPrivateUsage]
                    yield f"a circuit of {node.name}"
        threads = Counter(thread.name for thread in threading.enumerate())
        if threads["statewright-worker"] > len(workers._idle):  # pyright: ignore
            yield "a worker thread"
        if threads["statewright-loop"] > len(idle_loops):
            yield "a private loop"
        yield from (f"a task {task}" for loop in list(idle_loops) for task in _tasks_of(loop))
        yield from self.left_tasks


def log_of(state: Any) -> list[str]:
    """The log of a state of any class."""
    return state["log"] if isinstance(state, dict) else state.log


def _tasks_of(loop: asyncio.AbstractEventLoop) -> list[str]:
    async def look() -> list[str]:
        return [str(task) for task in asyncio.all_tasks() if task is not asyncio.current_task()]

    return asyncio.run_coroutine_threadsafe(look(), loop).result(GUARD)


def is_injected(error: BaseException | None) -> bool:
    """Return whether an error is, follows from, or mentions the injected one."""
    seen: set[int] = set()
    waiting = [error]
    while waiting:
        cause = waiting.pop()
        if cause is None or id(cause) in seen:
            continue
        seen.add(id(cause))
        if isinstance(cause, Injected) or any("Injected" in note for note in getattr(cause, "__notes__", ())):
            return True
        waiting += [cause.__cause__, cause.__context__]
    return False


def problem_of(case: Case, faults: Faults, expected: list[str]) -> str | None:
    """Describe what is wrong with the end of a run; None if nothing is."""
    if case.error is None:
        if case.log is not None and sorted(case.log) != expected:
            return f"its result is {sorted(case.log)}"
        return None
    if faults.kind == "raise" and is_injected(case.error):
        return None if not (faults.struck or "").startswith("instrument.") else "an error of an instrument ended it"
    if faults.kind == "cancel" and isinstance(case.error, RunCancelled | asyncio.CancelledError):
        return None
    if faults.kind == "hang" and isinstance(case.error, NodeTimeoutError):
        return None
    return f"it raised {case.error!r}"


@pytest.fixture
def unhandled_errors() -> Iterator[list[Any]]:
    """Collects unhandled exceptions of OS threads of the runtime."""
    errors: list[Any] = []
    before = threading.excepthook
    threading.excepthook = lambda args: errors.append(args.exc_value)
    yield errors
    threading.excepthook = before


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("storage", ["memory", "sqlite"])
@pytest.mark.parametrize("driver", ["sync", "async"])
def test_every_run_ends_and_releases_its_resources(
    driver: str, storage: str, kind: str, tmp_path: Path, unhandled_errors: list[Any]
) -> None:
    chance = random.Random(f"{driver} {storage} {kind}")
    numbers = itertools.count()

    def make_saver() -> Any:
        return InMemorySaver() if storage == "memory" else SqliteSaver(tmp_path / f"{next(numbers)}.db")

    for seed in range(GRAPHS):
        dry = Case(seed, driver, make_saver(), Faults())
        assert dry.run({"log": [], "n": 0}), f"seed {seed} hangs without a fault"
        assert dry.error is None, f"seed {seed}: {dry.error!r}"
        dry._faults.is_over = True  # pyright: ignore[reportPrivateUsage]  # in this module
        expected = sorted(log_of(dry.app.get_state(THREAD).values))
        count = len(dry._faults.labels)  # pyright: ignore[reportPrivateUsage]
        positions = [chance.randrange(count) for _ in range(FAULTS)]
        for at in positions:
            faults = Faults(kind, at, answers=chance.random() < 0.5)
            case = Case(seed, driver, make_saver(), faults)
            name = f"seed {seed}, {kind} at {at}"
            assert case.run({"log": [], "n": 0}), f"{name} ({faults.struck}): it hangs"
            problem = problem_of(case, faults, expected)
            assert problem is None, f"{name} ({faults.struck}): {problem}"
            faults.is_over = True
            assert case.held() == [], f"{name} ({faults.struck}, {case.error!r})"
            check_resumption(case, faults, expected, f"{name} ({faults.struck}, {case.error!r})")
            if hasattr(case.saver, "close"):
                case.saver.close()
        dry.saver.close()
    assert unhandled_errors == []


def check_resumption(case: Case, faults: Faults, expected: list[str], name: str) -> None:
    """Check that the thread continues after its run ended, without repeating effects."""
    saved = case.saver.load("1")
    saved = saved.result() if is_future(saved) else saved
    if saved is None:
        return  # the run had not begun
    if case.error is not None:
        assert case.run(None), f"{name}: it hangs when it continues"
        while faults.kind == "hang" and isinstance(case.error, NodeTimeoutError):
            assert case.run(None), (
                f"{name}: it hangs when it continues"
            )  # the short timeout can expire on a slow machine
        assert case.error is None, f"{name}: it cannot continue: {case.error!r}"
    assert sorted(log_of(case.app.get_state(THREAD).values)) == expected, name
    struck = faults.struck or ""
    if faults.kind == "late" or (faults.kind == "raise" and not struck.startswith(("saver.", "clock."))):
        assert all(count == 1 for count in faults.steps.values()), f"{name}: {faults.steps}"
