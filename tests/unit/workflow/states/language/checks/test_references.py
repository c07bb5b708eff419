"""Duplicate ids, and references to missing ids."""

import pytest

from statewright.workflow.states.language.checks.references import NODE_KINDS
from statewright.workflow.states.language.parse import parse_workflow

ASSISTANTS = "assistants: [{id: writer, system_prompt: p}]\n"
REST = "tools: [{id: fetch, tool: f}]\ncustom_nodes: [{id: pick, custom_node_id: transform_node}]\n"


def problem(states: str, head: str = ASSISTANTS + REST) -> str:
    parsed = parse_workflow(f"{head}states:\n{states}")
    assert len(parsed.problems) == 1, parsed.problems
    assert parsed.problems[0].suggestion
    return str(parsed.problems[0])


def state(state_id: str, transition: str = "{state_id: end}", worker: str = "assistant_id: writer") -> str:
    return f"- {{id: {state_id}, {worker}, next: {transition}}}\n"


@pytest.mark.parametrize(
    ("worker", "expected"),
    [
        ("assistant_id: writr", "Did you mean 'writer'? Assistants: writer."),
        ("tool_id: fetsh", "Did you mean 'fetch'? Tools: fetch."),
        ("custom_node_id: pik", "Did you mean 'pick'? Custom nodes: pick."),
        ("assistant_id: fetch", "There is a tool with this id. Did you mean 'tool_id'?"),
        ("tool_id: pick", "There is a custom node with this id. Did you mean 'custom_node_id'?"),
    ],
)
def test_1_8_the_worker_of_a_state_must_exist(worker: str, expected: str) -> None:
    message = problem(state("s", worker=worker))
    assert expected in message
    assert "State 's': the " in message
    assert "does not exist" in message


@pytest.mark.parametrize(
    "transition",
    [
        "{state_id: reveiw}",
        "{state_ids: [review, reveiw]}",
        "{condition: {expression: x, then: reveiw, otherwise: end}}",
        "{condition: {expression: x, then: end, otherwise: reveiw}}",
        "{switch: {cases: [{condition: x, state_id: reveiw}], default: end}}",
        "{switch: {cases: [{condition: x, state_id: end}], default: reveiw}}",
        "{state_id: reveiw, iter_key: x}",
    ],
)
def test_1_8_every_target_must_exist(transition: str) -> None:
    line = state("draft", transition)
    message = problem(line + state("review"))
    assert "'draft' leads to 'reveiw', which is not a state. Did you mean 'review'?" in message
    assert f"column {line.index('reveiw') + 1}" in message


@pytest.mark.parametrize(
    "transition",
    [
        "{state_id: end}",
        "{state_ids: [end, t]}",
        "{condition: {expression: x, then: end, otherwise: t}}",
        "{switch: {cases: [{condition: x, state_id: end}], default: t}}",
    ],
)
def test_1_0_end_is_a_valid_target(transition: str) -> None:
    assert parse_workflow(f"{ASSISTANTS}states:\n{state('s', transition)}{state('t')}").problems == ()


def test_1_5_duplicate_state_ids_are_reported_with_both_lines() -> None:
    message = problem(state("s") + state("s"))
    assert "Two states have the id 's': the first one is on line 5." in message
    assert "line 6" in message


@pytest.mark.parametrize(
    ("head", "noun"),
    [
        ("assistants: [{id: writer, system_prompt: p}, {id: writer, system_prompt: q}]\n", "assistants"),
        (ASSISTANTS + "tools: [{id: t, tool: f}, {id: t, tool: g}]\n", "tools"),
        (
            ASSISTANTS + "custom_nodes: [{id: n, custom_node_id: transform_node}, {id: n, custom_node_id: "
            "transform_node}]\n",
            "custom nodes",
        ),
    ],
)
def test_duplicate_ids_in_a_list_are_reported(head: str, noun: str) -> None:
    assert f"Two {noun} have the id" in problem(state("s"), head)


def test_an_assistant_and_a_tool_may_share_an_id() -> None:
    head = ASSISTANTS + "tools: [{id: writer, tool: f}]\n"
    assert parse_workflow(f"{head}states:\n{state('s')}").problems == ()


def test_1_5_end_is_reserved_and_not_a_valid_state_id() -> None:
    assert "reserved for the end" in problem(state("s") + state("end"))


def test_1_8_an_empty_iter_key_is_rejected() -> None:
    assert "empty 'iter_key'" in problem(state("s", "{state_id: t, iter_key: ''}") + state("t"))


@pytest.mark.parametrize("kind", NODE_KINDS)
def test_1_4_known_kinds_of_custom_nodes_are_accepted(kind: str) -> None:
    head = f"custom_nodes: [{{id: n, custom_node_id: {kind}}}, {{id: {kind}}}]\n"
    assert parse_workflow(f"{head}states:\n{state('s', worker='custom_node_id: n')}").problems == ()


def test_1_4_an_unknown_kind_is_rejected_unless_registered() -> None:
    head = "custom_nodes: [{id: n, custom_node_id: transfrom_node}]\n"
    text = f"{head}states:\n{state('s', worker='custom_node_id: n')}"
    assert "Did you mean 'transform_node'?" in str(parse_workflow(text).problems[0])
    assert parse_workflow(text, node_kinds=["transfrom_node"]).problems == ()


def test_1_4_an_id_used_as_an_unknown_kind_is_explained() -> None:
    assert "no custom_node_id" in problem(state("s"), ASSISTANTS + "custom_nodes: [{id: mine}]\n")


@pytest.mark.parametrize(("kind", "reason"), [("bedrock_flow_node", "AWS"), ("supervisor_node", "Autonomous")])
def test_1_4_the_error_for_an_unsupported_kind_gives_the_reason(kind: str, reason: str) -> None:
    message = problem(state("s"), ASSISTANTS + f"custom_nodes: [{{id: n, custom_node_id: {kind}}}]\n")
    assert reason in message


def test_a_state_without_an_id_is_not_reported_twice() -> None:
    lines = state("s", "{state_id: t}") + "- {assistant_id: writer, next: {state_id: end}}\n"
    assert "has no 'id'" in problem(lines)


def test_an_assistant_without_an_id_is_not_reported_twice() -> None:
    assert "has no 'id'" in problem(state("s"), "assistants: [{idd: writer, system_prompt: p}]\n")
