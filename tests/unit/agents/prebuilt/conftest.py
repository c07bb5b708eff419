"""Savers for the tests of prebuilt agents."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from statewright import InMemorySaver
from statewright.checkpoint import Checkpointer
from statewright.storage.sqlite import SqliteSaver


@pytest.fixture(params=["memory", "sqlite"])
def saver(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Checkpointer]:
    if request.param == "memory":
        yield InMemorySaver()
        return
    with SqliteSaver(str(tmp_path / "runs.db")) as opened:
        yield opened
