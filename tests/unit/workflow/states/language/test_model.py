"""The declared keys of the language: limits, defaults and types of section 1, key by key."""

import subprocess
import sys
from dataclasses import fields

import pytest

from statewright.workflow.states.language.model import SCHEMAS
from statewright.workflow.states.language.parse import ParsedWorkflow, parse_workflow

STATES = "states: [{id: s, assistant_id: a, next: {state_id: end}}]\n"
ASSISTANTS = "assistants: [{id: a, system_prompt: p}]\n"


def parse(
    workflow: str = "", assistant: str = "", state: str = "", transition: str = "", more: str = ""
) -> ParsedWorkflow:
    """Parse a small workflow with keys added to one of its parts."""
    return parse_workflow(
        f"{workflow}\n"
        f"assistants: [{{id: a, system_prompt: p, {assistant}}}]\n"
        f"states: [{{id: s, assistant_id: a, next: {{state_id: end, {transition}}}, {state}}}]\n{more}\n"
    )


def one_problem(parsed: ParsedWorkflow) -> str:
    assert len(parsed.problems) == 1, parsed.problems
    assert parsed.problems[0].suggestion
    return str(parsed.problems[0])


@pytest.mark.parametrize(
    ("key", "minimum", "maximum"),
    [
        ("messages_limit_before_summarization", 1, 10_000),
        ("tokens_limit_before_summarization", 1, 2**31 - 1),
        ("recursion_limit", 1, 5_000),
        ("max_concurrency", 1, 100),
        ("max_iteration_key_output_limit", 1, 10_000),
    ],
)
def test_1_1_numbers_of_the_workflow_are_limited(key: str, minimum: int, maximum: int) -> None:
    for value in (minimum, maximum):
        assert parse(f"{key}: {value}").problems == ()
    for value in (minimum - 1, maximum + 1, "x", "true", "1.5", "'5'"):
        assert key in one_problem(parse(f"{key}: {value}"))


def test_1_1_a_workflow_needs_a_state() -> None:
    assert "at least one valid state" in one_problem(parse_workflow("states: []"))
    assert "no 'states'" in one_problem(parse_workflow("name: x"))


def test_1_1_a_workflow_needs_no_assistants() -> None:
    text = "tools: [{id: t, tool: f}]\nstates: [{id: s, tool_id: t, next: {state_id: end}}]"
    assert parse_workflow(text).expect().assistants == ()


def test_1_2_an_assistant_needs_an_id_and_either_a_prompt_or_an_assistant_id() -> None:
    assert "'id'" in one_problem(parse_workflow("assistants: [{system_prompt: p}]\n" + STATES))
    message = one_problem(parse_workflow("assistants: [{id: a}]\n" + STATES))
    assert "'assistant_id', 'system_prompt'" in message
    assert parse(assistant="assistant_id: b").problems == ()


@pytest.mark.parametrize("value", ["0", "2", "1.5", "0.0"])
def test_1_2_temperatures_from_0_to_2_are_accepted(value: str) -> None:
    assert parse(assistant=f"temperature: {value}").expect().assistants[0].temperature == float(value)


@pytest.mark.parametrize("value", ["-0.1", "2.1", "hot", "true"])
def test_1_2_other_temperatures_are_rejected(value: str) -> None:
    assert "from 0 to 2" in one_problem(parse(assistant=f"temperature: {value}"))


def test_1_2_limit_tool_output_tokens_is_at_least_1() -> None:
    assert "at least 1" in one_problem(parse(assistant="limit_tool_output_tokens: 0"))


def test_1_2_skill_ids_may_be_null() -> None:
    assert parse(assistant="skill_ids: ~, datasource_ids: [d]").expect().assistants[0].datasource_ids == ("d",)


def test_1_2_tools_of_an_assistant_need_a_name() -> None:
    assert "'name'" in one_problem(parse(assistant="tools: [{integration_alias: i}]"))
    assert "- name:" in one_problem(parse(assistant="tools: [search]"))


def test_1_3_a_tool_needs_an_id_and_a_tool_name() -> None:
    parsed = parse(more="tools: [{trace: true}]")
    assert [problem.message for problem in parsed.problems] == ["This tool has no 'id'.", "This tool has no 'tool'."]


def test_1_3_toolset_is_ignored_with_a_warning() -> None:
    parsed = parse(more="tools: [{id: t, tool: f, toolset: x}]")
    assert "toolset" in parsed.warnings[0].message
    assert parsed.problems == ()


def test_1_5_a_state_has_exactly_one_worker() -> None:
    assert "none of the keys" in one_problem(parse_workflow(ASSISTANTS + "states: [{id: s, next: {state_id: end}}]"))
    tools = "tools: [{id: t, tool: f}]"
    assert "'assistant_id' and 'tool_id'" in one_problem(parse(state="tool_id: t", more=tools))


def test_1_5_next_is_a_required_map() -> None:
    assert "no 'next'" in one_problem(parse_workflow(ASSISTANTS + "states: [{id: s, assistant_id: a}]"))
    message = one_problem(parse_workflow(ASSISTANTS + "states: [{id: s, assistant_id: a, next: end}]"))
    assert "Write next: {state_id: end}." in message


def test_1_5_wait_for_user_confirmation_is_an_alias_that_excludes_interrupt_before() -> None:
    assert parse(state="wait_for_user_confirmation: true").expect().states[0].interrupt_before is True
    message = one_problem(parse(state="wait_for_user_confirmation: false, interrupt_before: false"))
    assert "both are present" in message


def test_1_5_output_schema_is_a_string() -> None:
    assert "output_schema: |" in one_problem(parse(state="output_schema: {a: 1}"))


def test_1_5_output_format_and_meta_keys_are_ignored() -> None:
    parsed = parse(state="output_format: json, meta_a: 1", transition="meta_next_state_id: x")
    assert parsed.problems == ()
    assert [warning.path for warning in parsed.warnings] == ["states[0].output_format"]


@pytest.mark.parametrize("key", ["store_in_context", "include_in_llm_history", "clear_prior_messages", "override_task"])
def test_1_5_1_flags_are_booleans(key: str) -> None:
    assert parse(transition=f"{key}: no").problems == ()
    assert "true or false" in one_problem(parse(transition=f"{key}: 0"))


@pytest.mark.parametrize(("text", "value"), [("true", True), ("off", False), ("keep_current", "keep_current")])
def test_1_5_1_clear_context_store_is_a_boolean_or_keep_current(text: str, value: object) -> None:
    assert parse(transition=f"clear_context_store: {text}").expect().states[0].next.clear_context_store == value
    assert "keep_current" in one_problem(parse(transition="clear_context_store: all"))


def test_1_5_1_keep_history_is_an_alias_with_lower_priority() -> None:
    assert parse(transition="keep_history: false").expect().states[0].next.include_in_llm_history is False
    parsed = parse(transition="keep_history: false, include_in_llm_history: true")
    assert parsed.expect().states[0].next.include_in_llm_history is True
    assert "both are present" in parsed.warnings[0].message


def test_1_5_1_lists_of_keys_are_read() -> None:
    transition = (
        parse(transition="reset_keys_in_context_store: [a], include_in_iterator_context: [b]").expect().states[0].next
    )
    assert (transition.reset_keys_in_context_store, transition.include_in_iterator_context) == (("a",), ("b",))


@pytest.mark.parametrize(
    "transition",
    [
        "condition: {expression: x, then: end, otherwise: end}, switch: {cases: [], default: end}",
        "state_id: end, state_ids: [end]",
        "state_ids: [end], iter_key: x, state_id: end",
        "state_ids: [end], condition: {expression: x, then: end, otherwise: end}",
        "state_ids: [end], switch: {cases: [], default: end}",
        "iter_key: x, condition: {expression: x, then: end, otherwise: end}",
        "iter_key: x, switch: {cases: [], default: end}",
    ],
)
def test_1_5_1_forbidden_combinations_of_transitions_are_rejected(transition: str) -> None:
    parsed = parse_workflow(ASSISTANTS + f"states: [{{id: s, assistant_id: a, next: {{{transition}}}}}]")
    assert parsed.problems
    assert all("cannot be combined" in problem.message and problem.suggestion for problem in parsed.problems)


def test_1_5_1_a_transition_needs_one_of_four_keys() -> None:
    def expected(transition: str) -> str:
        return one_problem(parse_workflow(ASSISTANTS + f"states: [{{id: s, assistant_id: a, next: {transition}}}]"))

    for transition in ("{}", "{store_in_context: true}"):
        assert "none of the keys 'state_id', 'state_ids', 'condition', 'switch'" in expected(transition)
    assert "'next' has 'state_id' without a value" in expected("{state_id: ~}")


@pytest.mark.parametrize(
    ("value", "expected"), [("[]", "empty"), ("[end, end]", "twice"), ("end", "[end]"), ("[1]", "'1'")]
)
def test_1_5_1_state_ids_are_distinct_and_not_empty(value: str, expected: str) -> None:
    parsed = parse_workflow(ASSISTANTS + f"states: [{{id: s, assistant_id: a, next: {{state_ids: {value}}}}}]")
    assert expected in one_problem(parsed)


def test_1_5_1_iter_key_needs_state_id() -> None:
    parsed = parse_workflow(ASSISTANTS + "states: [{id: s, assistant_id: a, next: {iter_key: x, state_ids: ~}}]")
    assert "'iter_key' without 'state_id'" in one_problem(parsed)


@pytest.mark.parametrize("missing", ["expression", "then", "otherwise"])
def test_1_5_1_a_condition_needs_its_three_keys(missing: str) -> None:
    keys = {"expression": "x", "then": "end", "otherwise": "end"}
    items = ", ".join(f"{key}: {value}" for key, value in keys.items() if key != missing)
    parsed = parse_workflow(ASSISTANTS + f"states: [{{id: s, assistant_id: a, next: {{condition: {{{items}}}}}}}]")
    assert f"has no {missing!r}" in one_problem(parsed)


def test_1_5_1_a_switch_needs_cases_and_default() -> None:
    parsed = parse_workflow(ASSISTANTS + "states: [{id: s, assistant_id: a, next: {switch: {}}}]")
    assert [problem.message.split(": ")[-1] for problem in parsed.problems] == [
        "The switch has no 'cases'.",
        "The switch has no 'default'.",
    ]


def test_3_1_iter_key_in_a_case_is_ignored_with_a_warning() -> None:
    transition = "switch: {default: end, cases: [{condition: x, state_id: end, iter_key: y}]}"
    parsed = parse_workflow(ASSISTANTS + f"states: [{{id: s, assistant_id: a, next: {{{transition}}}}}]")
    assert parsed.problems == ()
    assert "iter_key" in parsed.warnings[0].path


@pytest.mark.parametrize(
    ("key", "valid", "invalid"),
    [
        ("backoff_factor", ("1", "10"), ("0.9", "10.1")),
        ("max_attempts", ("1", "100"), ("0", "101")),
        ("initial_interval", ("0", "0.5"), ("-1",)),
        ("max_interval", ("0", "128"), ("-1",)),
    ],
)
def test_1_7_numbers_of_a_retry_policy_are_limited(key: str, valid: tuple[str, ...], invalid: tuple[str, ...]) -> None:
    for value in valid:
        assert parse(state=f"retry_policy: {{{key}: {value}}}").problems == ()
        assert parse(workflow=f"retry_policy: {{{key}: {value}}}").problems == ()
    for value in invalid:
        assert key in one_problem(parse(state=f"retry_policy: {{{key}: {value}}}"))


def test_1_7_keys_ending_in_seconds_are_aliases() -> None:
    parsed = parse("retry_policy: {initial_interval_seconds: 5, max_interval_seconds: 50.0}")
    rule = parsed.expect().retry_policy
    assert (rule.initial_interval, rule.max_interval) == (5.0, 50.0)
    assert len(parsed.warnings) == 2


def test_every_declared_key_has_a_description() -> None:
    for schema in SCHEMAS:
        assert schema.doc.endswith(".")
        for key in schema.keys:
            assert (key.doc or key.ignored).endswith("."), (schema.name, key.name)


def test_every_field_except_positions_is_declared_as_a_key() -> None:
    for schema in SCHEMAS:
        declared = {key.field for key in schema.keys}
        derived = {"at", "settings", "explicit_keys"}
        assert {field.name for field in fields(schema.model) if field.init} - derived <= declared, schema.name


def test_importing_the_model_does_not_load_the_yaml_parser() -> None:
    code = "import sys, statewright.workflow.states.language.model; print('yaml' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
