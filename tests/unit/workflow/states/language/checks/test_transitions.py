"""Transitions with keys that have no effect, and the targets of transitions."""

from statewright.workflow.states.language.parse import parse_workflow

START = "assistants: [{id: a, system_prompt: p}]\nstates:\n- id: s\n  assistant_id: a\n  next: "


def test_1_5_1_state_id_is_ignored_with_a_warning_next_to_a_condition() -> None:
    parsed = parse_workflow(START + "{state_id: nowhere, condition: {expression: x, then: end, otherwise: end}}")
    transition = parsed.expect().states[0].next
    assert transition.state_id is None
    assert transition.targets == ("end", "end")
    assert "'state_id' is ignored" in parsed.warnings[0].message


def test_1_5_1_state_id_is_ignored_with_a_warning_next_to_a_switch() -> None:
    parsed = parse_workflow(START + "{state_id: end, switch: {cases: [{condition: x, state_id: end}], default: end}}")
    assert parsed.expect().states[0].next.state_id is None
    assert "'state_id' is ignored" in parsed.warnings[0].message


def test_a_switch_without_cases_takes_its_default_with_a_warning() -> None:
    parsed = parse_workflow(START + "{switch: {cases: [], default: end}}")
    assert parsed.expect().states[0].next.targets == ("end",)
    assert "no cases" in parsed.warnings[0].message


def test_invalid_cases_do_not_count_as_missing() -> None:
    parsed = parse_workflow(START + "{switch: {cases: [x], default: end}}")
    assert parsed.warnings == ()
    assert len(parsed.problems) == 1
