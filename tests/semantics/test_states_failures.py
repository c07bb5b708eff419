"""The states language, 1.7 and 2.11: retries, failing runs, and the recursion limit."""

import asyncio
from typing import Any

import pytest

from statewright import InMemorySaver
from statewright.errors import GraphRecursionError, MissingApiKey, ModelError, ModelUnavailable, RoutingError, ToolError
from statewright.models import ScriptedModel
from statewright.testing import FakeClock
from statewright.workflow.states import load_workflow

Outputs = dict[str, Any]
OFF = "enable_summarization_node: false"


def document(states: str, extra: str = "") -> str:
    states = states.replace("next:", "assistant_id: a, next:")
    return f"{OFF}\n{extra}\nassistants: [{{id: a, system_prompt: p}}]\nstates:\n{states}"


class Failing:
    """A model that fails with these errors before it answers; `calls` counts its requests."""

    def __init__(self, *errors: Exception, answer: str = "ok") -> None:
        self._errors = list(errors)
        self._answer = answer
        self.calls = 0

    async def complete(self, request: Any) -> Any:
        self.calls += 1
        answer = self._errors.pop(0) if self._errors else self._answer
        return await ScriptedModel([answer]).complete(request)


def run(driver: Any, states: str, model: Any, *, extra: str = "", clock: FakeClock | None = None) -> Any:
    """Run the workflow with a clock that advances by itself."""
    clock = FakeClock(jumps=True) if clock is None else clock
    app = load_workflow(document(states, extra)).compile(models=model, clock=clock)
    if driver.name == "async":
        return asyncio.run(clock.run(app.ainvoke({"input": "hi"})))
    return app.invoke({"input": "hi"})


ONE = "- {id: s, next: {state_id: end}}"


class HttpError(Exception):
    """An error like those of HTTP libraries."""

    def __init__(self, status: int) -> None:
        super().__init__(f"HTTP {status}")
        self.status_code = status


class ErrorWithResponse(Exception):
    """An error like those of other HTTP libraries."""

    def __init__(self, status: int) -> None:
        super().__init__(f"HTTP {status}")
        self.response = HttpError(status)


class UnknownError(Exception):
    pass


# -- errors that are retried


@pytest.mark.parametrize(
    "error",
    [
        ConnectionError("reset"),
        ConnectionResetError("reset"),
        ModelUnavailable("busy", status=429),
        ModelUnavailable("down", status=503),
        ModelUnavailable("down", status=500),
        ModelUnavailable("cannot be reached"),
        HttpError(500),
        HttpError(429),
        UnknownError("who knows"),
    ],
    ids=repr,
)
def test_2_11_a_temporary_error_retries_the_state(driver: Any, error: Exception) -> None:
    model = Failing(error)
    result = run(driver, ONE, model)
    assert (model.calls, result["result"], len(result["visits"])) == (2, "ok", 1)


@pytest.mark.parametrize(
    "error",
    [
        ModelUnavailable("no", status=401),
        ModelUnavailable("no", status=403),
        ModelUnavailable("no", status=404),
        ModelUnavailable("no", status=418),
        HttpError(404),
        HttpError(400),
        ValueError("v"),
        TypeError("t"),
        RuntimeError("r"),
        KeyError("k"),
        IndexError("i"),
        NameError("n"),
        ZeroDivisionError("z"),
        FileNotFoundError("f"),
        PermissionError("p"),
        MissingApiKey("no key"),
        ModelError("cut off"),
        ToolError("no such tool"),
    ],
    ids=repr,
)
def test_2_11_a_permanent_error_is_not_retried(driver: Any, error: Exception) -> None:
    model = Failing(error)
    with pytest.raises(type(error)):
        run(driver, ONE, model)
    assert model.calls == 1


def test_2_11_the_status_of_the_response_of_an_error_decides(driver: Any) -> None:
    model = Failing(ErrorWithResponse(404))
    with pytest.raises(ErrorWithResponse):
        run(driver, ONE, model)
    assert model.calls == 1


def test_2_11_a_retry_waits_for_retry_after(driver: Any) -> None:
    clock = FakeClock(jumps=True)
    model = Failing(ModelUnavailable("busy", status=429, retry_after=60))
    run(driver, ONE, model, clock=clock)
    assert clock.monotonic() >= 60


def test_2_11_routing_errors_do_not_execute_the_state_again(driver: Any) -> None:
    states = "- {id: s, next: {state_id: p, iter_key: /xs}}\n- {id: p, next: {state_id: end}}"
    model = Failing(answer="{}")
    with pytest.raises(RoutingError):
        run(driver, states, model)
    assert model.calls == 1


# -- the policy


def test_1_7_a_state_has_ten_attempts_by_default(driver: Any) -> None:
    model, clock = Failing(*[ConnectionError(str(n)) for n in range(99)]), FakeClock(jumps=True)
    with pytest.raises(ConnectionError, match="9"):
        run(driver, ONE, model, clock=clock)
    assert model.calls == 10
    waits = [0.5, 1, 2, 4, 8, 16, 32, 64, 128]
    assert sum(waits) <= clock.monotonic() <= sum(waits) + len(waits)


@pytest.mark.parametrize(
    ("state_policy", "workflow_policy", "calls"),
    [
        ("", "max_attempts: 3", 3),
        ("max_attempts: 2", "max_attempts: 3", 2),
        ("initial_interval: 1", "max_attempts: 3", 3),
        ("max_attempts: 1", "", 1),
    ],
)
def test_1_7_each_field_of_a_state_policy_overrides_the_workflow_policy(
    driver: Any, state_policy: str, workflow_policy: str, calls: int
) -> None:
    states = f"- {{id: s, retry_policy: {{{state_policy}}}, next: {{state_id: end}}}}"
    model = Failing(*[ConnectionError("no")] * 99)
    with pytest.raises(ConnectionError):
        run(driver, states, model, extra=f"retry_policy: {{{workflow_policy}}}")
    assert model.calls == calls


@pytest.mark.parametrize("suffix", ["", "_seconds"])
def test_1_7_intervals_are_seconds_with_or_without_the_suffix(driver: Any, suffix: str) -> None:
    policy = f"initial_interval{suffix}: 100, max_interval{suffix}: 150, backoff_factor: 2, max_attempts: 3"
    model, clock = Failing(*[ConnectionError("no")] * 2), FakeClock(jumps=True)
    run(driver, ONE, model, extra=f"retry_policy: {{{policy}}}", clock=clock)
    assert 250 <= clock.monotonic() <= 252


def test_2_11_only_the_failed_branch_is_retried(driver: Any) -> None:
    failed: list[Any] = []

    def answer(request: Any) -> Any:
        state, call = request.metadata["state"], request.metadata["call"]
        if call.item == 2 and not failed:
            failed.append(call.item)
            return ConnectionError("once")
        return {"l": "[1, 2, 3]"}.get(state, state)

    states = "- {id: l, next: {state_id: p, iter_key: .}}\n- {id: p, next: {state_id: end}}"
    model = ScriptedModel(answer)
    result = run(driver, states, model)
    assert [visit["item"] for visit in result["visits"]] == [None, 1, 2, 3]
    assert len(model.requests) == 5


# -- failing runs


def test_2_11_a_failing_state_fails_the_run_and_keeps_finished_work(driver: Any) -> None:
    states = "- {id: s, next: {state_id: e}}\n- {id: e, next: {state_id: end}}"

    def answer(request: Any) -> Any:
        return '{"k": 1}' if request.metadata["state"] == "s" else ValueError("cannot do it")

    app = load_workflow(document(states)).compile(models=ScriptedModel(answer), checkpointer=InMemorySaver())
    with pytest.raises(ValueError, match="cannot do it"):
        driver.invoke(app, {"input": "hi"}, {"configurable": {"thread_id": "t"}})
    state = app.get_state({"configurable": {"thread_id": "t"}})
    assert (state.values["context"], state.next) == ({"k": 1}, ("e",))


LOOP = "- {id: s, next: {condition: {expression: again, then: s, otherwise: end}}}"


def test_2_11_exceeding_the_recursion_limit_fails_the_run_and_keeps_finished_work(driver: Any) -> None:
    app = load_workflow(document(LOOP, "recursion_limit: 4")).compile(
        script={"s": '{"again": 1}'}, checkpointer=InMemorySaver()
    )
    thread = {"configurable": {"thread_id": "t"}}
    with pytest.raises(GraphRecursionError, match="recursion_limit"):
        driver.invoke(app, {"input": "hi"}, thread)
    assert len(app.get_state(thread).values["visits"]) == 4


def test_2_11_a_run_of_as_many_steps_as_the_limit_completes(driver: Any) -> None:
    outs = {"s": ['{"again": 1}'] * 3 + ['{"again": 0}']}
    result = driver.invoke(load_workflow(document(LOOP, "recursion_limit: 4")).compile(script=outs), {})
    assert len(result["visits"]) == 4


def test_2_11_parallel_branches_count_as_one_step(driver: Any) -> None:
    states = """
- {id: l, next: {state_id: p, iter_key: .}}
- {id: p, next: {state_id: m}}
- {id: m, next: {state_id: end}}
"""
    outs = {"l": str(list(range(20))), "p": "p", "m": "m"}
    result = driver.invoke(load_workflow(document(states, "recursion_limit: 3")).compile(script=outs), {})
    assert len(result["visits"]) == 22


def test_2_11_the_recursion_limit_is_50_by_default() -> None:
    outs = {"s": '{"again": 1}'}
    with pytest.raises(GraphRecursionError) as caught:
        load_workflow(document(LOOP)).compile(script=outs).invoke({})
    assert caught.value.limit == 50


def test_2_11_a_final_summary_does_not_raise_the_recursion_limit(driver: Any) -> None:
    outs = {"s": '{"again": 1}', "final_summary": "F"}
    text = document(LOOP, "recursion_limit: 4").replace(OFF, "")
    app = load_workflow(text).compile(script=outs, checkpointer=InMemorySaver())
    thread = {"configurable": {"thread_id": "t"}}
    with pytest.raises(GraphRecursionError):
        driver.invoke(app, {"input": "hi"}, thread)
    assert len(app.get_state(thread).values["visits"]) == 4
