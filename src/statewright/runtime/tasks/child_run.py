"""Runs that a node starts: their ids follow from the task, so that each is started once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from statewright.channels import copy_container
from statewright.errors import ChildRunFailed, InvalidConfig, NonDeterminismError
from statewright.graph import RunStarter
from statewright.ids import TaskId, digest, interrupt_id
from statewright.runtime.core.standing import check_open
from statewright.runtime.tasks.interrupt import wait_for
from statewright.runtime.tasks.scope import Scope, enclosing_work

RUN_ENDED = "__run_ended:"
"""Before the id of a run: the event for which a run waits that has started it."""


def start_run(
    scope: Scope,
    graph: str,
    input: Any,  # noqa: A002  # the field's word
    *,
    wait: bool,
    key: str | None,
    options: Mapping[str, Any],
) -> Any:
    """See `Runtime.start_run`."""
    run, task = scope.run, scope.task
    if run.starter is None or task is None:
        raise InvalidConfig(
            f"start_run({graph!r}) needs a service that keeps the run: start the run with one, e.g. `statewright dev`."
        )
    starter: RunStarter = run.starter
    check_open(scope, f"start_run({graph!r})")
    # A key is never an ordinal.
    position = scope.next_of("start_run") if key is None else f"={scope.use_key('start_run key', key)}"
    child = f"run_{digest('run', run.run_id, task.id, position)}"
    if starter.differs(child, graph, input):
        raise NonDeterminismError(task.node, f"start_run({graph!r})", position if isinstance(position, int) else 0)
    if not wait:
        starter.start(child, graph, input, work=enclosing_work(scope), awaited=False, options=options)
        return child

    question = _question(scope, task.id, position)
    identity = interrupt_id(task.id, question)
    if identity not in run.known_interrupts and identity not in run.answers:
        starter.start(child, graph, input, work=enclosing_work(scope), awaited=True, options=options)
    asked = {"type": "child_run", "runId": child, "graph": graph}
    parts = {"value": asked, "kind": "event", "event": f"{RUN_ENDED}{child}"}
    return _outcome(child, graph, wait_for("start_run()", question, None, lambda: parts, repeats=True))


def _question(scope: Scope, task_id: TaskId, position: int | str) -> str:
    """The key under which it is asked how the child has ended.

    An end in good order is final. After another one it is asked anew when somebody tries the run again, for the child
    may have been tried again, too.
    """
    again: int = scope.run.node_config()["configurable"].get("retry", 0)  # a service counts here how often it was told
    keys = [f"start_run {position}", *(f"start_run.{number} {position}" for number in range(1, again + 1))]
    ends = [(key, scope.run.answers.get(interrupt_id(task_id, key))) for key in keys]
    return next((key for key, told in ends if told is not None and told["status"] == "completed"), keys[-1])


def _outcome(child: str, graph: str, told: Mapping[str, Any]) -> Any:
    if told["status"] != "completed":
        raise ChildRunFailed(child, graph, told["status"], told.get("error"))
    return copy_container(told["output"])
