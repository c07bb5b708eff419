"""What happens when a task that has an answer asks something else than what was answered.

A node runs again from its first line when its answer has come, and each call of `interrupt()` takes the answer that
belongs to its place: its ordinal, or its key. If the node asks other questions now, the answer at that place belongs
to none of them. So a question is compared with the one that stood there:

- another kind, event or type of answer, or the value of another question of the task: the answer is refused;
- another value alone may be the same question in other words, such as a draft that a model wrote anew. The answer is
  given, with a warning; `compile(changed_questions="error")` refuses it too.

A question at a new place is refused if it is the same as one of the task whose answer nobody has taken: then it has
moved there, or has another key. What a subgraph or a called task asks, and what the task asks that called it, are never
compared with each other: both may ask in the same words.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any

from statewright.checkpoint import Interrupt, check_value
from statewright.errors import QuestionChanged, QuestionMismatch
from statewright.fingerprint import fingerprint
from statewright.ids import interrupt_id
from statewright.runtime.core.run import Run
from statewright.runtime.tasks.scope import Scope

_CALLS_BETWEEN = 5
"""From the warning to the line of the node that called `interrupt()`: warn, note, check, wait_for, interrupt."""


def check_answered(scope: Scope, before: Interrupt, now: Interrupt) -> None:
    """Compare the question of a task with the one that was answered at its place.

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
    if scope.run.refuses_changed:
        raise _mismatch(scope, before, now, "value")
    _note_changed(scope, before, now)


def check_new(scope: Scope, now: Interrupt) -> None:
    """Raise QuestionMismatch if a question at a new place is one whose answer is kept for another place.

    A task that has failed since may ask the same once more under another key, to be answered anew.
    """
    if _has_failed(scope):
        return
    run = scope.run
    for other in _others(scope, now):
        if other.id in run.answers and other.id not in run.delivered and _is_same(other, now):
            raise _mismatch(scope, other, now, "key" if other.key != now.key else "place")


def is_unchanged(before: Interrupt, now: Interrupt) -> bool:
    """Whether a question that is still open is asked again as it was."""
    return _is_same(before, now) and before.schema_form == now.schema_form


def is_equal(one: Any, other: Any) -> bool | None:
    """Whether two values are equal; None where nothing tells. Never raises, whatever the values do."""
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
    """The other questions that the task itself has asked: those of its calls, in whatever words, are not its own."""
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


# -- a question that is worded anew


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
    if run.watch is not None:
        run.watch.noted(scope, "question_changed", data)
    warning = QuestionChanged(task.node, shorten(before.value), shorten(now.value), before=before, now=now)
    warnings.warn(warning, stacklevel=_CALLS_BETWEEN)


def _loggable(run: Run, value: Any) -> Any:
    """Return the value, or text for it if it cannot be stored: the log must not fail the run."""
    try:
        check_value(run.saver, value)
    except Exception:
        return shorten(value)
    return value
