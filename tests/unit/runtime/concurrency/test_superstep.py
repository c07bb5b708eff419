"""The tasks of one superstep while they run: outcomes in task order, and when it is closed."""

from __future__ import annotations

import itertools
import threading
from typing import Any

import pytest

from statewright import START
from statewright.runtime.concurrency.superstep import Superstep
from statewright.runtime.core.effects import RunTasks
from statewright.runtime.invocation.outcome import Failure, Pause


class Closing:
    """A superstep of so many tasks, and how often it said that it was closed."""

    def __init__(self, make: Any, count: int) -> None:
        names = [f"n{number}" for number in range(count)]
        graph = make.graph(*names)
        for name in names:
            graph.add_edge(START, name)
        self.run = make.run(make.program(graph))
        self.tasks = make.tasks(*names)
        self.checkpoint = make.checkpoint({"x": 1}, self.tasks)
        self.times_closed = 0
        self.step = Superstep(self.run, RunTasks(self.checkpoint, self.tasks), self._closed)
        self.results = [make.result(task) for task in self.tasks]

    def _closed(self) -> None:
        self.times_closed += 1


@pytest.fixture
def three(make: Any) -> Closing:
    return Closing(make, 3)


@pytest.mark.parametrize("arrival", list(itertools.permutations(range(3))))
def test_outcomes_are_in_task_order_whatever_the_order_of_arrival(three: Closing, arrival: tuple[int, ...]) -> None:
    for index in arrival:
        assert not three.step.closed
        three.step.accept(index, three.results[index])
    assert three.step.outcomes == three.results
    assert (three.step.closed, three.times_closed) == (True, 1)


@pytest.mark.parametrize("before", [0, 1, 2])
def test_the_first_failure_closes_it_and_what_arrives_later_is_dropped(three: Closing, before: int) -> None:
    for index in range(before):
        three.step.accept(index, three.results[index])
    failure = Failure(three.tasks[before], ValueError("no luck"))
    three.step.accept(before, failure)
    assert (three.step.closed, three.times_closed) == (True, 1)
    for index in range(before + 1, 3):
        three.step.accept(index, three.results[index])
    assert three.step.outcomes == [*three.results[:before], failure, *[None] * (2 - before)]
    assert three.times_closed == 1


def test_a_pause_closes_nothing_while_others_run(three: Closing) -> None:
    pause = Pause(three.tasks[0], ())
    three.step.accept(0, pause)
    three.step.accept(1, three.results[1])
    assert not three.step.closed
    three.step.accept(2, three.results[2])
    assert three.step.outcomes == [pause, three.results[1], three.results[2]]


def test_closed_from_outside_it_takes_nothing_and_calls_nobody(three: Closing) -> None:
    three.step.accept(0, three.results[0])
    three.step.close()
    three.step.accept(1, three.results[1])
    three.step.accept(2, Failure(three.tasks[2], ValueError("no luck")))
    assert three.step.outcomes == [three.results[0], None, None]
    assert (three.step.closed, three.times_closed) == (True, 0)


def test_tasks_land_from_many_threads_at_once(three: Closing) -> None:
    together = threading.Barrier(3)

    def land(index: int) -> None:
        together.wait(600)
        three.step.accept(index, three.results[index])

    threads = [threading.Thread(target=land, args=(index,)) for index in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert three.step.outcomes == three.results
    assert three.times_closed == 1


def test_the_node_of_each_task_is_known(three: Closing) -> None:
    assert [node.name for node in three.step.task_nodes()] == ["n0", "n1", "n2"]
    assert three.step.checkpoint is three.checkpoint
