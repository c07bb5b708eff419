"""Replay of a recorded run, from its input to its end.

The player drives the core's generator as a driver would, but answers `RunTasks` with outcomes from the file. It counts
the recorded supersteps that it has played. After the core has applied an input or the results of a superstep, the new
state is compared with the record of that superstep.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, cast

from statewright.checkpoint import BranchKey, Commit, Task
from statewright.clock import as_seconds
from statewright.errors import BudgetExceeded
from statewright.events import Event
from statewright.runtime import CompiledGraph
from statewright.runtime.config import OnUnfinished, Settings
from statewright.runtime.core.effects import Effect, RunTasks, Stamp, StepOutcome
from statewright.runtime.core.program import Program
from statewright.runtime.drivers.saver_calls import perform_effect
from statewright.runtime.invocation.emitter import EventEmitter
from statewright.runtime.invocation.outcome import RunOutcome
from statewright.runtime.invocation.run import Run, SubgraphCall
from statewright.runtime.invocation.run_config import RunConfig, RunPorts
from statewright.runtime.lifecycle.turn import run_until_idle
from statewright.testing.replay.checks import NodeRenamer, RunChecks, describe_end
from statewright.testing.replay.forms import checkpoint_from_record, plain_tasks
from statewright.testing.replay.mismatch import Position, ReplayMismatch
from statewright.testing.replay.records import ExistingCheckpoint, RecordedRun, RecordedStep
from statewright.testing.replay.stable_ids import stable_commit_id
from statewright.testing.replay.task_player import Playback, TaskPlayer


class RunPlayer:
    """Plays a recorded run."""

    def __init__(self, playback: Playback, run: Run, recorded: RecordedRun) -> None:
        self._playback = playback
        self._run = run
        self._recorded = recorded
        self._position = Position(playback.file, recorded.number, recorded.namespace, recorded.thread_id)
        self._checks = RunChecks(run.program, recorded, self._position)
        self._tasks = TaskPlayer(playback, run, self._checks, self._play_nested)
        self._index = 0
        """The index of the next recorded superstep."""
        self._current: RecordedStep | None = None
        """The recorded superstep whose outcomes the core has received but not applied yet; None if there is none."""
        run.emitter = EventEmitter(
            [("input_applied", self._input_applied), ("superstep_finished", self._superstep_finished)]
        )

    def play(self, value: Any) -> RunOutcome | None:
        """Play the run and return its outcome; None if the recorded run was abandoned. Raises ReplayMismatch."""
        for checkpoint in self._recorded.existing_checkpoints:
            self._restore(checkpoint)
        if all(step.is_input for step in self._recorded.steps):
            self._request_stop()
        self._advance_clock(0)
        core = run_until_idle(self._run, value)
        answer: Any = None
        try:
            while True:
                effect = self._next_effect(core.send, answer)
                if isinstance(effect, RunOutcome):
                    self._checks.check_end(effect, self._current, self._index)
                    return effect
                if type(effect) is Stamp:
                    answer = self._stamp(effect.step)
                elif type(effect) is RunTasks:
                    if self._recorded.end is None and self._index == len(self._recorded.steps):
                        return None
                    answer = self._play_tasks(effect)
                else:
                    answer = perform_effect(self._run, effect)
        finally:
            core.close()

    def _next_effect(self, send: Callable[[Any], Effect], answer: Any) -> Effect | RunOutcome:
        try:
            return send(answer)
        except StopIteration as stopped:
            return stopped.value
        except Exception as error:
            end = self._recorded.end
            message = f"{type(error).__name__}: {error}"
            recorded = f"the run stopped, {end.status}" if end is not None else "the run started"
            raise self._mismatch("the call raises an error", recorded, message) from error

    # -- before the run

    def _restore(self, existing: ExistingCheckpoint) -> None:
        """Save a checkpoint that was on the thread before the recorded run."""
        branch, saver = self._run.branch_key, self._playback.saver
        if branch is None:
            return
        checkpoint, pending = checkpoint_from_record(existing, self._playback.serde)
        head = saver.load(branch.thread_id, namespace=branch.namespace, branch=branch.branch)
        if head is not None and head.id == existing.id:
            saver.save_results(branch, head.id, pending)
            return
        saver.commit(
            Commit(
                branch_key=branch,
                expected=head.id if head is not None else None,
                parent_id=None,
                checkpoint=checkpoint,
                deltas=None,
                source=cast(Any, existing.source),
                run_id="before-recording",
                created_at=self._playback.clock.now(),
                metadata=existing.metadata,
                pending=pending,
                graph_version=existing.version,
            )
        )

    def _request_stop(self) -> None:
        """Ask the run to stop, if the recorded run was asked to stop."""
        end, control = self._recorded.end, self._run.control
        if end is None or end.stopped is None or control is None:
            return
        kind, reason = end.stopped
        (control.request_cancel if kind == "cancel" else control.request_drain)(reason)

    def _advance_clock(self, next_index: int) -> None:
        """Advance the clock past the time limit of the budget, if the recorded run exceeded it before this superstep.

        The budget then ends the run, or the superstep runs the fallback node of the budget.
        """
        budget, steps, end = self._run.config.budget, self._recorded.steps, self._recorded.end
        if budget is None or budget.max_seconds is None:
            return
        # Input is applied before the core checks the budget for the first superstep.
        index = next_index + 1 if next_index < len(steps) and steps[next_index].is_input else next_index
        ran_fallback = index < len(steps) and steps[index].out_of_budget
        error = (end.error or [""])[0] if end is not None else ""
        was_ended = index == len(steps) and error.endswith(BudgetExceeded.__name__)
        if ran_fallback or was_ended:
            spending = self._run.spending  # starts to measure the time when it is first read
            remaining = as_seconds(budget.max_seconds) - spending.seconds
            self._playback.clock.advance(max(remaining, 0.0))

    # -- supersteps

    def _stamp(self, step: int) -> tuple[str, datetime]:
        """Return the stable id of the checkpoint after a superstep, and the current time."""
        run = self._run
        return stable_commit_id(run.run_id, run.namespace, step), self._playback.clock.now()

    def _play_tasks(self, effect: RunTasks) -> StepOutcome:
        """Return the outcomes of the tasks, recorded or computed, in the form in which a driver would return them."""
        step = self._match_step(effect)
        position = self._position.at(step.number)
        recorded = self._checks.renamer.rename_tasks(plain_tasks(step.tasks))
        self._checks.compare(position, "different tasks run", recorded, plain_tasks(effect.tasks))
        if self._index == len(self._recorded.steps) - 1:
            self._request_stop()
        outcomes = [
            self._tasks.play(_task_position(position, effect.tasks, index), task, record, effect.checkpoint)
            for index, (task, record) in enumerate(zip(effect.tasks, step.tasks, strict=True))
        ]
        self._run.spending.add(step.tokens, step.cost)
        self._advance_clock(self._index + 1)
        self._current, self._index = step, self._index + 1
        return outcomes, *self._stamp(step.number)

    def _match_step(self, effect: RunTasks) -> RecordedStep:
        """Return the recorded superstep whose tasks the core asks to run."""
        steps, number = self._recorded.steps, effect.checkpoint.step + 1
        nodes = ", ".join(repr(task.node) for task in effect.tasks)
        if self._index == len(steps):
            end = describe_end(self._recorded)
            raise ReplayMismatch(self._position.at(number), "the run does not stop", end, f"ran {nodes}")
        step = steps[self._index]
        if step.is_input:
            position = self._position.at(number)
            raise ReplayMismatch(position, "the run begins differently", "input was applied", f"ran {nodes}")
        return step

    def _play_nested(
        self, recorded: RecordedRun, graph: CompiledGraph, branch: BranchKey | None, value: Any, call: SubgraphCall
    ) -> RunOutcome | None:
        """Play a task's call of a graph and return its outcome; return None if the recorded call was abandoned."""
        caller = self._run
        call.argument_is_state = True
        run = Run(
            graph.program,
            settings_from_record(recorded),
            config_from_record(recorded, graph.program, caller.config),
            RunPorts(clock=self._playback.clock, store=graph.store or caller.ports.store),
            run_id=caller.run_id,
            saver=caller.saver if branch is not None else None,
            branch_key=branch,
            control=caller.control,
            answers=caller.answers,
            call=call,
            thread_memory_callers=caller.thread_memory_callers,
            spending=caller.spending if caller.config.budget is not None else caller.spending_if_counted,
        )
        run.parent = run.caller = None  # detached from its caller, because it must not save or stop the calling run
        return RunPlayer(self._playback, run, recorded).play(value)

    # -- events of the core

    def _input_applied(self, event: Event) -> None:
        step = self._recorded.steps[self._index] if self._index < len(self._recorded.steps) else None
        if step is None or not step.is_input:
            raise self._mismatch("the run begins differently", "no input was applied", "input was applied")
        self._index += 1
        self._checks.check_state(step, event.data, "the state after the input differs")

    def _superstep_finished(self, event: Event) -> None:
        step, self._current = cast(RecordedStep, self._current), None
        self._checks.check_state(step, event.data, "the state differs")

    def _mismatch(self, what: str, recorded: object, current: object) -> ReplayMismatch:
        steps = self._recorded.steps
        number = steps[self._index].number if self._index < len(steps) else None
        return ReplayMismatch(self._position.at(number), what, recorded, current)


def _task_position(position: Position, tasks: Sequence[Task], index: int) -> Position:
    """Return the position of the task at an index of `tasks`, numbered if its node has several tasks."""
    nodes = [task.node for task in tasks]
    node = nodes[index]
    return position.at(position.superstep, node, nodes[:index].count(node) if nodes.count(node) > 1 else None)


def config_from_record(recorded: RecordedRun, program: Program, config: RunConfig) -> RunConfig:
    """Return a config in which the options of the recorded run replace those of `config`."""
    renamer = NodeRenamer(program)
    return config._replace(
        budget=recorded.budget,
        durability="exit" if recorded.saves_on_exit else "sync",
        breaks_before=frozenset(map(renamer.rename_node, recorded.breaks_before)),
        breaks_after=frozenset(map(renamer.rename_node, recorded.breaks_after)),
        on_unfinished=cast("OnUnfinished | None", recorded.on_unfinished),
        keeps_calls=recorded.keeps_calls,
    )


def settings_from_record(recorded: RecordedRun) -> Settings:
    """Return the settings of a recorded run."""
    settings = Settings()
    settings.thread_id, settings.branch = recorded.thread_id, recorded.branch
    settings.checkpoint_id, settings.recursion_limit = recorded.checkpoint_id, recorded.recursion_limit
    return settings
