"""Unreachable states, and states from which `end` cannot be reached."""

from statewright.workflow.states.language.checks.transitions import find_reachable
from statewright.workflow.states.language.parse import parse_workflow


def find_warnings(*transitions: str, head: str = "") -> list[str]:
    lines = [
        f"  - {{id: s{index}, assistant_id: a, next: {transition}}}\n" for index, transition in enumerate(transitions)
    ]
    text = f"{head}\n  assistants: [{{id: a, system_prompt: p}}]\n  states:\n{''.join(lines)}"
    parsed = parse_workflow(text)
    assert parsed.problems == ()
    assert all(warning.suggestion for warning in parsed.warnings)
    return [str(warning) for warning in parsed.warnings]


def test_1_8_cycles_are_legal() -> None:
    assert find_warnings("{condition: {expression: x, then: s1, otherwise: end}}", "{state_id: s0}") == []


def test_a_state_that_cannot_be_reached_is_a_warning() -> None:
    messages = find_warnings("{state_id: end}", "{state_id: s2}", "{state_id: end}")
    assert ["'s1' cannot be reached" in messages[0], "'s2' cannot be reached" in messages[1]] == [True, True]
    assert "In 'states[1]' (line 5, column 5)" in messages[0]


def test_problems_in_a_wrapped_file_have_the_whole_path() -> None:
    assert (
        "execution_config.states[1]" in find_warnings("{state_id: end}", "{state_id: end}", head="execution_config:")[0]
    )


def test_states_without_a_path_to_the_end_are_one_warning() -> None:
    messages = find_warnings("{state_id: s1}", "{state_id: s0}")
    assert len(messages) == 1
    assert "'end' cannot be reached from s0, s1" in messages[0]


def test_an_unreachable_state_need_not_lead_to_the_end() -> None:
    assert len(find_warnings("{state_id: end}", "{state_id: s1}")) == 1


def test_the_warning_about_many_states_counts_them() -> None:
    transitions = [f"{{state_id: s{(index + 1) % 15}}}" for index in range(15)]
    assert "s9 and 5 more" in find_warnings(*transitions)[0]


def test_find_reachable_follows_transitions() -> None:
    assert find_reachable({"a": ["b"], "b": ["a", "c"], "d": ["a"]}, ["a"]) == {"a", "b", "c"}
