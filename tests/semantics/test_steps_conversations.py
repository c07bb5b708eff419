"""Conversations of steps that are executed again: no answered request is repeated."""

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
    """The process is killed."""


class Till:
    """Tools that count how often they were used."""

    def __init__(self, *, crashes: int = 0) -> None:
        self.used: Counter[str] = Counter()
        self.crashes = crashes
        """How often `pay` still kills the process before it has paid."""

    def tools(self) -> list[Any]:
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


def app_of(till: Till, models: Any, *, saver: Any = None, handlers: Any = None, **step: Any) -> Any:
    tools = [{"name": one.name} for one in till.tools()] + [{"name": name} for name in handlers or ()]
    document: dict[str, Any] = {
        "name": "flow",
        "version": "1",
        "steps": [{"type": "llm", "name": "ask", "model": "main", "messages": USER, "tools": tools, **step}],
    }
    given: dict[str, Any] = {"tools": till.tools(), "models": models, "handlers": handlers}
    return compile_steps(document, checkpointer=saver or InMemorySaver(), clock=FakeClock(jumps=True), **given)


def tool_answers(model: ScriptedModel) -> list[str]:
    """What tools have answered, as the model was last told."""
    return [one.text for one in model.requests[-1].messages if one.role == "tool"]


def count_of(app: Any, kind: str) -> int:
    return sum(event.kind == kind for event in app.get_events(THREAD))


def told(app: Any, kind: str) -> int:
    events = [event.data.get("event") for event in app.get_events(THREAD) if event.kind == "step_reported"]
    return sum(1 for event in events if event and event["type"] == kind)


# -- attempts that break off


def test_an_attempt_continues_where_the_one_before_broke_off(driver: Any) -> None:
    till, model = Till(), ScriptedModel([LOOK, ModelUnavailable("busy"), ToolCall("3", "look", {"at": "b"}), "done"])
    app = app_of(till, model)
    assert driver.invoke(app, {}, **THREAD) == {"ask": "done"}
    assert till.used == {"a": 1, "b": 1}
    assert tool_answers(model) == ["saw a", "saw b"]
    assert (count_of(app, "model_called"), count_of(app, "tool_called")) == (3, 2)


def test_the_next_attempt_asks_the_first_model_again(driver: Any) -> None:
    main = ScriptedModel([ModelUnavailable("busy"), "done"])
    second = ScriptedModel([LOOK, ModelUnavailable("gone")])
    app = app_of(till := Till(), {"main": main, "second": second}, fallbackModels=["second"])
    assert driver.invoke(app, {}, **THREAD) == {"ask": "done"}
    assert till.used == {"a": 1}
    assert (tool_answers(main), told(app, "LLM_CALL_FAILED")) == (["saw a"], 2)


def test_messages_that_are_shown_have_names_of_their_own(driver: Any) -> None:
    model = ScriptedModel([LOOK, ModelUnavailable("busy"), PAY, "done"])
    app = app_of(Till(), model)
    shown = driver.stream(app, {}, stream_mode="messages", **THREAD)
    shown += driver.stream(app, Command(resume=True), stream_mode="messages", **THREAD)
    names = [name for name, _ in groupby(chunk.id for chunk, _ in shown)]
    # by task, position of the call, and attempt where that is not the first
    assert [name.split("-")[1:] for name in names] == [["0"], ["1", "2"], ["2", "2"]]


def test_messages_are_not_updates_of_the_state(driver: Any) -> None:
    app = app_of(Till(), ScriptedModel([LOOK, "done"]))
    assert driver.stream(app, {}, stream_mode="updates", **THREAD) == [{"ask": {"ask": "done"}}]


@pytest.mark.parametrize(
    "refused",
    [
        {"responseFormat": "json"},
        {"guardrails": {"postChecks": ["content_safety"], "onFailure": "block"}},
        {"maxToolRounds": 1},
    ],
)
def test_after_an_answer_that_was_refused_a_conversation_starts_over(driver: Any, refused: dict[str, Any]) -> None:
    wrong: Any = "sk-" + "a" * 30 if "maxToolRounds" not in refused else LOOK
    till, model = Till(), ScriptedModel([LOOK, wrong, LOOK, '{"ask": "done"}'])
    app = app_of(till, model, **refused)
    driver.invoke(app, {}, **THREAD)
    assert till.used == {"a": 2}
    assert [len(request.messages) for request in model.requests] == [1, 3, 1, 3]


def test_a_conversation_that_named_no_step_is_not_resumed(driver: Any) -> None:
    saver, till = InMemorySaver(), Till()
    app = app_of(till, ScriptedModel([LOOK, '{"__nextStep": "nowhere"}']), saver=saver, responseFormat="json")
    with pytest.raises(InvalidUpdateError, match="'nowhere', which is not a step"):
        driver.invoke(app, {}, **THREAD)
    again = app_of(till, ScriptedModel(['{"a": 1}']), saver=saver, responseFormat="json")
    assert driver.invoke(again, None, **THREAD) == {"a": 1}


def test_each_conversation_that_comes_to_nothing_is_followed_by_another(driver: Any) -> None:
    model = ScriptedModel(["no", "no", "no", '{"a": 1}'])
    app = app_of(Till(), model, responseFormat="json", retry={"maxAttempts": 4})
    assert driver.invoke(app, {}, **THREAD) == {"a": 1}
    assert [len(request.messages) for request in model.requests] == [1] * 4


# -- tools that wait


def test_a_tool_may_want_to_be_approved(driver: Any) -> None:
    till, model = Till(), ScriptedModel([[LOOK, PAY], "done"])
    app = app_of(till, model)
    (question,) = driver.invoke(app, {}, **THREAD)["__interrupt__"]
    assert question.value == {"kind": "approval", "tool": "pay", "arguments": {"amount": 3}, "tool_call_id": "2"}
    assert driver.invoke(app, Command(resume=True), **THREAD) == {"ask": "done"}
    assert till.used == {"a": 1, "pay": 1}
    assert tool_answers(model) == ["saw a", "paid 3"]
    assert (len(model.requests), count_of(app, "model_called"), count_of(app, "tool_called")) == (2, 2, 2)


def test_a_call_that_is_refused_is_reported_to_the_model(driver: Any) -> None:
    till, model = Till(), ScriptedModel([PAY, "a pity"])
    app = app_of(till, model)
    driver.invoke(app, {}, **THREAD)
    assert driver.invoke(app, Command(resume=False), **THREAD) == {"ask": "a pity"}
    assert "was refused" in tool_answers(model)[0]
    assert till.used == {}


def test_questions_of_tools_are_distinguished(driver: Any) -> None:
    till = Till()
    model = ScriptedModel(
        [[ToolCall("1", "consult", {"about": "a"}), ToolCall("2", "consult", {"about": "b"})], "done"]
    )
    app = app_of(till, model)
    shown = driver.invoke(app, {}, **THREAD)
    for answer in ("a1", "a2", "b1", "b2"):
        (question,) = shown["__interrupt__"]
        assert f"{question.value['about']}{question.value['who']}" == answer
        shown = driver.invoke(app, Command(resume=answer), **THREAD)
    assert shown == {"ask": "done"}
    assert tool_answers(model) == ["a1, a2", "b1, b2"]
    assert till.used == {"consult a": 1, "consult b": 1}


def test_steps_of_tools_are_distinguished(driver: Any) -> None:
    till, model = Till(), ScriptedModel([[ToolCall("1", "count", {}), PAY, ToolCall("3", "count", {})], "done"])
    app = app_of(till, model)
    driver.invoke(app, {}, **THREAD)
    driver.invoke(app, Command(resume=True), **THREAD)
    assert tool_answers(model) == ["1", "paid 3", "2"]


def test_handlers_as_tools_keep_their_own_steps(driver: Any) -> None:
    made: Counter[int] = Counter()

    def book(ctx: StepContext) -> StepResult:
        def make() -> int:
            made[len(made)] += 1
            return len(made)

        runtime: Runtime[Any] = ctx.runtime  # pyright: ignore[reportAssignmentType]
        return StepResult(output={"number": runtime.step("make", make)})

    model = ScriptedModel([[ToolCall("1", "book", {}), PAY, ToolCall("3", "book", {})], "done"])
    app = app_of(Till(), model, handlers={"book": book})
    driver.invoke(app, {}, **THREAD)
    driver.invoke(app, Command(resume=True), **THREAD)
    assert tool_answers(model) == ['{"number": 1}', "paid 3", '{"number": 2}']


def test_a_model_that_has_failed_before_a_pause_may_be_back_after_it(driver: Any) -> None:
    main, second = ScriptedModel([ModelUnavailable("busy"), "done"]), ScriptedModel([PAY])
    app = app_of(Till(), {"main": main, "second": second}, fallbackModels=["second"])
    driver.invoke(app, {}, **THREAD)
    assert driver.invoke(app, Command(resume=True), **THREAD) == {"ask": "done"}
    assert (len(main.requests), len(second.requests), told(app, "LLM_CALL_FAILED")) == (2, 1, 1)


def test_findings_of_a_check_before_a_pause_are_not_reported_again(driver: Any) -> None:
    checked: list[str] = []

    def polite(answer: CheckedAnswer) -> str | None:
        checked.append(answer.text)
        return None if "please" in answer.text else "Say please."

    model = ScriptedModel(["Go.", PAY, "Go, please."])
    guardrails = {"postChecks": ["polite"], "onFailure": "retry_with_feedback"}
    step = {"type": "llm", "name": "ask", "model": "m", "messages": USER, "tools": [{"name": "pay"}]}
    document = {"name": "flow", "version": "1", "steps": [{**step, "guardrails": guardrails}]}
    given: dict[str, Any] = {"models": model, "tools": Till().tools(), "checks": {"polite": polite}}
    app = compile_steps(document, checkpointer=InMemorySaver(), clock=FakeClock(jumps=True), **given)
    driver.invoke(app, {}, **THREAD)
    assert driver.invoke(app, Command(resume=True), **THREAD) == {"ask": "Go, please."}
    assert checked == ["Go.", "Go, please."]
    assert told(app, "GUARDRAIL_FAILED") == 1
    assert len(model.requests) == 3


# -- processes that are killed


def test_after_a_crash_the_conversation_continues(driver: Any) -> None:
    saver, till = InMemorySaver(), Till(crashes=1)
    first = app_of(till, ScriptedModel([LOOK, PAY]), saver=saver)
    driver.invoke(first, {}, **THREAD)
    with pytest.raises(Crash):
        driver.invoke(first, Command(resume=True), **THREAD)
    model = ScriptedModel(["done"])
    again = app_of(till, model, saver=saver)
    assert driver.invoke(again, None, **THREAD) == {"ask": "done"}
    assert till.used == {"a": 1, "pay": 1}
    assert tool_answers(model) == ["saw a", "paid 3"]
    assert (count_of(again, "model_called"), count_of(again, "tool_called")) == (3, 2)
