"""The order of steps: branches, jumps, ends, and skipped steps."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statewright import InMemorySaver
from statewright.errors import GraphRecursionError, InvalidUpdateError
from statewright.workflow.steps import StepContext, StepResult, compile_steps

THREAD = {"thread_id": "1"}


def app_of(*steps: dict[str, Any], **handlers: Any) -> Any:
    """A graph whose steps, where they are tasks, call the handler `note` if they name none."""
    usual: dict[str, Any] = {"type": "task", "handler": "note", "retry": {"maxAttempts": 1}}
    listed = [{**(usual if "type" not in step else {}), **step} for step in steps]
    note = {"note": lambda ctx: StepResult(state_updates={"last": ctx.step_name})}
    document = {"name": "flow", "version": "1", "steps": listed}
    return compile_steps(document, handlers={**note, **handlers}, checkpointer=InMemorySaver())


def ran(app: Any) -> list[str]:
    return [event.node for event in app.get_events(THREAD) if event.kind == "task_finished"]


def skipped(app: Any) -> list[tuple[str, str]]:
    """Which steps were left out, each with the step after which that was."""
    told = [event for event in app.get_events(THREAD) if event.kind == "step_reported"]
    return [(event.node, name) for event in told for name in event.data.get("skipped", ())]


def jumping(**targets: str) -> Any:
    """A handler that names the next step, for some of the steps that call it."""

    def jump(ctx: StepContext) -> StepResult:
        return StepResult(state_updates={"__nextStep": targets.get(ctx.step_name), "at": ctx.step_name})

    return jump


def test_steps_run_in_the_order_in_which_they_are_written(driver: Any) -> None:
    app = app_of({"name": "c"}, {"name": "a"}, {"name": "b"})
    assert driver.invoke(app, {}, **THREAD) == {"last": "b"}
    assert (ran(app), skipped(app)) == (["c", "a", "b"], [])


def test_next_and_end_leave_the_order(driver: Any) -> None:
    app = app_of({"name": "a", "next": "c"}, {"name": "b"}, {"name": "c", "end": True}, {"name": "d"})
    driver.invoke(app, {}, **THREAD)
    assert (ran(app), skipped(app)) == (["a", "c"], [("a", "b"), ("c", "d")])


def test_a_jump_moves_the_position_and_the_order_continues_from_there(driver: Any) -> None:
    condition = {"type": "condition", "name": "good", "expression": "none", "trueStep": "b", "falseStep": "c"}
    app = app_of(condition, {"name": "a"}, {"name": "b"}, {"name": "c"}, {"name": "d"})
    driver.invoke(app, {}, **THREAD)
    assert (ran(app), skipped(app)) == (["good", "c", "d"], [("good", "a"), ("good", "b")])


@pytest.mark.parametrize("way", ["b", "c"])
def test_a_way_that_is_taken_runs_into_the_other_unless_it_ends(driver: Any, way: str) -> None:
    condition = {"type": "condition", "name": "good", "expression": "yes", "trueStep": "b", "falseStep": "c"}
    app = app_of(
        {"name": "set", "handler": "set"},
        condition,
        {"name": "b"},
        {"name": "c"},
        set=lambda ctx: {"stateUpdates": {"yes": way == "b"}},
    )
    driver.invoke(app, {}, **THREAD)
    assert ran(app)[2:] == (["b", "c"] if way == "b" else ["c"])


def test_any_step_may_name_the_next_one(driver: Any) -> None:
    app = app_of({"name": "a", "handler": "jump"}, {"name": "b"}, {"name": "c"}, jump=jumping(a="c"))
    assert driver.invoke(app, {}, **THREAD) == {"at": "a", "last": "c"}
    assert (ran(app), skipped(app)) == (["a", "c"], [("a", "b")])


def test_the_next_step_named_by_a_result_precedes_the_written_order(driver: Any) -> None:
    app = app_of({"name": "a", "handler": "jump", "end": True}, {"name": "b"}, {"name": "c"}, jump=jumping(a="c"))
    driver.invoke(app, {}, **THREAD)
    assert ran(app) == ["a", "c"]


def test_a_jump_back_runs_steps_again_and_skips_none_twice(driver: Any) -> None:
    def count(ctx: StepContext) -> StepResult:
        number = ctx.workflow_state.get("n", 0) + 1
        keys = [*ctx.workflow_state.get("keys", []), ctx.idempotency_key.partition(":")[2]]
        return StepResult(state_updates={"n": number, "keys": keys, "__nextStep": "c" if number < 3 else "d"})

    app = app_of(
        {"name": "a", "handler": "count"}, {"name": "b"}, {"name": "c", "next": "a"}, {"name": "d"}, count=count
    )
    assert driver.invoke(app, {}, **THREAD)["keys"] == ["a", "a:2", "a:3"]
    assert ran(app) == ["a", "c", "a", "c", "a", "d"]
    assert skipped(app) == [("a", "b")]


def test_a_step_that_was_left_out_may_run_later(driver: Any) -> None:
    targets = iter(["c", None])
    app = app_of(
        {"name": "a", "handler": "jump"},
        {"name": "b"},
        {"name": "c", "handler": "back"},
        jump=lambda ctx: StepResult(state_updates={"__nextStep": next(targets)}),
        back=lambda ctx: StepResult(state_updates={"__nextStep": None if "last" in ctx.workflow_state else "a"}),
    )
    driver.invoke(app, {}, **THREAD)
    assert (ran(app), skipped(app)) == (["a", "c", "a", "b", "c"], [("a", "b")])


@pytest.mark.parametrize("target", ["bb", 7, "", ["b"]])
def test_a_step_that_is_not_there_fails_the_one_that_names_it(driver: Any, target: Any) -> None:
    app = app_of(
        {"name": "a", "handler": "jump", "retry": {"maxAttempts": 3}},
        {"name": "b"},
        jump=lambda ctx: {"stateUpdates": {"__nextStep": target, "x": 1}},
    )
    with pytest.raises(InvalidUpdateError, match="Step 'a' returned __nextStep") as failed:
        driver.invoke(app, {}, **THREAD)
    assert "Steps: a, b." in str(failed.value)
    assert app.get_state(THREAD).values == {}
    assert ran(app) == []


def test_a_circle_ends_at_the_limit_of_the_run(driver: Any) -> None:
    app = app_of({"name": "a"}, {"name": "b", "next": "a"})
    with pytest.raises(GraphRecursionError):
        driver.invoke(app, {}, recursion_limit=20, **THREAD)


@st.composite
def definitions(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Steps whose ways all lead forward, and that may name another one themselves."""
    count = draw(st.integers(1, 8))
    steps: list[dict[str, Any]] = []
    for place in range(count):
        later = [f"s{one}" for one in range(place + 1, count)]
        kind = draw(st.sampled_from(["task", "jump", "condition", "end"] if later else ["task", "end"]))
        step: dict[str, Any] = {"name": f"s{place}"}
        if kind == "condition":
            step |= {"type": "condition", "expression": draw(st.sampled_from(["last", "nothing"]))}
            step |= {"trueStep": draw(st.sampled_from(later)), "falseStep": draw(st.sampled_from(later))}
        elif kind == "jump":
            step |= draw(st.sampled_from([{"next": one} for one in later] + [{"handler": "jump"}]))
        elif kind == "end":
            step["end"] = True
        steps.append(step)
    return steps


@given(definitions(), st.randoms(use_true_random=False))
def test_every_step_runs_once_or_is_left_out_once(steps: list[dict[str, Any]], chance: Any) -> None:
    names = [step["name"] for step in steps]

    def jump(ctx: StepContext) -> StepResult:
        return StepResult(state_updates={"__nextStep": chance.choice(names[names.index(ctx.step_name) + 1 :])})

    app = app_of(*steps, jump=jump)
    app.invoke({}, **THREAD)
    left_out = [name for _, name in skipped(app)]
    assert sorted([*ran(app), *left_out]) == sorted(names)
    assert ran(app) == sorted(ran(app))
