"""The order and wording of problems and warnings."""

from statewright.errors import Problem
from statewright.workflow.states.language.diagnostics import MAX_COMPARISONS, Diagnostics, Phase
from statewright.workflow.states.language.yaml.nodes import Mark


def test_1_8_problems_are_sorted_by_phase_and_position() -> None:
    diagnostics = Diagnostics()
    diagnostics.error(Phase.RULES, (), Mark(1, 1), "fourth", "")
    diagnostics.error(Phase.FORM, (), Mark(9, 1), "third", "")
    diagnostics.error(Phase.FORM, (), Mark(2, 5), "second", "")
    diagnostics.add_syntax([Problem("", 50, 1, "first", "")])
    assert [problem.message for problem in diagnostics.problems] == ["first", "second", "third", "fourth"]


def test_warnings_are_not_problems() -> None:
    diagnostics = Diagnostics()
    diagnostics.warn(Phase.FORM, ("states", 0), Mark(1, 2), "odd", "Look.")
    assert not diagnostics.has_problems
    assert diagnostics.warnings == (Problem("states[0]", 1, 2, "odd", "Look."),)


def test_1_8_a_problem_names_its_state() -> None:
    diagnostics = Diagnostics()
    diagnostics.error(Phase.FORM, ("states", 0, "next"), Mark(1, 1), "It is wrong.", "")
    diagnostics.error(Phase.FORM, ("states", 0), Mark(2, 1), "State 'a' is wrong.", "")
    diagnostics.set_label(("states", 0), "State 'a'")
    assert [problem.message for problem in diagnostics.problems] == ["State 'a': It is wrong.", "State 'a' is wrong."]


def test_a_hint_suggests_the_nearest_name_and_lists_the_names() -> None:
    assert Diagnostics().make_hint("reveiw", ["draft", "review"], label="States") == (
        "Did you mean 'review'? States: draft, review."
    )
    assert Diagnostics().make_hint("x", [], label="States") == "States: none."


def test_a_hint_lists_a_limited_number_of_names() -> None:
    assert (
        Diagnostics().make_hint("x", [f"state_{i}" for i in range(25)], label="States").endswith("state_19 and 5 more.")
    )


def test_the_number_of_suggestions_is_limited() -> None:
    diagnostics = Diagnostics()
    known = [f"name{i}" for i in range(MAX_COMPARISONS // 2)]
    assert [diagnostics.find_similar_name("nam1", known) is not None for _ in range(3)] == [True, True, False]


def test_very_long_names_get_no_suggestion() -> None:
    assert Diagnostics().find_similar_name("a" * 61, ["a" * 60]) is None
