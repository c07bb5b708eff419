"""Conversations of steps that are executed again do not repeat requests that were answered."""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from typing import Any

import pytest

from statewright import Command, InMemorySaver, Runtime, interrupt
from statewright.agents import ToolContext, tool
from statewright.errors import InvalidUpdateError, ModelUnavailable
from statewright.messages import ToolCall
from statewright.models import ScriptedModel
from statewright.testing import FakeClock
from statewright.workflow.steps import CheckedAnswer, StepContext, StepResult, compile_steps

THREAD = {"thread_id": "1"}
USER = [{"role": "user", "content": "Go."}]


class Crash(BaseException):
    """Stands for the end of the process."""


class Tools:
    """Tools that count how often they were used."""

    def __init__(self, *, crashes: int = 0) -> None:
        self.used: Counter[str] = Counter()
        self.crashes = crashes
        """How many more times `pay` kills the process before it pays."""

    def all(self) -> list[Any]:
        @tool
        def look(at: str) -> str:
            """Looks."""
            self.used[at] += 1
            return f"saw {at}"

        @tool(approve=True)
        def pay(amount: int) -> str:
            """Pays."""
            if self.crashes:
                self.crashes -= 1
                raise Crash
            self.used["pay"] += 1
            return f"paid {amount}"

        @tool
        def consult(about: str) -> str:
            """Asks two people."""
            first = interrupt({"about": about, "who": 1})
            second = interrupt({"about": about, "who": 2})
            self.used[f"consult {about}"] += 1
            return f"{first}, {second}"

        @tool
        def count(context: ToolContext) -> int:
            """Counts on, once a call."""
            runtime: Runtime[Any] = context.runtime  # pyright: ignore[reportAssignmentType]
            return runtime.step("count", lambda: self._counted())

        return [look, pay, consult, count]

    def _counted(self) -> int:
        self.used["count"] += 1
        return self.used["count"]


LOOK, PAY = ToolCall("1", "look", {"at": "a"}), ToolCall("2", "pay", {"amount": 3})


def app_of(tools: Tools, models: Any, *, saver: Any = None, handlers: Any = None, **step: Any) -> Any:
    specs = [{"name": item.name} for item in tools.all()] + [{"name": name} for name in handlers or ()]
    document: dict[str, Any] = {
        "name": "flow",
        "version": "1",
        "steps": [{"type": "llm", "name": "ask", "model": "main", "messages": USER, "tools": specs, **step}],
    }
    options: dict[str, Any] = {"tools": tools.all(), "models": models, "handlers": handlers}
    return compile_steps(document, checkpointer=saver or InMemorySaver(), clock=FakeClock(jumps=True), **options)


def tool_results(model: ScriptedModel) -> list[str]:
    """The results of tools in the last request."""
    return [message.text for message in model.requests[-1].messages if message.role == "tool"]


def count_of(app: Any, kind: str) -> int:
    return sum(event.kind == kind for event in app.get_events(THREAD))


def reported_count(app: Any, kind: str) -> int:
    events = [event.data.get("event") for event in app.get_events(THREAD) if event.kind == "step_reported"]
    return sum(1 for event in events if event and event["type"] == kind)


# -- failing attempts


def test_an_attempt_continues_the_conversation_of_the_previous_attempt(driver: Any) -> None:
    tools, model = Tools(), ScriptedModel([LOOK, ModelUnavailable("busy"), ToolCall("3", "look", {"at": "b"}), "done"])
    app = app_of(tools, model)
    assert driver.invoke(app, {}, **THREAD) == {"ask": "done"}
    assert tools.used == {"a": 1, "b": 1}
    assert tool_results(model) == ["saw a", "saw b"]
    assert (count_of(app, "model_called"), count_of(app, "tool_called")) == (3, 2)


def test_the_next_attempt_tries_the_first_model_again(driver: Any) -> None:
    main = ScriptedModel([ModelUnavailable("busy"), "done"])
    second = ScriptedModel([LOOK, ModelUnavailable("gone")])
    app = app_of(tools := Tools(), {"main": main, "second": second}, fallbackModels=["second"])
    assert driver.invoke(app, {}, **THREAD) == {"ask": "done"}
    assert tools.used == {"a": 1}
    assert (tool_results(main), reported_count(app, "LLM_CALL_FAILED")) == (["saw a"], 2)


def test_streamed_messages_of_each_call_have_different_ids(driver: Any) -> None:
    model = ScriptedModel([LOOK, ModelUnavailable("busy"), PAY, "done"])
    app = app_of(Tools(), model)
    chunks = driver.stream(app, {}, stream_mode="messages", **THREAD)
    chunks += driver.stream(app, Command(resume=True), stream_mode="messages", **THREAD)
    names = [name for name, _ in groupby(chunk.id for chunk, _ in chunks)]
    # task, position of the call, and the attempt unless it is the first
    assert [name.split("-")[1:] for name in names] == [["0"], ["1", "2"], ["2", "2"]]


def test_messages_of_a_conversation_are_not_updates_of_the_state(driver: Any) -> None:
    app = app_of(Tools(), ScriptedModel([LOOK, "done"]))
    assert driver.stream(app, {}, stream_mode="updates", **THREAD) == [{"ask": {"ask": "done"}}]


@pytest.mark.parametrize(
    "options",
    [
        {"responseFormat": "json"},
        {"guardrails": {"postChecks": ["content_safety"], "onFailure": "block"}},
        {"maxToolRounds": 1},
    ],
)
def test_a_conversation_starts_over_after_a_rejected_answer(driver: Any, options: dict[str, Any]) -> None:
    wrong: Any = "sk-" + "a" * 30 if "maxToolRounds" not in options else LOOK
    tools, model = Tools(), ScriptedModel([LOOK, wrong, LOOK, '{"ask": "done"}'])
    app = app_of(tools, model, **options)
    driver.invoke(app, {}, **THREAD)
    assert tools.used == {"a": 2}
    assert [len(request.messages) for request in model.requests] == [1, 3, 1, 3]


def test_a_conversation_that_named_an_unknown_step_is_not_resumed(driver: Any) -> None:
    saver, tools = InMemorySaver(), Tools()
    app = app_of(tools, ScriptedModel([LOOK, '{"__nextStep": "nowhere"}']), saver=saver, responseFormat="json")
    with pytest.raises(InvalidUpdateError, match="'nowhere', which is not a step"):
        driver.invoke(app, {}, **THREAD)
    resumed = app_of(tools, ScriptedModel(['{"a": 1}']), saver=saver, responseFormat="json")
    assert driver.invoke(resumed, None, **THREAD) == {"a": 1}


def test_each_attempt_after_an_invalid_answer_starts_a_new_conversation(driver: Any) -> None:
    model = ScriptedModel(["no", "no", "no", '{"a": 1}'])
    app = app_of(Tools(), model, responseFormat="json", retry={"maxAttempts": 4})
    assert driver.invoke(app, {}, **THREAD) == {"a": 1}
    assert [len(request.messages) for request in model.requests] == [1] * 4


# -- waiting tools


def test_a_tool_can_require_approval(driver: Any) -> None:
    tools, model = Tools(), ScriptedModel([[LOOK, PAY], "done"])
    app = app_of(tools, model)
    (question,) = driver.invoke(app, {}, **THREAD)["__interrupt__"]
    assert question.value == {"kind": "approval", "tool": "pay", "arguments": {"amount": 3}, "tool_call_id": "2"}
    assert driver.invoke(app, Command(resume=True), **THREAD) == {"ask": "done"}
    assert tools.used == {"a": 1, "pay": 1}
    assert tool_results(model) == ["saw a", "paid 3"]
    assert (len(model.requests), count_of(app, "model_called"), count_of(app, "tool_called")) == (2, 2, 2)


def test_the_model_is_informed_of_a_refused_call(driver: Any) -> None:
    tools, model = Tools(), ScriptedModel([PAY, "a pity"])
    app = app_of(tools, model)
    driver.invoke(app, {}, **THREAD)
    assert driver.invoke(app, Command(resume=False), **THREAD) == {"ask": "a pity"}
    assert "was refused" in tool_results(model)[0]
    assert tools.used == {}


def test_answers_go_to_the_tool_call_that_asked(driver: Any) -> None:
    tools = Tools()
    model = ScriptedModel(
        [[ToolCall("1", "consult", {"about": "a"}), ToolCall("2", "consult", {"about": "b"})], "done"]
    )
    app = app_of(tools, model)
    result = driver.invoke(app, {}, **THREAD)
    for answer in ("a1", "a2", "b1", "b2"):
        (question,) = result["__interrupt__"]
        assert f"{question.value['about']}{question.value['who']}" == answer
        result = driver.invoke(app, Command(resume=answer), **THREAD)
    assert result == {"ask": "done"}
    assert tool_results(model) == ["a1, a2", "b1, b2"]
    assert tools.used == {"consult a": 1, "consult b": 1}


def test_each_tool_call_has_its_own_steps(driver: Any) -> None:
    tools, model = Tools(), ScriptedModel([[ToolCall("1", "count", {}), PAY, ToolCall("3", "count", {})], "done"])
    app = app_of(tools, model)
    driver.invoke(app, {}, **THREAD)
    driver.invoke(app, Command(resume=True), **THREAD)
    assert tool_results(model) == ["1", "paid 3", "2"]


def test_each_call_of_a_handler_as_a_tool_has_its_own_steps(driver: Any) -> None:
    counts: Counter[int] = Counter()

    def book(ctx: StepContext) -> StepResult:
        def make() -> int:
            counts[len(counts)] += 1
            return len(counts)

        runtime: Runtime[Any] = ctx.runtime  # pyright: ignore[reportAssignmentType]
        return StepResult(output={"number": runtime.step("make", make)})

    model = ScriptedModel([[ToolCall("1", "book", {}), PAY, ToolCall("3", "book", {})], "done"])
    app = app_of(Tools(), model, handlers={"book": book})
    driver.invoke(app, {}, **THREAD)
    driver.invoke(app, Command(resume=True), **THREAD)
    assert tool_results(model) == ['{"number": 1}', "paid 3", '{"number": 2}']


def test_a_model_that_failed_before_a_pause_is_tried_again_after_it(driver: Any) -> None:
    main, second = ScriptedModel([ModelUnavailable("busy"), "done"]), ScriptedModel([PAY])
    app = app_of(Tools(), {"main": main, "second": second}, fallbackModels=["second"])
    driver.invoke(app, {}, **THREAD)
    assert driver.invoke(app, Command(resume=True), **THREAD) == {"ask": "done"}
    assert (len(main.requests), len(second.requests), reported_count(app, "LLM_CALL_FAILED")) == (2, 1, 1)


def test_a_failed_check_before_a_pause_is_not_reported_again(driver: Any) -> None:
    checked: list[str] = []

    def polite(answer: CheckedAnswer) -> str | None:
        checked.append(answer.text)
        return None if "please" in answer.text else "Say please."

    model = ScriptedModel(["Go.", PAY, "Go, please."])
    guardrails = {"postChecks": ["polite"], "onFailure": "retry_with_feedback"}
    step = {"type": "llm", "name": "ask", "model": "m", "messages": USER, "tools": [{"name": "pay"}]}
    document = {"name": "flow", "version": "1", "steps": [{**step, "guardrails": guardrails}]}
    options: dict[str, Any] = {"models": model, "tools": Tools().all(), "checks": {"polite": polite}}
    app = compile_steps(document, checkpointer=InMemorySaver(), clock=FakeClock(jumps=True), **options)
    driver.invoke(app, {}, **THREAD)
    assert driver.invoke(app, Command(resume=True), **THREAD) == {"ask": "Go, please."}
    assert checked == ["Go.", "Go, please."]
    assert reported_count(app, "GUARDRAIL_FAILED") == 1
    assert len(model.requests) == 3


# -- crashes


def test_a_conversation_continues_after_a_crash(driver: Any) -> None:
    saver, tools = InMemorySaver(), Tools(crashes=1)
    first = app_of(tools, ScriptedModel([LOOK, PAY]), saver=saver)
    driver.invoke(first, {}, **THREAD)
    with pytest.raises(Crash):
        driver.invoke(first, Command(resume=True), **THREAD)
    model = ScriptedModel(["done"])
    resumed = app_of(tools, model, saver=saver)
    assert driver.invoke(resumed, None, **THREAD) == {"ask": "done"}
    assert tools.used == {"a": 1, "pay": 1}
    assert tool_results(model) == ["saw a", "paid 3"]
    assert (count_of(resumed, "model_called"), count_of(resumed, "tool_called")) == (3, 2)
