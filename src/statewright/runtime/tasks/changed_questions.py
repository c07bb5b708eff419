"""Compare the questions of a task that runs again with the questions that were answered.

When an answer has arrived, the node runs again from its first line. The position of a question is its key, or its
ordinal among the questions of the task, and each call of `interrupt()` receives the answer at its position. If the node
asks other questions now, the answers do not belong to them. So each question is compared with the earlier question at
the same position:

- If its kind, event or type of answer differs, or if another question of the task had its value, the answer is not
  used, and QuestionMismatch is raised.
- If only the value differs, it may be the same question in other words, such as a draft that a model has rewritten. The
  answer is used, with a warning; with `compile(changed_questions="error")`, QuestionMismatch is raised instead.

If there was no question at the position, QuestionMismatch is raised if the new question equals a question of the task
whose answer has not been used yet, because then the question has moved, or its key has changed. Questions of a subgraph
or of a `@task` call are never compared with questions of the calling task, because both may use the same words.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from itertools import count
from typing import Any, Final

from statewright.checkpoint import Interrupt, check_value
from statewright.data.fingerprint import fingerprint
from statewright.errors import QuestionChanged, QuestionMismatch
from statewright.ids import interrupt_id
from statewright.runtime.core.events import emit_task_event
from statewright.runtime.invocation.run import Run
from statewright.runtime.tasks.scope import Scope
from statewright.text import short_repr

_STACK_LEVEL: Final = 5
"""The number of frames from the warning to the line of the node that called `interrupt()`."""
_LONGEST_VALUE: Final = 200
"""The maximum number of characters of a question's value in messages."""


def check_answered(scope: Scope, earlier: Interrupt, current: Interrupt) -> None:
    """Compare the question that a task asks now with the answered question at the same position (`earlier`).

    Raises QuestionMismatch if the answer belongs to another question, and warns (QuestionChanged) if only the value
    differs.
    """
    changed = [name for name in ("kind", "event", "schema_form") if getattr(earlier, name) != getattr(current, name)]
    if earlier.schema_form is None and earlier.schema is not None:  # saved by a version that did not store the form
        changed = [name for name in changed if name != "schema_form"]
    if changed:
        raise _mismatch(scope, earlier, current, " and ".join(name.removesuffix("_form") for name in changed))
    if are_equal(earlier.value, current.value) is not False:
        scope.run.matched_questions.add(current.id)
        return
    if any(_is_same(question, current) for question in _other_questions(scope, current)):
        raise _mismatch(scope, earlier, current, "place")
    if scope.run.config.refuses_changed_questions:
        raise _mismatch(scope, earlier, current, "value")
    _report_changed(scope, earlier, current)


def check_new(scope: Scope, current: Interrupt) -> None:
    """Raise QuestionMismatch if a question at a new position equals an answered question at another position.

    An exception is a task that has failed since the answer: it may ask the same question again under another key.
    """
    if _has_failed(scope):
        return
    run = scope.run
    for question in _other_questions(scope, current):
        if question.id in run.answers and question.id not in run.matched_questions and _is_same(question, current):
            raise _mismatch(scope, question, current, "key" if question.key != current.key else "place")


def is_unchanged(earlier: Interrupt, current: Interrupt) -> bool:
    """Return whether a question that was open and is asked again is still the same."""
    return _is_same(earlier, current) and earlier.schema_form == current.schema_form


def are_equal(first: Any, second: Any) -> bool | None:
    """Return whether two values are equal; None if that cannot be determined. Never raises, even if `__eq__` raises."""
    try:
        if first is second or bool(first == second):
            return True
    except Exception:  # arrays have no truth value, and a user-defined `__eq__` may raise anything
        pass
    try:  # NaN, which does not equal itself, has equal fingerprints
        return fingerprint(first) == fingerprint(second)
    except Exception:
        return None


def _is_same(first: Interrupt, second: Interrupt) -> bool:
    same_kind = first.kind == second.kind and first.event == second.event
    return same_kind and are_equal(first.value, second.value) is True


def _other_questions(scope: Scope, question: Interrupt) -> Iterator[Interrupt]:
    """Yield the earlier questions of the task at other positions. Questions of its `@task` calls are not included."""
    task, run = scope.task, scope.run
    if task is None:
        return
    by_id = run.questions.by_id
    for ordinal in count():
        other = by_id.get(interrupt_id(task.id, ordinal))
        if other is None:
            break
        if other.id != question.id:
            yield other
    for other in run.questions_of(task):
        if other.key is not None and other.id != question.id and other.id == interrupt_id(task.id, other.key):
            yield other


def _has_failed(scope: Scope) -> bool:
    """Return whether an earlier attempt at the task has failed, in this run or in an earlier one."""
    task, attempt = scope.task, scope.attempt
    is_retry = attempt is not None and attempt.number > 1
    return is_retry or (task is not None and task.planned_id in scope.run.attempts)


def _mismatch(scope: Scope, earlier: Interrupt, current: Interrupt, difference: str) -> QuestionMismatch:
    node = scope.task.node if scope.task is not None else ""
    return QuestionMismatch(node, difference, _describe(earlier), _describe(current), before=earlier, now=current)


def _describe(question: Interrupt) -> str:
    """Describe a question for an error message."""
    if question.kind == "timer":
        text = "a timer"
    elif question.kind == "event":
        text = f"the event {question.event!r}"
    else:
        text = short_repr(question.value, _LONGEST_VALUE)
    options = {"key": question.key, "schema": question.schema_form}
    details = ", ".join(f"{name} {value!r}" for name, value in options.items() if value is not None)
    return f"{text} ({details})" if details else text


def _report_changed(scope: Scope, earlier: Interrupt, current: Interrupt) -> None:
    """Report that a question was asked in other words: in the log, as an event, and as a warning."""
    run, task = scope.run, scope.task
    if scope.abandoned or task is None:
        return
    data = {
        "id": current.id,
        "key": current.key,
        "before": _loggable(run, earlier.value),
        "now": _loggable(run, current.value),
    }
    if run.saver is not None and scope.checkpoint is not None:
        run.log(("question_changed", scope.checkpoint.step + 1, task.node, task.planned_id, data))
    emit_task_event("question_changed", scope, data)
    values = (short_repr(question.value, _LONGEST_VALUE) for question in (earlier, current))
    warnings.warn(QuestionChanged(task.node, *values, before=earlier, now=current), stacklevel=_STACK_LEVEL)


def _loggable(run: Run, value: Any) -> Any:
    """Return a value, or a short repr if it cannot be stored, because a log entry must not make the run fail."""
    try:
        check_value(run.saver, value)
    except Exception:
        return short_repr(value, _LONGEST_VALUE)
    return value
