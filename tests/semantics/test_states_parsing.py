"""2.1: an output is parsed only once, even if several conditions, contexts and readers of the state use its value."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from statewright import InMemorySaver
from statewright.models import ScriptedModel
from statewright.workflow.states import load_workflow
from statewright.workflow.states.expressions import output as results

SCHEMA = '{"type": "object", "properties": {"files": {"type": "array"}}}'
TEXT = f"""
enable_summarization_node: false
assistants: [{{id: a, system_prompt: p}}]
states:
- {{id: plan, assistant_id: a, output_schema: '{SCHEMA}', next: {{state_id: look, iter_key: files}}}}
- {{id: look, assistant_id: a, next: {{state_id: fork, iter_key: files}}}}
- {{id: fork, assistant_id: a, next: {{state_ids: [left, right]}}}}
- {{id: left, assistant_id: a, next: {{state_id: join}}}}
- {{id: right, assistant_id: a, next: {{state_id: join}}}}
- id: join
  assistant_id: a
  next:
    switch: {{cases: [{{condition: x == 2, state_id: end}}, {{condition: x == 1, state_id: last}}], default: end}}
- {{id: last, assistant_id: a, next: {{condition: {{expression: y == 1, then: end, otherwise: end}}}}}}
"""
SCRIPT: Any = {
    "plan": '{"files": ["a", "b"]}',
    "look": '{"looked_at": "$item"}',
    "fork": {"a": '{"fork": 1}', "b": '{"fork": 2}'},
    "left": '{"left": 1}',
    "right": '{"right": 1}',
    "join": '{"x": 1}',
    "last": '{"y": 2}',
}


@pytest.fixture
def parse_counts(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Counts how often each text is parsed."""
    counts: Counter[str] = Counter()
    parse = results.parse_text

    def parse_and_count(text: str) -> Any:
        counts[text] += 1
        return parse(text)

    monkeypatch.setattr(results, "parse_text", parse_and_count)
    return counts


def test_2_1_the_input_and_each_output_are_parsed_once(parse_counts: Counter[str]) -> None:
    app = load_workflow(TEXT).compile(script=SCRIPT, checkpointer=InMemorySaver())
    result = app.invoke({"input": '{"project": "demo"}'}, thread_id="t")
    assert [visit["state"] for visit in result["visits"]] == [
        "plan", "look", "look", "fork", "fork", "left", "right", "join", "last"
    ]  # fmt: skip
    assert result["context"]["project"] == "demo"
    assert sorted(parse_counts) == sorted({visit["output"] for visit in result["visits"]} | {'{"project": "demo"}'})
    assert set(parse_counts.values()) == {1}


def test_2_1_streaming_values_does_not_parse_outputs_again(parse_counts: Counter[str]) -> None:
    app = load_workflow(TEXT).compile(script=SCRIPT)
    snapshots = list(app.stream({"input": "words"}, stream_mode="values"))
    assert len(snapshots) > 6
    assert parse_counts.pop("words") <= 3  # it is parsed again until the first visit has stored it
    assert set(parse_counts.values()) == {1}


def test_2_8_a_validated_answer_is_not_parsed_again(parse_counts: Counter[str]) -> None:
    def add(a: int) -> int:
        return a + 1

    text = f"""
enable_summarization_node: false
assistants: [{{id: a, system_prompt: p, tools: [{{name: add}}]}}]
states:
- id: s
  assistant_id: a
  output_schema: '{SCHEMA.replace("array", "integer")}'
  next: {{condition: {{expression: files == 3, then: end, otherwise: s}}}}
"""
    model = ScriptedModel(['{"files": "three"}', '{"files": 3}'])
    result = load_workflow(text).compile(models=model, tools={"add": add}).invoke({"input": "hi"})
    assert result["context"] == {"files": 3}
    assert parse_counts == {"hi": 1, '{"files": "three"}': 1, '{"files": 3}': 1}


def test_2_2_changes_of_tool_arguments_do_not_reach_the_context() -> None:
    def spoil(rows: list[Any], whole: Any) -> str:
        rows.append("spoilt")
        whole["deep"]["rows"].append("spoilt")
        return "done"

    text = """
enable_summarization_node: false
assistants: [{id: a, system_prompt: p}]
tools: [{id: t, tool: spoil}]
states:
- {id: s, assistant_id: a, next: {state_id: u}}
- {id: u, tool_id: t, next: {state_id: v}}
- {id: v, assistant_id: a, task: "{{rows}} {{whole}}", next: {state_id: end}}
"""
    output = {"rows": [1], "whole": {"deep": {"rows": [1]}}}
    app = load_workflow(text).compile(script={"s": json.dumps(output), "v": "ok"}, tools={"spoil": spoil})
    result = app.invoke({"input": "hi"})
    assert result["context"] == output
    assert result["visits"][-1]["prompt"] == '[1] {"deep": {"rows": [1]}}'
