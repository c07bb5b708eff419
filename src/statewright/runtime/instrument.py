"""The port for observers of runs. An instrument never alters a run: an exception that it raises is logged."""

from __future__ import annotations

from statewright.events import Event


class Instrument:
    """Base class for observers: override the methods you need, and pass instances to `compile(instruments=[...])`.

    A method is called on the OS thread on which the event happens, and must return quickly. Its docstring describes
    `event.data` after the word "Data".
    """

    def on_run_started(self, event: Event) -> None:
        """A run starts. Data: its input."""

    def on_run_finished(self, event: Event) -> None:
        """A run has completed, failed or been cancelled, or has stopped to wait. Data: its outcome, a `RunOutcome`."""

    def on_superstep(self, event: Event) -> None:
        """A superstep starts. Data: a tuple of its tasks."""

    def on_task_started(self, event: Event) -> None:
        """A task starts. Data: `(task, input)`."""

    def on_task_begun(self, event: Event) -> None:
        """A task begins that may have waited for its turn: one of several, or one with policies. Called on the OS
        thread of the task. Data: None."""

    def on_task_finished(self, event: Event) -> None:
        """A task has ended, and with durability `sync`, its result is saved. Data: its outcome."""

    def on_task_ended(self, event: Event) -> None:
        """A task has ended. Called at once, on its own OS thread, before `on_task_finished`. Data: its outcome."""

    def on_step_started(self, event: Event) -> None:
        """A `runtime.step` or a `@task` call starts. Not called if its result is recorded. Data: `(name, ordinal)`."""

    def on_step_finished(self, event: Event) -> None:
        """A `runtime.step` or a `@task` call has ended. Data: `(name, ordinal, error)`, with None if it succeeded."""

    def on_run_broken_off(self, event: Event) -> None:
        """A run has ended without an outcome. Data: the exception.

        For example, its input was invalid, it could not be saved, or its stream was closed.
        """

    def on_attempt_failed(self, event: Event) -> None:
        """An attempt has failed, and the task will be retried. Data: `(error, seconds until the next attempt)`."""

    def on_commit(self, event: Event) -> None:
        """A superstep, an input or an update has been saved. Data: the commit."""

    def on_model_called(self, event: Event) -> None:
        """A call of a chat model has ended. Data: a dict with the model, its usage and the outcome."""

    def on_tool_called(self, event: Event) -> None:
        """A tool call has ended. Data: a dict with the tool and the outcome."""

    def on_question_changed(self, event: Event) -> None:
        """A task is executed again, and asks an answered question in other words. Data: a dict, `before` and `now`."""

    def on_message(self, event: Event) -> None:
        """A node has streamed a message, or a piece of a message. Data: the message or the piece."""

    def wants_messages(self) -> bool:
        """Return whether models should stream pieces of messages. Called before each call of a model."""
        return True

    def on_custom(self, event: Event) -> None:
        """A node has written a value to the stream mode `custom`. Data: the value."""

    def on_interrupt(self, event: Event) -> None:
        """A run stops, because tasks wait for answers, timers or events. Data: the interrupts."""

    def on_resume(self, event: Event) -> None:
        """A run continues with answers. Data: a dict of the answers by interrupt id."""


METHOD_BY_KIND = {
    "run_started": "on_run_started",
    "run_finished": "on_run_finished",
    "superstep_started": "on_superstep",
    "task_started": "on_task_started",
    "task_begun": "on_task_begun",
    "task_finished": "on_task_finished",
    "task_ended": "on_task_ended",
    "step_started": "on_step_started",
    "step_finished": "on_step_finished",
    "run_broken_off": "on_run_broken_off",
    "attempt_failed": "on_attempt_failed",
    "committed": "on_commit",
    "model_called": "on_model_called",
    "tool_called": "on_tool_called",
    "question_changed": "on_question_changed",
    "message": "on_message",
    "custom": "on_custom",
    "interrupted": "on_interrupt",
    "resumed": "on_resume",
}
"""The method of `Instrument` for each kind of event."""
