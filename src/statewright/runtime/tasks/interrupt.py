"""Pause a run from inside a node.

`interrupt()`, `sleep()` and `wait_for_event()` stop the node that calls them. When the answer has been given, the time
has come, or the event was sent, the node runs again from its first line, and this time the call returns. The three
functions share one mechanism, and differ only in what resumes the run. They raise a `BaseException`, which
`except Exception` in a node does not catch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar, overload

from statewright.channels import copy_container
from statewright.checkpoint import Interrupt, canonical_schema
from statewright.clock import Duration, as_seconds
from statewright.errors import InvalidUpdateError
from statewright.graph import Command, ParentCommand
from statewright.ids import interrupt_id
from statewright.runtime.tasks.changed_questions import check_answered, check_new, is_unchanged
from statewright.runtime.tasks.liveness import check_not_refused, note_refusal
from statewright.runtime.tasks.scope import current_scope
from statewright.state import check_schema, check_value

if TYPE_CHECKING:
    from statewright.runtime.invocation.outcome import RunOutcome
    from statewright.runtime.invocation.run import Run

T = TypeVar("T")


class Paused(BaseException):
    """Raised to stop a node that waits, by `interrupt()` and by calls of subgraphs. User code must not catch it."""

    def __init__(self, *interrupts: Interrupt) -> None:
        self.interrupts = interrupts
        super().__init__("paused: " + ", ".join(interrupt.id for interrupt in interrupts))


class ChildCommand(BaseException):
    """Raised by the call of a subgraph that has returned Commands for the calling graph, to end the calling node."""

    def __init__(self, *commands: Command[Any], nodes: Sequence[str] = ()) -> None:
        self.commands = commands
        self.nodes = tuple(nodes)
        """For each command: the node of the subgraph that returned it. Empty if there is a single command."""
        super().__init__("a Command from a subgraph")


def raise_to_caller(run: Run, outcome: RunOutcome) -> None:
    """Raise the exception by which a run reports its outcome to its caller, unless the run has a result.

    If the caller is a node, this is ChildCommand for Commands that the subgraph returned, and Paused if it waits.
    """
    error = outcome.error
    if error is not None and run.parent is not None:
        note_refusal(run.parent, error)
    if run.nested and isinstance(error, ParentCommand):
        raise ChildCommand(*error.commands, nodes=error.nodes)
    if error is not None:
        raise error
    if run.nested and outcome.status in ("waiting", "paused"):
        raise Paused(*outcome.interrupts)


@overload
def interrupt(value: Any, *, key: str | None = None, schema: type[T], timeout: None = None) -> T: ...
@overload
def interrupt(value: Any, *, key: str | None = None, schema: type[T], timeout: Duration) -> T | None: ...
@overload
def interrupt(value: Any, *, key: str | None = None, schema: Any = None, timeout: Duration | None = None) -> Any: ...
def interrupt(value: Any, *, key: str | None = None, schema: Any = None, timeout: Duration | None = None) -> Any:
    """Ask the caller of the graph a question, and return the answer.

    The first call stops the node and the run. Then `invoke(Command(resume=answer))` on the thread runs the node again,
    and the call returns the answer. Several calls in one node are identified by their order, or by `key` if the order
    may change. `schema` is the type that an answer must have, or a JSON Schema as a dict; for a wrong answer, `invoke`
    raises InvalidResume and nothing changes. If there is no answer within `timeout`, `resume_due` resumes the run, and
    the call returns None.

    Raises InvalidUpdateError outside a node, for a key that the node has used already, and for an invalid schema.
    Raises QuestionMismatch if the node is executed again, and asks another question than the one that was answered.
    """
    return wait_for("interrupt()", key, timeout, lambda: {"value": value, "schema": schema})


def sleep(delay: Duration | None = None, *, until: datetime | None = None, key: str | None = None) -> None:
    """Stop the node and the run for a duration, or until an instant, without occupying a worker during that time.

    After that, `resume_due` runs the node again from its first line, and then the call returns. Raises
    InvalidUpdateError outside a node, and unless exactly one of `delay` and `until` is given.
    """
    if (delay is None) == (until is None):
        raise InvalidUpdateError("sleep() takes either a delay, or an instant as until=. Pass exactly one of them.")
    if until is not None and until.tzinfo is None:
        raise InvalidUpdateError(f"sleep(until={until!r}) has no time zone. Pass a datetime with one.")
    wait_for("sleep()", key, delay, lambda: {"value": None, "kind": "timer"}, until)


@overload
def wait_for_event(name: str, *, timeout: None = None, schema: type[T], key: str | None = None) -> T: ...
@overload
def wait_for_event(name: str, *, timeout: Duration, schema: type[T], key: str | None = None) -> T | None: ...
@overload
def wait_for_event(
    name: str, *, timeout: Duration | None = None, schema: Any = None, key: str | None = None
) -> Any: ...
def wait_for_event(name: str, *, timeout: Duration | None = None, schema: Any = None, key: str | None = None) -> Any:
    """Stop the node and the run until an event with this name is sent to the thread, and return its payload.

    `app.send_event(name, payload, thread_id=...)` runs the node again from its first line, and then the call returns
    the payload. It returns None if no event is sent within `timeout`. `schema` is the type that a payload must have.
    Raises InvalidUpdateError outside a node.
    """
    if not name:
        raise InvalidUpdateError("wait_for_event() was called with an empty name. Pass the name of the event.")
    return wait_for(
        "wait_for_event()", key, timeout, lambda: {"value": name, "schema": schema, "kind": "event", "event": name}
    )


def wait_for(
    function: str,
    key: str | None,
    delay: Duration | None,
    question_parts: Callable[[], dict[str, Any]],
    until: datetime | None = None,
    *,
    repeats: bool = False,
) -> Any:
    """Return the answer to a question, or raise Paused if there is no answer yet.

    `function` is the name of the calling function in errors, and `question_parts` returns fields of the Interrupt. With
    `repeats`, a question that was answered under one key may be asked again under another, to get a new answer. Raises
    QuestionMismatch if the task asks another question than the one that was answered.
    """
    scope = current_scope()
    if scope is None or scope.task is None:
        raise InvalidUpdateError(f"{function} was called outside a node. Call it in a function that a graph runs.")
    if delay is not None and as_seconds(delay) < 0:
        raise InvalidUpdateError(f"{function} was called with {delay!r}. A duration must not be negative.")
    check_not_refused(scope)
    run = scope.run
    question_id = interrupt_id(scope.task.id, scope.next_question(key))
    parts = question_parts()
    parts["value"] = copy_container(parts["value"])  # the node may change its list or dict later
    form = canonical_schema(parts.get("schema"))
    question = Interrupt(id=question_id, key=key, schema_form=form, due_at=until, namespace=run.namespace, **parts)
    earlier = run.questions.by_id.get(question_id) or run.known_interrupts.get(question_id)
    if question_id in run.answers:
        if earlier is not None:
            check_answered(scope, earlier, question)
        answer = copy_container(run.answers[question_id])  # the node may change its copy
        return _check_answer(answer, earlier, question)
    if not repeats and run.answers:
        check_new(scope, question)
    if earlier is not None:
        raise Paused(_repeat_question(earlier, question))
    check_schema(function, question.schema)
    if delay is not None:
        question = replace(question, due_at=run.ports.clock.now() + timedelta(seconds=as_seconds(delay)))
    raise Paused(question)


def _check_answer(answer: Any, earlier: Interrupt | None, question: Interrupt) -> Any:
    """Return the answer, after checking it against the schema of the question if that was not done when it arrived.

    Not every type can be stored with a question. So the schema that was stored with the earlier question may be weaker
    than the one that the node passes now, or missing.
    """
    if question.schema is None or earlier is None or answer is None:
        return answer
    if canonical_schema(earlier.schema) == question.schema_form:
        return answer
    return check_value(f"answer to {question.id}", question.schema, answer)


def _repeat_question(earlier: Interrupt, question: Interrupt) -> Interrupt:
    """Return the question to pause with when an open question is asked again. Its timeout is not extended."""
    if is_unchanged(earlier, question):
        return earlier
    return replace(question, due_at=earlier.due_at)
