"""What the core asks of a driver, and how it comes to rest."""

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


def asks(task: Any) -> Pause:
    return Pause(task, (Interrupt(id=InterruptId("q"), value="?"),))


def test_a_saved_and_watched_run_needs_every_effect_and_no_other(make: Any, program: Any) -> None:
    hand = make.call(make.run(program, saver=InMemorySaver(), watched=("committed",)), {"x": 1})
    hand.finish(lambda task: asks(task) if task.node == "b" else hand.along_edges(task))

    assert {type(effect) for effect in hand.effects} == {Load, RunTasks, Save, SavePending, Emit}
    assert set(get_args(Effect)) == {Load, Namespaces, AwaitTurn, RunTasks, Stamp, Save, SaveCallers, SavePending, Emit}


def test_one_effect_is_renewed_for_each_superstep(make: Any, program: Any) -> None:
    hand = make.call(make.run(program), {"x": 1})
    hand.finish()

    assert len({id(effect) for effect in hand.of(RunTasks)}) == 1
    assert hand.nodes == [["a"], ["b"]]


@pytest.mark.filterwarnings("ignore::statewright.errors.NoCheckpointerWarning")
@pytest.mark.parametrize(
    ("answer", "status", "node", "asked"),
    [
        (None, "completed", None, 0),
        (asks, "waiting", None, 1),
        (lambda task: Failure(task, ValueError("no")), "failed", "a", 0),
        (lambda task: None, "cancelled", None, 0),
    ],
)
def test_how_a_run_came_to_rest(make: Any, program: Any, answer: Any, status: str, node: Any, asked: int) -> None:
    rest = make.rest_of(make.run(program), {"x": 1}, answer)

    assert (rest.status, rest.node, len(rest.interrupts)) == (status, node, asked)
    assert isinstance(rest.error, ValueError) is (status == "failed")


def test_a_rest_has_neither_questions_nor_an_error_unless_it_says_so(make: Any) -> None:
    rest = RunOutcome("completed", make.checkpoint())

    assert (rest.interrupts, rest.error, rest.node) == ((), None, None)


@pytest.mark.parametrize(("given", "wanted"), [(None, None), ("older", "older")])
def test_the_head_is_loaded_before_a_checkpoint_that_is_named(make: Any, program: Any, given: Any, wanted: Any) -> None:
    core = make.call(make.run(program, saver=InMemorySaver(), checkpoint_id=given, branch="side"), {"x": 1}).core

    first = next(core)
    assert (first.branch, first.checkpoint_id) == ("side", None)
    second = core.send(None)
    if wanted is None:
        assert type(second) is Stamp
    else:
        assert (second.branch, second.checkpoint_id) == ("side", wanted)


class NoClock:
    """A clock that must not be read."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"the core has called clock.{name}")


def test_the_core_repeats_its_effects_when_its_answers_are_replayed(make: Any, program: Any, monkeypatch: Any) -> None:
    def described(effect: Any) -> Any:
        if isinstance(effect, Save):
            commit = effect.commit
            return "save", commit.checkpoint, commit.created_at, commit.hold, commit.log
        if isinstance(effect, SavePending):
            return "pending", effect.checkpoint_id, effect.pending.completed, effect.hold, effect.log
        return type(effect).__name__

    def start(clock: Any) -> Any:
        return make.call(make.run(program, saver=InMemorySaver(), clock=clock, owner="run"), {"x": 1})

    def fails_at_b(task: Any) -> Any:
        return Failure(task, ValueError("no")) if task.node == "b" else make.result(task, {}, ["b"])

    answers: list[Any] = []
    first = start(None)
    first.finish(fails_at_b, recorded=answers)
    monkeypatch.setattr("statewright.runtime.drivers.saver_calls.draw_checkpoint_id", NoClock())
    again = start(NoClock()).core
    effects: list[Any] = []
    for answer in (None, *answers):
        with suppress(StopIteration):
            effects.append(described(again.send(answer)))

    assert [effect for effect in effects if effect != "Stamp"] == [described(effect) for effect in first.effects]
