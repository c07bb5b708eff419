"""The acceptance cases 13 to 19 of the steps language, with both drivers."""

from __future__ import annotations

from typing import Any

import pytest

from statewright import Command, InMemorySaver
from statewright.models import ScriptedModel
from statewright.workflow.steps import Handlers, StepContext, StepResult, compile_steps


def workflow(*steps: dict[str, Any]) -> dict[str, Any]:
    return {"name": "flow", "version": "1", "steps": [{"type": "task", **step} for step in steps]}


def states_of(app: Any, thread_id: str = "1") -> list[dict[str, Any]]:
    """The state after each superstep, the oldest first."""
    return [snapshot.values for snapshot in reversed(list(app.get_state_history(thread_id=thread_id)))]


def test_case_13_each_step_adds_its_updates_to_the_state(driver: Any) -> None:
    handlers = Handlers()
    seen: list[tuple[str, Any, Any]] = []

    @handlers.task_handler("enrich")
    def enrich(ctx: StepContext) -> StepResult:
        seen.append((ctx.step_name, dict(ctx.workflow_input), dict(ctx.workflow_state)))
        return StepResult(state_updates={"leadName": "Jane Smith", "company": "Acme Inc"})

    @handlers.task_handler("send")
    async def send(ctx: StepContext) -> dict[str, Any]:
        seen.append((ctx.step_name, dict(ctx.workflow_input), dict(ctx.workflow_state)))
        return {"status": "completed", "stateUpdates": {"sentAt": "2025-06-01T12:00:00Z", "messageId": "msg_789"}}

    model = ScriptedModel(["Hi Jane, ..."])
    app = compile_steps(
        workflow(
            {"name": "enrich-lead", "handler": "enrich"},
            {
                "type": "llm",
                "name": "draft-email",
                "model": "gpt-4o",
                "messages": [{"role": "user", "content": "Write to {{state.leadName}} at {{input.leadEmail}}."}],
                "outputKey": "emailDraft",
            },
            {"name": "send-email", "handler": "send"},
        ),
        handlers=handlers,
        models={"gpt-4o": model},
        checkpointer=InMemorySaver(),
    )
    input_ = {"leadEmail": "jane@example.com"}
    output = driver.invoke(app, input_, thread_id="1")

    enriched = {"leadName": "Jane Smith", "company": "Acme Inc"}
    drafted = {**enriched, "emailDraft": "Hi Jane, ..."}
    sent = {**drafted, "sentAt": "2025-06-01T12:00:00Z", "messageId": "msg_789"}
    assert output == sent
    assert states_of(app) == [{}, enriched, drafted, sent]
    assert seen == [("enrich-lead", input_, {}), ("send-email", input_, drafted)]
    assert model.requests[0].messages[0].text == "Write to Jane Smith at jane@example.com."
    assert input_ == {"leadEmail": "jane@example.com"}


def test_case_14_the_merge_is_shallow(driver: Any) -> None:
    updates = iter([{"a": {"x": 1, "y": 2}, "b": 1}, {"a": {"x": 9}, "c": None}])
    app = compile_steps(
        workflow({"name": "one", "handler": "h"}, {"name": "two", "handler": "h"}),
        handlers={"h": lambda ctx: StepResult(state_updates=next(updates))},
    )
    assert driver.invoke(app, {}) == {"a": {"x": 9}, "b": 1, "c": None}


def test_case_15_the_output_of_a_step_is_not_part_of_the_state(driver: Any) -> None:
    app = compile_steps(
        workflow({"name": "one", "handler": "h"}),
        handlers={"h": lambda ctx: StepResult(output={"o": 1})},
        checkpointer=InMemorySaver(),
    )
    assert driver.invoke(app, {}, thread_id="1") == {}
    reported = [event.data for event in app.get_events(thread_id="1") if event.kind == "step_reported"]
    assert reported == [{"output": {"o": 1}}]


def test_case_16_the_input_cannot_be_changed(driver: Any) -> None:
    seen: list[Any] = []

    def spoil(ctx: StepContext) -> StepResult:
        seen.append(ctx.workflow_input["lead"]["tags"].copy())
        ctx.workflow_input["lead"]["tags"].append("spoiled")
        ctx.workflow_input["more"] = True
        ctx.workflow_state["kept"] = "spoiled"
        ctx.config["spoiled"] = True
        return StepResult(state_updates={"kept": {"by": ctx.step_name}})

    app = compile_steps(
        workflow({"name": "one", "handler": "h"}, {"name": "two", "handler": "h"}),
        handlers={"h": spoil},
        checkpointer=InMemorySaver(),
    )
    input_ = {"lead": {"tags": ["a"]}}
    assert driver.invoke(app, input_, thread_id="1") == {"kept": {"by": "two"}}
    input_["lead"]["tags"].append("by the caller")
    assert seen == [["a"], ["a"]]
    # A step that runs again shows the saved input.
    seen.clear()
    app.update_state({"configurable": {"thread_id": "1"}}, {}, as_node="one")
    driver.invoke(app, None, thread_id="1")
    assert seen == [["a"]]


def test_case_16_changing_a_result_later_has_no_effect(driver: Any) -> None:
    updates: dict[str, Any] = {"list": [1]}
    seen: list[Any] = []

    def first(ctx: StepContext) -> StepResult:
        return StepResult(state_updates=updates)

    def second(ctx: StepContext) -> None:
        updates["list"].append(2)
        seen.append(ctx.workflow_state["list"])

    app = compile_steps(
        workflow({"name": "one", "handler": "first"}, {"name": "two", "handler": "second"}),
        handlers={"first": first, "second": second},
    )
    assert driver.invoke(app, {}) == {"list": [1]}
    assert seen == [[1]]


INPUT = {"a": "x", "n": None, "z": 0, "f": False, "o": {"k": 1}, "arr": [1, 2]}


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("{{input.a}}", "x"),
        ("{{input.missing}}", ""),
        ("{{input.n}}", ""),
        ("{{input.missing.sub}}", "{{input.missing.sub}}"),
        ("{{input.n.sub}}", "{{input.n.sub}}"),
        ("{{input.a.length}}", "{{input.a.length}}"),
        ("{{input.z.q}}", "{{input.z.q}}"),
        ("{{input.arr.0}}", "1"),
        ("{{input.arr.length}}", ""),
        ("{{input.arr}}", "[1, 2]"),
        ("{{input.o}}", '{"k": 1}'),
        ("{{input}}", '{"a": "x", "n": null, "z": 0, "f": false, "o": {"k": 1}, "arr": [1, 2]}'),
        ("{{input.z}}", "0"),
        ("{{input.f}}", "false"),
        ("{{env.x}}", "{{env.x}}"),
        ("{{companyName}}", "{{companyName}}"),
        ("{{ input.a }}", "{{ input.a }}"),
        ("{{input.a-b}}", "{{input.a-b}}"),
        ("{{.input}}", "{{.input}}"),
        ("{{state.}}", ""),
        ("{{{input.a}}}", "{x}"),
    ],
)
def test_case_17_templates_in_prompts_are_resolved(template: str, expected: str) -> None:
    model = ScriptedModel(["done"])
    app = compile_steps(
        workflow(
            {
                "type": "llm",
                "name": "ask",
                "model": "m",
                "systemPrompt": f"<{template}>",
                "messages": [{"role": "user", "content": f"[{template}]"}],
            }
        ),
        models=model,
    )
    app.invoke(INPUT)
    request = model.requests[0]
    assert (request.system, request.messages[0].text) == (f"<{expected}>", f"[{expected}]")


def test_case_18_inserted_values_are_not_evaluated_again() -> None:
    model = ScriptedModel(["done"])
    app = compile_steps(
        workflow(
            {"name": "set", "handler": "set"},
            {"type": "llm", "name": "ask", "model": "m", "messages": [{"role": "user", "content": "{{state.a}} $&"}]},
        ),
        handlers={"set": lambda ctx: {"stateUpdates": {"a": "{{input.secret}} $& \\1"}}},
        models=model,
    )
    app.invoke({"secret": "hidden"})
    assert model.requests[0].messages[0].text == "{{input.secret}} $& \\1 $&"


@pytest.mark.parametrize(("score", "holds"), [(80, True), (0, False), (None, False), ([], True), ("", False)])
def test_case_19_a_condition_tests_a_value_of_the_state(driver: Any, score: Any, holds: bool) -> None:
    seen: dict[str, Any] = {}

    def note(ctx: StepContext) -> None:
        seen[ctx.step_name] = ctx.workflow_state

    app = compile_steps(
        workflow(
            {"name": "score", "handler": "score"},
            {"type": "condition", "name": "good", "expression": "leadScore", "trueStep": "yes", "falseStep": "no"},
            {"name": "yes", "handler": "note", "end": True},
            {"name": "no", "handler": "note"},
        ),
        handlers={"note": note, "score": lambda ctx: {"stateUpdates": {} if score is None else {"leadScore": score}}},
        checkpointer=InMemorySaver(),
    )
    output = driver.invoke(app, {}, thread_id="1")
    assert list(seen) == ["yes" if holds else "no"]
    assert output["__condition_good"] is holds
    assert all("__nextStep" not in state for state in [output, *seen.values(), *states_of(app)])


def test_case_19_a_missing_value_is_false(driver: Any) -> None:
    app = compile_steps(
        workflow(
            {"type": "condition", "name": "good", "expression": "lead.score", "trueStep": "yes", "falseStep": "no"},
            {"name": "yes", "handler": "h", "end": True},
            {"name": "no", "handler": "h"},
        ),
        handlers={"h": lambda ctx: {"stateUpdates": {"ran": ctx.step_name}}},
    )
    assert driver.invoke(app, {}) == {"__condition_good": False, "ran": "no"}


def test_each_input_starts_the_thread_over(driver: Any) -> None:
    app = compile_steps(
        workflow({"name": "one", "handler": "h"}),
        handlers={"h": lambda ctx: {"stateUpdates": {ctx.workflow_input["key"]: 1}}},
        checkpointer=InMemorySaver(),
    )
    assert driver.invoke(app, {"key": "a"}, thread_id="1") == {"a": 1}
    assert driver.invoke(app, {"key": "b"}, thread_id="1") == {"b": 1}


def test_update_state_accepts_the_state_in_the_form_that_get_state_returns(driver: Any) -> None:
    handlers = {"a": lambda ctx: {"stateUpdates": {"x": 1}}, "b": lambda ctx: {"stateUpdates": {"y": 2}}}
    app = compile_steps(
        workflow(
            {"name": "one", "handler": "a"},
            {"type": "condition", "name": "good", "expression": "x", "trueStep": "two", "falseStep": "three"},
            {"name": "two", "handler": "b", "end": True},
            {"type": "external_event", "name": "three", "signalType": "go"},
        ),
        handlers=handlers,
        checkpointer=InMemorySaver(),
    )
    assert driver.invoke(app, {}, thread_id="1") == {"x": 1, "__condition_good": True, "y": 2}
    config = {"configurable": {"thread_id": "1"}}
    app.update_state(config, {"x": 0}, as_node="one")  # the steps after this one run again
    result = driver.invoke(app, None, thread_id="1")
    assert {**result, "__interrupt__": None} == {"x": 0, "__condition_good": False, "y": 2, "__interrupt__": None}
    app.update_state(config, {"__condition_good": True}, as_node="good")
    assert app.get_state(config).next == ("two", "three")
    assert driver.invoke(app, Command(resume={app.get_state(config).interrupts[0].id: {"z": 3}}), thread_id="1")["z"]
