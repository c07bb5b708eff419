"""Sample records, helpers that read and write them, and the base class of the ledger suites."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, cast

from statewright.checkpoint import Checkpointer
from statewright.futures import resolve
from statewright.runs import (
    RECORDS,
    Change,
    Column,
    Condition,
    DailySpending,
    Insert,
    Ledger,
    Record,
    Run,
    RunLabel,
    Spend,
    columns_of,
)
from statewright.runs.records.record import R

NOW = datetime(2026, 1, 1, 12, 30, 15, 123456, tzinfo=UTC)
SOON = NOW + timedelta(hours=1)
NUMBERS: list[Any] = [2**53 + 1, -(2**63), 2**64, 10**40, 0.1, 1e300, 5e-324, -0.0, 1 / 3]
"""Numbers that a conversion to a float, to a 64-bit integer or to rounded decimal text would change."""
NESTED: dict[str, Any] = {
    "": None,
    "text": 'tschüß 🦉 \x00 \x1f "quoted" \\ \u2028 </script>',
    "numbers": [0, -1, *NUMBERS],
    "true": True,
    "false": False,
    "empty": [{}, [], "", [[]], {"": {}}],
    "deep": {"er": {"list": [[], [{}], [1, [2, {"x": None}]]]}},
    "with.dot": 1,
    "$odd": "%_*?'",
}


def run(run_id: str = "r1", **values: Any) -> Run:
    """Return a run on a thread of its own."""
    fields: dict[str, Any] = {"graph": "g", "workspace_id": "w1", "thread_id": f"thread of {run_id}"}
    fields |= {"created_at": NOW, "updated_at": NOW, **values}
    return Run(id=run_id, **fields)


def label(label_id: str, value: str = "v", **values: Any) -> RunLabel:
    """Return a label of the run `r1`."""
    return RunLabel(id=label_id, **{"run_id": "r1", "name": "n", "value": value, **values})


def spending(workspace_id: str = "w1", at: datetime = NOW, **sums: Any) -> Spend:
    """Return a change that adds amounts to the spending of a workspace on the day of `at`."""
    return Spend(replace(DailySpending.of(workspace_id, at), **sums))


def full_record(record_type: type[R], record_id: str) -> R:
    """Return a record of a class with a value in every field."""
    values = {column.name: _sample(column) for column in columns_of(record_type)}
    return record_type(**{**values, "id": record_id})


def minimal_record(record_type: type[R], record_id: str) -> R:
    """Return a record of a class with None in every optional field."""
    values: dict[str, Any] = {
        column.name: None if column.optional else _sample(column) for column in columns_of(record_type)
    }
    return record_type(**{**values, "id": record_id})


def _sample(column: Column) -> Any:
    samples: dict[str, Any] = {"text": f"a {column.name}", "integer": 7, "real": 0.25, "flag": True, "json": NESTED}
    samples |= {"instant": NOW, "names": ["a", "b"], "sealed": f"a {column.name}"}
    return next(iter(cast(Any, column.type))) if column.kind == "status" else samples[column.kind]


class LedgerSuite:
    """Base class of the groups of tests."""

    def make_ledger(self) -> Ledger:
        """Return a new, empty ledger."""
        raise NotImplementedError

    def make_saver(self, ledger: Ledger) -> Checkpointer:
        """Return a saver that can make changes to the ledger in its own transactions."""
        raise NotImplementedError

    def ledger_of(self, *records: Record) -> Ledger:
        """Return a new ledger that contains these records."""
        ledger = self.make_ledger()
        write(ledger, *map(Insert, records))
        return ledger


def write(ledger: Ledger, *changes: Change) -> None:
    """Write changes in one transaction."""
    resolve(ledger.write(changes))


def get_record(ledger: Ledger, record_type: type[R], record_id: str) -> R:
    """Return a record; fail if there is none."""
    record = resolve(ledger.get(record_type, record_id))
    assert record is not None
    return record


def ids(ledger: Ledger, record_type: type[Record], *conditions: Condition, **options: Any) -> list[str]:
    """Return the ids of the records that meet all conditions."""
    return [record.id for record in resolve(ledger.find(record_type, conditions, **options))]


def unique_columns() -> list[tuple[type[Any], tuple[str, ...]]]:
    """Return the class of records and the columns of each uniqueness constraint."""
    return [(record_type, columns) for record_type in RECORDS for columns in record_type.UNIQUE]


def optional_columns(record_type: type[Record]) -> list[str]:
    """Return the columns that may be None."""
    return [column.name for column in columns_of(record_type) if column.optional]


def distinct_values(record_type: type[Record]) -> dict[str, str]:
    """Return values for the columns with uniqueness constraints that no other sample record has, by column."""
    return {column: "distinct" for columns in record_type.UNIQUE for column in columns}


def version_of(record_type: type[Record], record: Any) -> dict[str, int]:
    """Return the field `version` of a run, which each update increments; empty for other records, which lack it."""
    return {"version": record.version} if record_type is Run else {}
