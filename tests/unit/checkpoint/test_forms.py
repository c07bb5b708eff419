"""Restoring saved pending writes, and reporting damaged ones."""

from __future__ import annotations

import pytest

from statewright.checkpoint import NO_ARG, Task
from statewright.checkpoint.forms import COMPLETED, PAUSED, restore_pending
from statewright.errors import DamagedDatabase
from statewright.serde.serde import Serde

TASK = Task("a", NO_ARG, "0" * 32, 0)


def test_a_breakpoint_is_restored() -> None:
    assert restore_pending([(PAUSED, "", True)], [TASK], Serde()).paused


@pytest.mark.parametrize(
    ("entry", "problem"), [((99, "x", 1), "unknown kind 99"), ((COMPLETED, "x", []), "task x, which is not due")]
)
def test_an_invalid_entry_is_reported_as_damage(entry: tuple[int, str, object], problem: str) -> None:
    with pytest.raises(DamagedDatabase, match=problem):
        restore_pending([entry], [TASK], Serde())
