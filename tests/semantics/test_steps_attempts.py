"""Failing steps: the number and conditions of attempts, and the context of each."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from statewright import InMemorySaver
from statewright.errors import InvalidUpdateError
from statewright.storage.sqlite import SqliteSaver
from statewright.testing import FakeClock
from statewright.workflow.steps import StepContext, StepFailed, StepFailure, StepResult, compile_steps

THREAD = {"thread_id": "1"}


def app_of(handler: Any, saver: Any = None, clock: Any = None, **step: Any) -> Any:
    return compile_steps(
        {"name": "flow", "version": "1", "steps": [{"type": "task", "name": "a", "handler": "h", **step}]},
        handlers={"h": handler},
        checkpointer=saver or InMemorySaver(),
        clock=clock or FakeClock(jumps=True),
    )


def failing(times: int, contexts: list[StepContext], failure: Any) -> Any:
    """A handler that fails a number of times; `failure` is raised or returned."""

    def handler(ctx: StepContext) -> Any:
        contexts.append(ctx)
        if len(contexts) > times:
            return StepResult(state_updates={"done": len(contexts)})
        if isinstance(failure, Exception):
            raise failure
        return failure

    return handler


FAILURES = [
    StepResult("failed", error=StepFailure("no", "NOT_YET")),
    {"status": "failed"},
    ValueError("broken"),
    ConnectionError("gone"),
    StepFailed("no"),
]


@pytest.mark.parametrize("failure", FAILURES, ids=repr)
def test_a_step_has_three_attempts_by_default(driver: Any, failure: Any) -> None:
    contexts: list[StepContext] = []
    assert driver.invoke(app_of(failing(2, contexts, failure)), {}, run_id="run_1", **THREAD) == {"done": 3}
    assert [ctx.attempt for ctx in contexts] == [1, 2, 3]
    assert {ctx.idempotency_key for ctx in contexts} == {"run_1:a"}
    with pytest.raises((StepFailed, ValueError, ConnectionError)):
        driver.invoke(app_of(failing(3, [], failure)), {}, **THREAD)


def test_updates_of_a_failed_step_are_not_written(driver: Any) -> None:
    result = StepResult("failed", state_updates={"x": 1, "__nextStep": "a"}, error=StepFailure("no", "E1", {"why": 1}))
    app = app_of(lambda ctx: result, retry={"maxAttempts": 1})
    with pytest.raises(StepFailed, match=r"^no\n") as failed:
        driver.invoke(app, {}, **THREAD)
    assert (failed.value.code, failed.value.details) == ("E1", {"why": 1})
    assert app.get_state(THREAD).values == {}


@pytest.mark.parametrize("result", ["text", {"status": "done"}, {"stateUpdates": {"x": object()}}])
def test_invalid_results_are_not_retried(driver: Any, result: Any) -> None:
    contexts: list[StepContext] = []
    with pytest.raises(InvalidUpdateError, match="'a'"):
        driver.invoke(app_of(failing(2, contexts, result)), {}, **THREAD)
    assert len(contexts) == 1


def test_a_final_failure_is_not_retried(driver: Any) -> None:
    contexts: list[StepContext] = []
    with pytest.raises(StepFailed):
        driver.invoke(app_of(failing(2, contexts, StepFailed("never", is_final=True))), {}, **THREAD)
    assert len(contexts) == 1


def test_retry_delays_grow_to_their_limit_and_are_reduced_by_at_most_half(driver: Any) -> None:
    clock, times = FakeClock(jumps=True), list[float]()

    def handler(ctx: StepContext) -> StepResult:
        times.append(clock.monotonic())
        return StepResult("failed" if len(times) < 6 else "completed")

    retry = {"maxAttempts": 6, "backoffMs": 1000, "backoffMultiplier": 3, "maxBackoffMs": 10_000}
    step = {"type": "task", "name": "a", "handler": "h", "retry": retry}
    app = compile_steps({"name": "f", "version": "1", "steps": [step]}, handlers={"h": handler}, clock=clock)
    driver.invoke(app, {})
    waits = [after - before for before, after in itertools.pairwise(times)]
    for wait, limit in zip(waits, [1, 3, 9, 10, 10], strict=True):
        assert limit / 2 <= wait <= limit


@pytest.mark.parametrize("run_id", ["run_1", None])
def test_a_step_has_the_same_key_after_a_crash(tmp_path: Path, run_id: str | None) -> None:
    keys: list[str] = []

    def handler(ctx: StepContext) -> StepResult:
        keys.append(ctx.idempotency_key)
        if len(keys) == 1:
            raise KeyboardInterrupt
        return StepResult(state_updates={"done": True})

    with SqliteSaver(tmp_path / "runs.db") as saver, pytest.raises(KeyboardInterrupt):
        app_of(handler, saver).invoke({}, run_id=run_id, **THREAD)
    with SqliteSaver(tmp_path / "runs.db") as saver:
        assert app_of(handler, saver).invoke(None, run_id=run_id, **THREAD) == {"done": True}
    assert keys[0] == keys[1]
    assert keys[0].endswith(":a")


def test_two_runs_on_one_thread_have_different_keys(driver: Any) -> None:
    contexts: list[StepContext] = []
    app = app_of(failing(0, contexts, None))
    driver.invoke(app, {}, **THREAD)
    driver.invoke(app, {}, **THREAD)
    first, second = (ctx.idempotency_key for ctx in contexts)
    assert first != second


def test_the_context_of_a_handler_names_its_workspace_run_and_step(driver: Any) -> None:
    contexts: list[StepContext] = []
    app = app_of(failing(0, contexts, None), config={"key": {"a": 1}})
    config = {"configurable": {"thread_id": "1", "workspace_id": "ws_1"}}
    driver.invoke(app, {"in": 1}, config, run_id="run_1")
    (ctx,) = contexts
    assert (ctx.workspace_id, ctx.run_id, ctx.step_name) == ("ws_1", "run_1", "a")
    assert (ctx.config, ctx.workflow_input, ctx.workflow_state) == ({"key": {"a": 1}}, {"in": 1}, {})
    assert ctx.runtime.execution_info.node == "a"
