"""Set the number of each run's next event after its log is copied. Only some databases store this number with the run.

The log of a run is stored in two places: in rows of the table `events`, and in the column `events` of the table
`records`. Each of these rows has the number of its first event, so the number of the run's next event follows from its
last row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ormsgpack

from statewright.storage.copy.rows import Row
from statewright.storage.copy.tables import CopiedTable
from statewright.storage.damage import report_damage
from statewright.storage.database import Connection, Database
from statewright.storage.encryption import Encryptor


def advance_next_event_numbers(
    connection: Connection, target: Database, table: CopiedTable, rows: Sequence[Row], encryptor: Encryptor
) -> None:
    """For each run in these rows, increase its stored next event number past the events in them.

    Does nothing if the target stores no such number. `encryptor` is that of the source: values in `rows` are still
    compressed, and still encrypted if they are copied as stored.
    """
    advance_next_event = target.statements("copy").get("advance_next_event")
    if advance_next_event is None or table.name not in ("records", "events"):
        return
    names = [column.name for column in table.columns]
    next_events: dict[int, int] = {}
    with report_damage(f"a row of {table.name}"):
        for row in rows:
            values = dict(zip(names, row, strict=True))
            run, number = _next_event(values, encryptor)
            next_events[run] = max(number, next_events.get(run, 1))
    connection.execute(advance_next_event, (list(next_events), list(next_events.values())))


def _next_event(values: dict[str, Any], encryptor: Encryptor) -> tuple[int, int]:
    """Return the row's run, by number, and the number that follows the row's last event."""
    if "body" in values:  # a row of `events` has batches: [offset, time, namespace, step, *events]
        run, first = values["place"]  # in this table: the run, and the number of its first event in this row
        batches = _unpack(encryptor.decrypt(values["body"]))
        return run, max(first + batch[0] + len(batch) - 4 for batch in batches)
    if values["events"] is None:
        return values["run"], 1
    return values["run"], values["number"] + len(_unpack(encryptor.decrypt(values["events"])))


def _unpack(data: bytes) -> Any:
    """Decode MessagePack data. Extension values become None, because their classes may be unknown here."""
    return ormsgpack.unpackb(data, ext_hook=lambda tag, value: None, option=ormsgpack.OPT_NON_STR_KEYS)
