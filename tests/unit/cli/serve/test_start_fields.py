"""The fields that a server or a worker logs when it starts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from statewright import __version__
from statewright.cli.serve.server import ServerLocation
from statewright.cli.serve.start_fields import start_fields
from statewright.service import Catalog, ServiceSettings
from statewright.storage.locations import parse_location


def fields(database: str = "runs.db", **settings: Any) -> dict[str, Any]:
    location = ServerLocation(host="127.0.0.1", port=0, database=parse_location(database))
    return start_fields(location, Catalog(), ServiceSettings(**settings))


def test_the_version_and_the_database_are_named_without_the_password() -> None:
    assert fields() == {"version": __version__, "database": str(Path("runs.db")), "graphs": [], "queues": None}
    assert fields("postgresql://anna:geheim@host/db")["database"] == "postgresql://anna@host/db"


@pytest.mark.parametrize(
    ("settings", "queues"),
    [({}, None), ({"queues": ["a", "b"]}, ["a", "b"]), ({"queues": ["a"], "works": False}, [])],
)
def test_the_queues_are_a_list_or_null_for_all(settings: dict[str, Any], queues: list[str] | None) -> None:
    assert fields(**settings)["queues"] == queues
