"""A plugin of pytest: every InMemorySaver that a test makes is a SqliteSaver on a file of its own.

Used by `tests/integration/test_semantics_on_sqlite.py`: the rules hold whatever keeps the threads.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import statewright
import statewright.checkpoint
from statewright.storage.sqlite import SqliteSaver

_folder: list[Path] = []
_numbers = itertools.count()
_open: list[SqliteSaver] = []


class SaverOfATest(SqliteSaver):
    """Takes the place of InMemorySaver, and is closed with the test."""

    def __init__(self, *_: Any) -> None:
        super().__init__(_folder[-1] / f"{next(_numbers)}.db")
        _open.append(self)


def pytest_configure() -> None:
    statewright.InMemorySaver = SaverOfATest  # type: ignore[misc,assignment]
    statewright.checkpoint.InMemorySaver = SaverOfATest  # type: ignore[misc,assignment]


@pytest.fixture(autouse=True)
def savers_are_closed(tmp_path: Path) -> Iterator[None]:
    _folder.append(tmp_path)
    yield
    while _open:
        _open.pop().close()
