"""A short run of processes that answer the same questions: `make chaos` runs a longer one."""

from tests.durability.rivals import compete
from tests.work import FULL


def test_a_question_that_several_processes_answer_has_one_answer() -> None:
    contest = compete(kills=60 if FULL else 4, seed=3)
    assert contest.stops >= 1
    assert contest.answers["accepted"] > 0
