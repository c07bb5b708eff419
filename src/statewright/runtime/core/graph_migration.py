"""Resume threads that another version of the graph has saved: migrate them, or refuse them with a reason.

Renamed nodes list their former names in `aliases`; states are changed by the graph's migrations. Everything in a
checkpoint that names a node is renamed: tasks, arrivals at joins, saved results and their targets, senders, and the
nodes that ran last. Whatever does not fit after that raises GraphVersionMismatch, which names it. A thread is never
finished silently because its nodes are gone.

A name that is a node of this graph means that node, even if it is also an alias of another one.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

from statewright.channels import copy_fields
from statewright.checkpoint import (
    Checkpoint,
    DeferredTask,
    Interrupt,
    Joins,
    Pending,
    SavedCheckpoint,
    Task,
    TaskResult,
    TimedTask,
    check_value,
)
from statewright.errors import GraphVersionMismatch, QuestionChanged, QuestionMismatch, suggestion
from statewright.fingerprint import fingerprint
from statewright.graph import END, START, STOP, Graph, JoinEdge, NodeError, Send
from statewright.ids import interrupt_id
from statewright.runtime.core.events import emit_task_event, warn_unknown_field
from statewright.runtime.core.fold import pairs_of
from statewright.runtime.core.program import Program
from statewright.runtime.invocation.run import Run
from statewright.runtime.tasks.scope import Scope

PLACES = frozenset((START, END, STOP))
"""Valid targets that are not nodes."""


def fitted(program: Program, saved: SavedCheckpoint) -> SavedCheckpoint:
    """Return the saved thread as this version of the graph would have saved it. Raises GraphVersionMismatch."""
    graph = program.graph
    checkpoint = saved.checkpoint
    same_version = saved.graph_version == graph.version
    if same_version and not checkpoint.values.keys() <= program.channels.keys():
        _refuse_or_warn(program, saved)
    if same_version and _names_known_nodes(program, saved):
        return saved
    renaming = _Renaming(program)
    values = checkpoint.values if same_version else _migrated(graph, saved)
    fitting = Checkpoint(
        checkpoint.id,
        checkpoint.step,
        values,
        tuple(map(renaming.task, checkpoint.frontier)),
        tuple(map(renaming.held, checkpoint.held)),
        renaming.joins(checkpoint.joins),
        checkpoint.reported,
    )
    pending = renaming.pending(saved.pending)
    problems = [*_problems(program, fitting, pending), *renaming.problems]
    if problems:
        raise GraphVersionMismatch(
            saved.line.thread_id, graph.name, problems, found=saved.graph_version, version=graph.version
        )
    metadata = {**saved.metadata, "nodes": [renaming.node(name) for name in saved.metadata.get("nodes", ())]}
    return replace(saved, checkpoint=fitting, pending=pending, metadata=metadata)


def _refuse_or_warn(program: Program, saved: SavedCheckpoint) -> None:
    """Warn of saved fields that the state does not have any more; raise GraphVersionMismatch where keys are strict.

    They stay in the checkpoints, but no node sees them: most often a field was renamed.
    """
    graph, unknown_keys = program.graph, program.unknown_keys
    if not graph.schema.closed or unknown_keys == "drop":
        return
    unknown = sorted(saved.checkpoint.values.keys() - program.channels.keys())
    if unknown_keys == "error":
        problems = [_unknown_field(program, name) for name in unknown]
        raise GraphVersionMismatch(
            saved.line.thread_id, graph.name, problems, found=saved.graph_version, version=graph.version
        )
    for name in unknown:
        warn_unknown_field(program, name, _unknown_field(program, name))


def _unknown_field(program: Program, name: str) -> str:
    return f"The state holds {name!r}, which is no field. {suggestion(name, program.channels, noun='Fields')}"


def _names_known_nodes(program: Program, saved: SavedCheckpoint) -> bool:
    """True if every node that the checkpoint names, and every join, is one of this graph."""
    nodes, checkpoint = program.nodes, saved.checkpoint
    for task in checkpoint.frontier:
        if task.node not in nodes:
            return False
    for name in saved.metadata.get("nodes", ()):
        if name not in nodes:
            return False
    if checkpoint.joins and not checkpoint.joins.keys() <= program.join_keys:
        return False
    if checkpoint.held and not all(one.task.node in nodes and _is_sender(program, one) for one in checkpoint.held):
        return False
    landed = saved.pending.completed
    return not landed or all(name in nodes or name in PLACES for result in landed.values() for name in _led_to(result))


def _is_sender(program: Program, held: DeferredTask) -> bool:
    """True unless the order of a gathered argument depends on a node that does not exist."""
    return not held.gather or held.sender in program.nodes


def _led_to(result: TaskResult) -> Iterator[str]:
    """Return the target nodes of a result, without those that a Command for the parent graph names."""
    for target in result.targets:
        if type(target) is Send:
            yield target.node
        elif type(target) is str:
            yield target


def _migrated(graph: Graph, saved: SavedCheckpoint) -> dict[str, Any]:
    """Return the state after all migrations from its version to that of the graph."""
    values, version, seen = copy_fields(saved.checkpoint.values), saved.graph_version, set[str | None]()
    while version != graph.version and version in graph.migrations:
        if version in seen:
            problems = [f"The migrations lead from version {version!r} to itself."]
            raise GraphVersionMismatch(
                saved.line.thread_id, graph.name, problems, found=saved.graph_version, version=graph.version
            )
        seen.add(version)
        migration = graph.migrations[version]
        values, version = dict(migration.change(values)), migration.to_version
    return values


def _problems(program: Program, checkpoint: Checkpoint, pending: Pending) -> Iterable[str]:
    """Return the parts of a checkpoint that do not fit the graph."""
    channels, held = program.channels, checkpoint.held
    for name in _unknown(program, (task.node for task in (*checkpoint.frontier, *(one.task for one in held)))):
        yield f"Node {name!r} is due, and there is none. {_suggested(program, name)}"
    for name in sorted({one.sender for one in held if not _is_sender(program, one)}):
        yield f"Node {name!r} has sent what is still to be gathered, and there is none. {_suggested(program, name)}"
    landed = pending.completed.values()
    for name in _unknown(program, (name for result in landed for name in _led_to(result))):
        sources = ", ".join(sorted({repr(one.task.node) for one in landed if name in _led_to(one)}))
        yield f"The saved result of {sources} leads to {name!r}, and there is none. {_suggested(program, name)}"
    if not program.graph.schema.closed:
        return
    for name in sorted(set(checkpoint.values) - channels.keys()):
        yield _unknown_field(program, name)
    if checkpoint.at_rest:
        return
    updates = (*checkpoint.reported, *(pair for result in landed for pair in pairs_of(result)))
    for name in sorted({name for name, _ in updates} - channels.keys() - set(checkpoint.values)):
        yield f"A saved result writes {name!r}, which is no field. {suggestion(name, channels, noun='Fields')}"


def _unknown(program: Program, names: Iterable[str]) -> list[str]:
    nodes = program.nodes
    return sorted({name for name in names if name not in nodes and name not in PLACES})


def _suggested(program: Program, name: str) -> str:
    return suggestion(name, program.graph.nodes, noun="Nodes")


class _Renaming:
    """Renames nodes in data saved by a former version of the graph, and collects the joins that are gone."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._joins = {(frozenset(join.starts), join.end): join.key for join in program.graph.joins}
        self.problems: list[str] = []

    def node(self, name: str) -> str:
        return self._program.current_name(name)

    def joins(self, joins: Joins) -> Joins:
        renamed: dict[str, frozenset[str]] = {}
        for key, arrived in joins.items():
            edge = JoinEdge.from_key(key)
            starts, end = tuple(map(self.node, edge.starts)), self.node(edge.end)
            current = self._joins.get((frozenset(starts), end))
            if current is None:
                self.problems.append(_lost_join(self._program, edge, arrived))
            else:
                renamed[current] = frozenset(map(self.node, arrived))
        return renamed

    def task(self, task: Task) -> Task:
        name = self.node(task.node)
        if name == task.node:
            return task
        arg = task.arg
        if isinstance(arg, NodeError):  # of an error handler: it says which node failed
            arg = NodeError(self.node(arg.node), arg.error, arg.input)
        if type(task) is TimedTask:
            return TimedTask(name, arg, task.origin, task.position, task.timeout)
        return Task(name, arg, task.origin, task.position)

    def held(self, held: DeferredTask) -> DeferredTask:
        return DeferredTask(self.task(held.task), gather=held.gather, sender=self.node(held.sender))

    def pending(self, pending: Pending) -> Pending:
        if not pending.completed:
            return pending
        landed = {key: self._result(result) for key, result in pending.completed.items()}
        return replace(pending, completed=landed)

    def _result(self, result: TaskResult) -> TaskResult:
        return TaskResult(self.task(result.task), result.writes, self.targets(result.targets), goto=result.goto)

    def targets(self, targets: Sequence[Any]) -> list[Any]:
        return [renamed_target(self._program, target) for target in targets]


def renamed_target(program: Program, target: Any) -> Any:
    """Return a saved target with the present name of its node."""
    if type(target) is Send:
        name = program.current_name(target.node)
        return target if name == target.node else Send(name, target.arg, gather=target.gather, timeout=target.timeout)
    return program.current_name(target) if type(target) is str else target


def leads_to_nodes(program: Program, targets: Iterable[Any]) -> bool:
    """True if every saved target, renamed if necessary, is a node of this graph."""
    names = (target.node if type(target) is Send else target for target in targets)
    return not _unknown(program, (program.current_name(name) for name in names if type(name) is str))


def _lost_join(program: Program, edge: JoinEdge, arrived: Iterable[str]) -> str:
    """Describe an incomplete join that this graph does not have."""
    gone = _unknown(program, map(program.current_name, (*edge.starts, edge.end)))
    who = ", ".join(map(repr, sorted(arrived)))
    lost = f"The join edge {list(edge.starts)} -> {edge.end!r} was reached by {who}, and there is none. "
    return lost + " ".join(f"There is no node {name!r}: {_suggested(program, name)}" for name in gone)


# -- questions that have changed since they were answered
#
# A node runs again from its first line when an answer has arrived, and each call of `interrupt()` receives the answer
# at its position: its ordinal, or its key. If the node asks other questions now, that answer belongs to none of them.
# So each question is compared with the one that was asked at its position:
#
# - another kind, event or type of answer, or the value of another question of the task: the answer is refused;
# - only another value: it may be the same question in other words, such as a draft that a model has rewritten. The
#   answer is used, with a warning; `compile(changed_questions="error")` refuses it too.
#
# A question at a new position is refused if it equals a question of the task whose answer was not read yet: then it has
# moved, or has another key. Questions of a subgraph or of a called task are never compared with those of the task that
# called it: both may use the same words.

_CALLS_BETWEEN = 5
"""Stack levels from the warning to the line of the node that called `interrupt()`."""


def check_answered(scope: Scope, before: Interrupt, now: Interrupt) -> None:
    """Compare the question of a task with the one that was answered at its position.

    Raises QuestionMismatch if the answer belongs to another question; warns of QuestionChanged if only the value
    differs.
    """
    changed = [name for name in ("kind", "event", "schema_form") if getattr(before, name) != getattr(now, name)]
    if before.schema_form is None and before.schema is not None:  # saved by a version that did not keep the form
        changed = [name for name in changed if name != "schema_form"]
    if changed:
        raise _mismatch(scope, before, now, " and ".join(name.removesuffix("_form") for name in changed))
    if is_equal(before.value, now.value) is not False:
        scope.run.delivered.add(now.id)
        return
    if _other_with_value(scope, now) is not None:
        raise _mismatch(scope, before, now, "place")
    if scope.run.config.refuses_changed:
        raise _mismatch(scope, before, now, "value")
    _note_changed(scope, before, now)


def check_new(scope: Scope, now: Interrupt) -> None:
    """Raise QuestionMismatch if a question at a new position equals one whose answer belongs to another position.

    A task that has failed since may ask the same once more under another key, to be answered anew.
    """
    if _has_failed(scope):
        return
    run = scope.run
    for other in _others(scope, now):
        if other.id in run.answers and other.id not in run.delivered and _is_same(other, now):
            raise _mismatch(scope, other, now, "key" if other.key != now.key else "place")


def is_unchanged(before: Interrupt, now: Interrupt) -> bool:
    """True if an open question is asked again unchanged."""
    return _is_same(before, now) and before.schema_form == now.schema_form


def is_equal(one: Any, other: Any) -> bool | None:
    """Return whether two values are equal; None if that cannot be determined. Never raises, whatever `__eq__` does."""
    try:
        if one is other or bool(one == other):
            return True
    except Exception:  # arrays have no truth value, and a class may do anything
        pass
    try:  # parts that are not equal to themselves, such as NaN, have equal fingerprints
        return fingerprint(one) == fingerprint(other)
    except Exception:
        return None


def _others(scope: Scope, question: Interrupt) -> Iterator[Interrupt]:
    """Return the other questions of the task itself, without those of its calls."""
    task, run = scope.task, scope.run
    if task is None:
        return
    asked = run.questions.by_id
    for ordinal in count():
        own = asked.get(interrupt_id(task.id, ordinal))
        if own is None:
            break
        if own.id != question.id:
            yield own
    for other in run.questions_of(task):
        if other.key is not None and other.id != question.id and other.id == interrupt_id(task.id, other.key):
            yield other


def _other_with_value(scope: Scope, question: Interrupt) -> Interrupt | None:
    return next((other for other in _others(scope, question) if _is_same(other, question)), None)


def _is_same(one: Interrupt, other: Interrupt) -> bool:
    same = one.kind == other.kind and one.event == other.event
    return same and is_equal(one.value, other.value) is True


def _has_failed(scope: Scope) -> bool:
    task, attempt = scope.task, scope.attempt
    again = attempt is not None and attempt.number > 1
    return again or (task is not None and task.planned_id in scope.run.attempts)


def _mismatch(scope: Scope, before: Interrupt, now: Interrupt, what: str) -> QuestionMismatch:
    node = scope.task.node if scope.task is not None else ""
    return QuestionMismatch(node, what, describe(before), describe(now), before=before, now=now)


def describe(question: Interrupt) -> str:
    """Return a question as text for an error."""
    if question.kind == "timer":
        shown = "a timer"
    elif question.kind == "event":
        shown = f"the event {question.event!r}"
    else:
        shown = shorten(question.value)
    details = [("key", question.key), ("schema", question.schema_form)]
    told: Sequence[str] = [f"{name} {value!r}" for name, value in details if value is not None]
    return f"{shown} ({', '.join(told)})" if told else shown


def shorten(value: Any, length: int = 200) -> str:
    """Return the repr of a value, or the beginning of it; of a value that has none, its type."""
    try:
        text = repr(value)
    except Exception:
        return f"a value of type {type(value).__name__}"
    return text if len(text) <= length else f"{text[:length]}..."


# -- questions in other words


def _note_changed(scope: Scope, before: Interrupt, now: Interrupt) -> None:
    run, task = scope.run, scope.task
    if scope.abandoned or task is None:
        return
    data = {
        "id": now.id,
        "key": now.key,
        "before": _loggable(run, before.value),
        "now": _loggable(run, now.value),
    }
    if run.saver is not None and scope.checkpoint is not None:
        run.note(("question_changed", scope.checkpoint.step + 1, task.node, task.planned_id, data))
    emit_task_event("question_changed", scope, data)
    warning = QuestionChanged(task.node, shorten(before.value), shorten(now.value), before=before, now=now)
    warnings.warn(warning, stacklevel=_CALLS_BETWEEN)


def _loggable(run: Run, value: Any) -> Any:
    """Return the value, or text for it if it cannot be stored: the log must not fail the run."""
    try:
        check_value(run.saver, value)
    except Exception:
        return shorten(value)
    return value
