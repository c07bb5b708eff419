"""The number of the next event in the log of a run, which some databases store with the run.

The log of a run is a row for each write, in `events`, and a part of the records of its checkpoints. Each has the number
of its first event, and the number of the next one follows from the last.
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


def raise_next_events(
    connection: Connection, target: Database, table: CopiedTable, rows: Sequence[Row], encryptor: Encryptor
) -> None:
    """Store the numbers of the events that follow rows of a table, if the target stores such numbers.

    `encryptor` is that of the database from which the rows were read.
    """
    raise_next = target.statements("copy").get("raise_next")
    if raise_next is None or table.name not in ("records", "events"):
        return
    names = [column.name for column in table.columns]
    next_events: dict[int, int] = {}
    with report_damage(f"a row of {table.name}"):
        for row in rows:
            values = dict(zip(names, row, strict=True))
            run, number = _next_event(values, encryptor)
            next_events[run] = max(number, next_events.get(run, 1))
    connection.execute(raise_next, (list(next_events), list(next_events.values())))


def _next_event(values: dict[str, Any], encryptor: Encryptor) -> tuple[int, int]:
    """Return the number of a run, and that of the event after those in a row."""
    if "body" in values:  # a row of `events`: batches, each with its offset, and its events after three other values
        run, first = values["place"]
        batches = _unpack(encryptor.decrypt(values["body"]))
        return run, max(first + batch[0] + len(batch) - 4 for batch in batches)
    if values["events"] is None:
        return values["run"], 1
    return values["run"], values["number"] + len(_unpack(encryptor.decrypt(values["events"])))


def _unpack(data: bytes) -> Any:
    """Return MessagePack data without extensions, whose classes may be unknown here."""
    return ormsgpack.unpackb(data, ext_hook=lambda tag, value: None, option=ormsgpack.OPT_NON_STR_KEYS)
