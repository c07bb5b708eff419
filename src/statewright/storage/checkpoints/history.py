"""Reading of checkpoints: states are rebuilt from stored changes.

The newest checkpoints of a line are records, a row each. Older ones are in segments (`segments.py`): the changes of
fields that do not grow, and in rows of their own, by field, the gains of growing fields. A segment may begin with a
`base`, the state of the fields that do not grow. So a state consists of a base, of the few changes since, and of the
content of growing fields, which is stored once. It is rebuilt by walking the path of ancestors from the newest interval
backwards until every field is settled, and applying the parts forwards.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from statewright.channels import Added
from statewright.checkpoint import BranchKey, SavedCheckpoint, Values
from statewright.checkpoint.forms import PendingEntry, id_of, restore_saved_checkpoint
from statewright.clock import instant_of
from statewright.errors import DamagedDatabase
from statewright.ids import CheckpointId
from statewright.storage.checkpoints.folding import SET, Base, Changes, Gain, Part, apply_changes, change_of, fold
from statewright.storage.checkpoints.lines import LineReader
from statewright.storage.database import Connection, Database
from statewright.storage.row_ids import Interval


class State(NamedTuple):
    """The known state of a checkpoint."""

    row_id: int
    values: Values


class HistoryReader(LineReader):
    """Reads checkpoints over one connection, which sees a single state of the database."""

    def __init__(self, connection: Connection, database: Database) -> None:
        super().__init__(connection, database)
        self._serde = database.serde
        self._decode = database.decode

    # -- states

    def state_at(self, row_id: int, *, fields: frozenset[str] | None = None) -> Values:
        """Return the state of a checkpoint, or some fields of it, without reading the gains of the others."""
        values = fold(reversed(list(self._parts(row_id, fields))))
        return values if fields is None else {name: value for name, value in values.items() if name in fields}

    def growing_at(self, row_id: int | None) -> frozenset[str]:
        """Return the growing fields of a checkpoint: their gains are in rows of their own on its whole path.

        Fields with a part among other changes are excluded: in records, or in segments from before they grew.
        """
        if row_id is None:
            return frozenset()
        row = self._connection.execute(
            self._sql["apart"], (row_id, self.ids.bounds(self.ids.line(row_id))[1])
        ).fetchone()
        if row is None or row[0] > self.ids.number(row_id) or row[1] is None:
            return frozenset()
        return frozenset(self._decode(row[1]))

    def _parts(self, row_id: int, fields: frozenset[str] | None) -> Iterator[Part]:
        """Yield the parts of a state, the newest interval first; of growing fields only the requested ones."""
        growing: frozenset[str] | None = None
        settled = set[str]()
        for interval in self.path_to(row_id):
            recent: Sequence[Changes] = [changes for _, changes in self._records(interval)]
            if growing is not None:  # a base has the other fields: only growing ones are needed
                needed = growing - settled
                recent = [{field: change for field, change in changes.items() if field in needed} for changes in recent]
            end = self._end_of_segments(interval)
            base, changes = (None, []) if growing is not None or end is None else self._segments(interval, end)
            gains = self._gains(interval, end, settled, fields) if end is not None else {}
            yield Part(base, changes, gains, recent)
            growing = growing if growing is not None else base[1] if base is not None else None
            if growing is not None and (growing if fields is None else growing & fields) <= settled:
                return

    def _end_of_segments(self, interval: Interval) -> int | None:
        """Return the row id of the segment at the end of an interval, or of the last one before its records."""
        first, last = self.ids.ends(interval)
        row = self._connection.execute(self._sql["segment_at"], (last, self.ids.bounds(interval.line)[1])).fetchone()
        if row is not None and row[1] <= interval.last:
            return row[0]
        row = self._connection.execute(self._sql["segment_before"], (first, last)).fetchone()
        return row[0] if row is not None else None

    def _segments(self, interval: Interval, end: int) -> tuple[Base | None, list[Changes]]:
        """Return the newest base in an interval, and the changes of all checkpoints after it."""
        later: list[Changes] = []
        rows = self._connection.execute(self._sql["segments"], (self.ids.ends(interval)[0], end))
        for _, first, base, changes in rows:
            if changes is not None:
                count = interval.last - first + 1
                later.extend(reversed(self._decode(changes)[:count]))
            if base is not None:
                values, growing = self._decode(base)
                return (values, frozenset(growing)), later[::-1]
        return None, later[::-1]

    def _gains(
        self, interval: Interval, end: int, settled: set[str], fields: frozenset[str] | None
    ) -> dict[str, list[Gain]]:
        """Return the gains of growing fields in an interval; fields that are set in it are settled then."""
        gains: dict[str, list[Gain]] = {}
        needed = self._fields(interval.line) - settled
        for field in sorted(needed if fields is None else needed & fields):
            entries: list[list[Gain]] = []
            rows = self._connection.execute(
                self._sql["grown"], (interval.line, field, interval.first, self.ids.number(end))
            )
            for whole, body in rows:
                entries.append([gain for gain in self._decode(body) if gain[0] <= interval.last])
                if whole and any(kind == SET for _, kind, _ in entries[-1]):
                    settled.add(field)
                    break
            gains[field] = [gain for row in reversed(entries) for gain in row]
        return gains

    def _fields(self, line: int) -> frozenset[str]:
        return frozenset(field for (field,) in self._connection.execute(self._sql["fields"], (line,)))

    def _records(self, interval: Interval) -> list[tuple[int, Changes]]:
        """Return the row ids and the changes of the checkpoints of an interval that are records."""
        rows = self._connection.execute(self._sql["records"], self.ids.ends(interval))
        return [(row_id, self._decode(changes) if changes is not None else {}) for row_id, changes in rows]

    # -- checkpoints

    def checkpoint_at(self, row_id: int, branch_key: BranchKey) -> SavedCheckpoint:
        """Return a checkpoint with the results that were saved for its frontier."""
        return self.checkpoints([row_id], branch_key)[0]

    def checkpoints(
        self, row_ids: Sequence[int], branch_key: BranchKey, child: State | None = None
    ) -> list[SavedCheckpoint]:
        """Return checkpoints of one path, the newest first.

        `child` is a checkpoint whose parent is the newest of them: fields that older states share with it are not read.
        """
        return list(reversed([*self._oldest_first(list(reversed(row_ids)), branch_key, child)])) if row_ids else []

    def _oldest_first(
        self, row_ids: Sequence[int], branch_key: BranchKey, child: State | None
    ) -> Iterator[SavedCheckpoint]:
        """Yield checkpoints of one path, the oldest first: from the state of the first one and the changes since."""
        later = [*row_ids[1:], child.row_id] if child is not None else row_ids[1:]
        controls = self.controls(row_ids)
        changes = self.changes_by_row(later)
        if child is None:
            values = self.state_at(row_ids[0])
        else:
            values = self._state_before(row_ids[0], child, [changes.get(row_id, {}) for row_id in later])
        entries = self._entries_of(row_ids)
        for position, row_id in enumerate(row_ids):
            if position:
                values = values.copy()
                apply_changes(values, changes.get(row_id, {}))
            parent = row_ids[position - 1] if position else self.parent_of(row_id)
            if parent is not None and parent not in controls:
                controls.update(self.controls([parent]))
            key, run_id, control = controls[row_id]
            yield restore_saved_checkpoint(
                control,
                key,
                branch_key=branch_key,
                parent_id=_id_of(controls[parent]) if parent is not None else None,
                run_id=run_id,
                values=values,
                entries=entries.get(row_id, ()),
                serde=self._serde,
            )

    def _state_before(self, row_id: int, child: State, since: Sequence[Changes]) -> Values:
        """Return the state of a checkpoint from a later state and all changes in between.

        Fields without changes, or with items appended, are taken from there; only the others are read.
        """
        gained: dict[str, int] = {}
        replaced = set[str]()
        for changes in since:
            for field, change in changes.items():
                if type(change) is Added:
                    gained[field] = gained.get(field, 0) + len(change.items)
                else:
                    replaced.add(field)
        replaced.update(field for field in gained if not isinstance(child.values.get(field), list))
        read = self.state_at(row_id, fields=frozenset(replaced)) if replaced else {}
        for field, value in child.values.items():
            if field not in replaced:
                read[field] = value[: len(value) - gained[field]] if field in gained else value
        return read

    def ages(self, line: int) -> list[tuple[datetime, bytes, int]]:
        """Return the time, the key of the id and the row id of each checkpoint of a line."""
        last = self.head_of(line)
        if last is None:
            return []
        first = self._connection.execute(
            self._sql["first"], {"first": self.ids.row_id(line, 0), "last": last}
        ).fetchone()[0]
        self.check_capacity(Interval(line, first, self.ids.number(last)))
        controls = self.controls(range(self.ids.row_id(line, first), last + 1))
        return [(instant_of(control[0]), key, row_id) for row_id, (key, _, control) in controls.items()]

    def check_capacity(self, interval: Interval) -> None:
        """Raise DamagedDatabase if the file has fewer checkpoints than an interval.

        A single damaged number could make an interval of billions, which must not be iterated.
        """
        first, last = self.ids.ends(interval)
        bounds = {"first": first, "last": last, "end": self.ids.bounds(interval.line)[1]}
        count = self._connection.execute(self._sql["capacity"], bounds).fetchone()[0] if interval.first >= 0 else 0
        if count <= interval.last - interval.first:
            raise DamagedDatabase(
                f"line {interval.line} has {count} checkpoints from {interval.first} to {interval.last}"
            )

    def id_at(self, row_id: int) -> CheckpointId:
        """Return the id of a checkpoint."""
        return _id_of(self.controls([row_id])[row_id])

    def controls(self, row_ids: Sequence[int]) -> dict[int, _ControlRow]:
        """Return all data of checkpoints except their states, by row id."""
        controls_by_row: dict[int, _ControlRow] = {}
        for first, last in _runs_of(row_ids):
            for row_id, key, run, control in self._connection.execute(self._sql["controls"], (first, last)):
                controls_by_row[row_id] = (key, run, self._decode(control))
            for segment, number, ids, controls in self._overlapping(self._sql["segment_controls"], first, last):
                runs, segment_controls = self._decode(controls)
                for offset, (run, control) in enumerate(segment_controls):
                    row_id = self.ids.row_id(self.ids.line(segment), number + offset)
                    if first <= row_id <= last:
                        controls_by_row[row_id] = (ids[offset * 16 : offset * 16 + 16], runs[run], control)
        if len(controls_by_row) < len(row_ids):
            missing = next(row_id for row_id in row_ids if row_id not in controls_by_row)
            raise DamagedDatabase(f"checkpoint {self.ids.number(missing)} of line {self.ids.line(missing)} is missing")
        return controls_by_row

    def _overlapping(self, query: str, first: int, last: int) -> Iterable[Any]:
        """Query the segments with some of the row ids of one line from `first` to `last`."""
        return self._connection.execute(query, (first, self.ids.bounds(self.ids.line(first))[1], self.ids.number(last)))

    def changes_by_row(self, row_ids: Sequence[int]) -> dict[int, dict[str, Any]]:
        """Return the changes of checkpoints by row id."""
        changes_by_row: dict[int, dict[str, Any]] = {}
        for first, last in _runs_of(row_ids):
            line = self.ids.line(first)
            for row_id, changes in self._records(Interval(line, self.ids.number(first), self.ids.number(last))):
                changes_by_row[row_id] = dict(changes)
            for segment, number, _, changes in self._overlapping(self._sql["segment_changes"], first, last):
                for offset, change in enumerate(self._decode(changes) if changes is not None else ()):
                    changes_by_row.setdefault(self.ids.row_id(line, number + offset), {}).update(change)
                for field, body in self._connection.execute(self._sql["grown_in"], (line, self.ids.number(segment))):
                    for number_in_line, kind, gained in self._decode(body):
                        changes_by_row.setdefault(self.ids.row_id(line, number_in_line), {})[field] = change_of(
                            kind, gained
                        )
        return changes_by_row

    def _entries_of(self, row_ids: Sequence[int]) -> dict[int, list[PendingEntry]]:
        """Return the results that were saved for the frontiers of checkpoints."""
        entries: dict[int, list[PendingEntry]] = {}
        for first, last in _runs_of(row_ids):
            for row_id, kind, key, body in self._connection.execute(self._sql["pending"], (first, last)):
                entries.setdefault(row_id, []).append((kind, key, self._decode(body)))
        return entries

    # -- logs

    def log(self, thread: int, run: int, after: int = 0) -> list[tuple[int, list[Any]]]:
        """Return the batches of the log of a run in order, each with the number of its first event."""
        batches: list[tuple[int, list[Any]]] = []
        for row_id, body in self._connection.execute(self._sql["events"], self.ids.bounds(run)):
            first, *rest = self._decode(body)
            batches.append((self.ids.number(row_id), first))
            batches.extend((self.ids.number(row_id) + batch[0], [0, first[1] + batch[1], *batch[2:]]) for batch in rest)
        for (line,) in self._connection.execute(self._sql["thread_lines"], (thread,)).fetchall():
            batches.extend(self.log_of_line(line, run=run).get(run, ()))
        batches.sort(key=lambda batch: batch[0])
        return [(number, [0, *batch[1:]]) for number, batch in batches if number + len(batch) - 5 >= after]

    def next_number(self, thread: int, run: int) -> int:
        """Return the number of the next event in the log of a run."""
        return max((number + len(batch) - 4 for number, batch in self.log(thread, run)), default=1)

    def log_of_line(
        self, line: int, last: int | None = None, *, run: int | None = None
    ) -> dict[int, list[tuple[int, list[Any]]]]:
        """Return the parts of logs in the records of a line up to a number, by run, in the form of rows of logs."""
        logs: dict[int, list[tuple[int, list[Any]]]] = {}
        row = self._connection.execute(self._sql["namespace"], (line,)).fetchone()
        end = self.ids.last_number if last is None else last
        rows = self._connection.execute(self._sql["record_logs"], self.ids.ends(Interval(line, 0, end)))
        for record_run, number, control, events in rows:
            if run is None or run == record_run:
                at, step = self._decode(control)[:2]
                batches = logs.setdefault(record_run, [])
                first = batches[0][0] if batches else number
                batches.append((number, [number - first, at, row[0], step, *self._decode(events)]))
        return logs


_ControlRow = tuple[bytes, str, Any]
"""The key of the id of a checkpoint, its run, and everything else except its state."""


def _id_of(control_row: _ControlRow) -> CheckpointId:
    key, _, control = control_row
    return id_of(control, key)


def _runs_of(row_ids: Sequence[int]) -> Sequence[Sequence[int]]:
    """Return the first and the last of consecutive row ids."""
    if isinstance(row_ids, range):
        return [(row_ids[0], row_ids[-1])] if row_ids else []
    runs: list[list[int]] = []
    for row_id in row_ids:
        if runs and row_id == runs[-1][1] + 1:
            runs[-1][1] = row_id
        else:
            runs.append([row_id, row_id])
    return runs
