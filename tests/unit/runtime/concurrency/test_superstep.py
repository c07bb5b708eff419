"""Running supersteps: outcomes in task order, and closing."""

from __future__ import annotations

import itertools
import threading
from typing import Any

import pytest

from statewright import START
from statewright.runtime.concurrency.superstep import Superstep
from statewright.runtime.core.effects import RunTasks
from statewright.runtime.invocation.outcome import Failure, Pause


class RunningSuperstep:
    """A superstep of several tasks that counts the calls of its callback."""

    def __init__(self, make: Any, count: int) -> None:
        names = [f"n{number}" for number in range(count)]
        graph = make.graph(*names)
        for name in names:
            graph.add_edge(START, name)
        self.run = make.run(make.program(graph))
        self.tasks = make.tasks(*names)
        self.checkpoint = make.checkpoint({"x": 1}, self.tasks)
        self.times_closed = 0
        self.step = Superstep(self.run, RunTasks(self.checkpoint, self.tasks), self._count_close)
        self.results = [make.result(task) for task in self.tasks]

    def _count_close(self) -> None:
        self.times_closed += 1


@pytest.fixture
def running(make: Any) -> RunningSuperstep:
    return RunningSuperstep(make, 3)


@pytest.mark.parametrize("arrival", list(itertools.permutations(range(3))))
def test_outcomes_are_in_task_order_for_every_order_of_arrival(
    running: RunningSuperstep, arrival: tuple[int, ...]
) -> None:
    for index in arrival:
        assert not running.step.closed
        running.step.accept(index, running.results[index])
    assert running.step.outcomes == running.results
    assert (running.step.closed, running.times_closed) == (True, 1)


@pytest.mark.parametrize("before", [0, 1, 2])
def test_the_first_failure_closes_a_superstep_and_later_outcomes_are_dropped(
    running: RunningSuperstep, before: int
) -> None:
    for index in range(before):
        running.step.accept(index, running.results[index])
    failure = Failure(running.tasks[before], ValueError("no luck"))
    running.step.accept(before, failure)
    assert (running.step.closed, running.times_closed) == (True, 1)
    for index in range(before + 1, 3):
        running.step.accept(index, running.results[index])
    assert running.step.outcomes == [*running.results[:before], failure, *[None] * (2 - before)]
    assert running.times_closed == 1


def test_a_pause_does_not_close_a_superstep(running: RunningSuperstep) -> None:
    pause = Pause(running.tasks[0], ())
    running.step.accept(0, pause)
    running.step.accept(1, running.results[1])
    assert not running.step.closed
    running.step.accept(2, running.results[2])
    assert running.step.outcomes == [pause, running.results[1], running.results[2]]


def test_a_superstep_that_was_closed_drops_outcomes_without_a_callback(running: RunningSuperstep) -> None:
    running.step.accept(0, running.results[0])
    running.step.close()
    running.step.accept(1, running.results[1])
    running.step.accept(2, Failure(running.tasks[2], ValueError("no luck")))
    assert running.step.outcomes == [running.results[0], None, None]
    assert (running.step.closed, running.times_closed) == (True, 0)


def test_outcomes_are_accepted_from_several_threads_at_once(running: RunningSuperstep) -> None:
    barrier = threading.Barrier(3)

    def accept(index: int) -> None:
        barrier.wait(600)
        running.step.accept(index, running.results[index])

    threads = [threading.Thread(target=accept, args=(index,)) for index in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert running.step.outcomes == running.results
    assert running.times_closed == 1


def test_a_superstep_has_the_node_of_each_task(running: RunningSuperstep) -> None:
    assert [node.name for node in running.step.task_nodes()] == ["n0", "n1", "n2"]
    assert running.step.checkpoint is running.checkpoint
