"""The states language, 2.8 and 2.9: structured output, long histories, and the final summary."""

import json
from typing import Any

import pytest

from statewright.errors import ModelAnswerInvalid
from statewright.models import ScriptedModel
from statewright.workflow.states import load_workflow

Outputs = dict[str, Any]


def document(states: str, extra: str = "") -> str:
    states = states.replace("next:", "assistant_id: a, next:")
    return f"{extra}\nassistants: [{{id: a, system_prompt: be kind}}]\nstates:\n{states}"


def run(driver: Any, states: str, outs: Outputs, message: Any = "hi", extra: str = "") -> Any:
    return driver.invoke(load_workflow(document(states, extra)).compile(script=outs), {"input": message})


def model_for(outs: Outputs) -> ScriptedModel:
    """A model that answers with the output of the state, or with a function of the request."""

    def answer(request: Any) -> Any:
        output = outs[request.metadata["state"]]
        return output(request) if callable(output) else output

    return ScriptedModel(answer)


def names(result: Any) -> str:
    return " ".join(visit["state"] for visit in result["visits"])


def texts(messages: Any) -> list[str]:
    return [message.text for message in messages]


SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def state_with_schema(schema: str) -> str:
    return f"- {{id: s, task: T, output_schema: {json.dumps(schema)}, next: {{state_id: end}}}}"


OFF = "enable_summarization_node: false"

# -- 2.8


def test_2_8_an_answer_that_does_not_match_the_schema_is_requested_again(driver: Any) -> None:
    model = ScriptedModel(["no map", '{"n": "x"}', '{"n": 1}'])
    app = load_workflow(document(state_with_schema(json.dumps(SCHEMA)), OFF)).compile(models=model)
    result = driver.invoke(app, {"input": "hi"})
    assert (names(result), result["context"]) == ("s", {"n": 1})
    assert texts(result["messages"]) == ["hi", '{"n": 1}']
    assert texts(model.requests[1].messages)[:-1] == ["hi", "T", "no map"]
    assert texts(model.requests[2].messages)[-2] == '{"n": "x"}'


def test_2_8_after_two_more_invalid_answers_the_state_fails_without_a_retry(driver: Any) -> None:
    model = ScriptedModel(["no map"], repeat_last=True)
    app = load_workflow(document(state_with_schema(json.dumps(SCHEMA)), OFF)).compile(models=model)
    with pytest.raises(ModelAnswerInvalid, match=r"'s'.*output_schema"):
        driver.invoke(app, {"input": "hi"})
    assert len(model.requests) == 3


def test_2_8_a_schema_requests_structured_output(driver: Any) -> None:
    model = ScriptedModel(['{"n": 1}'])
    app = load_workflow(document(state_with_schema(json.dumps(SCHEMA)), OFF)).compile(models=model)
    driver.invoke(app, {"input": "hi"})
    (request,) = model.requests
    assert request.output is not None
    assert request.output.schema == SCHEMA


@pytest.mark.parametrize("example", ['{"n": 1}', '{"n": 1, ...}', '{"files": ["a", ...', '{"n": {{u}}}'])
def test_2_8_an_example_is_shown_to_the_model_but_not_enforced(driver: Any, example: str) -> None:
    model = ScriptedModel(["words"])
    app = load_workflow(document(state_with_schema(example), OFF)).compile(models=model)
    result = driver.invoke(app, {"input": {"u": 7}})
    (request,) = model.requests
    assert result["result"] == "words"
    assert request.output is None
    assert request.system.startswith("be kind")
    assert example.replace("{{u}}", "7") in request.system


def test_2_8_templates_in_the_schema_are_resolved_even_if_disabled_for_the_task(driver: Any) -> None:
    states = state_with_schema('{"n": {{u}}}').replace(
        "task: T,", "task: 'T {{u}}', resolve_dynamic_values_in_prompt: false,"
    )
    model = ScriptedModel(["words"])
    driver.invoke(load_workflow(document(states, OFF)).compile(models=model), {"input": {"u": 7}})
    (request,) = model.requests
    assert texts(request.messages)[-1] == "T {{u}}"
    assert '{"n": 7}' in request.system


def test_2_8_a_script_answers_repeated_requests_with_its_next_outputs(driver: Any) -> None:
    states = state_with_schema(json.dumps(SCHEMA)).replace(
        "state_id: end", "condition: {expression: n > 1, then: end, otherwise: s}"
    )
    result = run(driver, states, {"s": ["no", '{"n": 1}', "no", "no", '{"n": 2}']})
    assert [visit["output"] for visit in result["visits"]] == ['{"n": 1}', '{"n": 2}']


# -- 2.9

LINE = """
- {id: s1, task: one, next: {state_id: s2}}
- {id: s2, task: two, next: {state_id: s3}}
- {id: s3, task: three, next: {state_id: s4}}
- {id: s4, task: four, next: {state_id: end}}
"""
LINE_OUTS = {"s1": "1", "s2": "2", "s3": "3", "s4": "4"}
FEW = "messages_limit_before_summarization: 2"


def test_2_9_a_long_history_is_replaced_by_its_first_message_and_a_summary(driver: Any) -> None:
    model = model_for({**LINE_OUTS, "summary": "so far"})
    result = driver.invoke(load_workflow(document(LINE, f"{FEW}\n{OFF}")).compile(models=model), {"input": "hi"})
    callers = [request.metadata["state"] for request in model.requests]
    assert callers == ["s1", "s2", "summary", "s3", "summary", "s4"]
    prompts = {request.metadata["state"]: texts(request.messages) for request in model.requests}
    assert [prompts[state] for state in ("s1", "s2", "s3", "s4")] == [
        ["hi", "one"],
        ["hi", "1", "two"],
        ["hi", "so far", "three"],
        ["hi", "so far", "four"],
    ]
    assert names(result) == "s1 s2 s3 s4"
    assert texts(result["messages"]) == ["hi", "so far", "4"]


def test_2_9_the_summary_covers_everything_but_the_first_message(driver: Any) -> None:
    model = model_for({**LINE_OUTS, "summary": "so far"})
    driver.invoke(load_workflow(document(LINE, f"{FEW}\n{OFF}")).compile(models=model), {"input": "hi there"})
    (first, _) = [request for request in model.requests if request.metadata["state"] == "summary"]
    prompt = " ".join(texts(first.messages))
    assert "1" in prompt
    assert "2" in prompt
    assert "hi there" not in prompt


def test_2_9_a_history_with_too_many_tokens_is_summarized(driver: Any) -> None:
    outs = {**LINE_OUTS, "s1": "x" * 400, "summary": "so far"}
    limit = "tokens_limit_before_summarization: 50"
    result = run(driver, LINE, outs, extra=limit)
    assert texts(result["messages"]) == ["hi", "so far", "2", "3", "4"]


def test_2_9_a_history_at_the_limit_is_not_summarized(driver: Any) -> None:
    outs = {**LINE_OUTS, "summary": "so far"}
    assert "so far" not in texts(run(driver, LINE, outs, extra="messages_limit_before_summarization: 4")["messages"])


def test_2_9_summarizing_a_history_is_neither_a_step_nor_a_visit(driver: Any) -> None:
    states = "- {id: s, next: {condition: {expression: again, then: s, otherwise: end}}}"
    outs = {"s": ['{"again": 1}'] * 9 + ['{"again": 0}'], "summary": "so far"}
    result = run(driver, states, outs, extra=f"{FEW}\nrecursion_limit: 10")
    assert names(result) == " ".join(["s"] * 10)


def test_2_9_enable_summarization_node_does_not_affect_history_summaries(driver: Any) -> None:
    outs = {**LINE_OUTS, "summary": "so far"}
    for extra in (f"{FEW}\n{OFF}", f"{FEW}\nenable_summarization_node: true"):
        assert "so far" in texts(run(driver, LINE, outs, extra=extra)["messages"])


def test_2_9_a_script_without_a_summary_leaves_histories_unchanged(driver: Any) -> None:
    assert texts(run(driver, LINE, LINE_OUTS, extra=FEW)["messages"]) == ["hi", "1", "2", "3", "4"]


def test_2_9_tool_states_do_not_summarize(driver: Any) -> None:
    states = """
- {id: s1, assistant_id: a, next: {state_id: s2}}
- {id: s2, tool_id: t, next: {state_id: s3}}
- {id: s3, tool_id: t, next: {state_id: s4}}
- {id: s4, tool_id: t, next: {state_id: end}}
"""
    text = f"{FEW}\ntools: [{{id: t, tool: x}}]\nassistants: [{{id: a, system_prompt: p}}]\nstates:\n{states}"
    result = driver.invoke(load_workflow(text).compile(script={**LINE_OUTS, "summary": "so far"}), {"input": "hi"})
    assert texts(result["messages"]) == ["hi", "1", "2", "3", "4"]


BRANCHES = """
- {id: l, next: {state_id: p, iter_key: .}}
- {id: p, task: P, next: {state_id: q, iter_key: .}}
- {id: q, task: Q, next: {state_id: m}}
- {id: m, next: {state_id: end}}
"""


def summaries(request: Any) -> str:
    return f"sum-{request.metadata['call'].item}"


def test_2_9_each_branch_of_an_iteration_summarizes_its_own_history(driver: Any) -> None:
    outs = {"l": '["a", "b"]', "p": "p", "q": "q", "m": "m", "summary": summaries}
    model = model_for(outs)
    driver.invoke(load_workflow(document(BRANCHES, f"{FEW}\n{OFF}")).compile(models=model), {"input": "hi"})
    prompts = [texts(request.messages) for request in model.requests if request.metadata["state"] == "q"]
    assert sorted(prompt[1] for prompt in prompts) == ["sum-a", "sum-b"]


def test_2_9_the_merge_keeps_the_summaries_of_all_branches(driver: Any) -> None:
    outs = {"l": '["a", "b"]', "p": "p", "q": "q", "summary": summaries}
    states = BRANCHES.replace("state_id: m}}", "state_id: end}}").replace("- {id: m, next: {state_id: end}}\n", "")
    app = load_workflow(document(states, f"{FEW}\n{OFF}")).compile(models=model_for(outs))
    messages = texts(driver.invoke(app, {"input": "hi"})["messages"])
    assert {"sum-a", "sum-b"} <= set(messages)
    assert messages.count("q") == 2


def test_2_9_a_history_of_more_than_100000_tokens_is_summarized_in_parts(driver: Any) -> None:
    states = LINE.replace("four", "last")
    outs = {**LINE_OUTS, "s1": "a" * 300_000, "s2": "b" * 300_000, "summary": lambda request: "part"}
    limit = "tokens_limit_before_summarization: 100000"
    model = model_for(outs)
    result = driver.invoke(load_workflow(document(states, f"{limit}\n{OFF}")).compile(models=model), {"input": "hi"})
    callers = [request.metadata["state"] for request in model.requests]
    assert callers == ["s1", "s2", "summary", "summary", "s3", "s4"]
    assert texts(result["messages"]) == ["hi", "part\n\npart", "3", "4"]


# -- the final summary


def test_2_9_a_run_ends_with_a_final_summary_that_is_not_a_visit(driver: Any) -> None:
    result = run(driver, LINE, {**LINE_OUTS, "final_summary": '{"k": 1}'})
    assert (result["result"], names(result), result["context"]) == ('{"k": 1}', "s1 s2 s3 s4", {})
    assert texts(result["messages"]) == ["hi", "1", "2", "3", "4"]


def test_2_9_a_script_without_a_final_summary_skips_it(driver: Any) -> None:
    assert run(driver, LINE, LINE_OUTS)["result"] == "4"


def test_2_9_the_model_writes_the_final_summary_from_all_messages(driver: Any) -> None:
    model = model_for({**LINE_OUTS, "final_summary": "all in all"})
    result = driver.invoke(load_workflow(document(LINE)).compile(models=model), {"input": "hi"})
    assert result["result"] == "all in all"
    assert texts(model.requests[-1].messages)[:5] == ["hi", "1", "2", "3", "4"]


def test_2_9_enable_summarization_node_false_skips_the_final_summary(driver: Any) -> None:
    model = model_for(LINE_OUTS)
    result = driver.invoke(load_workflow(document(LINE, OFF)).compile(models=model), {"input": "hi"})
    assert result["result"] == "4"


def test_2_9_a_script_does_not_enable_the_final_summary(driver: Any) -> None:
    assert run(driver, LINE, {**LINE_OUTS, "final_summary": "F"}, extra=OFF)["result"] == "4"


def test_2_9_every_route_to_the_end_passes_the_final_summary(driver: Any) -> None:
    states = """
- {id: l, next: {state_id: p, iter_key: xs}}
- {id: p, next: {state_id: end, iter_key: xs}}
"""
    for listed in ("[1, 2]", "[]"):
        outs = {"l": f'{{"xs": {listed}}}', "p": "p", "final_summary": "F"}
        assert run(driver, states, outs)["result"] == "F"


def test_2_9_the_final_summary_is_not_counted_as_a_step(driver: Any) -> None:
    outs = {**LINE_OUTS, "final_summary": "F"}
    assert run(driver, LINE, outs, extra="recursion_limit: 4")["result"] == "F"
