"""Places of branches."""

import pytest

from statewright.workflow.states.engine.token import child_path, join_paths, parse_branch_path


def test_a_place_below_another_names_its_choice_and_how_many_there_are() -> None:
    assert child_path("", 1, 3) == "1/3"
    assert child_path("1/3", 0, 2) == "1/3.0/2"


def test_places_compare_by_number_and_not_by_letter() -> None:
    paths = ["10/12", "9/12", "9/12.1/2", ""]
    assert sorted(paths, key=parse_branch_path) == ["", "9/12", "9/12.1/2", "10/12"]


@pytest.mark.parametrize(
    ("paths", "found"),
    [
        (["0/2", "1/2"], ""),
        (["0/3", "2/3"], "0/3"),
        (["1/2.0/2", "1/2.1/2"], "1/2"),
        (["1/2.0/2", "1/2.1/2", "0/2"], ""),
        (["0/2", "1/2.0/2"], "0/2"),
        (["1/2.1/2", "0/2.1/2"], "0/2.1/2"),
        (["1/2", "1/2"], "1/2"),
        ([""], ""),
    ],
)
def test_branches_that_come_together_are_their_fork_if_all_of_it_are_there_else_the_first(
    paths: list[str], found: str
) -> None:
    assert join_paths(paths) == found
