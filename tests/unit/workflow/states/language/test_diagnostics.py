"""The order and the words of what is message."""

from statewright.errors import Problem
from statewright.workflow.states.language.diagnostics import MAX_COMPARISONS, Diagnostics, Phase
from statewright.workflow.states.language.yaml.nodes import Mark


def test_1_8_problems_come_by_phase_and_then_in_the_order_of_the_file() -> None:
    diagnostics = Diagnostics()
    diagnostics.error(Phase.RULES, (), Mark(1, 1), "fourth", "")
    diagnostics.error(Phase.FORM, (), Mark(9, 1), "third", "")
    diagnostics.error(Phase.FORM, (), Mark(2, 5), "second", "")
    diagnostics.add_syntax([Problem("", 50, 1, "first", "")])
    assert [problem.message for problem in diagnostics.problems] == ["first", "second", "third", "fourth"]


def test_warnings_are_no_problems() -> None:
    diagnostics = Diagnostics()
    diagnostics.warn(Phase.FORM, ("states", 0), Mark(1, 2), "odd", "Look.")
    assert not diagnostics.has_problems
    assert diagnostics.warnings == (Problem("states[0]", 1, 2, "odd", "Look."),)


def test_1_8_a_problem_names_the_state_in_which_it_is() -> None:
    diagnostics = Diagnostics()
    diagnostics.error(Phase.FORM, ("states", 0, "next"), Mark(1, 1), "It is wrong.", "")
    diagnostics.error(Phase.FORM, ("states", 0), Mark(2, 1), "State 'a' is wrong.", "")
    diagnostics.set_label(("states", 0), "State 'a'")
    assert [problem.message for problem in diagnostics.problems] == ["State 'a': It is wrong.", "State 'a' is wrong."]


def test_a_hint_guesses_and_lists() -> None:
    assert Diagnostics().hint("reveiw", ["draft", "review"], noun="States") == (
        "Did you mean 'review'? States: draft, review."
    )
    assert Diagnostics().hint("x", [], noun="States") == "States: none."


def test_a_hint_lists_no_more_than_can_be_read() -> None:
    assert Diagnostics().hint("x", [f"state_{i}" for i in range(25)], noun="States").endswith("state_19 and 5 more.")


def test_guesses_run_out_in_a_file_that_is_full_of_wrong_names() -> None:
    diagnostics = Diagnostics()
    known = [f"name{i}" for i in range(MAX_COMPARISONS // 2)]
    assert [diagnostics.near_miss("nam1", known) is not None for _ in range(3)] == [True, True, False]


def test_nothing_is_guessed_for_very_long_names() -> None:
    assert Diagnostics().near_miss("a" * 61, ["a" * 60]) is None
