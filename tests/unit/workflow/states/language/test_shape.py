"""The outer form of a file: bare or wrapped, and its mode."""

import pytest

from statewright.workflow.states.language.parse import parse_workflow

INNER = (
    "{assistants: [{id: a, system_prompt: p}], type: own, states: [{id: s, assistant_id: a, next: {state_id: end}}]}"
)


def test_1_0_a_workflow_need_not_be_wrapped() -> None:
    definition = parse_workflow(INNER).expect()
    assert definition.states[0].id == "s"
    assert definition.settings == {"type": "own"}


def test_1_0_execution_config_is_used_if_present() -> None:
    parsed = parse_workflow(f"name: n\ndescription: d\nmode: Sequential\nslug: x\nexecution_config: {INNER}\n")
    definition = parsed.expect()
    assert (definition.name, definition.description) == ("n", "d")
    assert definition.settings == {"type": "own", "mode": "Sequential", "slug": "x"}
    assert parsed.warnings == ()


def test_keys_next_to_execution_config_are_ignored_with_a_warning() -> None:
    parsed = parse_workflow(f"execution_config: {INNER}\nstates: []\n")
    assert parsed.problems == ()
    assert "an unknown key 'states'" in parsed.warnings[0].message


def test_problems_in_a_wrapped_workflow_have_the_whole_path() -> None:
    parsed = parse_workflow("execution_config: {states: [{id: s}]}")
    assert parsed.problems[0].path == "execution_config.states[0]"


@pytest.mark.parametrize(
    "text",
    [
        "mode: Autonomous\nexecution_config: {assistants: []}",
        "mode: autonomous",
        "execution_config: {mode: Autonomous}",
    ],
)
def test_1_0_mode_autonomous_is_rejected_once_with_an_explanation(text: str) -> None:
    parsed = parse_workflow(text)
    assert len(parsed.problems) == 1
    assert "not supported" in parsed.problems[0].message
    assert "mode: Sequential" in parsed.problems[0].suggestion
    assert "switch" in parsed.problems[0].suggestion


def test_1_0_an_unknown_mode_is_rejected() -> None:
    assert "Did you mean 'Sequential'?" in str(
        parse_workflow(f"mode: sequental\nexecution_config: {INNER}").problems[0]
    )


@pytest.mark.parametrize(("text", "expected"), [("[a]", "a list"), ("hello", "'hello'"), ("5", "'5'")])
def test_a_file_other_than_a_map_is_rejected(text: str, expected: str) -> None:
    parsed = parse_workflow(text)
    assert len(parsed.problems) == 1
    assert expected in parsed.problems[0].message


@pytest.mark.parametrize("value", ["a", "[]"])
def test_execution_config_must_be_a_map(value: str) -> None:
    assert len(parse_workflow(f"execution_config: {value}").problems) == 1


def test_1_0_a_null_execution_config_counts_as_absent() -> None:
    assert parse_workflow(f"{{execution_config: ~, {INNER[1:]}").expect().states[0].id == "s"
