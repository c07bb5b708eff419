"""Paths of branches."""

import pytest

from statewright.workflow.states.engine.token import child_path, join_paths, parse_branch_path


def test_a_child_path_contains_its_index_and_the_number_of_branches() -> None:
    assert child_path("", 1, 3) == "1/3"
    assert child_path("1/3", 0, 2) == "1/3.0/2"


def test_paths_are_compared_as_numbers() -> None:
    paths = ["10/12", "9/12", "9/12.1/2", ""]
    assert sorted(paths, key=parse_branch_path) == ["", "9/12", "9/12.1/2", "10/12"]


@pytest.mark.parametrize(
    ("paths", "expected"),
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
def test_joined_branches_get_the_path_of_their_fork_if_complete_else_of_the_first(
    paths: list[str], expected: str
) -> None:
    assert join_paths(paths) == expected
