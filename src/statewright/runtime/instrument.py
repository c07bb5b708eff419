"""The port for those who observe runs. An instrument never alters what it sees."""

from __future__ import annotations

from statewright.events import Event


class Instrument:
    """Derive from this and override what you want to hear of; give instances to `compile(instruments=[...])`.

    Methods are called on the thread where the thing happened, and must return soon. What `event.data` holds:
    the input, and the `RunOutcome`, of a run; the tasks of a superstep that starts; `(task, input)` of a task that
    starts, and the outcome of one that ended; the error of an attempt and the seconds until the next one; a commit; the
    interrupts of a run that waits, and the answers, by interrupt id, of one that goes on; of calls of models and
    tools a dict that says what was called, what it used up and how it ended; the message, and the value; `(name,
    ordinal)` of a step that starts, with the error or None of one that ended; what was raised of a run broken off.
    """

    def on_run_started(self, event: Event) -> None: ...

    def on_run_finished(self, event: Event) -> None: ...

    def on_superstep(self, event: Event) -> None:
        """A superstep starts."""

    def on_task_started(self, event: Event) -> None: ...

    def on_task_finished(self, event: Event) -> None: ...

    def on_task_ended(self, event: Event) -> None:
        """A task has come to its end, where it ran; `on_task_finished` follows when its outcome counts."""

    def on_step_started(self, event: Event) -> None:
        """A journalled step, or a called task, is done now; one whose result is in the journal already is not."""

    def on_step_finished(self, event: Event) -> None:
        """It has ended."""

    def on_run_broken_off(self, event: Event) -> None:
        """A run ended without coming to rest: nothing could be saved, its input was wrong, nobody reads its stream."""

    def on_attempt_failed(self, event: Event) -> None:
        """An attempt failed, and there will be another one."""

    def on_commit(self, event: Event) -> None:
        """A superstep, an input or an update was saved."""

    def on_model_called(self, event: Event) -> None:
        """A chat model has answered."""

    def on_tool_called(self, event: Event) -> None:
        """A tool that a model asked for has answered, or failed."""

    def on_question_changed(self, event: Event) -> None:
        """A task that runs again asks in other words what was answered."""

    def on_message(self, event: Event) -> None:
        """A node has shown a message, or a piece of one. Models stream while somebody wants to hear of this."""

    def wants_messages(self) -> bool:
        """Return whether the instrument wants pieces of messages now; called again for each call of a model."""
        return True

    def on_custom(self, event: Event) -> None:
        """A node has written a value to the stream."""

    def on_interrupt(self, event: Event) -> None:
        """A run comes to rest because tasks wait for something from outside."""

    def on_resume(self, event: Event) -> None:
        """A run goes on with answers."""


METHOD_BY_KIND = {
    "run_started": "on_run_started",
    "run_finished": "on_run_finished",
    "superstep_started": "on_superstep",
    "task_started": "on_task_started",
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
