"""Expressions, MCP servers and chains of iteration."""

import pytest

from statewright.workflow.states.language.parse import ParsedWorkflow, parse_workflow

HEAD = "assistants: [{id: a, system_prompt: p}]\n"


def states(*transitions: str, head: str = HEAD) -> ParsedWorkflow:
    """Parse a workflow of states s0, s1 ... with these transitions; another key may follow after a semicolon."""
    lines = [
        f"- {{id: s{index}, assistant_id: a, next: {transition.partition(';')[0]}, {transition.partition(';')[2]}}}\n"
        for index, transition in enumerate(transitions)
    ]
    return parse_workflow(f"{head}states:\n{''.join(lines)}")


def one_problem(parsed: ParsedWorkflow) -> str:
    assert len(parsed.problems) == 1, parsed.problems
    return str(parsed.problems[0])


# -- expressions


def test_1_8_an_invalid_expression_is_an_error() -> None:
    message = one_problem(states("{condition: {expression: 'valid ==', then: end, otherwise: end}}"))
    assert "states[0].next.condition.expression" in message
    assert "valid ==" in message


def test_1_8_every_case_is_checked() -> None:
    cases = "{condition: 'a b', state_id: end}, {condition: '(', state_id: end}"
    parsed = states(f"{{switch: {{default: end, cases: [{cases}]}}}}")
    start = "states[0].next.switch.cases"
    assert [problem.path for problem in parsed.problems] == [f"{start}[0].condition", f"{start}[1].condition"]


def test_1_8_an_unsupported_expression_is_a_warning() -> None:
    parsed = states("{condition: {expression: '[x for x in a]', then: end, otherwise: end}}")
    assert parsed.problems == ()
    assert "is always false" in parsed.warnings[0].message


def test_expressions_are_parsed_once_and_kept() -> None:
    transition = (
        states("{switch: {default: end, cases: [{condition: 'a > 1', state_id: end}]}}").expect().states[0].next
    )
    assert transition.switch is not None
    assert transition.switch.cases[0].condition.text == "a > 1"


# -- MCP


@pytest.mark.parametrize(
    "server",
    [
        "{name: m, config: {command: x}}",
        "{name: m, config: {url: 'https://example.org'}}",
        "{name: m, command: x, arguments: '-v'}",
        "{name: m, mcp_config_id: x}",
        "{name: m, enabled: false}",
    ],
)
def test_1_6_a_server_defines_its_connection_or_is_disabled(server: str) -> None:
    head = f"assistants: [{{id: a, system_prompt: p, mcp_servers: [{server}]}}]\ntools: [{{id: t, tool: f, "
    assert states("{state_id: end}", head=head + f"mcp_server: {server}}}]\n").problems == ()


@pytest.mark.parametrize("server", ["{name: m}", "{name: m, config: {}}", "{name: m, config: {url: ~}}"])
def test_1_6_an_enabled_server_without_a_connection_is_rejected(server: str) -> None:
    message = one_problem(states("{state_id: end}", head=HEAD + f"tools: [{{id: t, tool: f, mcp_server: {server}}}]\n"))
    assert "enabled: false" in message
    assert "tools[0].mcp_server" in message
    head = f"assistants: [{{id: a, system_prompt: p, mcp_servers: [{server}]}}]\n"
    assert "assistants[0].mcp_servers[0]" in one_problem(states("{state_id: end}", head=head))


def test_1_6_a_server_needs_a_name() -> None:
    head = "assistants: [{id: a, system_prompt: p, mcp_servers: [{enabled: false}]}]\n"
    assert "'name'" in one_problem(states("{state_id: end}", head=head))


def test_a_server_with_an_invalid_config_is_not_reported_twice() -> None:
    one_problem(states("{state_id: end}", head=HEAD + "tools: [{id: t, tool: f, mcp_server: {name: m, config: x}}]\n"))


# -- chains


def test_2_6_the_same_iter_key_in_all_stages_forms_a_chain() -> None:
    parsed = states("{state_id: s1, iter_key: k}", "{state_id: s2, iter_key: k}", "{state_id: end}")
    assert parsed.problems == ()


def test_2_6_a_different_iter_key_within_a_chain_is_rejected() -> None:
    parsed = states("{state_id: s1, iter_key: k}", "{state_id: s2, iter_key: other}", "{state_id: end}")
    message = one_problem(parsed)
    assert "states[1].next.iter_key" in message
    assert "finish_iteration: true" in message
    assert "iter_key: k" in message


def test_2_6_finish_iteration_allows_a_different_iter_key() -> None:
    parsed = states(
        "{state_id: s1, iter_key: k}", "{state_id: s2, iter_key: other}; finish_iteration: true", "{state_id: end}"
    )
    assert parsed.problems == ()


def test_2_6_another_iteration_may_begin_after_the_chain() -> None:
    parsed = states(
        "{state_id: s1, iter_key: k}", "{state_id: s2}", "{state_id: s3, iter_key: other}", "{state_id: end}"
    )
    assert parsed.problems == ()


def test_2_6_each_stage_is_compared_with_the_previous_one() -> None:
    parsed = states(
        "{state_id: s1, iter_key: k}",
        "{state_id: s2, iter_key: k}",
        "{state_id: s3, iter_key: x}",
        "{state_id: end}",
    )
    assert "states[2].next.iter_key" in one_problem(parsed)


def test_2_6_chains_that_join_in_a_stage_need_the_same_iter_key() -> None:
    parsed = states(
        "{state_ids: [s1, s2]}",
        "{state_id: s3, iter_key: k}",
        "{state_id: s3, iter_key: x}",
        "{state_id: end, iter_key: k}",
    )
    assert "'s2'" in one_problem(parsed)
