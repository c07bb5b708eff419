"""The names under which runs hold their threads."""

import pytest

from statewright.checkpoint import owner_name, run_of, short_owner


@pytest.mark.parametrize("run_id", ["r1", "a/b", "ann@example.org", "ann@example.org/7"])
def test_the_name_of_a_holder_tells_its_run_and_is_told_apart_from_others_of_its_id(run_id: str) -> None:
    owner = owner_name(run_id, "d41")
    assert run_of(owner) == run_id
    assert short_owner(owner) == f"{run_id}/d41"
    assert owner_name(run_id, "d42") != owner


def test_a_holder_whose_run_has_no_id_of_its_own_is_named_by_what_was_drawn() -> None:
    assert run_of(owner_name("d41", "d41")) == short_owner(owner_name("d41", "d41")) == "d41"


def test_a_name_without_a_process_is_shown_as_it_is() -> None:
    assert (short_owner("gone"), run_of("gone")) == ("gone", "gone")
