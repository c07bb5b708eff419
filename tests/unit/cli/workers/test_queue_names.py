"""The option `--queues`."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from statewright.cli.console.failure import UsageError
from statewright.cli.workers.queue_names import read_queue_names


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (None, None),
        ([], None),
        (["a"], ["a"]),
        (["a,b", "c"], ["a", "b", "c"]),
        (["a, b", "a"], ["a", "b"]),
    ],
)
def test_names_are_separated_by_commas(values: Sequence[str] | None, expected: Sequence[str] | None) -> None:
    assert read_queue_names(values) == expected


@pytest.mark.parametrize("value", ["", "a,,b", "a b", "ä", "x" * 64])
def test_a_name_that_no_queue_can_have_is_refused(value: str) -> None:
    with pytest.raises(UsageError, match="is not a valid name of a queue"):
        read_queue_names([value])
