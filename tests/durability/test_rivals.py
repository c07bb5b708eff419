"""A short contest of processes that answer the same questions; `make chaos` runs a longer one."""

from tests.durability.rivals import compete
from tests.work import FULL


def test_only_one_answer_of_several_processes_is_accepted() -> None:
    contest = compete(kills=60 if FULL else 4, seed=3)
    assert contest.stops >= 1
    assert contest.answers["accepted"] > 0
