"""The dispatcher, with an executor whose chunks end when the test says so."""

from __future__ import annotations

import itertools
import pickle
import threading
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from statewright.errors import RemoteCallError, WorkerDied
from statewright.executors.chunks import ChunkSizes
from statewright.executors.dispatcher import Dispatcher, RemoteItem
from statewright.executors.port import ChunkRequest, SharedValue
from statewright.executors.worker import run_chunk

executed: list[Any] = []


class Poison:
    """Can be pickled, but not restored."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __reduce__(self) -> Any:
        return Poison, ()


class NoPickle:
    """Can neither be pickled nor shown."""

    def __repr__(self) -> str:
        raise LookupError

    def __reduce__(self) -> Any:
        raise TypeError("refused")


KINDS = {"poison": lambda: Poison(1), "no pickle": NoPickle}


def square(item: Any, effects: list[Any]) -> Any:
    executed.append(item)
    if item == "fail":
        raise ValueError("failed")
    if item in KINDS:
        effects.append("spent 1")
        return KINDS[item]()
    if isinstance(item, tuple):
        effects.extend(["spent 1", KINDS[item[0]](), "spent 2"])
        return 1
    effects.append(f"squared {item}")
    return item * item


class Value:
    """A shared value."""

    def __init__(self, value: Any, key: str) -> None:
        self.key = key
        self._value = value

    def get(self) -> Any:
        return self._value


class ManualExecutor:
    """Executes a chunk when the test calls `run`, or loses it."""

    max_resubmissions = 2
    is_connected = True

    def __init__(self, workers: int = 2) -> None:
        self.workers = workers
        self.requests: list[ChunkRequest] = []
        self.cancelled: list[ChunkRequest] = []
        self._keys = itertools.count()

    def connect(self) -> None: ...

    def find_problems(self, resources: Mapping[str, float]) -> tuple[str, ...]:
        return ()

    def capacity(self, resources: Mapping[str, float]) -> int:
        return self.workers

    def dumps(self, value: Any) -> bytes:
        return pickle.dumps(value)

    def dumps_function(self, function: Any) -> bytes:
        return pickle.dumps(function)

    def share(self, value: Any) -> SharedValue:
        return Value(value, f"{id(self)}.{next(self._keys)}")

    def submit(self, request: ChunkRequest) -> None:
        self.requests.append(request)

    def cancel(self, request: ChunkRequest) -> None:
        self.requests.remove(request)
        self.cancelled.append(request)

    def run(self) -> None:
        """Execute the oldest chunk."""
        request = self.requests.pop(0)
        request.on_begin()
        request.on_end(run_chunk(request.function, request.payload, pickle.dumps))

    def lose(self) -> None:
        """Let the worker of the oldest chunk die."""
        self.requests.pop(0).on_end(WorkerDied("killed"))

    @property
    def sent(self) -> list[list[Any]]:
        """The calls of the chunks in flight."""
        return [pickle.loads(request.payload) for request in self.requests]


class Fan:
    """A dispatcher of numbered calls, and their results."""

    def __init__(self, executor: ManualExecutor, arguments: list[Any], *, size: int = 1, **options: Any) -> None:
        self.executor = executor
        self.items = [RemoteItem(number, argument, **options) for number, argument in enumerate(arguments)]
        self.results: dict[int, Any] = {}
        self.dropped: list[int] = []
        self.taken = 0
        sizes = ChunkSizes()
        if size > 1:  # as if chunks of that size had been measured
            sizes.record_cost(size, 0.1)
        self.dispatcher = Dispatcher(
            executor,
            executor.share(executor.dumps_function(square)),
            name="node 'n'",
            resources={},
            take=self._take,
            unsent=lambda: 10**6,
            deliver=lambda item, result: self.results.__setitem__(item.key, result),
            post=self._post,
            drop=lambda item: self.dropped.append(item.key),
            sizes=sizes,
        )
        self.dispatcher.feed()

    def _take(self, count: int) -> list[RemoteItem]:
        items = self.items[self.taken : self.taken + count]
        self.taken += len(items)
        return items

    def _post(self, callback: Callable[[], object]) -> None:
        callback()

    def run_all(self) -> None:
        while self.executor.requests:
            self.executor.run()


def test_results_are_delivered_with_errors_and_effects() -> None:
    fan = Fan(ManualExecutor(), [2, "fail", 3])
    fan.run_all()
    assert fan.results[0] == (4, None, ["squared 2"])
    assert fan.results[2] == (9, None, ["squared 3"])
    assert isinstance(fan.results[1][1], ValueError)
    assert not fan.dispatcher.has_in_flight


def test_only_a_window_of_calls_is_taken_from_the_source() -> None:
    fan = Fan(ManualExecutor(workers=3), list(range(100)))
    assert fan.taken == 6
    fan.executor.run()
    assert len(fan.executor.requests) == 6


def test_a_lost_chunk_is_sent_again_in_halves_until_the_cause_is_alone() -> None:
    executor = ManualExecutor(workers=1)
    fan = Fan(executor, [1, 2, 3, 4], size=4)
    assert executor.sent == [[1, 2, 3, 4]]
    executor.lose()
    assert executor.sent == [[1, 2], [3, 4]]
    executor.lose()
    executor.run()
    assert sorted(map(len, executor.sent)) == [1, 1]
    fan.run_all()
    assert sorted(value for value, _, _ in fan.results.values()) == [1, 4, 9, 16]


def test_a_call_that_kills_its_worker_alone_is_repeated_a_few_times() -> None:
    executor = ManualExecutor(workers=1)
    fan = Fan(executor, [5])
    for _ in range(executor.max_resubmissions):
        executor.lose()
        assert executor.sent == [[5]]
    executor.lose()
    error = fan.results[0][1]
    assert isinstance(error, WorkerDied)
    assert error.losses == executor.max_resubmissions + 1
    assert executor.requests == []


def test_a_chunk_that_could_not_be_executed_fails_all_its_calls() -> None:
    executor = ManualExecutor(workers=1)
    fan = Fan(executor, [1, 2], size=2)
    executor.requests.pop(0).on_end(ImportError("no module"))
    assert [type(error) for _, error, _ in fan.results.values()] == [ImportError, ImportError]


@pytest.mark.parametrize("data", [b"", pickle.dumps(None), pickle.dumps((0.1, []))], ids=["none", "other", "too few"])
def test_replies_that_cannot_be_read_fail_all_calls_of_their_chunk(data: bytes) -> None:
    executor = ManualExecutor(workers=1)
    fan = Fan(executor, [1, 2], size=2)
    executor.requests.pop(0).on_end(data)
    assert [type(error) for _, error, _ in fan.results.values()] == [RemoteCallError, RemoteCallError]
    assert not fan.dispatcher.has_in_flight


class BrokenExecutor(ManualExecutor):
    """Loses its connection before it submits a chunk, or before it is asked for its capacity."""

    def __init__(self, method: str) -> None:
        super().__init__()
        self._method = method

    def capacity(self, resources: Mapping[str, float]) -> int:
        if self._method == "capacity":
            raise ConnectionError("lost")
        return super().capacity(resources)

    def submit(self, request: ChunkRequest) -> None:
        raise ConnectionError("lost")


@pytest.mark.parametrize("method", ["capacity", "submit"])
def test_without_a_connection_every_call_fails(method: str) -> None:
    fan = Fan(BrokenExecutor(method), [1, 2, 3])
    assert [type(error) for _, error, _ in fan.results.values()] == [ConnectionError] * 3
    assert not fan.dispatcher.has_in_flight


def test_calls_that_cannot_be_pickled_fail_and_the_others_are_sent() -> None:
    executor = ManualExecutor(workers=1)
    fan = Fan(executor, [1, threading.Lock(), 3], size=3)
    assert executor.sent == [[1, 3]]
    assert isinstance(fan.results[1][1], RemoteCallError)


def test_calls_that_a_worker_cannot_restore_fail_and_the_others_are_executed_once() -> None:
    executed.clear()
    fan = Fan(ManualExecutor(workers=1), [1, Poison(2), 3], size=3)
    fan.run_all()
    assert (fan.results[0][0], fan.results[2][0]) == (1, 9)
    assert "The input cannot be restored in a worker: TypeError: Poison" in str(fan.results[1][1])
    assert executed == [1, 3]


def test_calls_that_a_worker_cannot_restore_are_not_sent_again_at_the_end() -> None:
    executor = ManualExecutor(workers=1)
    fan = Fan(executor, [1, Poison(2)], size=2)
    fan.dispatcher.stop_sending()
    fan.run_all()
    assert fan.dropped == [0, 1]
    assert not fan.dispatcher.has_in_flight


@pytest.mark.parametrize(("item", "text"), [("poison", "cannot be restored here"), ("no pickle", "cannot be sent")])
def test_a_result_that_cannot_arrive_costs_only_its_call_and_no_effect(item: str, text: str) -> None:
    executed.clear()
    fan = Fan(ManualExecutor(workers=1), [1, item, 3], size=3)
    fan.run_all()
    assert (fan.results[0][0], fan.results[2][0]) == (1, 9)
    _, error, effects = fan.results[1]
    assert isinstance(error, RemoteCallError)
    assert text in str(error)
    assert effects == ["spent 1"]
    assert executed == [1, item, 3]


@pytest.mark.parametrize("kind", KINDS)
def test_an_effect_that_cannot_arrive_is_an_error_and_the_others_are_performed(kind: str) -> None:
    fan = Fan(ManualExecutor(workers=1), [1, (kind,), 3], size=3)
    fan.run_all()
    value, error, effects = fan.results[1]
    assert (value, effects) == (None, ["spent 1", "spent 2"])
    assert isinstance(error, RemoteCallError)
    assert "effect" in str(error)
    assert (fan.results[0][0], fan.results[2][0]) == (1, 9)


def test_cancelling_one_call_of_a_chunk_sends_the_others_again() -> None:
    executor = ManualExecutor(workers=1)
    fan = Fan(executor, [1, 2, 3], size=3)
    fan.dispatcher.cancel({fan.items[1]})
    assert len(executor.cancelled) == 1
    assert executor.sent == [[1, 3]]
    fan.run_all()
    assert sorted(fan.results) == [0, 2]


def test_calls_with_a_time_limit_are_sent_alone_and_only_to_free_workers() -> None:
    begun: list[int] = []
    executor = ManualExecutor(workers=2)
    fan = Fan(executor, [1, 2, 3], size=3, is_lone=True, on_begin=lambda: begun.append(1))
    assert executor.sent == [[1], [2]]
    executor.run()
    assert executor.sent == [[2], [3]]
    assert begun == [1]
    fan.run_all()
    assert sorted(fan.results) == [0, 1, 2]


def test_after_the_end_of_sending_lost_calls_are_dropped() -> None:
    executor = ManualExecutor(workers=1)
    fan = Fan(executor, [1, 2, 3, 4], size=2)
    fan.dispatcher.stop_sending()
    executor.run()
    executor.lose()
    assert sorted(fan.results) == [0, 1]
    assert fan.dropped == [2, 3]
    assert not fan.dispatcher.has_in_flight


def test_cancelling_everything_ends_all_chunks() -> None:
    executor = ManualExecutor(workers=1)
    fan = Fan(executor, [1, 2, 3, 4], size=2)
    fan.dispatcher.cancel_all()
    assert len(executor.cancelled) == 2
    assert fan.results == {}
    assert not fan.dispatcher.has_in_flight
