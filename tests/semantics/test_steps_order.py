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
    """A graph of steps; tasks that name no handler call the handler `note`."""
    defaults: dict[str, Any] = {"type": "task", "handler": "note", "retry": {"maxAttempts": 1}}
    listed = [{**(defaults if "type" not in step else {}), **step} for step in steps]
    note = {"note": lambda ctx: StepResult(state_updates={"last": ctx.step_name})}
    document = {"name": "flow", "version": "1", "steps": listed}
    return compile_steps(document, handlers={**note, **handlers}, checkpointer=InMemorySaver())


def steps_run(app: Any) -> list[str]:
    return [event.node for event in app.get_events(THREAD) if event.kind == "task_finished"]


def skipped(app: Any) -> list[tuple[str, str]]:
    """The skipped steps, each after the step that skipped it."""
    events = [event for event in app.get_events(THREAD) if event.kind == "step_reported"]
    return [(event.node, name) for event in events for name in event.data.get("skipped", ())]


def jumping(**targets: str) -> Any:
    """A handler that names the next step for some of the steps that call it."""

    def jump(ctx: StepContext) -> StepResult:
        return StepResult(state_updates={"__nextStep": targets.get(ctx.step_name), "at": ctx.step_name})

    return jump


def test_steps_run_in_written_order(driver: Any) -> None:
    app = app_of({"name": "c"}, {"name": "a"}, {"name": "b"})
    assert driver.invoke(app, {}, **THREAD) == {"last": "b"}
    assert (steps_run(app), skipped(app)) == (["c", "a", "b"], [])


def test_next_and_end_override_the_written_order(driver: Any) -> None:
    app = app_of({"name": "a", "next": "c"}, {"name": "b"}, {"name": "c", "end": True}, {"name": "d"})
    driver.invoke(app, {}, **THREAD)
    assert (steps_run(app), skipped(app)) == (["a", "c"], [("a", "b"), ("c", "d")])


def test_the_written_order_continues_after_the_target_of_a_jump(driver: Any) -> None:
    condition = {"type": "condition", "name": "good", "expression": "none", "trueStep": "b", "falseStep": "c"}
    app = app_of(condition, {"name": "a"}, {"name": "b"}, {"name": "c"}, {"name": "d"})
    driver.invoke(app, {}, **THREAD)
    assert (steps_run(app), skipped(app)) == (["good", "c", "d"], [("good", "a"), ("good", "b")])


@pytest.mark.parametrize("target", ["b", "c"])
def test_a_branch_continues_into_the_next_branch_unless_it_ends(driver: Any, target: str) -> None:
    condition = {"type": "condition", "name": "good", "expression": "yes", "trueStep": "b", "falseStep": "c"}
    app = app_of(
        {"name": "set", "handler": "set"},
        condition,
        {"name": "b"},
        {"name": "c"},
        set=lambda ctx: {"stateUpdates": {"yes": target == "b"}},
    )
    driver.invoke(app, {}, **THREAD)
    assert steps_run(app)[2:] == (["b", "c"] if target == "b" else ["c"])


def test_any_step_can_name_the_next_step(driver: Any) -> None:
    app = app_of({"name": "a", "handler": "jump"}, {"name": "b"}, {"name": "c"}, jump=jumping(a="c"))
    assert driver.invoke(app, {}, **THREAD) == {"at": "a", "last": "c"}
    assert (steps_run(app), skipped(app)) == (["a", "c"], [("a", "b")])


def test_the_next_step_named_by_a_result_precedes_the_written_order(driver: Any) -> None:
    app = app_of({"name": "a", "handler": "jump", "end": True}, {"name": "b"}, {"name": "c"}, jump=jumping(a="c"))
    driver.invoke(app, {}, **THREAD)
    assert steps_run(app) == ["a", "c"]


def test_a_jump_back_runs_steps_again_and_reports_skipped_steps_once(driver: Any) -> None:
    def count(ctx: StepContext) -> StepResult:
        number = ctx.workflow_state.get("n", 0) + 1
        keys = [*ctx.workflow_state.get("keys", []), ctx.idempotency_key.partition(":")[2]]
        return StepResult(state_updates={"n": number, "keys": keys, "__nextStep": "c" if number < 3 else "d"})

    app = app_of(
        {"name": "a", "handler": "count"}, {"name": "b"}, {"name": "c", "next": "a"}, {"name": "d"}, count=count
    )
    assert driver.invoke(app, {}, **THREAD)["keys"] == ["a", "a:2", "a:3"]
    assert steps_run(app) == ["a", "c", "a", "c", "a", "d"]
    assert skipped(app) == [("a", "b")]


def test_a_skipped_step_can_run_later(driver: Any) -> None:
    targets = iter(["c", None])
    app = app_of(
        {"name": "a", "handler": "jump"},
        {"name": "b"},
        {"name": "c", "handler": "back"},
        jump=lambda ctx: StepResult(state_updates={"__nextStep": next(targets)}),
        back=lambda ctx: StepResult(state_updates={"__nextStep": None if "last" in ctx.workflow_state else "a"}),
    )
    driver.invoke(app, {}, **THREAD)
    assert (steps_run(app), skipped(app)) == (["a", "c", "a", "b", "c"], [("a", "b")])


@pytest.mark.parametrize("target", ["bb", 7, "", ["b"]])
def test_naming_an_unknown_step_fails_without_a_retry(driver: Any, target: Any) -> None:
    app = app_of(
        {"name": "a", "handler": "jump", "retry": {"maxAttempts": 3}},
        {"name": "b"},
        jump=lambda ctx: {"stateUpdates": {"__nextStep": target, "x": 1}},
    )
    with pytest.raises(InvalidUpdateError, match="Step 'a' returned __nextStep") as failed:
        driver.invoke(app, {}, **THREAD)
    assert "Steps: a, b." in str(failed.value)
    assert app.get_state(THREAD).values == {}
    assert steps_run(app) == []


def test_a_loop_ends_at_the_recursion_limit(driver: Any) -> None:
    app = app_of({"name": "a"}, {"name": "b", "next": "a"})
    with pytest.raises(GraphRecursionError):
        driver.invoke(app, {}, recursion_limit=20, **THREAD)


@st.composite
def definitions(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Steps that only lead to later steps, or whose handlers name a later step."""
    count = draw(st.integers(1, 8))
    steps: list[dict[str, Any]] = []
    for index in range(count):
        later = [f"s{number}" for number in range(index + 1, count)]
        kind = draw(st.sampled_from(["task", "jump", "condition", "end"] if later else ["task", "end"]))
        step: dict[str, Any] = {"name": f"s{index}"}
        if kind == "condition":
            step |= {"type": "condition", "expression": draw(st.sampled_from(["last", "nothing"]))}
            step |= {"trueStep": draw(st.sampled_from(later)), "falseStep": draw(st.sampled_from(later))}
        elif kind == "jump":
            step |= draw(st.sampled_from([{"next": name} for name in later] + [{"handler": "jump"}]))
        elif kind == "end":
            step["end"] = True
        steps.append(step)
    return steps


@given(definitions(), st.randoms(use_true_random=False))
def test_every_step_runs_once_or_is_skipped_once(steps: list[dict[str, Any]], chance: Any) -> None:
    names = [step["name"] for step in steps]

    def jump(ctx: StepContext) -> StepResult:
        return StepResult(state_updates={"__nextStep": chance.choice(names[names.index(ctx.step_name) + 1 :])})

    app = app_of(*steps, jump=jump)
    app.invoke({}, **THREAD)
    skipped_names = [name for _, name in skipped(app)]
    assert sorted([*steps_run(app), *skipped_names]) == sorted(names)
    assert steps_run(app) == sorted(steps_run(app))
