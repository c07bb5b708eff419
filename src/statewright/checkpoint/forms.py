"""Checkpoints and saved results as plain data: the lists, numbers and strings that savers encode.

`plain_x` converts an x to plain data, and `restore_x` reverses the conversion. A thread with many small supersteps
consists mostly of this data, so it is kept short. Ids that can be derived from the checkpoint are omitted. So are empty
elements at the end of a list, which `restore_x` adds again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, cast

from statewright.checkpoint.model import (
    NO_ARG,
    NO_JOINS,
    BranchKey,
    Checkpoint,
    Commit,
    DeferredTask,
    Interrupt,
    InterruptKind,
    JournalEntry,
    JournalKey,
    Pending,
    SavedCheckpoint,
    Source,
    Task,
    TaskResult,
    TimedTask,
    TimeLimit,
    Values,
)
from statewright.clock import instant_of, microseconds
from statewright.errors import DamagedDatabase
from statewright.events import DurableKind, Log
from statewright.events import Entry as LogEntry
from statewright.ids import CheckpointId, InterruptId, TaskId, short_id, whole_id
from statewright.serde.annotations import plain_annotation, restore_annotation
from statewright.serde.serde import Serde

SOURCES: tuple[Source, ...] = ("input", "loop", "update", "fork")
"""Indexes into this tuple are stored, so new sources must be added at the end."""
INTERRUPT_KINDS: tuple[InterruptKind, ...] = ("question", "timer", "event")
"""Indexes into this tuple are stored, so new kinds must be added at the end."""
REPORTED: Final = "\x00reported"
"""The field for the writes that a subgraph reports to its caller. The name cannot be that of a user's field."""

PendingEntry = tuple[int, str, Any]
"""An entry of a `Pending`: its kind, the id of its task or question, and its content as plain data."""


def plain_control(commit: Commit) -> list[Any]:
    """Return all data of a commit's checkpoint except its values.

    It is a list of the time, the step number, the source, the nodes that ran and the frontier, followed by a dict of
    optional data if there is any.
    """
    checkpoint, checkpoint_id, metadata = commit.checkpoint, commit.checkpoint.id, commit.metadata
    plain = [
        microseconds(commit.created_at),
        checkpoint.step,
        SOURCES.index(commit.source),
        metadata.get("nodes", ()),
        [plain_task(task, checkpoint_id, index) for index, task in enumerate(checkpoint.frontier)],
    ]
    optional: dict[str, Any] = {}
    if checkpoint.deferred:
        optional["held"] = [_plain_deferred_task(deferred, checkpoint_id) for deferred in checkpoint.deferred]
    if checkpoint.joins:
        optional["joins"] = {key: sorted(sources) for key, sources in checkpoint.joins.items()}
    if commit.graph_version is not None:
        optional["version"] = commit.graph_version
    if other_metadata := {key: value for key, value in metadata.items() if key != "nodes"}:
        optional["metadata"] = other_metadata
    if key_of(checkpoint_id).hex() != checkpoint_id:  # then the id cannot be derived from the key
        optional["id"] = checkpoint_id
    return [*plain, optional] if optional else plain


def restore_saved_checkpoint(
    control: Sequence[Any],
    key: bytes,
    *,
    branch_key: BranchKey,
    parent_id: CheckpointId | None,
    run_id: str,
    values: Values,
    entries: Sequence[PendingEntry],
    serde: Serde,
) -> SavedCheckpoint:
    """Return a checkpoint from its stored parts: its control data (`plain_control`), its values and saved results."""
    created_at, step, source, nodes, plain_frontier = control[:5]
    optional = _optional_control(control)
    checkpoint_id = id_of(control, key)
    joins = {name: frozenset(cast("list[str]", sources)) for name, sources in optional.get("joins", {}).items()}
    frontier = tuple(restore_task(task, checkpoint_id, index) for index, task in enumerate(plain_frontier))
    checkpoint = Checkpoint(
        checkpoint_id,
        cast(int, step),
        {name: value for name, value in values.items() if name != REPORTED} if REPORTED in values else values,
        frontier,
        tuple(_restore_deferred_task(plain, checkpoint_id) for plain in optional.get("held", ())),
        joins or NO_JOINS,
        tuple((name, update) for name, update in values.get(REPORTED, ())),
    )
    return SavedCheckpoint(
        branch_key=branch_key,
        parent_id=parent_id,
        checkpoint=checkpoint,
        source=SOURCES[cast(int, source)],
        run_id=run_id,
        created_at=instant_of(created_at),
        metadata={"nodes": nodes, **optional.get("metadata", {})},
        pending=restore_pending(entries, frontier, serde) if entries else Pending(),
        graph_version=optional.get("version"),
    )


def id_of(control: Sequence[Any], key: bytes) -> CheckpointId:
    """Return the id of a checkpoint: the id in its control data, or its key in hexadecimal digits."""
    return CheckpointId(_optional_control(control).get("id") or key.hex())


def _optional_control(control: Sequence[Any]) -> dict[str, Any]:
    """Return the dict of optional data at the end of control data; empty if there is none."""
    return control[5] if len(control) > 5 else {}


def key_of(checkpoint_id: str) -> bytes:
    """Return the key of a checkpoint in databases, 16 bytes.

    A generated id consists of 32 hexadecimal digits, which are converted to bytes. Other ids are hashed.
    """
    try:
        key = bytes.fromhex(checkpoint_id)
    except ValueError:
        key = b""
    # `fromhex` also accepts uppercase letters and spaces. Such an id is a different one, so it needs a different key.
    if len(key) == 16 and key.hex() == checkpoint_id:
        return key
    from hashlib import blake2b  # imported here because it loads OpenSSL, and generated ids do not need it

    return blake2b(checkpoint_id.encode(), digest_size=16).digest()


# -- tasks


def plain_task(task: Task, checkpoint_id: str, index: int) -> Any:
    """Return a task of a checkpoint as plain data; `index` is its index in the frontier.

    In the most frequent case this is only the name of the node: the task has no argument, the commit of this checkpoint
    made it due, and its position among the tasks of this commit equals its index in the frontier.
    """
    is_new = task.origin == checkpoint_id
    if is_new and task.position == index and task.arg is NO_ARG:
        return task.node
    plain: list[Any] = [task.node, task.position, None if is_new else short_id(task.origin)]
    if task.arg is not NO_ARG:
        plain.append([task.arg])
    if type(task) is TimedTask:
        plain.extend([None] * (4 - len(plain)))
        plain.append(list(task.timeout))
    return plain


def restore_task(plain: Any, checkpoint_id: str, index: int) -> Task:
    """Return the task from which `plain_task` returned this data."""
    if isinstance(plain, str):
        return Task(plain, NO_ARG, checkpoint_id, index)
    parts: tuple[Any, ...] = (*plain, None, None)
    node, position, stored_origin, stored_arg, timeout = parts[:5]
    origin = checkpoint_id if stored_origin is None else whole_id(stored_origin)
    arg = NO_ARG if stored_arg is None else stored_arg[0]
    if timeout is None:
        return Task(node, arg, origin, position)
    return TimedTask(node, arg, origin, position, TimeLimit(*timeout))


_NO_INDEX: Final = -1
"""The index of a deferred task, which is not in the frontier. No position equals it, so the position is stored."""


def _plain_deferred_task(deferred: DeferredTask, checkpoint_id: str) -> list[Any]:
    return [plain_task(deferred.task, checkpoint_id, _NO_INDEX), deferred.gather, deferred.sender]


def _restore_deferred_task(plain: Sequence[Any], checkpoint_id: str) -> DeferredTask:
    return DeferredTask(restore_task(plain[0], checkpoint_id, _NO_INDEX), gather=plain[1], sender=plain[2])


def plain_result(result: TaskResult) -> list[Any]:
    """Return a result as a list of its writes (a dict or pairs), its targets, and `goto`."""
    writes = result.writes
    plain = writes if isinstance(writes, dict) else [[name, update] for name, update in writes]
    return [plain, list(result.targets), result.goto]


def restore_result(plain: Sequence[Any], task: Task) -> TaskResult:
    """Return the result of a task from which `plain_result` returned this data."""
    writes, targets, goto = plain
    if not isinstance(writes, dict):
        writes = [(name, update) for name, update in cast("list[list[Any]]", writes)]
    return TaskResult(task, cast(Any, writes), targets, goto=goto)


# -- saved results of tasks in a frontier

COMPLETED, INTERRUPTS, ANSWERS, ERRORS, ATTEMPTS, JOURNAL, PAUSED, RETRIES, SETTLED = range(9)
"""The kinds of entries. These numbers are stored, so new kinds must be added at the end."""
_SEPARATOR: Final = "\x1f"


def plain_pending(pending: Pending, serde: Serde) -> list[PendingEntry]:
    """Return saved results as entries."""
    entries: list[PendingEntry] = []
    entries += [(COMPLETED, task, plain_result(result)) for task, result in pending.completed.items()]
    for task, questions in pending.interrupts.items():
        entries.append((INTERRUPTS, task, [_plain_interrupt(question, serde) for question in questions]))
    # Each question has its own entry, so that a task that asks many questions one by one writes each only once.
    entries += [
        (SETTLED, question.id, [task, _plain_interrupt(question, serde)])
        for task, questions in pending.settled.items()
        for question in questions
    ]
    entries += [(ANSWERS, question, answer) for question, answer in pending.answers.items()]
    entries += [(ERRORS, task, error) for task, error in pending.errors.items()]
    entries += [(ATTEMPTS, task, count) for task, count in pending.attempts.items()]
    entries += [(RETRIES, task, microseconds(at)) for task, at in pending.retries.items()]
    entries += [(JOURNAL, journal_text(key), list(record)) for key, record in pending.journal.items()]
    return [*entries, (PAUSED, "", True)] if pending.paused else entries


def journal_text(key: JournalKey) -> str:
    """Return a journal key as text, which is the key of its entry."""
    task, name, ordinal = key
    return f"{task}{_SEPARATOR}{ordinal}{_SEPARATOR}{name}"


def restore_pending(entries: Sequence[PendingEntry], frontier: Sequence[Task], serde: Serde) -> Pending:
    """Return the results from which `plain_pending` returned these entries.

    Raises DamagedDatabase if an entry has an unknown kind, or if it is the result of a task that is not in `frontier`.
    """
    pending = Pending()
    # Entries were saved in the order in which tasks ended, but `Pending` has its questions in task order.
    order = {task.id: index for index, task in enumerate(frontier)} if len(entries) > 1 else {}
    entries = sorted(entries, key=lambda entry: order.get(TaskId(entry[1]), 0))
    tasks = {task.id: task for task in frontier} if any(kind == COMPLETED for kind, _, _ in entries) else {}
    for kind, key, plain in entries:
        task = TaskId(key)
        if kind == COMPLETED:
            if task not in tasks:
                raise DamagedDatabase(f"there is a result of the task {key}, which is not due")
            pending.completed[task] = restore_result(plain, tasks[task])
        elif kind == INTERRUPTS:
            pending.interrupts[task] = tuple(
                _restore_interrupt(question, serde) for question in cast("list[list[Any]]", plain)
            )
        elif kind == ANSWERS:
            pending.answers[InterruptId(key)] = plain
        elif kind == ERRORS:
            pending.errors[task] = plain
        elif kind == ATTEMPTS:
            pending.attempts[task] = plain
        elif kind == RETRIES:
            pending.retries[task] = instant_of(plain)
        elif kind == JOURNAL:
            task_id, ordinal, name = key.split(_SEPARATOR, 2)
            pending.journal[TaskId(task_id), name, int(ordinal)] = JournalEntry(*plain)
        elif kind == SETTLED:
            task = TaskId(plain[0])
            settled = pending.settled.get(task, ())
            pending.settled[task] = (*settled, _restore_interrupt(plain[1], serde))
        elif kind == PAUSED:
            pending.paused = True
        else:
            raise DamagedDatabase(f"there is a saved result of the unknown kind {kind}")
    return pending


def _plain_interrupt(question: Interrupt, serde: Serde) -> list[Any]:
    due = microseconds(question.due_at) if question.due_at is not None else None
    schema = plain_annotation(question.schema, serde.name_of)
    plain = [question.id, INTERRUPT_KINDS.index(question.kind), question.value, question.event, due, schema]
    if question.key is None and question.schema_form is None and not question.namespace:
        return plain
    return [*plain, question.key, question.schema_form, question.namespace]


def _restore_interrupt(plain: list[Any], serde: Serde) -> Interrupt:
    # The list has six elements if the key, the schema form and the namespace were omitted.
    parts: tuple[Any, ...] = (*plain, *(None, None, "")) if len(plain) == 6 else tuple(plain)
    interrupt_id, kind, value, event, due, schema, key, form, namespace = parts
    return Interrupt(
        id=InterruptId(interrupt_id),
        value=value,
        kind=INTERRUPT_KINDS[cast(int, kind)],
        schema=restore_annotation(schema, serde.class_of),
        event=event,
        due_at=instant_of(due) if due is not None else None,
        key=key,
        schema_form=form,
        namespace=namespace,
    )


# -- the event log

EVENT_KINDS: tuple[DurableKind, ...] = (
    "run_started",
    "run_finished",
    "superstep_finished",
    "task_finished",
    "interrupted",
    "model_called",
    "tool_called",
    "step_reported",
    "question_changed",
)
"""Indexes into this tuple are stored, so new kinds must be added at the end."""
_EVENT_NUMBERS: Final[dict[str, int]] = {kind: number for number, kind in enumerate(EVENT_KINDS)}


def plain_log(log: Log, namespace: str) -> list[Any]:
    """Return the log entries of one write as a list: offset, time, namespace, step number, and the entries.

    A row of the database can contain several such lists. The offset is the number of the list's first event minus the
    number of the row's first event. It is 0 here, because this list is the first of its row.
    """
    step = log.entries[0][1]
    return [0, microseconds(log.at), namespace, step, *plain_entries(log, step)]


def plain_entries(log: Log, step: int) -> list[Any]:
    """Return the log entries of one write, without the time and namespace, which are stored with its commit.

    `step` is the step number of the commit.
    """
    return [_plain_entry(*entry, step) for entry in log.entries]


def _plain_entry(kind: str, step: int, node: str | None, task: str | None, data: Any, first_step: int) -> list[Any]:
    number = _EVENT_NUMBERS.get(kind, kind)
    if step == first_step and data is None:
        return [number] if node is None else [number, node, None if task is None else short_id(task)]
    return [number, node, None if task is None else short_id(task), data, step - first_step]


def restore_log(plain: Sequence[Any], run_id: str) -> tuple[str, Log]:
    """Return the namespace and the log entries of a run from which `plain_log` returned this data."""
    _, at, namespace, step, *entries = plain
    return namespace, Log(
        run_id, instant_of(at), tuple(_restore_entry(entry, step) for entry in cast("list[list[Any]]", entries))
    )


def _restore_entry(plain: Sequence[Any], first_step: int) -> LogEntry:
    parts: tuple[Any, ...] = (*plain, None, None, None, None)
    number, node, task, data, steps_later = parts[:5]
    kind: DurableKind = EVENT_KINDS[number] if isinstance(number, int) else number
    return kind, first_step + (steps_later or 0), node, whole_id(task) if task is not None else None, data
