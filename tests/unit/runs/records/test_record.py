"""Classes of records: columns and their kinds, unique fields, JSON, equality and defaults."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from typing import Any, ClassVar

import pytest

from statewright.runs import RECORDS, ApiKey, Column, Json, Record, Run, RunLabel, RunStatus, StepRun, Wait, columns_of

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(slots=True, kw_only=True)
class Visit(Record):
    """Has one field of each kind."""

    TABLE: ClassVar[str] = "visits"

    name: str
    count: int = 0
    share: float | None = None
    first: bool = False
    at: datetime | None = None
    status: RunStatus = RunStatus.PENDING
    body: Json = None
    more: Json = field(default_factory=dict[str, object])


def test_the_kind_of_a_column_follows_from_its_annotation() -> None:
    assert columns_of(Visit) == (
        Column("id", "text", str, False),
        Column("name", "text", str, False),
        Column("count", "integer", int, False),
        Column("share", "real", float, True),
        Column("first", "flag", bool, False),
        Column("at", "instant", datetime, True),
        Column("status", "status", RunStatus, False),
        Column("body", "json", object, True),
        Column("more", "json", object, True),
    )


@pytest.mark.parametrize("kind", RECORDS, ids=lambda kind: kind.TABLE)
def test_each_class_has_its_own_table_and_unique_text_columns(kind: type[Record]) -> None:
    names = [column.name for column in columns_of(kind)]
    assert names[0] == "id"
    assert names == [column.name for column in fields(kind)]
    assert [column.TABLE for column in RECORDS].count(kind.TABLE) == 1
    for columns in kind.UNIQUE:
        assert set(columns) <= {column.name for column in columns_of(kind) if column.kind == "text"}


def test_fields_with_data_of_users_are_json() -> None:
    """An encrypted database encrypts JSON, so all fields that may contain secrets have to be JSON."""
    json_columns = {
        f"{kind.TABLE}.{column.name}" for kind in RECORDS for column in columns_of(kind) if column.kind == "json"
    }
    assert {
        "workflow_runs.input",
        "workflow_runs.output",
        "workflow_runs.error",
        "workflow_runs.metadata",
        "step_runs.output",
        "step_logs.lines",
        "signals.payload",
        "waits.value",
        "approval_requests.content",
        "webhooks.secret",
        "webhook_deliveries.body",
        "received_events.payload",
        "schedules.input",
    } <= json_columns


def test_records_are_compared_by_their_fields() -> None:
    values: dict[str, Any] = {"id": "l", "run_id": "r", "name": "n"}
    assert RunLabel(value="v", **values) == RunLabel(value="v", **values)
    assert RunLabel(value="v", **values) != RunLabel(value="w", **values)


def test_new_records_do_not_share_default_values() -> None:
    def new_run() -> Run:
        return Run(id="r", workspace_id="w", graph="g", thread_id="t", created_at=NOW, updated_at=NOW)

    first, other = new_run(), new_run()
    first.tags.append("x")
    first.metadata["k"] = first.settings["k"] = 1
    assert other == new_run()
    assert (other.status, other.version, other.last_event, other.due_at, other.begun) == ("pending", 1, 0, None, False)


def test_records_refuse_unknown_fields() -> None:
    for kind in (StepRun, Wait, ApiKey):
        with pytest.raises(TypeError, match="unexpected keyword"):
            kind(id="x", statsu="y")  # type: ignore[call-arg]
