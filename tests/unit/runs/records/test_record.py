"""What a class of records says of its fields: which are columns, of which kind, and which hold JSON."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from typing import Any, ClassVar

import pytest

from statewright.runs import RECORDS, ApiKey, Column, Json, Record, Run, RunLabel, RunStatus, StepRun, Wait, columns_of

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(slots=True, kw_only=True)
class Visit(Record):
    """One of each kind."""

    TABLE: ClassVar[str] = "visits"

    name: str
    count: int = 0
    share: float | None = None
    first: bool = False
    at: datetime | None = None
    status: RunStatus = RunStatus.PENDING
    body: Json = None
    more: Json = field(default_factory=dict[str, object])


def test_a_field_is_a_column_of_the_kind_of_its_annotation() -> None:
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
def test_each_class_is_told_apart_and_says_what_is_unique(kind: type[Record]) -> None:
    names = [one.name for one in columns_of(kind)]
    assert names[0] == "id"
    assert names == [one.name for one in fields(kind)]
    assert [one.TABLE for one in RECORDS].count(kind.TABLE) == 1
    for columns in kind.UNIQUE:
        assert set(columns) <= {one.name for one in columns_of(kind) if one.kind == "text"}


def test_what_users_put_in_is_json_everywhere() -> None:
    """JSON is encrypted where the database is: so whatever may be a secret has to be."""
    found = {f"{kind.TABLE}.{one.name}" for kind in RECORDS for one in columns_of(kind) if one.kind == "json"}
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
    } <= found


def test_records_are_equal_where_their_fields_are() -> None:
    given: dict[str, Any] = {"id": "l", "run_id": "r", "name": "n"}
    assert RunLabel(value="v", **given) == RunLabel(value="v", **given)
    assert RunLabel(value="v", **given) != RunLabel(value="w", **given)


def test_a_new_record_shares_nothing_with_another_one() -> None:
    def new() -> Run:
        return Run(id="r", workspace_id="w", graph="g", thread_id="t", created_at=NOW, updated_at=NOW)

    one, other = new(), new()
    one.tags.append("x")
    one.metadata["k"] = one.settings["k"] = 1
    assert other == new()
    assert (other.status, other.version, other.last_event, other.due_at, other.begun) == ("pending", 1, 0, None, False)


def test_records_have_their_fields_and_no_others() -> None:
    for kind in (StepRun, Wait, ApiKey):
        with pytest.raises(TypeError, match="unexpected keyword"):
            kind(id="x", statsu="y")  # type: ignore[call-arg]
