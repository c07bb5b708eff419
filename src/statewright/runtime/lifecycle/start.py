"""Begin a run: with new input, with a Command, or where another run has stopped.

A run loads its thread, decides where to begin, and claims the thread with a write, all before any node runs. So errors
in the input or in a Command are raised before anything is saved, and if the claim is refused, the run can start over
(`turn.take_turn`).
"""

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
from statewright.graph import END, START, Command, Send, SubgraphResult
from statewright.ids import CheckpointId, is_interrupt_id
from statewright.runtime.core.apply import apply_external_results, apply_results, folded_values, rewritten_fields
from statewright.runtime.core.commit import StepCommit
from statewright.runtime.core.effects import Effect, Emit, Load, SaveCallers
from statewright.runtime.core.events import run_event
from statewright.runtime.core.fold import write_pairs
from statewright.runtime.core.graph_migration import migrate_to_graph
from statewright.runtime.core.loop import run_supersteps
from statewright.runtime.core.program import Program
from statewright.runtime.core.saving import (
    NOTHING_SAVED,
    call_namespaces,
    commit_of,
    new_id_and_time,
    save_commit,
    save_pending,
)
from statewright.runtime.invocation.outcome import RunOutcome
from statewright.runtime.invocation.run import Run
from statewright.runtime.lifecycle.subgraph_forks import SubgraphCommits, copy_with_id, parent_task_of, subgraph_commits
from statewright.runtime.lifecycle.unfinished import collect_discarded_updates
from statewright.runtime.tasks.execute import check_targets, conclude_task, read_result
from statewright.runtime.tasks.interrupt import Paused
from statewright.runtime.tasks.scope import Scope, enter_scope, leave_scope
from statewright.state import check_value

Starting = Generator[Effect, Any, tuple[Checkpoint, Pending | None]]
"""Returns the checkpoint to continue from, and the saved data of the tasks in its frontier."""
Beginning = Generator[Effect, Any, "tuple[Checkpoint, Pending | None] | RunOutcome"]
"""Returns the same as `Starting`; or, if unfinished work of the thread ran first and did not complete, its outcome."""
Loaded = tuple[SavedCheckpoint | None, CheckpointId | None]
"""The checkpoint to start from, and the id of the head of the branch. They differ if the run starts from an older
checkpoint, which makes a fork."""


def begin_run(run: Run, graph_input: Any) -> Beginning:
    """Load the thread, decide where to begin, and claim the thread. No node runs, except with on_unfinished="finish".

    In that case, the unfinished work of the thread is executed first. Raises ThreadBusy or CheckpointConflict if the
    claim is refused; then nothing was written.
    """
    saved, head_id = (yield from _load_start(run)) if run.saver is not None else (None, None)
    must_finish = run.config.on_unfinished == "finish" and graph_input is not None
    if must_finish and not isinstance(graph_input, Command) and saved is not None and not saved.checkpoint.is_complete:
        outcome = yield from _finish_work(run, saved, head_id)
        if outcome.status != "completed":
            return outcome
        saved = migrate_saved(run, (yield from load_head(run)))
        head_id = saved.id if saved is not None else None
    checkpoint, pending = yield from _start_with_argument(run, graph_input, saved, head_id)
    if run.owner is not None and not (run.holds_thread or run.nested):
        yield from save_pending(run, checkpoint, Pending())  # an empty write, which claims the thread
    if pending:
        _restore_pending(run, pending)
    if saved is not None and _has_timed_sends(checkpoint):
        run.all_tasks_need_attempts = True
    run.step_limit = checkpoint.step + run.settings.recursion_limit
    return checkpoint, pending


def _has_timed_sends(checkpoint: Checkpoint) -> bool:
    """Return True if a due or deferred task comes from a Send with a timeout."""
    tasks = (*checkpoint.frontier, *(deferred.task for deferred in checkpoint.deferred))
    return any(type(task) is TimedTask for task in tasks)


def _restore_pending(run: Run, pending: Pending) -> None:
    """Restore the data that earlier runs have saved for the due tasks."""
    run.answers.update((str(key), value) for key, value in pending.answers.items())
    run.attempts, run.retries = pending.attempts, pending.retries
    if not run.shares_journal:
        run.journal = dict(pending.journal)
    if pending.interrupts or pending.settled:
        run.recall_questions(pending)


def _start_with_argument(
    run: Run, graph_input: Any, saved: SavedCheckpoint | None, head_id: CheckpointId | None
) -> Starting:
    """Start with the argument of the call: an input, a Command, or None to continue from the checkpoint `saved`."""
    if run.nested and saved is not None and _continues_call(run, saved):
        graph_input = None  # the calling task runs again, so its call is resumed, whatever input it passes now
    if isinstance(graph_input, Command):
        return (yield from _start_with_command(run, cast("Command[Any]", graph_input), saved, head_id))
    if graph_input is not None:
        return (yield from _start_with_input(run, graph_input, saved, head_id))
    if saved is None:
        raise EmptyInputError(_nothing_to_continue(run))
    checkpoint, pending = yield from _continue_thread(run, saved, head_id, replay=True)
    if run.nested and run.emitter is not None and run.emitter.wants("call_continued"):
        yield Emit(run_event("call_continued", run, checkpoint, checkpoint.step))
    answers = {question.id: run.answers[question.id] for question in pending.open if question.id in run.answers}
    return checkpoint, pending.merged(Pending(answers=answers)) if answers else pending


def _continues_call(run: Run, saved: SavedCheckpoint) -> bool:
    """Return whether the same task made the saved call. If so, this run continues the call instead of starting over."""
    return not _is_retry(run) and saved.metadata.get("parent_task") == run.metadata.get("parent_task")


def _is_retry(run: Run) -> bool:
    return run.call is not None and run.call.is_retry


def _load_start(run: Run) -> Generator[Effect, Any, Loaded]:
    """Load the checkpoint to start from, and the id of the head. They differ if the call named an older checkpoint."""
    if run.caller is not None and (ended_call := run.caller.run.ended_calls.get(run.namespace)) is not None:
        # The same call has ended in this superstep before, and its end was not saved. Save it, to load it below.
        if ended_call.run.parent is not None:
            ended_call.run.parent.attempt = run.caller.attempt  # a write of the earlier attempt would be refused
        yield SaveCallers(ended_call)
    branch = run.settings.branch
    head = yield from load_head(run)
    head_id = head.id if head is not None else None
    if head is not None and run.call is not None and run.call.is_retry and run.call.memory != "thread":
        run.step_before = head.checkpoint.step
        return None, head_id
    if head is not None and head.metadata.get("reset"):
        return None, head_id
    checkpoint_id = run.settings.checkpoint_id if not run.nested else None
    if checkpoint_id is None or checkpoint_id == head_id:
        if head is not None:
            run.memories = dict(head.metadata.get("memories", ()))
        return migrate_saved(run, head), head_id
    saved = migrate_saved(run, (yield Load(branch, checkpoint_id)))
    if saved is None:
        raise CheckpointNotFound(
            f"Thread {run.settings.thread_id!r} has no checkpoint {checkpoint_id!r}. "
            f"get_state_history lists its checkpoints."
        )
    return saved, head_id


def load_head(run: Run, branch: str | None = None) -> Generator[Effect, Any, SavedCheckpoint | None]:
    """Load the head of a branch, by default of the run's own. The run's next claim is refused if the head has changed.

    Raises ThreadBusy if another run holds the thread.
    """
    while True:
        saved: SavedCheckpoint | None = yield Load(branch or run.settings.branch)
        if saved is None and run.call is not None and run.call.former_namespaces:
            saved = yield from _load_under_former_name(run, run.call.former_namespaces)
        if run.claim is None or run.nested or run.claim.record_loaded(saved, cast(str, run.owner)):
            return saved


def _load_under_former_name(run: Run, namespaces: Sequence[str]) -> Generator[Effect, Any, SavedCheckpoint | None]:
    """Load the head of a call that was saved under a former name of its node, and move the run to that namespace."""
    current = run.namespace
    for namespace in namespaces:
        run.move_to(namespace)
        saved: SavedCheckpoint | None = yield Load(run.settings.branch)
        if saved is not None:
            return saved
    run.move_to(current)
    return None


def migrate_saved(run: Run, saved: SavedCheckpoint | None) -> SavedCheckpoint | None:
    """Return the saved checkpoint as the current version of the graph would have saved it.

    Sets `run.values_before_migration`.
    """
    if saved is None:
        return None
    result = migrate_to_graph(run.program, saved)
    if result.checkpoint.values is not saved.checkpoint.values:
        run.values_before_migration = saved.checkpoint.values
    return result


def _nothing_to_continue(run: Run) -> str:
    """Return the error message for a call without input if there is nothing to continue."""
    if run.saver is None:
        return (
            "The input is None. Only a saved thread can be continued without input: "
            "pass an input, or compile with a checkpointer."
        )
    return f"The input is None, and thread {run.settings.thread_id!r} has nothing to continue. Pass an input."


# -- new input


def _start_with_input(
    run: Run, graph_input: Any, saved: SavedCheckpoint | None, head_id: CheckpointId | None
) -> Starting:
    """Start at START with an input and the current state of the thread. Unfinished tasks are discarded."""
    program = run.program
    base, completed, discarded = _base_for_input(run, saved)
    task = Task(START, NO_ARG, run.origin(base.id, base.step), 0)
    if saved is None and run.call is not None and run.call.argument_is_state and program.begins_with_state:
        base, graph_input = _take_over_state(program, base, task, graph_input)
    result = _conclude_entry(run, task, base, graph_input)
    if discarded and saved is not None and _is_head(run, saved, head_id):
        update = yield from collect_discarded_updates(run, saved, base.values)
        if update:
            update_result = read_result(Scope(run, task), program.start, task, update)
            result.writes = [*write_pairs(result), *write_pairs(update_result)]
    commit_id, now = yield from new_id_and_time(run, base.step + 1)
    checkpoint = apply_results(program, base, [result], commit_id, run.origin(commit_id, base.step + 1))
    if run.saver is not None:
        parent = saved.checkpoint if saved is not None else None
        metadata: dict[str, Any] = {"discarded": discarded} if discarded else {}
        is_older = saved is not None and not _is_head(run, saved, head_id)
        if is_older:
            metadata["replaces"] = head_id
        if parent is not None:
            run.open_namespaces |= call_namespaces(run, parent.frontier)
        if run.caller is not None and run.saves_on_exit and head_id is None:
            # With durability `exit`, the input of a new call is not saved before the end of the call.
            run.uncommitted_from = NOTHING_SAVED
        else:
            if run.caller is not None and run.saves_on_exit:
                yield SaveCallers(run.caller)
            commit = commit_of(
                run, parent, checkpoint, [result], now, source="input", expected=head_id, metadata=metadata
            )
            if saved is not None and is_older:
                # Subgraph calls of the discarded tasks are neither copied to another branch nor reset on this branch.
                is_other_branch = saved.branch_key.branch != run.settings.branch
                commit.siblings = yield from _subgraph_commits(run, saved, restart_calls=is_other_branch)
            # If the unfinished superstep has results, they are applied together with the input.
            commit.spans_supersteps = bool(completed)
            if completed:
                commit.rewritten = itertools.chain.from_iterable(
                    rewritten_fields(program, results, base.values, checkpoint.values)
                    for results in (completed, [result])
                )
            yield from save_commit(run, commit)
    if run.emitter is not None and run.emitter.wants("input_applied"):
        yield Emit(run_event("input_applied", run, checkpoint, checkpoint.step))
    return checkpoint, None


def check_input(run: Run, graph_input: Any) -> None:
    """Raise the errors of an invalid input that can be detected without the state of the thread."""
    if graph_input is not None and not isinstance(graph_input, Command):
        task = Task(START, NO_ARG, "", 0)
        read_result(Scope(run, task), run.program.start, task, graph_input)


def _take_over_state(program: Program, base: Checkpoint, task: Task, state: Any) -> tuple[Checkpoint, SubgraphResult]:
    """Return the first checkpoint and the input of a subgraph that receives the state of its caller.

    A field of the caller replaces the initial value of the same field in the subgraph, instead of being merged into it.
    """
    writes = program.start.updates.read(state, START, task)
    values = {name: value for name, value in base.values.items() if name not in writes}
    return Checkpoint(base.id, base.step, values, ()), SubgraphResult({}, [*writes.items()])


def _conclude_entry(run: Run, task: Task, base: Checkpoint, graph_input: Any) -> TaskResult:
    """Return the result of START: the input as writes, and the tasks with which the run begins.

    A conditional edge of START may ask a question, or its path function may be a coroutine function. It cannot wait
    here, because no task is running yet. Then START becomes a task of the first superstep, which writes nothing and
    evaluates the conditional edge again.
    """
    start = run.program.start
    scope = Scope(run, task, base)
    token = enter_scope(scope)
    try:
        if not start.has_async_routes:
            return conclude_task(scope, start, task, base, graph_input)
    except Paused:
        pass
    finally:
        leave_scope(token)
    return TaskResult(task, read_result(scope, start, task, graph_input).writes, [Send(START, None)], goto=True)


def _base_for_input(run: Run, saved: SavedCheckpoint | None) -> tuple[Checkpoint, list[TaskResult], list[str]]:
    """Return the checkpoint to which new input is applied, the applied results, and the discarded nodes.

    The applied results are those of the unfinished superstep: the state of the returned checkpoint contains them. The
    discarded nodes are the nodes of the tasks without a result.
    """
    if saved is None:
        return Checkpoint(run.run_id, run.step_before, run.program.start_values(), ()), [], []
    open_questions = saved.pending.open
    if open_questions and run.nested:
        if not _is_retry(run):
            _check_call_is_over(run, saved)
    elif open_questions and run.config.on_unfinished != "discard":
        raise UnansweredInterrupts(
            saved.branch_key.thread_id, [(question.id, question.value) for question in open_questions]
        )
    before, completed = saved.checkpoint, saved.pending.completed
    results = [completed[task.id] for task in before.frontier if task.id in completed]
    values = folded_values(run.program, before.values, results) if results else before.values
    tasks = [*before.frontier, *(deferred.task for deferred in before.deferred)]
    discarded = sorted({task.node for task in tasks if task.id not in completed})
    return Checkpoint(before.id, before.step, values, ()), results, discarded


def _check_call_is_over(run: Run, saved: SavedCheckpoint) -> None:
    """Raise NamespaceBusy if another task that is still due has an unfinished call that uses the same memory.

    If that task was discarded, or completed by an update, it never resumes its call, so the call may be replaced.
    """
    waiting_task, caller = parent_task_of(saved), run.parent
    if caller is None or caller.task is None or caller.checkpoint is None:
        return
    if any(task.id == waiting_task for task in caller.checkpoint.frontier):
        raise NamespaceBusy(saved.branch_key.namespace, caller.task.node)


def _finish_work(run: Run, saved: SavedCheckpoint, head_id: CheckpointId | None) -> Generator[Effect, Any, RunOutcome]:
    """Execute the unfinished work of the thread until it stops, and return its outcome."""
    checkpoint, pending = yield from _continue_thread(run, saved, head_id, replay=False)
    run.step_limit = checkpoint.step + run.settings.recursion_limit
    if not run.holds_thread:
        yield from save_pending(run, checkpoint, Pending())
    _restore_pending(run, pending)
    return (yield from run_supersteps(run, checkpoint, pending))


# -- continuation of a thread


def _continue_thread(
    run: Run, saved: SavedCheckpoint, head_id: CheckpointId | None, *, replay: bool
) -> Generator[Effect, Any, tuple[Checkpoint, Pending]]:
    """Return the checkpoint to continue from, and its pending data. If `saved` is not the head, commit a fork of it."""
    checkpoint, pending, fork = yield from _plan_continuation(run, saved, head_id, replay=replay)
    if fork is not None:
        yield from save_commit(run, fork)
    return checkpoint, pending


def _plan_continuation(
    run: Run, saved: SavedCheckpoint, head_id: CheckpointId | None, *, replay: bool
) -> Generator[Effect, Any, tuple[Checkpoint, Pending, StepCommit | None]]:
    """Return the checkpoint and pending data to continue with, and the commit of a fork; None if no fork is needed.

    A fork is needed if `saved` is not the head. With `replay` all tasks of the fork run again; otherwise their pending
    results are kept.
    """
    checkpoint, pending = saved.checkpoint, saved.pending
    if _is_head(run, saved, head_id):
        return checkpoint, pending, None
    inner_commits = yield from _subgraph_commits(run, saved, restart_calls=replay)
    pending = Pending(journal=dict(pending.journal), paused=pending.paused) if replay else pending.forked()
    metadata = {"nodes": saved.metadata.get("nodes", []), "replaces": head_id}
    commit_id, now = yield from new_id_and_time(run, checkpoint.step + 1)
    fork = copy_with_id(checkpoint, commit_id)
    commit = commit_of(
        run, checkpoint, fork, [], now, source="fork", expected=head_id, pending=pending, metadata=metadata
    )
    commit.siblings = inner_commits
    return fork, pending, commit


def _subgraph_commits(run: Run, saved: SavedCheckpoint, *, restart_calls: bool) -> SubgraphCommits:
    """Return the commits of subgraphs that are saved with the commit of a run that starts from an older checkpoint."""
    branch_key = saved.branch_key._replace(branch=run.settings.branch)
    at_head = False
    if saved.branch_key.branch != branch_key.branch:
        source_head: SavedCheckpoint | None = yield Load(saved.branch_key.branch)
        at_head = source_head is not None and source_head.id == saved.id
    return (yield from subgraph_commits(run, saved, branch_key, at_head=at_head, restart_calls=restart_calls))


def _is_head(run: Run, saved: SavedCheckpoint, head_id: CheckpointId | None) -> bool:
    """Return True if a checkpoint is the head of the branch that the run writes to."""
    return saved.id == head_id and saved.branch_key.branch == run.settings.branch


# -- a Command as input


def _start_with_command(
    run: Run, command: Command[Any], saved: SavedCheckpoint | None, head_id: CheckpointId | None
) -> Starting:
    """Start with the answers, the update and the targets of a Command. All are checked before anything is saved."""
    if not command.resumes and command.update is None and not command.targets:
        raise EmptyInputError("The Command is empty. Pass resume=, update= or goto=.")
    if saved is None and command.resumes:
        raise InvalidResume(_nothing_to_resume(run))
    checkpoint, pending, fork = Checkpoint(run.run_id, -1, run.program.start_values(), ()), Pending(), None
    if saved is not None:
        checkpoint, pending, fork = yield from _plan_continuation(run, saved, head_id, replay=not command.resumes)
    if command.resumes and pending.paused and not pending.open and run.program.graph.answers_to is not None:
        command = Command(update={run.program.graph.answers_to: command.resume})
    # Errors in the Command are raised from here on, before any part of it is saved.
    answers = read_answers(command.resume, pending.open) if command.resumes else {}
    commit_id, now = yield from new_id_and_time(run, checkpoint.step + 1)
    has_changes = command.update is not None or command.targets
    changed = _apply_command(run, checkpoint, command, commit_id) if has_changes else None
    if fork is not None:
        yield from save_commit(run, fork)
    if command.resumes:
        pending = pending.merged(Pending(answers=answers))
        yield from save_pending(run, checkpoint, Pending(answers=answers))
        if run.emitter is not None and run.emitter.wants("resumed"):
            yield Emit(run_event("resumed", run, answers, checkpoint.step))
    if changed is not None:
        before = checkpoint if saved is not None else None
        checkpoint, result = changed
        if run.saver is not None:
            commit = commit_of(run, before, checkpoint, [result], now, source="update", pending=pending)
            yield from save_commit(run, commit)
    return checkpoint, pending


def _apply_command(run: Run, base: Checkpoint, command: Command[Any], commit_id: str) -> tuple[Checkpoint, TaskResult]:
    """Return the checkpoint after the update of a Command, and the update as a result. Tasks that are due stay due."""
    program = run.program
    task = Task(START, NO_ARG, base.id, 0)
    writes = {} if command.update is None else program.updates.read(command.update, START, task)
    targets = [target for target in check_targets(run, program.start, command.targets) if target != END]
    result = TaskResult(task, writes, targets, goto=True)
    return apply_external_results(program, base, [result], commit_id, base.frontier, base.deferred), result


def _nothing_to_resume(run: Run) -> str:
    """Return the error message for a Command with answers if there is nothing to resume."""
    if run.saver is None:
        return "Resuming needs a checkpointer: compile(checkpointer=...) and call with a thread_id."
    return f"Thread {run.settings.thread_id!r} has no saved run to resume."


def read_answers(resume: Any, open_questions: Sequence[Interrupt]) -> dict[Any, Any]:
    """Return the answers by interrupt id. Raises InvalidResume for unknown ids, and for answers of the wrong type.

    A mapping is read as answers by id only if all its keys have the form of an id.
    """
    by_id = {question.id: question for question in open_questions}
    questions = [question for question in open_questions if question.kind == "question"]
    if isinstance(resume, Mapping) and resume and all(is_interrupt_id(key) for key in cast(Mapping[Any, Any], resume)):
        answers = dict(cast(Mapping[Any, Any], resume))
    elif len(questions) == 1:
        answers = {questions[0].id: cast(Any, resume)}
    elif not by_id:
        raise InvalidResume("No question is open, so there is nothing to answer. Call invoke(None) to continue.")
    elif not questions:
        events = ", ".join(question.event or f"a timer until {question.due_at}" for question in open_questions)
        raise InvalidResume(
            f"No question is open; the thread waits for {events}. Use send_event or resume_due.", open_ids=list(by_id)
        )
    else:
        raise InvalidResume(
            f"{len(questions)} questions are open, so one answer is ambiguous. Pass Command(resume={{id: answer}}).",
            open_ids=list(by_id),
        )
    unknown = next((key for key in answers if key not in by_id), None)
    if unknown is not None:
        raise InvalidResume(f"No open question has the id {unknown!r}.", open_ids=list(by_id))
    return {key: copy_container(_checked_answer(by_id[key], answer)) for key, answer in answers.items()}


TIMED_OUT: Final[Any] = object()
"""Stands in place of an answer when the time limit of a question has expired."""


def _checked_answer(question: Interrupt, answer: Any) -> Any:
    """Return the answer, converted to the type that the question requires. Raises InvalidResume if that fails."""
    if answer is TIMED_OUT:
        return None
    if question.schema is None:
        return answer
    try:
        return check_value(f"answer to {question.id}", question.schema, answer)
    except InvalidUpdateError as error:
        raise InvalidResume(f"The answer does not fit the question: {error}", open_ids=[question.id]) from error
