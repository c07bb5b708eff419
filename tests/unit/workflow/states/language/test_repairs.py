"""Suggested replacements for rejected transitions, with the names of the file."""

from statewright.workflow.states.language.parse import parse_workflow

START = "assistants: [{id: a, system_prompt: p}]\nstates:\n- {id: fix, assistant_id: a, next: {state_id: end}}\n"


def problem(transition: str) -> str:
    parsed = parse_workflow(START + f"- id: s\n  assistant_id: a\n  next: {transition}\n")
    assert len(parsed.problems) == 1, parsed.problems
    return str(parsed.problems[0])


def test_1_5_1_iter_key_with_a_condition_suggests_splitting_the_state() -> None:
    message = problem('{iter_key: files, condition: {expression: "more == True", then: fix, otherwise: end}}')
    assert 'condition: {expression: "more == True", then: pick_items, otherwise: end}' in message
    assert "state_id: fix, iter_key: files" in message
    assert "transform_node" in message


def test_1_5_1_iter_key_with_a_switch_suggests_splitting_the_state() -> None:
    message = problem("{iter_key: files, switch: {cases: [{condition: x, state_id: fix}], default: end}}")
    assert "state_id: fix, iter_key: files" in message


def test_3_1_a_condition_as_a_string_suggests_the_complete_map() -> None:
    message = problem('{condition: "ok == True", then: fix, else: end}')
    assert 'Write condition: {expression: "ok == True", then: fix, otherwise: end}.' in message


def test_3_1_a_condition_without_targets_suggests_placeholders() -> None:
    assert "then: the_state_if_true" in problem("{condition: ok}")


def test_else_instead_of_otherwise_is_one_problem() -> None:
    assert "It has 'else' instead. Write it as 'otherwise'." in problem(
        "{condition: {expression: ok, then: fix, else: end}}"
    )
