"""`AnyValue`: the last update in task order is kept."""

from __future__ import annotations

from typing import Any

import pytest

from statewright.channels import MISSING, AnyValue, Overwrite


@pytest.mark.parametrize(
    ("current", "updates", "new"),
    [
        (1, [2, 3], 3),
        (1, [3, 2], 2),
        (MISSING, [1], 1),
        (1, [2, None], None),
        (1, [2, 0], 0),
        (1, [2, Overwrite(3)], 3),
        (1, [Overwrite(3), 2], 2),
        (1, [Overwrite(2), Overwrite([])], []),
    ],
)
def test_the_last_update_in_task_order_is_the_value(current: Any, updates: list[Any], new: Any) -> None:
    assert AnyValue().apply(current, updates) == new


def test_there_is_no_value_before_the_first_update() -> None:
    assert AnyValue().start() is MISSING
