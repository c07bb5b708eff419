"""Visits: the records of executed states, and their encoding."""

from typing import Any

import pytest

from statewright.serde.serde import Serde
from statewright.workflow.states.engine.visit import ANSWER, DEFAULT_EFFECTS, Effects, ItemRef, Visit, VisitLog


@pytest.mark.parametrize(
    "visit",
    [
        Visit("1.0", "s", "text"),
        Visit("1.0", "s", {"a": [1, None]}, ("0.0", "0.1"), "0/2", "do it", targets=("end",)),
        Visit(
            "1.0", "s", "x", item=ItemRef("0.0", "xs", 3), merges_item=True, iteration="0.0", summary="so far", calls=3
        ),
        Visit(
            "1.0",
            "s",
            "x",
            effects=Effects(stores_result=False, output_key="k", clears_context="keep_current", reset_keys=("a", "b")),
        ),
        Visit(
            "1.0",
            "s",
            "x",
            effects=Effects(
                appends_values=True, adds_message=False, removes_messages=True, is_user_message=True, splits_result=True
            ),
        ),
        Visit("1.0", "s", "x", item=ItemRef("0.0"), is_entry=True),
    ],
)
def test_visits_survive_storage(visit: Visit) -> None:
    serde = Serde()
    decoded = serde.decode(serde.encode(visit))
    assert decoded == visit
    assert isinstance(decoded.after, tuple)
    assert isinstance(decoded.effects.reset_keys, tuple)


def test_defaults_are_not_stored() -> None:
    serde = Serde()
    plain = serde.encode(Visit("1.0", "s", "x"))
    assert serde.encode(Visit("1.0", "s", "x", effects=Effects())) == plain
    assert len(plain) < 20


def test_default_effects_store_and_remember() -> None:
    effects = DEFAULT_EFFECTS
    assert (effects.stores_result, effects.adds_message) == (True, True)
    assert (effects.clears_context, effects.appends_values) == (False, False)


@pytest.mark.parametrize("answer", ["go on", {"k": 1}, 5])
def test_other_values_become_answers(answer: Any) -> None:
    (visit,) = VisitLog().prepare(answer, "task-1")
    assert (visit.state, visit.output) == (ANSWER, answer)


def test_prepared_visits_are_not_copied() -> None:
    visits = [Visit("1.0", "s", "x")]
    assert VisitLog().prepare(visits, "task-1") is visits


def test_answers_of_different_tasks_have_different_ids() -> None:
    first, second = (VisitLog().prepare("yes", task)[0].id for task in ("aaaa", "bbbb"))
    assert first != second
