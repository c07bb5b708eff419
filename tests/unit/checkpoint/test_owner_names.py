"""The names of owners of threads."""

import pytest

from statewright.checkpoint import owner_name, run_of, short_owner


@pytest.mark.parametrize("run_id", ["r1", "a/b", "ann@example.org", "ann@example.org/7"])
def test_the_name_of_an_owner_contains_its_run_id_and_is_unique(run_id: str) -> None:
    owner = owner_name(run_id, "d41")
    assert run_of(owner) == run_id
    assert short_owner(owner) == f"{run_id}/d41"
    assert owner_name(run_id, "d42") != owner


def test_the_owner_of_a_run_without_an_id_is_named_by_the_generated_id() -> None:
    assert run_of(owner_name("d41", "d41")) == short_owner(owner_name("d41", "d41")) == "d41"


def test_an_owner_name_without_a_process_is_shown_unchanged() -> None:
    assert (short_owner("gone"), run_of("gone")) == ("gone", "gone")
