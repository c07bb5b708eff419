"""The model that is built from a file."""

import json

import yaml

from statewright.workflow.states.language.model import RetryRule
from statewright.workflow.states.language.parse import parse_workflow
from statewright.workflow.states.language.yaml.nodes import Mark

TEXT = """\
name: All of it
recursion_limit: 7
max_concurrency: 3
enable_summarization_node: no
retry_policy: {max_attempts: 2}
verbose: false
assistants:
  - id: a
    system_prompt: p
    temperature: 1
    tools: [{name: search, integration_alias: i}]
    mcp_servers: [{name: m, config: {command: x, args: [1]}, description: d, tools: [t]}]
tools:
  - {id: t, tool: f, tool_args: {path: [1, {x: null}]}, tool_result_json_pointer: '', trace: yes}
custom_nodes:
  - {id: n, custom_node_id: transform_node, config: {mappings: []}}
  - {id: transform_node}
states:
  - id: one
    tool_id: t
    tool_args: {q: "{{x}}"}
    retry_policy: {max_attempts: 1}
    next:
      condition: {expression: "a > 1", then: two, otherwise: end}
      output_key: raw
  - id: two
    custom_node_id: n
    next: {state_ids: [three, end]}
  - {id: three, assistant_id: a, task: t, interrupt_before: true, next: {state_id: end}}
"""


def test_every_key_of_the_file_is_in_the_model() -> None:
    definition = parse_workflow(TEXT).expect()
    assert (definition.name, definition.recursion_limit, definition.max_concurrency) == ("All of it", 7, 3)
    assert definition.enable_summarization_node is False
    assert definition.retry_policy == RetryRule(max_attempts=2)
    assert definition.settings == {"verbose": False}
    assert definition.assistants[0].temperature == 1.0
    assert definition.assistants[0].tools[0].integration_alias == "i"
    assert definition.tools[0].tool_args == {"path": [1, {"x": None}]}
    one, two, three = definition.states
    assert one.tool_args == {"q": "{{x}}"}
    assert one.retry_policy == RetryRule(max_attempts=1)
    assert one.next.condition is not None
    assert one.next.targets == ("two", "end")
    assert one.next.output_key == "raw"
    assert two.next.state_ids == ("three", "end")
    assert (three.task, three.interrupt_before) == ("t", True)


def test_1_6_the_config_of_a_server_is_separate_from_its_settings() -> None:
    server = parse_workflow(TEXT).expect().assistants[0].mcp_servers[0]
    assert server.config == {"command": "x", "args": [1]}
    assert server.settings == {"description": "d", "tools": ("t",)}


def test_explicit_keys_of_the_file_are_recorded() -> None:
    keys = parse_workflow(TEXT).expect().explicit_keys
    assert "max_concurrency" in keys
    assert "tokens_limit_before_summarization" not in keys


def test_1_4_the_kind_of_a_custom_node_is_its_id_by_default() -> None:
    assert [node.kind for node in parse_workflow(TEXT).expect().custom_nodes] == ["transform_node", "transform_node"]


def test_every_part_has_a_position() -> None:
    definition = parse_workflow(TEXT).expect()
    assert [state.at for state in definition.states] == [Mark(19, 5), Mark(26, 5), Mark(29, 5)]
    assert definition.states[0].next.at == Mark(24, 7)
    assert definition.assistants[0].at == Mark(8, 5)


def test_absent_keys_have_the_defaults_of_the_model() -> None:
    text = "assistants: [{id: a, system_prompt: p}]\nstates: [{id: s, assistant_id: a, next: {state_id: end}}]"
    definition = parse_workflow(text).expect()
    assert definition.max_concurrency == 10
    assert definition.states[0].resolve_dynamic_values_in_prompt is True
    assert definition.states[0].next.include_in_iterator_context == ("*",)


def test_json_produces_the_same_model() -> None:
    again = parse_workflow(json.dumps(yaml.safe_load(TEXT))).expect()
    assert [state.id for state in again.states] == ["one", "two", "three"]
