"""The effects of the core, and the outcomes of runs."""

from contextlib import suppress
from typing import Any, get_args

import pytest

from statewright import START, InMemorySaver
from statewright.checkpoint import Interrupt
from statewright.ids import InterruptId
from statewright.runtime.core.effects import (
    AwaitTurn,
    Effect,
    Emit,
    Load,
    Namespaces,
    RunTasks,
    Save,
    SaveCallers,
    SavePending,
    Stamp,
)
from statewright.runtime.invocation.outcome import Failure, Pause, RunOutcome


@pytest.fixture
def program(make: Any) -> Any:
    return make.program(make.graph("a", "b").add_edge(START, "a").add_edge("a", "b"))


def pause(task: Any) -> Pause:
    return Pause(task, (Interrupt(id=InterruptId("q"), value="?"),))


def test_a_run_with_saver_and_listener_requests_the_known_effects(make: Any, program: Any) -> None:
    driver = make.call(make.run(program, saver=InMemorySaver(), watched=("committed",)), {"x": 1})
    driver.finish(lambda task: pause(task) if task.node == "b" else driver.along_edges(task))

    assert {type(effect) for effect in driver.effects} == {Load, RunTasks, Save, SavePending, Emit}
    assert set(get_args(Effect)) == {Load, Namespaces, AwaitTurn, RunTasks, Stamp, Save, SaveCallers, SavePending, Emit}


def test_the_effect_run_tasks_is_reused_for_each_superstep(make: Any, program: Any) -> None:
    driver = make.call(make.run(program), {"x": 1})
    driver.finish()

    assert len({id(effect) for effect in driver.effects_of(RunTasks)}) == 1
    assert driver.nodes == [["a"], ["b"]]


@pytest.mark.filterwarnings("ignore::statewright.errors.NoCheckpointerWarning")
@pytest.mark.parametrize(
    ("answer", "status", "node", "questions"),
    [
        (None, "completed", None, 0),
        (pause, "waiting", None, 1),
        (lambda task: Failure(task, ValueError("no")), "failed", "a", 0),
        (lambda task: None, "cancelled", None, 0),
    ],
)
def test_the_outcome_of_a_run_has_its_status_node_questions_and_error(
    make: Any, program: Any, answer: Any, status: str, node: Any, questions: int
) -> None:
    outcome = make.outcome_of(make.run(program), {"x": 1}, answer)

    assert (outcome.status, outcome.node, len(outcome.interrupts)) == (status, node, questions)
    assert isinstance(outcome.error, ValueError) is (status == "failed")


def test_an_outcome_has_no_questions_and_no_error_by_default(make: Any) -> None:
    outcome = RunOutcome("completed", make.checkpoint())

    assert (outcome.interrupts, outcome.error, outcome.node) == ((), None, None)


@pytest.mark.parametrize("checkpoint_id", [None, "older"])
def test_the_head_is_loaded_before_the_checkpoint_of_the_config(make: Any, program: Any, checkpoint_id: Any) -> None:
    core = make.call(
        make.run(program, saver=InMemorySaver(), checkpoint_id=checkpoint_id, branch="side"), {"x": 1}
    ).core

    first = next(core)
    assert (first.branch, first.checkpoint_id) == ("side", None)
    second = core.send(None)
    if checkpoint_id is None:
        assert type(second) is Stamp
    else:
        assert (second.branch, second.checkpoint_id) == ("side", checkpoint_id)


class NoClock:
    """A clock that must not be read."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"the core has called clock.{name}")


def test_replaying_the_results_of_effects_repeats_the_effects(make: Any, program: Any, monkeypatch: Any) -> None:
    def describe(effect: Any) -> Any:
        if isinstance(effect, Save):
            commit = effect.commit
            return "save", commit.checkpoint, commit.created_at, commit.hold, commit.log
        if isinstance(effect, SavePending):
            return "pending", effect.checkpoint_id, effect.pending.completed, effect.hold, effect.log
        return type(effect).__name__

    def start(clock: Any) -> Any:
        return make.call(make.run(program, saver=InMemorySaver(), clock=clock, owner="run"), {"x": 1})

    def fail_at_b(task: Any) -> Any:
        return Failure(task, ValueError("no")) if task.node == "b" else make.result(task, {}, ["b"])

    answers: list[Any] = []
    first = start(None)
    first.finish(fail_at_b, recorded=answers)
    monkeypatch.setattr("statewright.runtime.drivers.saver_calls.new_checkpoint_id", NoClock())
    replay = start(NoClock()).core
    effects: list[Any] = []
    for answer in (None, *answers):
        with suppress(StopIteration):
            effects.append(describe(replay.send(answer)))

    assert [effect for effect in effects if effect != "Stamp"] == [describe(effect) for effect in first.effects]
