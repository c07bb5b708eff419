"""Reading of checkpoints, whose states are computed from stored changes.

The newest checkpoints of a line are stored in records, one row for each. Older checkpoints are in segments
(`segments.py`), which contain the changes of fields that do not grow; the gains of each growing field are in rows of
their own. A segment may contain a `base`, which is the state of the fields that do not grow before the
segment. A state therefore consists of a base, the few changes since then, and the content of growing fields, which is
stored only once. To compute a state, the reader walks along the path of ancestors, beginning with the newest interval,
until no earlier data can affect the state. It then applies what it has read, beginning with the oldest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

from statewright.channels import Added
from statewright.checkpoint import BranchKey, SavedCheckpoint, Values
from statewright.checkpoint.forms import REPORTED, PendingEntry, id_of, restore_saved_checkpoint
from statewright.clock import instant_of
from statewright.errors import DamagedDatabase
from statewright.ids import CheckpointId
from statewright.storage.checkpoints.folding import SET, Base, Changes, Gain, Part, apply_changes, change_of, fold
from statewright.storage.checkpoints.lines import LineReader
from statewright.storage.database import Connection, Database
from statewright.storage.row_ids import Interval

STORED_REPORTED: Final = "\x01"
"""The name of the field `REPORTED` in the table `grown`, where its own name cannot be stored because of its null
character. Such a row exists only if an earlier version has stored this field as a growing one in a file, and then the
name may also be that of the field. It is sorted among the names of other fields like that name."""


def _field_of(name: str) -> str:
    """Return the field that has a name in the table `grown`."""
    return REPORTED if name == STORED_REPORTED else name


class State(NamedTuple):
    """A checkpoint whose state has already been computed."""

    row_id: int
    values: Values


class HistoryReader(LineReader):
    """Reads checkpoints from a connection, which sees a consistent snapshot of the database."""

    def __init__(self, connection: Connection, database: Database) -> None:
        super().__init__(connection, database)
        self._serde = database.serde
        self._decode = database.decode

    # -- states

    def state_at(self, row_id: int, *, fields: frozenset[str] | None = None) -> Values:
        """Return the state of a checkpoint. With `fields`, return only these fields; gains of others are not read."""
        values = fold(reversed(list(self._parts(row_id, fields))))
        return values if fields is None else {name: value for name, value in values.items() if name in fields}

    def growing_at(self, row_id: int | None) -> frozenset[str]:
        """Return the fields of a checkpoint all of whose changes, on its whole path, are stored as gains.

        Fields that have changes in records, or in segments written before they were found to grow, are excluded.
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
        """Yield the parts of a state, newest interval first. With `fields`, the gains of other fields are left out."""
        # The growing fields according to the newest base. Once a base was found, only their earlier data is needed.
        growing: frozenset[str] | None = None
        # Growing fields whose value was replaced, so that earlier data cannot affect them.
        settled = set[str]()
        for interval in self.path_to(row_id):
            recent: Sequence[Changes] = [changes for _, changes in self._records(interval)]
            if growing is not None:
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
        """Return the row id of the last segment in an interval; None if the interval has none.

        The segment may contain checkpoints after the end of the interval.
        """
        first, last = self.ids.ends(interval)
        row = self._connection.execute(self._sql["segment_at"], (last, self.ids.bounds(interval.line)[1])).fetchone()
        if row is not None and row[1] <= interval.last:
            return row[0]
        row = self._connection.execute(self._sql["segment_before"], (first, last)).fetchone()
        return row[0] if row is not None else None

    def _segments(self, interval: Interval, end: int) -> tuple[Base | None, list[Changes]]:
        """Return the newest base in an interval, and the changes of all checkpoints after it.

        `end` is the row id of the last segment. If there is no base, return None and the changes of all checkpoints.
        """
        newest_first: list[Changes] = []
        rows = self._connection.execute(self._sql["segments"], (self.ids.ends(interval)[0], end))
        for _, first, base, changes in rows:
            if changes is not None:
                count = interval.last - first + 1
                newest_first.extend(reversed(self._decode(changes)[:count]))
            if base is not None:
                values, growing = self._decode(base)
                return (values, frozenset(growing)), newest_first[::-1]
        return None, newest_first[::-1]

    def _gains(
        self, interval: Interval, end: int, settled: set[str], fields: frozenset[str] | None
    ) -> dict[str, list[Gain]]:
        """Return the gains of growing fields in an interval, by field, without fields that are already settled.

        Fields whose value is replaced in the interval are added to `settled`. `end` is the row id of the last segment.
        """
        gains: dict[str, list[Gain]] = {}
        needed = self._growing_fields(interval.line) - settled
        for field in sorted(needed if fields is None else needed & fields):
            gains_by_row: list[list[Gain]] = []
            name = self.name_in_grown(interval.line, field)
            rows = self._connection.execute(
                self._sql["grown"], (interval.line, name, interval.first, self.ids.number(end))
            )
            for replaces_value, body in rows:
                gains_by_row.append([gain for gain in self._decode(body) if gain[0] <= interval.last])
                if replaces_value and any(kind == SET for _, kind, _ in gains_by_row[-1]):
                    settled.add(field)
                    break
            gains[field] = [gain for row_gains in reversed(gains_by_row) for gain in row_gains]
        return gains

    def _growing_fields(self, line: int) -> frozenset[str]:
        """Return the fields that have gains in a line."""
        return frozenset(map(_field_of, self._names_in_grown(line)))

    def _names_in_grown(self, line: int) -> list[str]:
        return [name for (name,) in self._connection.execute(self._sql["fields"], (line,))]

    def name_in_grown(self, line: int, field: str) -> str:
        """Return the name of a field in the rows of its gains in a line."""
        if field != REPORTED:
            return field
        return field if field in self._names_in_grown(line) else STORED_REPORTED

    def _records(self, interval: Interval) -> list[tuple[int, Changes]]:
        """Return the row ids and the changes of the checkpoints in an interval that are stored in records."""
        rows = self._connection.execute(self._sql["records"], self.ids.ends(interval))
        return [(row_id, self._decode(changes) if changes is not None else {}) for row_id, changes in rows]

    # -- checkpoints

    def checkpoint_at(self, row_id: int, branch_key: BranchKey) -> SavedCheckpoint:
        """Return a checkpoint, with the saved results of the tasks in its frontier."""
        return self.checkpoints([row_id], branch_key)[0]

    def checkpoints(
        self, row_ids: Sequence[int], branch_key: BranchKey, child: State | None = None
    ) -> list[SavedCheckpoint]:
        """Return checkpoints, newest first, each of which is the parent of the one before it.

        `child` is a checkpoint whose parent is the first of them, and whose state is known. Fields with equal
        values in both states are not read again.
        """
        return list(reversed([*self._oldest_first(list(reversed(row_ids)), branch_key, child)])) if row_ids else []

    def _oldest_first(
        self, row_ids: Sequence[int], branch_key: BranchKey, child: State | None
    ) -> Iterator[SavedCheckpoint]:
        """Yield checkpoints, oldest first. Each state after the first is computed from the state before it."""
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

    def outlines(self, row_ids: Sequence[int], branch_key: BranchKey) -> list[SavedCheckpoint]:
        """Return checkpoints without their values and without the results of tasks, in the order of the row ids.

        The number of queries depends on the number of lines and segments, not on that of checkpoints.
        """
        ordered = sorted(row_ids)
        controls = self.controls(ordered)
        jumps: dict[int, int | None] = {}
        for first, last in _consecutive_ranges(ordered):
            jumps.update(self._connection.execute(self._sql["jumps_between"], (first, last)).fetchall())
        parents = {
            row_id: jumps[row_id] if row_id in jumps else row_id - 1 if self.ids.number(row_id) else None
            for row_id in ordered
        }
        others = {parent for parent in parents.values() if parent is not None and parent not in controls}
        controls.update(self.controls(sorted(others)))

        def outline(row_id: int) -> SavedCheckpoint:
            key, run_id, control = controls[row_id]
            parent = parents[row_id]
            return restore_saved_checkpoint(
                control,
                key,
                branch_key=branch_key,
                parent_id=_id_of(controls[parent]) if parent is not None else None,
                run_id=run_id,
                values={},
                entries=(),
                serde=self._serde,
            )

        return [outline(row_id) for row_id in row_ids]

    def _state_before(self, row_id: int, child: State, changes_since: Sequence[Changes]) -> Values:
        """Return the state of a checkpoint, given the state of a descendant and all changes in between.

        Fields that have not changed, or to which items were only added, are derived from the descendant's state. Only
        other fields are read.
        """
        added_counts: dict[str, int] = {}
        replaced = set[str]()
        for changes in changes_since:
            for field, change in changes.items():
                if type(change) is Added:
                    added_counts[field] = added_counts.get(field, 0) + len(change.items)
                else:
                    replaced.add(field)
        replaced.update(field for field in added_counts if not isinstance(child.values.get(field), list))
        values = self.state_at(row_id, fields=frozenset(replaced)) if replaced else {}
        for field, value in child.values.items():
            if field not in replaced:
                values[field] = value[: len(value) - added_counts[field]] if field in added_counts else value
        return values

    def ages(self, line: int) -> list[tuple[datetime, bytes, int]]:
        """Return the creation time, the key and the row id of each checkpoint in a line."""
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
        """Raise DamagedDatabase if the database has fewer checkpoints in an interval than it should.

        If a stored number is damaged, an interval may seem to have billions of checkpoints. It must not be iterated.
        """
        first, last = self.ids.ends(interval)
        bounds = {"first": first, "last": last, "end": self.ids.bounds(interval.line)[1]}
        count = self._connection.execute(self._sql["capacity"], bounds).fetchone()[0] if interval.first >= 0 else 0
        if count <= interval.last - interval.first:
            raise DamagedDatabase(
                f"line {interval.line} has only {count} checkpoints from number {interval.first} to {interval.last}"
            )

    def id_at(self, row_id: int) -> CheckpointId:
        """Return the id of a checkpoint."""
        return _id_of(self.controls([row_id])[row_id])

    def controls(self, row_ids: Sequence[int]) -> dict[int, _ControlRow]:
        """Return all data of checkpoints except their states, by row id. Raises DamagedDatabase if one is missing."""
        controls_by_row: dict[int, _ControlRow] = {}
        for first, last in _consecutive_ranges(row_ids):
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
        """Execute a query for the segments that contain row ids from `first` to `last`, which are of one line."""
        return self._connection.execute(query, (first, self.ids.bounds(self.ids.line(first))[1], self.ids.number(last)))

    def changes_by_row(self, row_ids: Sequence[int]) -> dict[int, dict[str, Any]]:
        """Return the changes of checkpoints, by row id."""
        changes_by_row: dict[int, dict[str, Any]] = {}
        for first, last in _consecutive_ranges(row_ids):
            line = self.ids.line(first)
            for row_id, changes in self._records(Interval(line, self.ids.number(first), self.ids.number(last))):
                changes_by_row[row_id] = dict(changes)
            for segment, number, _, changes in self._overlapping(self._sql["segment_changes"], first, last):
                for offset, change in enumerate(self._decode(changes) if changes is not None else ()):
                    changes_by_row.setdefault(self.ids.row_id(line, number + offset), {}).update(change)
                for name, body in self._connection.execute(self._sql["grown_in"], (line, self.ids.number(segment))):
                    field = _field_of(name)
                    for number_in_line, kind, content in self._decode(body):
                        row_changes = changes_by_row.setdefault(self.ids.row_id(line, number_in_line), {})
                        row_changes[field] = change_of(kind, content)
        return changes_by_row

    def _entries_of(self, row_ids: Sequence[int]) -> dict[int, list[PendingEntry]]:
        """Return the saved results of tasks in the frontiers of checkpoints, by row id."""
        entries: dict[int, list[PendingEntry]] = {}
        for first, last in _consecutive_ranges(row_ids):
            for row_id, kind, key, body in self._connection.execute(self._sql["pending"], (first, last)):
                entries.setdefault(row_id, []).append((kind, key, self._decode(body)))
        return entries

    # -- logs

    def log(self, thread: int, run: int, after: int = 0) -> list[tuple[int, list[Any]]]:
        """Return the event log of a run in batches, each of which was added by one write.

        A batch is in the form of `checkpoint.forms.plain_log`, together with the number of its first event. Batches
        whose events all have numbers below `after` are left out.
        """
        batches: list[tuple[int, list[Any]]] = []
        for row_id, body in self._connection.execute(self._sql["events"], self.ids.bounds(run)):
            first, *others = self._decode(body)
            batches.append((self.ids.number(row_id), first))
            # The offsets and times of other batches in a row are relative to the first batch.
            batches.extend(
                (self.ids.number(row_id) + batch[0], [0, first[1] + batch[1], *batch[2:]]) for batch in others
            )
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
        """Return the batches of event logs that are stored in the records of a line, by the number of the run.

        `last` is the number of the last record to read; None for all. With `run`, return only the batches of this run.
        The offset in a batch is relative to the first batch of its run, as in a row of the table of logs.
        """
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
"""The key of a checkpoint, its run id, and its control data (`checkpoint.forms.plain_control`)."""


def _id_of(control_row: _ControlRow) -> CheckpointId:
    key, _, control = control_row
    return id_of(control, key)


def _consecutive_ranges(row_ids: Sequence[int]) -> Sequence[Sequence[int]]:
    """Group consecutive row ids, and return the first and the last row id of each group."""
    if isinstance(row_ids, range):
        return [(row_ids[0], row_ids[-1])] if row_ids else []
    ranges: list[list[int]] = []
    for row_id in row_ids:
        if ranges and row_id == ranges[-1][1] + 1:
            ranges[-1][1] = row_id
        else:
            ranges.append([row_id, row_id])
    return ranges
