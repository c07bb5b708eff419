"""Recordings of real runs, for `replay` to hold today's graph against.

    with record(app, "refund.replay") as recorded:
        recorded.invoke({"order": 7}, thread_id="t")
        recorded.invoke(Command(resume="yes"), thread_id="t")

A `with` block, because a recording is seldom one call: a run asks and is answered, a thread goes on, a test of a
coroutine awaits. What the block gets is the graph itself, with the same methods, so whatever a test does already it
does with `recorded` in place of `app`: `ainvoke`, `stream`, `batch`, `iter`, `send_event`, `update_state`, and giving
it to code that wants a graph. The file is written when the block ends well, whole or not at all; a block that raises
leaves the last recording as it is. `pytest.raises` inside the block records a run that fails.

The recorder listens like an instrument, also where graphs call others, and changes nothing: what cannot be recorded is
raised at the end of the block, not within a node. Two recordings of the same calls are the same bytes, if nodes, and
the order in which calls begin, are the same; see `replay_file` for how ids are kept out. What depends on chance is
which tasks had landed when one of them failed or the run was cancelled.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from copy import copy
from pathlib import Path
from typing import Any, cast

from statewright.channels import MISSING, difference
from statewright.checkpoint import NO_ARG, BranchKey, Checkpoint, Pending, SavedCheckpoint, Task, TaskResult
from statewright.errors import InternalError, InvalidConfig
from statewright.events import Event, EventKind
from statewright.futures import resolve
from statewright.graph import START, ParentCommand
from statewright.ids import CheckpointId
from statewright.runtime import CompiledGraph
from statewright.runtime.core.commit import saved_form, saved_form_of_result
from statewright.runtime.core.effects import Failure, Outcome, Pause, RunOutcome
from statewright.runtime.core.run import Run
from statewright.runtime.tasks.scope import current_scope
from statewright.serde.serde import Serde
from statewright.testing.replay.file import (
    Asked,
    Failed,
    ForParent,
    Landed,
    Names,
    Recorded,
    RecordedRest,
    RecordedRun,
    RecordedState,
    RecordedStep,
    RecordedTask,
    Recording,
    found_checkpoint,
    plain_held,
    plain_joins,
    plain_tasks,
    replay_serde,
    told_error,
    write_recording,
)

LATE = 1.0
"""Seconds to wait for news of a task that another thread is about to tell."""


@contextmanager
def record(app: CompiledGraph, file: str | os.PathLike[str], *, serde: Serde | None = None) -> Generator[CompiledGraph]:
    """The graph, recorded while the block lasts; the file is written when it ends without an error.

    Values are stored as checkpoints store them, with the types that the state names. For others give a `serde` that
    knows them; it learns the records too, so let it not be that of a saver. Raises SerdeError for what cannot be
    stored, and InvalidConfig if nothing ran.
    """
    recorder = Recorder(replay_serde(app, serde))
    recorded = copy(app)
    # The one place that adds listeners to a graph that is compiled already: a copy, so that `app` is not changed.
    recorded._listeners = (*app._listeners, *recorder.listeners)  # pyright: ignore[reportPrivateUsage]
    yield recorded
    recorder.write(Path(file))


class _Open:
    """A run that is being recorded."""

    def __init__(self, run: Run, recorded: RecordedRun) -> None:
        self.run = run
        self.recorded = recorded
        self.values: dict[str, Any] = {}
        """The state that was recorded last."""
        self.step: RecordedStep | None = None
        """The superstep that is under way."""
        self.tasks: dict[str, RecordedTask] = {}
        """Its tasks."""
        self.told: dict[str, Outcome] = {}
        """What came of them."""
        self.is_alone = True
        """Whether nothing else spends while it runs, so that what it spends can be told."""
        spent = run.spent
        self.tokens, self.cost = (spent.tokens, spent.cost) if spent is not None else (0, 0.0)
        self.was_over = False


class Recorder:
    """Makes a recording of the events of runs, from any thread."""

    def __init__(self, serde: Serde) -> None:
        self._serde = serde
        self._names = Names()
        self._calls: list[RecordedRun] = []
        self._open: dict[tuple[str, str], _Open] = {}
        self._tasks: dict[str, tuple[_Open, RecordedTask]] = {}
        """The tasks of all supersteps that are under way, with their runs."""
        self._unsure: set[BranchKey] = set()
        """Where a run was abandoned, so that it is not known what was saved."""
        self._refusal: Exception | None = None
        self._news = threading.Condition(threading.RLock())

    @property
    def listeners(self) -> list[tuple[EventKind, Callable[[Event], None]]]:
        """What a watch needs."""
        known: list[tuple[EventKind, Callable[[Event], None]]] = [
            ("run_started", self._run_started),
            ("input_applied", self._input_applied),
            ("superstep_started", self._superstep_started),
            ("task_finished", self._task_finished),
            ("superstep_finished", self._superstep_finished),
            ("committed", self._committed),
            ("run_finished", self._run_finished),
        ]
        return [(kind, self._careful(listen)) for kind, listen in known]

    def _careful(self, listen: Callable[[Event], None]) -> Callable[[Event], None]:
        """The listener, keeping to itself what it raises: who listens must not stop a run."""

        def heard(event: Event) -> None:
            with self._news:
                if self._refusal is not None:
                    return  # nothing will be written
                try:
                    listen(event)
                except Exception as error:
                    self._refusal = error

        return heard

    def write(self, path: Path) -> None:
        """Write what was heard. Raises what a listener has raised."""
        with self._news:
            if self._refusal is not None:
                raise self._refusal
            calls = [call for call in self._calls if _has_begun(call)]
            if not calls:
                raise InvalidConfig(f"Nothing ran to be recorded in {path}. Call the graph that record() gives.")
            for call in calls:
                _put_in_order(call)
            write_recording(path, Recording(calls), self._names, self._serde)

    def _frozen(self, value: Any, where: str) -> Any:
        """The value as it will be read from the file. Raises SerdeError with the path to what cannot be stored."""
        return self._serde.decode(self._serde.encode(value, where))

    # -- runs

    def _run_started(self, event: Event) -> None:
        scope = current_scope()
        assert scope is not None
        run = scope.run
        caller = self._tasks.get(_caller_of(run)) if run.nested else None
        if run.nested and caller is None:
            return  # the superstep of its caller is over, and nobody waits for it
        known = self._open.get((event.run_id, event.namespace))
        if known is not None and known.recorded.rest is None and known.recorded.steps:
            self._abandon(known)
        number = caller[0].recorded.number if caller is not None else 1 + len(self._calls)
        self._names.add_run(run.run_id, number)
        recorded = self._recorded(run, number, event.data)
        opened = self._open[event.run_id, event.namespace] = _Open(run, recorded)
        opened.is_alone = caller is None or (caller[0].is_alone and len(caller[0].tasks) == 1)
        self._look_around(opened)
        (caller[1].calls if caller is not None else self._calls).append(recorded)

    def _recorded(self, run: Run, number: int, given: Any) -> RecordedRun:
        settings = run.settings
        return RecordedRun(
            number=number,
            graph=run.program.graph.name,
            version=run.program.graph.version,
            namespace=self._names.text(run.namespace),
            given=self._frozen(_saved_input(run, given), "input"),
            thread_id=settings.thread_id,
            branch=settings.branch,
            checkpoint_id=settings.checkpoint_id,
            saves=run.saver is not None,
            saves_at_rest=run.saves_at_rest,
            recursion_limit=settings.recursion_limit,
            breaks_before=sorted(run.breaks_before),
            breaks_after=sorted(run.breaks_after),
            on_unfinished=run.on_unfinished,
            budget=run.budget,
            keeps_calls=run.keeps_calls,
            parent_task=_caller_of(run) if run.nested else None,
        )

    def _look_around(self, opened: _Open) -> None:
        """Note what the run meets on its thread."""
        run, number = opened.run, opened.recorded.number
        self._names.add_task(Task(START, NO_ARG, run.origin(run.run_id, -1), 0))
        head = self._saved(run, None)
        if head is None:
            return
        wanted = run.settings.checkpoint_id
        if wanted is not None and not run.nested and not self._names.knows(wanted):
            self._note_found(opened, self._saved(run, wanted), number, "named")
        assert run.line is not None
        if not self._names.knows(head.id) or run.line in self._unsure:
            self._unsure.discard(run.line)
            self._note_found(opened, head, number, "head")
        opened.recorded.head = head.id

    def _saved(self, run: Run, checkpoint_id: str | None) -> SavedCheckpoint | None:
        if run.saver is None or run.line is None:
            return None
        thread_id, namespace, branch = run.line
        wanted = CheckpointId(checkpoint_id) if checkpoint_id is not None else None
        return resolve(run.saver.load(thread_id, namespace=namespace, branch=branch, checkpoint_id=wanted))

    def _note_found(self, opened: _Open, saved: SavedCheckpoint | None, number: int, which: str) -> None:
        if saved is None:
            return
        checkpoint = saved.checkpoint
        self._names.add_found(checkpoint.id, number, self._names.text(opened.run.namespace), which)
        for place, task in enumerate((*checkpoint.frontier, *(one.task for one in checkpoint.held))):
            self._names.add_found(task.origin, number, self._names.text(opened.run.namespace), which, place)
        self._learn(opened.run, checkpoint)
        for asker, questions in saved.pending.interrupts.items():
            for question in questions:
                self._names.add_interrupt(question.id, asker)
        opened.recorded.found.append(found_checkpoint(saved, self._serde))

    def _run_finished(self, event: Event) -> None:
        opened = self._open.get((event.run_id, event.namespace))
        if opened is None:
            return
        if opened.step is not None:
            self._close(opened, _counted(opened, event.data, self._saved(opened.run, None)))
        opened.recorded.rest = _rest(opened.run, event.data)

    def _abandon(self, opened: _Open) -> None:
        """A run will not be heard of any more."""
        if opened.run.line is not None:
            self._unsure.add(opened.run.line)
        if opened.step is not None:
            opened.recorded.steps.remove(opened.step)
            self._close(opened, {})

    # -- supersteps

    def _committed(self, event: Event) -> None:
        opened = self._open.get((event.run_id, event.namespace))
        if opened is not None:
            self._learn_made(opened, event.data.checkpoint)

    def _input_applied(self, event: Event) -> None:
        opened = self._open.get((event.run_id, event.namespace))
        if opened is not None:
            self._learn_made(opened, event.data)
            state = self._state(opened, event.data)
            opened.recorded.steps.append(RecordedStep(event.data.step, [], state, is_input=True))

    def _superstep_started(self, event: Event) -> None:
        opened = self._open.get((event.run_id, event.namespace))
        if opened is None:
            return
        tasks: tuple[Task, ...] = event.data
        where = f"superstep {event.step}"
        saved = saved_form(opened.run.program, Checkpoint("", event.step, {}, tasks)).frontier
        made = [RecordedTask(one.node, self._frozen(one.arg, f"{where}, {one.node}"), one.id) for one in saved]
        is_over = opened.run.spent is not None and opened.run.spent.is_over
        rerouted, opened.was_over = is_over and not opened.was_over, is_over
        opened.step = RecordedStep(event.step, made, out_of_budget=rerouted)
        opened.recorded.steps.append(opened.step)
        for task, one in zip(tasks, made, strict=True):
            self._names.add_task(task)
            opened.tasks[task.id] = one
            self._tasks[task.id] = (opened, one)

    def _task_finished(self, event: Event) -> None:
        opened = self._open.get((event.run_id, event.namespace))
        outcome: Outcome = event.data
        task = opened.tasks.get(outcome.task.id) if opened is not None else None
        if opened is None or task is None:
            return  # its superstep is over, so it does not count
        task.attempts = event.attempt
        task.journal = self._journal(opened.run, outcome.task)
        where = f"superstep {opened.step.number if opened.step else 0}, {task.node}"
        task.outcome = self._frozen(self._recorded_outcome(opened.run, outcome), where)
        opened.told[task.id] = outcome
        self._news.notify_all()

    def _recorded_outcome(self, run: Run, outcome: Outcome) -> Recorded:
        if isinstance(outcome, TaskResult):
            saved = saved_form_of_result(run.program, outcome)
            plain = saved.writes if isinstance(saved.writes, dict) else [list(pair) for pair in saved.writes]
            return Landed(plain, list(saved.targets), saved.goto)
        if isinstance(outcome, Pause):
            for question in outcome.interrupts:
                self._names.add_interrupt(question.id, outcome.task.id)
            return Asked(list(outcome.interrupts))
        error = outcome.error
        if isinstance(error, ParentCommand):
            return ForParent(error.commands[0], list(error.commands[1:]))
        return Failed(error)

    def _journal(self, run: Run, task: Task) -> list[list[Any]]:
        """The steps that a task, and the functions that it called as tasks, have done so far."""
        entries = [
            [who.removeprefix(task.id), name, ordinal, given, value]
            for (who, name, ordinal), (given, value) in list(run.journal.items())
            if who.partition(":")[0] == task.id
        ]
        return self._frozen(sorted(entries, key=lambda entry: entry[:3]), f"journal of {task.node}")

    def _superstep_finished(self, event: Event) -> None:
        opened = self._open.get((event.run_id, event.namespace))
        if opened is None or opened.step is None:
            return
        # Under durability `sync` the thread that saves results tells of them, maybe a moment later than this one.
        self._news.wait_for(lambda: opened.told.keys() == opened.tasks.keys(), LATE)
        for identity, task in opened.tasks.items():
            if identity not in opened.told:
                raise InternalError(f"Nobody told what came of node {task.node!r} in superstep {event.step}.")
        self._learn_made(opened, event.data)
        opened.step.after = self._state(opened, event.data)
        self._close(opened, opened.told)

    def _close(self, opened: _Open, counted: Iterable[str]) -> None:
        """End a superstep: of its outcomes only those of some tasks count."""
        step, spent = cast(RecordedStep, opened.step), opened.run.spent
        for identity, task in opened.tasks.items():
            self._tasks.pop(identity, None)
            if identity not in counted:
                task.outcome, task.attempts, task.journal = None, 1, []
        if spent is not None and opened.is_alone:
            inner = [one for task in step.tasks for call in task.calls for one in call.steps]
            step.tokens = spent.tokens - opened.tokens - sum(one.tokens for one in inner)
            step.cost = spent.cost - opened.cost - sum(one.cost for one in inner)
            opened.tokens, opened.cost = spent.tokens, spent.cost
        opened.step, opened.tasks, opened.told = None, {}, {}

    # -- checkpoints

    def _learn_made(self, opened: _Open, checkpoint: Checkpoint) -> None:
        """Take the ids of a checkpoint that the run has made."""
        if opened.run.saver is not None:
            number, namespace = opened.recorded.number, opened.run.namespace
            self._names.add_commit(checkpoint.id, number, namespace, checkpoint.step)
        self._learn(opened.run, checkpoint)

    def _learn(self, run: Run, checkpoint: Checkpoint) -> None:
        for task in (*checkpoint.frontier, *(one.task for one in checkpoint.held)):
            self._names.add_task(task)
        # What an input or an update from outside is taken for that comes next.
        self._names.add_task(Task(START, NO_ARG, run.origin(checkpoint.id, checkpoint.step), 0))
        self._names.add_task(Task(START, NO_ARG, checkpoint.id, 0))

    def _state(self, opened: _Open, after: Checkpoint) -> RecordedState:
        """A checkpoint as it is recorded: what differs from the last one, and what comes next."""
        saved = saved_form(opened.run.program, after)
        before, values = opened.values, saved.values
        changes: dict[str, Any] = {name: MISSING for name in before if name not in values}
        for name, value in values.items():
            if name not in before or before[name] is not value:
                changes[name] = difference(before.get(name, MISSING), value)
        opened.values = values
        return RecordedState(
            changes=self._frozen(changes, "state"),
            frontier=self._frozen(plain_tasks(saved.frontier), "frontier"),
            held=self._frozen(plain_held(saved.held), "held"),
            joins=plain_joins(opened.run.program, saved.joins),
        )


def _caller_of(run: Run) -> str:
    """The id of the task that called a subgraph; a function that the task called counts as the task."""
    return str(run.metadata.get("parent_task", "")).partition(":")[0]


def _saved_input(run: Run, given: Any) -> Any:
    """The input without untracked values."""
    if not run.program.untracked or not isinstance(given, Mapping):
        return given
    return {
        name: value for name, value in cast("Mapping[str, Any]", given).items() if name not in run.program.untracked
    }


def _counted(opened: _Open, rest: RunOutcome, saved: SavedCheckpoint | None) -> set[str]:
    """The tasks of a superstep that was not completed whose outcomes count: the failure that ended it, and what was
    saved. What still ran then may have been told of, but nobody waited for it."""
    told = opened.told
    failed = {one for one, outcome in told.items() if isinstance(outcome, Failure) and outcome.error is rest.error}
    failures = (outcome for outcome in told.values() if isinstance(outcome, Failure) and not outcome.leaves)
    if next(failures, None) is None and rest.status != "cancelled":
        return set(told)
    known = saved.pending if saved is not None else Pending()
    return failed | (told.keys() & (known.completed.keys() | known.interrupts.keys()))


def _rest(run: Run, rest: RunOutcome) -> RecordedRest:
    error, control = rest.error, run.control
    stopped: list[str] | None = None
    if control is not None and error is not None and not isinstance(error, ParentCommand):
        name = type(error).__name__
        if name == "RunCancelled" and control.cancel_reason is not None:
            stopped = ["cancel", control.cancel_reason]
        elif name == "GraphDrained" and control.drain_reason is not None:
            stopped = ["drain", control.drain_reason]
    told = told_error(error) if error is not None else None
    return RecordedRest(rest.status, [one.id for one in rest.interrupts], rest.node, told, stopped)


def _has_begun(call: RecordedRun) -> bool:
    """Whether a run did anything: one that was refused did not."""
    return call.rest is not None or bool(call.steps)


def _put_in_order(call: RecordedRun) -> None:
    """Leave out what does not count, and sort what may come in any order."""
    if call.rest is None and call.steps and call.steps[-1].after is None:
        call.steps.pop()  # abandoned while it ran
    for step in call.steps:
        for task in step.tasks:
            task.calls = sorted(filter(_has_begun, task.calls), key=lambda inner: inner.namespace)
            for inner in task.calls:
                _put_in_order(inner)
