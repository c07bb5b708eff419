"""Steps that call a model: the request, the response, tools, fallback models, and checks."""

from __future__ import annotations

import json
from typing import Any

import pytest

from statewright import InMemorySaver
from statewright.agents import tool
from statewright.errors import ModelUnavailable, WorkflowError
from statewright.messages import Message, ToolCall
from statewright.models import ModelResponse, ScriptedModel, Usage
from statewright.testing import FakeClock
from statewright.workflow.steps import CheckedAnswer, StepContext, StepFailed, StepResult, compile_steps

THREAD = {"thread_id": "1"}
USER = [{"role": "user", "content": "Go."}]


def app_of(step: dict[str, Any], models: Any, **options: Any) -> Any:
    no_retry = {"retry": {"maxAttempts": 1}}
    step = {"type": "llm", "name": "ask", "model": "main", "messages": USER, **no_retry, **step}
    document = {"name": "flow", "version": "1", "steps": [step]}
    options = {"checkpointer": InMemorySaver(), "clock": FakeClock(jumps=True), **options}
    return compile_steps(document, models=models, **options)


def payloads_of(app: Any, kind: str) -> list[Any]:
    """The payloads of the events of a type that steps have reported."""
    events = [event.data.get("event") for event in app.get_events(THREAD) if event.kind == "step_reported"]
    return [event["payload"] for event in events if event and event["type"] == kind]


def outputs(app: Any) -> list[Any]:
    reported = [event.data for event in app.get_events(THREAD) if event.kind == "step_reported"]
    return [data["output"] for data in reported if "output" in data]


# -- the request


def test_the_request_matches_the_definition(driver: Any) -> None:
    model = ScriptedModel(["done"])
    step = {
        "systemPrompt": "You are {{input.who}}.",
        "messages": [
            {"role": "system", "content": "Be short, {{input.who}}."},
            {"role": "user", "content": "Hello"},
            {"role": "assistant", "content": "{{input.who}}:"},
        ],
        "temperature": 0.5,
        "maxTokens": 100,
    }
    driver.invoke(app_of(step, model), {"who": "Ann"}, **THREAD)
    (request,) = model.requests
    assert request.system == "You are Ann.\n\nBe short, Ann."
    assert [(message.role, message.text) for message in request.messages] == [("user", "Hello"), ("assistant", "Ann:")]
    assert (request.temperature, request.max_tokens, request.output, request.tools) == (0.5, 100, None, [])


# -- the answer


@pytest.mark.parametrize(("key", "field"), [(None, "ask"), ("draft", "draft")])
def test_a_text_answer_becomes_one_field(driver: Any, key: str | None, field: str) -> None:
    app = app_of({"outputKey": key} if key else {}, ScriptedModel(["Hello"]))
    assert driver.invoke(app, {}, **THREAD) == {field: "Hello"}
    assert outputs(app) == [{field: "Hello"}]


@pytest.mark.parametrize(
    "answer",
    [
        '{"subject": "Hi", "n": 1}',
        'Here:\n```json\n{"subject": "Hi", "n": 1}\n```',
        'Sure! {"subject": "Hi", "n": 1} Ok?',
    ],
)
def test_a_json_answer_becomes_fields(driver: Any, answer: str) -> None:
    schema = {"type": "object", "properties": {"subject": {"type": "string"}}}
    model = ScriptedModel([answer])
    app = app_of({"responseFormat": "json", "outputSchema": schema}, model)
    assert driver.invoke(app, {}, **THREAD) == {"subject": "Hi", "n": 1}
    assert outputs(app) == [{"subject": "Hi", "n": 1}]
    assert model.requests[0].output is not None
    assert model.requests[0].output.schema == schema


def test_a_json_answer_under_an_output_key_need_not_be_a_map(driver: Any) -> None:
    app = app_of({"responseFormat": "json", "outputKey": "list"}, ScriptedModel(["[1, 2]"]))
    assert driver.invoke(app, {}, **THREAD) == {"list": [1, 2]}


@pytest.mark.parametrize("answer", ["no", "[1]", "{broken"])
def test_an_answer_that_is_not_a_json_map_fails_the_attempt(driver: Any, answer: str) -> None:
    step = {"responseFormat": "json", "retry": {"maxAttempts": 2, "backoffMs": 100}}
    assert driver.invoke(app_of(step, ScriptedModel([answer, '{"a": 1}'])), {}, **THREAD) == {"a": 1}
    with pytest.raises(StepFailed) as failed:
        driver.invoke(app_of(step, ScriptedModel([answer], repeat_last=True)), {}, **THREAD)
    assert failed.value.code == "LLM_OUTPUT_INVALID"
    assert failed.value.details == {"text": answer}


def test_a_model_can_name_the_next_step(driver: Any) -> None:
    document = {
        "name": "flow",
        "version": "1",
        "steps": [
            {"type": "llm", "name": "route", "model": "m", "responseFormat": "json", "messages": USER},
            {"type": "task", "name": "a", "handler": "h", "end": True},
            {"type": "task", "name": "b", "handler": "h"},
        ],
    }
    handlers = {"h": lambda ctx: StepResult(state_updates={"ran": ctx.step_name})}
    app = compile_steps(document, models=ScriptedModel(['{"__nextStep": "b"}']), handlers=handlers)
    assert driver.invoke(app, {}) == {"ran": "b"}


def test_the_event_log_has_the_usage_of_each_call(driver: Any) -> None:
    answer = ModelResponse(Message("x", role="assistant"), Usage(10, 5, 0.25), "gpt-5")
    app = app_of({}, ScriptedModel([answer]))
    driver.invoke(app, {}, **THREAD)
    (call,) = [event.data for event in app.get_events(THREAD) if event.kind == "model_called"]
    assert (call["model"], call["input_tokens"], call["output_tokens"], call["cost"]) == ("gpt-5", 10, 5, 0.25)


# -- tools


@tool
def weather(city: str) -> str:
    """The weather in a city."""
    return f"sun in {city}"


def test_the_model_calls_tools_until_it_answers(driver: Any) -> None:
    model = ScriptedModel(
        [ToolCall("1", "weather", {"city": "Rome"}), [ToolCall("2", "weather", {"city": "Bonn"})], "Sun."]
    )
    app = app_of({"tools": [{"name": "weather"}]}, model, tools=[weather])
    assert driver.invoke(app, {}, **THREAD) == {"ask": "Sun."}
    last = model.requests[-1]
    assert [message.text for message in last.messages if message.role == "tool"] == ["sun in Rome", "sun in Bonn"]
    assert [(spec.name, spec.description) for spec in last.tools] == [("weather", "The weather in a city.")]
    assert dict(last.tools[0].parameters["properties"]).keys() == {"city"}
    assert len([event for event in app.get_events(THREAD) if event.kind == "tool_called"]) == 2


def test_the_definition_can_override_the_description_of_a_tool(driver: Any) -> None:
    parameters = {"type": "object", "properties": {"city": {"type": "string", "enum": ["Rome"]}}}
    model = ScriptedModel(["done"])
    declared = {"name": "weather", "description": "Of Rome", "parameters": parameters}
    driver.invoke(app_of({"tools": [declared]}, model, tools={"weather": weather}), {}, **THREAD)
    (spec,) = model.requests[0].tools
    assert (spec.description, spec.parameters) == ("Of Rome", parameters)


def test_handlers_can_be_used_as_tools(driver: Any) -> None:
    contexts: list[StepContext] = []

    async def lookup(ctx: StepContext, step: Any) -> StepResult:
        """Finds a customer."""
        contexts.append(ctx)
        if ctx.config["id"] == 0:
            return StepResult("failed", state_updates={"no": 1})
        return StepResult(output={"name": "Ann"}, state_updates={"never": 1})

    model = ScriptedModel([[ToolCall("1", "lookup", {"id": 7}), ToolCall("2", "lookup", {"id": 0})], "Ann"])
    app = app_of({"tools": [{"name": "lookup"}]}, model, handlers={"lookup": lookup})
    assert driver.invoke(app, {"in": 1}, run_id="run_1", **THREAD) == {"ask": "Ann"}
    results = [message.text for message in model.requests[-1].messages if message.role == "tool"]
    assert results == ['{"name": "Ann"}', "Error: lookup failed."]
    first, second = contexts
    assert first.idempotency_key.startswith("run_1:ask:lookup:")
    assert first.idempotency_key != second.idempotency_key
    assert first.workflow_input == {"in": 1}
    assert model.requests[0].tools[0].description == "Finds a customer."


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (ToolCall("1", "wether", {}), "Tool 'wether' does not exist. Did you mean 'weather'?"),
        (ToolCall("1", "weather", {"town": "Rome"}), "argument 'town' does not exist"),
    ],
)
def test_an_invalid_call_is_reported_to_the_model(driver: Any, call: ToolCall, message: str) -> None:
    model = ScriptedModel([call, "done"])
    driver.invoke(app_of({"tools": [{"name": "weather"}]}, model, tools=[weather]), {}, **THREAD)
    assert message in model.requests[-1].messages[-1].text


def test_max_tool_rounds_stops_a_model_that_keeps_calling_tools(driver: Any) -> None:
    model = ScriptedModel([ToolCall("1", "weather", {"city": "Rome"})], repeat_last=True)
    with pytest.raises(StepFailed) as failed:
        driver.invoke(
            app_of({"tools": [{"name": "weather"}], "maxToolRounds": 2}, model, tools=[weather]), {}, **THREAD
        )
    assert failed.value.code == "TOOL_ROUNDS_EXCEEDED"
    assert len(model.requests) == 3


# -- fallback models


def down(reason: str = "busy", **more: Any) -> ScriptedModel:
    return ScriptedModel([ModelUnavailable(reason, **more)], repeat_last=True)


def test_fallback_models_replace_a_failing_model(driver: Any) -> None:
    models = {"main": down(), "second": ScriptedModel([RuntimeError("odd")]), "third": ScriptedModel(["Hello"])}
    app = app_of({"fallbackModels": ["nowhere", "second", "third"]}, models)
    assert driver.invoke(app, {}, **THREAD) == {"ask": "Hello"}
    failures = payloads_of(app, "LLM_CALL_FAILED")
    assert [(failure["model"], failure["fallback"]) for failure in failures] == [
        ("main", "nowhere"), ("nowhere", "second"), ("second", "third"),
    ]  # fmt: skip
    assert "ModelUnavailable: busy" in failures[0]["error"]
    assert "The model 'nowhere' is unknown" in failures[1]["error"]


def test_a_fallback_model_is_used_for_the_rest_of_the_conversation(driver: Any) -> None:
    main, second = down(), ScriptedModel([ToolCall("1", "weather", {"city": "Rome"}), "Sun."])
    app = app_of(
        {"fallbackModels": ["second"], "tools": [{"name": "weather"}]},
        {"main": main, "second": second},
        tools=[weather],
    )
    assert driver.invoke(app, {}, **THREAD) == {"ask": "Sun."}
    assert (len(main.requests), len(second.requests)) == (1, 2)


def test_a_step_fails_if_all_its_models_fail(driver: Any) -> None:
    models = {"main": down(retry_after=7.0), "second": down("gone")}
    with pytest.raises(StepFailed) as failed:
        driver.invoke(app_of({"fallbackModels": ["second"]}, models), {}, **THREAD)
    assert failed.value.code == "LLM_FAILED"
    assert [failure.partition(":")[0] for failure in failed.value.details["failures"]] == ["main", "second"]
    assert failed.value.retry_after == 7.0
    assert not failed.value.is_final


def test_an_unknown_model_is_not_retried(driver: Any) -> None:
    models: dict[str, Any] = {"main": ScriptedModel(["done"])}
    app = app_of({"retry": {"maxAttempts": 3}}, models)
    models.clear()  # after compiling
    with pytest.raises(StepFailed, match="The model 'main' is unknown"):
        driver.invoke(app, {}, **THREAD)
    assert len(payloads_of(app, "LLM_CALL_FAILED")) == 1


# -- checks

SCHEMA = {"type": "object", "required": ["subject"], "properties": {"subject": {}, "body": {}}}


def guarded(on_failure: str, *checks: str, **more: Any) -> dict[str, Any]:
    guardrails = {"postChecks": list(checks), "onFailure": on_failure}
    return {"responseFormat": "json", "outputSchema": SCHEMA, "guardrails": guardrails, **more}


def test_an_answer_that_passes_all_checks_is_accepted(driver: Any) -> None:
    step = guarded("block", "schema_validation", "content_safety", "confidence_threshold")
    app = app_of(step, ScriptedModel(['{"subject": "Hi", "confidence": 0.7}']))
    assert driver.invoke(app, {}, **THREAD) == {"subject": "Hi", "confidence": 0.7}
    assert payloads_of(app, "GUARDRAIL_FAILED") == []


def test_on_failure_warn_accepts_the_answer(driver: Any) -> None:
    app = app_of(guarded("warn", "schema_validation", "confidence_threshold"), ScriptedModel(['{"body": "x"}']))
    assert driver.invoke(app, {}, **THREAD) == {"body": "x"}
    assert [(payload["check"], payload["onFailure"]) for payload in payloads_of(app, "GUARDRAIL_FAILED")] == [
        ("schema_validation", "warn"), ("confidence_threshold", "warn"),
    ]  # fmt: skip


def test_on_failure_block_fails_the_step(driver: Any) -> None:
    app = app_of(guarded("block", "schema_validation"), ScriptedModel(['{"body": "x"}']))
    with pytest.raises(StepFailed, match="lacks 'subject'") as failed:
        driver.invoke(app, {}, **THREAD)
    assert failed.value.code == "GUARDRAIL_FAILED"
    assert failed.value.details["checks"][0]["check"] == "schema_validation"
    assert len(payloads_of(app, "GUARDRAIL_FAILED")) == 1


def test_on_failure_retry_with_feedback_sends_the_problem_to_the_model(driver: Any) -> None:
    model = ScriptedModel(["nothing", '{"body": "x"}', '{"subject": "Hi"}'])
    app = app_of(guarded("retry_with_feedback", "schema_validation"), model)
    assert driver.invoke(app, {}, **THREAD) == {"subject": "Hi"}
    last = [(message.role, message.text) for message in model.requests[-1].messages]
    assert last[1:3] == [
        ("assistant", "nothing"),
        ("user", "Your answer was not accepted.\nThe answer is not valid JSON. Answer with nothing but the JSON."),
    ]
    assert len(payloads_of(app, "GUARDRAIL_FAILED")) == 2


def test_retry_with_feedback_is_limited_to_two_more_calls(driver: Any) -> None:
    model = ScriptedModel(['{"body": "x"}'], repeat_last=True)
    with pytest.raises(StepFailed):
        driver.invoke(app_of(guarded("retry_with_feedback", "schema_validation"), model), {}, **THREAD)
    assert len(model.requests) == 3


def test_a_custom_check_is_used(driver: Any) -> None:
    async def polite(answer: CheckedAnswer) -> str | None:
        return None if "please" in answer.text else "Say please."

    step = {"guardrails": {"postChecks": ["polite"], "onFailure": "retry_with_feedback"}}
    app = app_of(step, ScriptedModel(["Go.", "Go, please."]), checks={"polite": polite})
    assert driver.invoke(app, {}, **THREAD) == {"ask": "Go, please."}


# -- missing parts


def test_compiling_reports_all_missing_parts() -> None:
    document = {
        "name": "flow",
        "version": "1",
        "steps": [
            {"type": "task", "name": "a", "handler": "enrch"},
            {"type": "task", "name": "b", "handler": "os:system"},
            {
                "type": "llm",
                "name": "c",
                "model": "m",
                "fallbackModels": ["n"],
                "messages": USER,
                "tools": [{"name": "wether"}],
                "guardrails": {"postChecks": ["content_safty"]},
            },
        ],
    }
    with pytest.raises(WorkflowError) as refused:
        compile_steps(json.dumps(document), handlers={"enrich": lambda ctx: None}, tools=[weather])
    problems = [str(problem).partition(" Checks:")[0] for problem in refused.value.problems]
    assert problems == [
        "In 'steps[0].handler': Handler 'enrch' does not exist. Did you mean 'enrich'? Handlers: enrich.",
        "In 'steps[1].handler': Module 'os' is not allowed for handlers. Allowed modules: none. Handlers: enrich.",
        "In 'steps[2].tools[0].name': Tool 'wether' does not exist. Did you mean 'weather'? "
        "Tools and handlers: enrich, weather.",
        "In 'steps[2].model': The model 'm' is unknown. Register it, or name its provider: provider:model.",
        "In 'steps[2].guardrails.postChecks[0]': Check 'content_safty' does not exist. Did you mean 'content_safety'?",
    ]
