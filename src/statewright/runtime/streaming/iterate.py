"""Iterate over a run superstep by superstep, for tests, debuggers, and code that inspects the state in between."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, Final, Self

from statewright.checkpoint import Checkpoint, Interrupt
from statewright.events import Event
from statewright.runtime.invocation.emitter import EventEmitter, StreamBuffer
from statewright.runtime.invocation.outcome import RunOutcome
from statewright.runtime.invocation.run import Run
from statewright.runtime.streaming.modes import relative_namespace
from statewright.runtime.tasks.interrupt import raise_to_caller


@dataclass(frozen=True, slots=True)
class Step:
    """A superstep that has ended.

    If the run is a subgraph call that is resumed, the first step has no `nodes`, and the state at which the call was
    interrupted.
    """

    number: int
    nodes: tuple[str, ...]
    """The node of each task that ran, in task order."""
    values: Any
    """The state after the superstep."""
    next: tuple[str, ...]
    """The node of each task that is due next."""


_CLOSE_TIMEOUT: Final = 5.0
"""The longest time in seconds that `close` waits until the thread is released. Without a limit it might deadlock,
because a finaliser may close the iterator on an OS thread that holds a lock which the release needs."""
Halt = Callable[[Step], bool]
"""A condition on which to stop the iteration: called after each step, returns True to stop."""


class StepRecorder:
    """Converts the events of a run to steps, and adds them to a stream buffer."""

    def __init__(self, emitter: EventEmitter) -> None:
        self.buffer = StreamBuffer(during_tasks=False)
        self.run: Run | None = None
        """The run that is iterated; set once it is created. Events of its subgraphs are ignored."""
        self._nodes: tuple[str, ...] = ()
        emitter.add("superstep_started", self._on_started)
        emitter.add("superstep_finished", self._on_finished)
        emitter.add("call_continued", self._on_call_continued)
        emitter.buffer = self.buffer

    def _on_started(self, event: Event) -> None:
        if not relative_namespace(self.run, event.namespace):
            self._nodes = tuple(task.node for task in event.data)

    def _on_call_continued(self, event: Event) -> None:
        self._nodes = ()
        self._on_finished(event)

    def _on_finished(self, event: Event) -> None:
        if not relative_namespace(self.run, event.namespace):
            after: Checkpoint = event.data
            due = tuple(task.node for task in after.frontier)
            self.buffer.add(Step(event.step, self._nodes, event.program.output(after.values), due))


class StepIterator:
    """Iterates over the supersteps of a run, which advances only during calls of `next`.

    Closing the iterator, or leaving its `with` block, abandons the run. A run that saves its thread can be resumed
    later.
    """

    def __init__(self, run: Run, steps: Generator[Any, None, None], halt: Halt | None) -> None:
        self._run = run
        self._steps = steps
        self._halt = halt
        self.halted = False
        """True if the halt condition ended the iteration."""

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Step:
        if self.halted:
            raise StopIteration
        try:
            step: Step = next(self._steps)
        except StopIteration:
            try:
                self._raise_failure()
            except StopIteration as error:  # raised by a node, and would look like the end of the iteration
                raise RuntimeError("A node raised StopIteration.") from error
            raise
        self.halted = self._halt is not None and self._halt(step)
        return step

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Abandon the run, and wait until its thread is released, for a few seconds at most."""
        self._steps.close()
        # If a generator that contains this call is being dropped, this must not wait.
        if self._run.owner is None or sys.exc_info()[0] is GeneratorExit:
            return
        release = self._run.claim.release if self._run.claim is not None else None
        if release is not None:
            release.wait(min(_CLOSE_TIMEOUT, self._run.lease_duration.total_seconds()))

    @property
    def rest(self) -> RunOutcome | None:
        """The outcome of the run; None while it has not ended."""
        return self._run.outcome

    @property
    def interrupts(self) -> tuple[Interrupt, ...]:
        """The open questions that the run waits for."""
        return self.rest.interrupts if self.rest is not None else ()

    def _raise_failure(self) -> None:
        if self.rest is not None:
            raise_to_caller(self._run, self.rest)
