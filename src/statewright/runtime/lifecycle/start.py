"""Begin a run: with new input, with answers, or where another run stopped."""

from __future__ import annotations

import itertools
from collections.abc import Generator, Mapping, Sequence
from typing import Any, Final, cast

from statewright.channels import copy_container
from statewright.checkpoint import (
    NO_ARG,
    Checkpoint,
    Interrupt,
    Pending,
    SavedCheckpoint,
    Task,
    TaskResult,
    TimedTask,
)
from statewright.errors import (
    CheckpointNotFound,
    EmptyInputError,
    InvalidResume,
    InvalidUpdateError,
    NamespaceBusy,
    UnansweredInterrupts,
)
from statewright.graph import END, START, Command, Reported, Send
from statewright.ids import CheckpointId, is_interrupt_id
from statewright.runtime.core.apply import apply_beside, apply_results, folded_values, rewritten_fields
from statewright.runtime.core.commit import StepCommit
from statewright.runtime.core.effects import Effect, Emit, Load, SaveCallers
from statewright.runtime.core.events import run_event
from statewright.runtime.core.fold import pairs_of
from statewright.runtime.core.graph_migration import fit_to_graph
from statewright.runtime.core.loop import supersteps
from statewright.runtime.core.program import Program
from statewright.runtime.core.saving import (
    NOTHING_SAVED,
    call_namespaces,
    commit_of,
    draw_stamp,
    save_commit,
    save_pending,
)
from statewright.runtime.invocation.outcome import RunOutcome
from statewright.runtime.invocation.run import Run
from statewright.runtime.lifecycle.carry import taken_along
from statewright.runtime.lifecycle.unfinished import kept_of_discarded
from statewright.runtime.tasks.execute import checked_targets, conclude, read_result
from statewright.runtime.tasks.interrupt import Paused
from statewright.runtime.tasks.scope import Scope, enter_scope, leave_scope
from statewright.state import check_value

Starting = Generator[Effect, Any, tuple[Checkpoint, Pending | None]]
"""Returns the checkpoint to continue from, and the saved data of its frontier."""
Beginning = Generator[Effect, Any, "tuple[Checkpoint, Pending | None] | RunOutcome"]
"""Returns the same, or the outcome with which unfinished work of the thread has stopped."""
Loaded = tuple[SavedCheckpoint | None, CheckpointId | None]
"""The checkpoint to start from, and the head of the branch, which differs if the run forks."""


def begin_run(run: Run, given: Any) -> Beginning:
    """Load the thread, determine where to begin, and claim the thread. No node has run yet.

    Raises ThreadBusy or CheckpointConflict if the claim is refused; then nothing was written.
    """
    saved, head = (yield from _load(run)) if run.saver is not None else (None, None)
    finishes = run.config.on_unfinished == "finish" and given is not None and not isinstance(given, Command)
    if finishes and saved is not None and not saved.checkpoint.at_rest:
        rest = yield from _finish(run, saved, head)
        if rest.status != "completed":
            return rest
        saved = fit(run, (yield from load_head(run)))
        head = saved.id if saved is not None else None
    checkpoint, pending = yield from _start(run, given, saved, head)
    if run.owner is not None and not (run.claimed or run.nested):
        yield from save_pending(run, checkpoint, Pending())  # nothing was written yet: now the thread is ours
    if pending:
        _recall(run, pending)
    if saved is not None and _sends_timed(checkpoint):
        run.guards_all = True
    run.stop = checkpoint.step + run.settings.recursion_limit
    return checkpoint, pending


def _sends_timed(checkpoint: Checkpoint) -> bool:
    tasks = (*checkpoint.frontier, *(held.task for held in checkpoint.held))
    return any(type(task) is TimedTask for task in tasks)


def _recall(run: Run, pending: Pending) -> None:
    """Restore the saved data of the due tasks from earlier runs."""
    run.attempts, run.retries = pending.attempts, pending.retries
    if not run.shares_journal:
        run.journal = dict(pending.journal)
    if pending.interrupts or pending.settled:
        run.recall_questions(pending)


def _start(run: Run, given: Any, saved: SavedCheckpoint | None, head: CheckpointId | None) -> Starting:
    if run.nested and saved is not None and _continues_call(run, saved):
        given = None  # the task that called this graph runs again: go on where the call was left
    if isinstance(given, Command):
        return (yield from _commanded(run, cast("Command[Any]", given), saved, head))
    if given is not None:
        return (yield from _fresh(run, given, saved, head))
    if saved is None:
        raise EmptyInputError(_nothing_to_do(run))
    checkpoint, pending = yield from _going_on(run, saved, head, replay=True)
    if run.nested and run.watch is not None and run.watch.wants("call_continued"):
        yield Emit(run_event("call_continued", run, checkpoint, checkpoint.step))
    known = {question.id: run.answers[question.id] for question in pending.open if question.id in run.answers}
    run.answers.update((str(key), value) for key, value in pending.answers.items())
    return checkpoint, pending.merged(Pending(answers=known)) if known else pending


def _continues_call(run: Run, saved: SavedCheckpoint) -> bool:
    """Return whether the same task made the saved call, so that this one continues it instead of starting over."""
    return not _is_retry(run) and saved.metadata.get("parent_task") == run.metadata.get("parent_task")


def _is_retry(run: Run) -> bool:
    return run.call is not None and run.call.is_retry


def _load(run: Run) -> Generator[Effect, Any, Loaded]:
    """The checkpoint to start from, and the head. They differ where the caller names an older checkpoint."""
    if run.caller is not None and (ended := run.caller.run.ended_calls.get(run.namespace)) is not None:
        if ended.run.parent is not None:
            ended.run.parent.attempt = run.caller.attempt  # saves of the ended attempt would be rejected
        yield SaveCallers(ended)
    branch = run.settings.branch
    at_head = yield from load_head(run)
    if at_head is not None and run.call is not None and run.call.is_retry and run.call.memory != "thread":
        run.step_before = at_head.checkpoint.step
        return None, at_head.id
    if at_head is not None and at_head.metadata.get("reset"):
        return None, at_head.id
    wanted = run.settings.checkpoint_id if not run.nested else None
    head = at_head.id if at_head is not None else None
    if wanted is None or wanted == head:
        if at_head is not None:
            run.memories = dict(at_head.metadata.get("memories", ()))
        return fit(run, at_head), head
    named = fit(run, (yield Load(branch, wanted)))
    if named is None:
        raise CheckpointNotFound(
            f"Thread {run.settings.thread_id!r} has no checkpoint {wanted!r}. See get_state_history for those it has."
        )
    return named, head


def load_head(run: Run, branch: str | None = None) -> Generator[Effect, Any, SavedCheckpoint | None]:
    """Load the head of a branch; the next claim of the run must find it unchanged.

    Raises ThreadBusy if another run holds the thread.
    """
    saved: SavedCheckpoint | None = yield Load(branch or run.settings.branch)
    if saved is None and run.call is not None and run.call.former_namespaces:
        saved = yield from _load_under_former_name(run, run.call.former_namespaces)
    if run.claim is not None and not run.nested:
        run.claim.note_loaded(saved, cast(str, run.owner))
    return saved


def _load_under_former_name(run: Run, namespaces: Sequence[str]) -> Generator[Effect, Any, SavedCheckpoint | None]:
    """Load the head of a call that was saved under a former name of its node, and continue there."""
    own = run.namespace
    for namespace in namespaces:
        run.move_to(namespace)
        saved: SavedCheckpoint | None = yield Load(run.settings.branch)
        if saved is not None:
            return saved
    run.move_to(own)
    return None


def fit(run: Run, saved: SavedCheckpoint | None) -> SavedCheckpoint | None:
    """Return the saved thread, migrated to this graph."""
    if saved is None:
        return None
    fitting = fit_to_graph(run.program, saved)
    if fitting.checkpoint.values is not saved.checkpoint.values:
        run.migrated = saved.checkpoint.values
    return fitting


def _nothing_to_do(run: Run) -> str:
    if run.saver is None:
        return (
            "The input is None. Only a saved thread can go on without input: "
            "pass an input, or compile with a checkpointer."
        )
    return f"The input is None, and thread {run.settings.thread_id!r} has nothing to go on with. Pass an input."


# -- fresh input


def _fresh(run: Run, given: Any, saved: SavedCheckpoint | None, head: CheckpointId | None) -> Starting:
    """Begin anew with an input, on the state that the thread has so far."""
    program = run.program
    base, landed, discarded = _base(run, saved)
    task = Task(START, NO_ARG, run.origin(base.id, base.step), 0)
    if saved is None and run.call is not None and run.call.takes_state and program.begins_with_state:
        base, given = _taken_over(program, base, task, given)
    result = _conclude_entry(run, task, base, given)
    if discarded and saved is not None and _is_head(run, saved, head):
        kept = yield from kept_of_discarded(run, saved, base.values)
        if kept:
            known = read_result(Scope(run, task), program.start, task, kept)
            result.writes = [*pairs_of(result), *pairs_of(known)]
    commit_id, now = yield from draw_stamp(run, base.step + 1)
    checkpoint = apply_results(program, base, [result], commit_id, run.origin(commit_id, base.step + 1))
    if run.saver is not None:
        parent = saved.checkpoint if saved is not None else None
        notes: dict[str, Any] = {"discarded": discarded} if discarded else {}
        is_older = saved is not None and not _is_head(run, saved, head)
        if is_older:
            notes["replaces"] = head
        if parent is not None:
            run.open_namespaces |= call_namespaces(run, parent.frontier)
        if run.caller is not None and run.saves_at_rest and head is None:
            run.uncommitted_from = NOTHING_SAVED
        else:
            if run.caller is not None and run.saves_at_rest:
                yield SaveCallers(run.caller)
            commit = commit_of(run, parent, checkpoint, [result], now, source="input", expected=head, metadata=notes)
            if saved is not None and is_older:
                # Calls of the tasks that are discarded are neither copied to another branch, nor begun anew here.
                commit.beside = yield from _commits_beside(run, saved, anew=saved.line.branch != run.settings.branch)
            commit.spans_supersteps = bool(landed)  # those of the superstep before are applied too
            if landed:
                both = (rewritten_fields(program, one, base.values, checkpoint.values) for one in (landed, [result]))
                commit.rewritten = itertools.chain.from_iterable(both)
            yield from save_commit(run, commit)
    if run.watch is not None and run.watch.wants("input_applied"):
        yield Emit(run_event("input_applied", run, checkpoint, checkpoint.step))
    return checkpoint, None


def check_input(run: Run, given: Any) -> None:
    """Raise what fresh input is refused with on every state of the thread."""
    if given is not None and not isinstance(given, Command):
        task = Task(START, NO_ARG, "", 0)
        read_result(Scope(run, task), run.program.start, task, given)


def _taken_over(program: Program, base: Checkpoint, task: Task, state: Any) -> tuple[Checkpoint, Reported]:
    """The base and the input of a graph that begins with the state of its caller.

    A field that the caller has is no update of what the field begins with here: it has that value, as a node would see.
    """
    writes = program.start.updates.read(state, START, task)
    values = {name: value for name, value in base.values.items() if name not in writes}
    return Checkpoint(base.id, base.step, values, ()), Reported({}, [*writes.items()])


def _conclude_entry(run: Run, task: Task, base: Checkpoint, given: Any) -> TaskResult:
    """Return the result of START: the input as writes, and where a run begins.

    A conditional entry that has to wait, for an answer or for a coroutine, cannot do so here, where there is no task
    yet. START then becomes a task of the first superstep: it writes nothing more, and is asked again.
    """
    start = run.program.start
    scope = Scope(run, task, base)
    token = enter_scope(scope)
    try:
        if not start.routes_await:
            return conclude(scope, start, task, base, given)
    except Paused:
        pass
    finally:
        leave_scope(token)
    return TaskResult(task, read_result(scope, start, task, given).writes, [Send(START, None)], goto=True)


def _base(run: Run, saved: SavedCheckpoint | None) -> tuple[Checkpoint, list[TaskResult], list[str]]:
    """The state that fresh input meets, the results that it holds beside that of the last commit, and the nodes
    whose unfinished tasks are discarded."""
    if saved is None:
        return Checkpoint(run.run_id, run.step_before, run.program.start_values(), ()), [], []
    open_questions = saved.pending.open
    if open_questions and run.nested:
        if not _is_retry(run):
            _check_call_is_over(run, saved)
    elif open_questions and run.config.on_unfinished != "discard":
        raise UnansweredInterrupts(saved.line.thread_id, [(one.id, one.value) for one in open_questions])
    before, landed = saved.checkpoint, saved.pending.completed
    done = [landed[task.id] for task in before.frontier if task.id in landed]
    values = folded_values(run.program, before.values, done) if done else before.values
    waiting = [*before.frontier, *(held.task for held in before.held)]
    discarded = sorted({task.node for task in waiting if task.id not in landed})
    return Checkpoint(before.id, before.step, values, ()), done, discarded


def _check_call_is_over(run: Run, saved: SavedCheckpoint) -> None:
    """Raise NamespaceBusy if a task that is still due waits for the call which a memory was in the middle of.

    A task that was discarded, or answered for by an update, never goes on with its call: then its questions are closed.
    """
    asker, caller = str(saved.metadata.get("parent_task", "")).partition(":")[0], run.parent
    if caller is None or caller.task is None or caller.checkpoint is None:
        return
    if any(task.id == asker for task in caller.checkpoint.frontier):
        raise NamespaceBusy(saved.line.namespace, caller.task.node)


def _finish(run: Run, saved: SavedCheckpoint, head: CheckpointId | None) -> Generator[Effect, Any, RunOutcome]:
    """Finish the unfinished work of the thread, and return its outcome."""
    checkpoint, pending = yield from _going_on(run, saved, head, replay=False)
    run.answers.update((str(key), value) for key, value in pending.answers.items())
    run.stop = checkpoint.step + run.settings.recursion_limit
    if not run.claimed:
        yield from save_pending(run, checkpoint, Pending())
    _recall(run, pending)
    return (yield from supersteps(run, checkpoint, pending))


# -- going on


def _going_on(
    run: Run, saved: SavedCheckpoint, head: CheckpointId | None, *, replay: bool
) -> Generator[Effect, Any, tuple[Checkpoint, Pending]]:
    """The checkpoint to go on from. One that is not the head becomes the head of its branch, by a fork."""
    checkpoint, pending, fork = yield from _plan_going_on(run, saved, head, replay=replay)
    if fork is not None:
        yield from save_commit(run, fork)
    return checkpoint, pending


def _plan_going_on(
    run: Run, saved: SavedCheckpoint, head: CheckpointId | None, *, replay: bool
) -> Generator[Effect, Any, tuple[Checkpoint, Pending, StepCommit | None]]:
    """`_going_on`, but for the commit of the fork, if one is needed: it is returned and not saved.

    A replay runs everything after the checkpoint again; otherwise results that had landed there are kept.
    """
    checkpoint, pending = saved.checkpoint, saved.pending
    if _is_head(run, saved, head):
        return checkpoint, pending, None
    beside = yield from _commits_beside(run, saved, anew=replay)
    pending = Pending(journal=dict(pending.journal), paused=pending.paused) if replay else pending.forked()
    notes = {"nodes": saved.metadata.get("nodes", []), "replaces": head}
    commit_id, now = yield from draw_stamp(run, checkpoint.step + 1)
    before, forked = checkpoint, renamed(checkpoint, commit_id)
    commit = commit_of(run, before, forked, [], now, source="fork", expected=head, pending=pending, metadata=notes)
    commit.beside = beside
    return forked, pending, commit


def _commits_beside(run: Run, saved: SavedCheckpoint, *, anew: bool) -> Generator[Effect, Any, tuple[StepCommit, ...]]:
    """The commits for subgraphs that go with the one by which the run continues from an older checkpoint."""
    line = saved.line._replace(branch=run.settings.branch)
    at_head = False
    if saved.line.branch != line.branch:
        newest: SavedCheckpoint | None = yield Load(saved.line.branch)
        at_head = newest is not None and newest.id == saved.id
    return (yield from taken_along(run, saved, line, at_head=at_head, anew=anew))


def _is_head(run: Run, saved: SavedCheckpoint, head: CheckpointId | None) -> bool:
    """True if a checkpoint is the head of the branch that the run writes to."""
    return saved.id == head and saved.line.branch == run.settings.branch


def renamed(checkpoint: Checkpoint, identity: str) -> Checkpoint:
    """The same place in another line; tasks keep their ids."""
    return Checkpoint(
        identity,
        checkpoint.step + 1,
        checkpoint.values,
        checkpoint.frontier,
        checkpoint.held,
        checkpoint.joins,
        checkpoint.reported,
    )


# -- a Command as input


def _commanded(run: Run, command: Command[Any], saved: SavedCheckpoint | None, head: CheckpointId | None) -> Starting:
    if not command.resumes and command.update is None and not command.targets:
        raise EmptyInputError("The Command says nothing. Give it resume=, update= or goto=.")
    if saved is None and command.resumes:
        raise InvalidResume(_no_thread(run))
    checkpoint, pending, fork = Checkpoint(run.run_id, -1, run.program.start_values(), ()), Pending(), None
    if saved is not None:
        checkpoint, pending, fork = yield from _plan_going_on(run, saved, head, replay=not command.resumes)
    if command.resumes and pending.paused and not pending.open and run.program.graph.answers_to is not None:
        command = Command(update={run.program.graph.answers_to: command.resume})
    # Whatever is wrong with the command is raised here, before anything of it is saved.
    answers = read_answers(command.resume, pending.open) if command.resumes else {}
    commit_id, now = yield from draw_stamp(run, checkpoint.step + 1)
    changes = command.update is not None or command.targets
    changed = _with_command(run, checkpoint, command, commit_id) if changes else None
    if fork is not None:
        yield from save_commit(run, fork)
    if command.resumes:
        pending = pending.merged(Pending(answers=answers))
        yield from save_pending(run, checkpoint, Pending(answers=answers))
        if run.watch is not None and run.watch.wants("resumed"):
            yield Emit(run_event("resumed", run, answers, checkpoint.step))
    if changed is not None:
        before = checkpoint if saved is not None else None
        checkpoint, result = changed
        if run.saver is not None:
            commit = commit_of(run, before, checkpoint, [result], now, source="update", pending=pending)
            yield from save_commit(run, commit)
    run.answers.update((str(key), value) for key, value in pending.answers.items())
    return checkpoint, pending


def _with_command(run: Run, base: Checkpoint, command: Command[Any], commit_id: str) -> tuple[Checkpoint, TaskResult]:
    """Return the checkpoint after a command's update: its targets are due together with the tasks that were."""
    program = run.program
    task = Task(START, NO_ARG, base.id, 0)
    writes = {} if command.update is None else program.updates.read(command.update, START, task)
    targets = [target for target in checked_targets(run, program.start, command.targets) if target != END]
    result = TaskResult(task, writes, targets, goto=True)
    return apply_beside(program, base, [result], commit_id, base.frontier, base.held), result


def _no_thread(run: Run) -> str:
    if run.saver is None:
        return "Resuming needs a checkpointer: compile(checkpointer=...) and call with a thread_id."
    return f"Thread {run.settings.thread_id!r} has no saved run to resume."


def read_answers(resume: Any, open_questions: Sequence[Interrupt]) -> dict[Any, Any]:
    """The answers by interrupt id. Raises InvalidResume for what fits no open question, and for wrong answers.

    A mapping is read as answers by id only if all its keys have the form of one.
    """
    by_id = {question.id: question for question in open_questions}
    questions = [question for question in open_questions if question.kind == "question"]
    if isinstance(resume, Mapping) and resume and all(is_interrupt_id(key) for key in cast(Mapping[Any, Any], resume)):
        answers = dict(cast(Mapping[Any, Any], resume))
    elif len(questions) == 1:
        answers = {questions[0].id: cast(Any, resume)}
    elif not by_id:
        raise InvalidResume("Nothing was asked, so there is nothing to answer. Call invoke(None) to go on.")
    elif not questions:
        waits = ", ".join(question.event or f"a timer until {question.due_at}" for question in open_questions)
        raise InvalidResume(
            f"Nothing was asked; the thread waits for {waits}. Use send_event or resume_due.", open_ids=list(by_id)
        )
    else:
        raise InvalidResume(
            f"{len(questions)} questions are open, so one answer is ambiguous. Pass Command(resume={{id: answer}}).",
            open_ids=list(by_id),
        )
    unknown = next((key for key in answers if key not in by_id), None)
    if unknown is not None:
        raise InvalidResume(f"No open question has the id {unknown!r}.", open_ids=list(by_id))
    return {key: copy_container(_fitting(by_id[key], answer)) for key, answer in answers.items()}


TIMED_OUT: Final[Any] = object()
"""Stands for an answer: the time limit for it is over."""


def _fitting(question: Interrupt, answer: Any) -> Any:
    """The answer, if it has the type that the question asked for."""
    if answer is TIMED_OUT:
        return None
    if question.schema is None:
        return answer
    try:
        return check_value(f"answer to {question.id}", question.schema, answer)
    except InvalidUpdateError as error:
        raise InvalidResume(f"The answer does not fit the question: {error}", open_ids=[question.id]) from error
