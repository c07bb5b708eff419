"""The `Runtime` that nodes receive, and functions that replace it in code to which it is not passed.

A run reuses its scope for the next task, but a node may keep its runtime and use it from other threads. So the runtime
holds a copy of the scope, which belongs to one attempt at one task. Calls that an abandoned attempt makes
through its runtime have no effect.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, overload

from statewright.channels import copy_container
from statewright.checkpoint import Interrupt, check_value
from statewright.clock import Clock
from statewright.errors import ChildRunFailed, InvalidConfig, InvalidUpdateError, NonDeterminismError
from statewright.events import DurableKind
from statewright.graph import ExecutionInfo, RunStarter, Runtime, StreamWriter
from statewright.ids import DEFAULT_WORKSPACE, TaskId, digest, interrupt_id
from statewright.runtime.core.events import emit_task_event
from statewright.runtime.tasks.interrupt import wait_for
from statewright.runtime.tasks.journal import perform_step
from statewright.runtime.tasks.liveness import check_may_start
from statewright.runtime.tasks.scope import Scope, current_scope, enclosing_task_ids

if TYPE_CHECKING:
    from statewright.store import Store


class StateView(Mapping[str, Any]):
    """The state at the start of the superstep, read-only. Lists, dicts and sets are copied when they are looked up."""

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values

    def __getitem__(self, name: str) -> Any:
        return copy_container(self._values[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"StateView({dict(self._values)!r})"


class RuntimeHost:
    """Implements the operations of a `Runtime` (the protocol `graph.context.Host`) for the task of a scope."""

    __slots__ = ("_scope",)

    def __init__(self, scope: Scope) -> None:
        self._scope = scope.pinned_copy()

    @property
    def _current_scope(self) -> Scope:
        """The scope of the step or `@task` call in which the runtime is being used, or else the scope of the task.

        Each of these scopes has its own numbering of calls, from which ids derive.
        """
        current = current_scope()
        caller = current.task.caller if current is not None and current.task is not None else None
        while caller is not None and caller is not self._scope.task:
            caller = caller.caller
        return self._scope if current is None or caller is None else current

    @property
    def context(self) -> Any:
        return self._scope.run.config.context

    @property
    def store(self) -> Store | None:
        return self._scope.run.ports.store

    @property
    def control(self) -> Any:
        return self._scope.run.control

    @property
    def cancel_requested(self) -> bool:
        control = self._scope.run.control
        return self._scope.abandoned or (control is not None and control.cancel_requested)

    @property
    def clock(self) -> Clock:
        return self._scope.run.ports.clock

    @property
    def previous(self) -> Any:
        return previous_of(self._scope)

    @property
    def state(self) -> Mapping[str, Any]:
        checkpoint = self._scope.checkpoint
        return StateView(checkpoint.values if checkpoint is not None else {})

    @property
    def stream_writer(self) -> StreamWriter:
        return writer_of(self._scope)

    @property
    def execution_info(self) -> ExecutionInfo:
        scope = self._scope
        run, task, checkpoint = scope.run, scope.task, scope.checkpoint
        return ExecutionInfo(
            thread_id=run.settings.thread_id,
            run_id=run.run_id,
            namespace=run.namespace,
            checkpoint_id=checkpoint.id if checkpoint and run.saver is not None else None,
            step=checkpoint.step + 1 if checkpoint else 0,
            node=task.node if task else "",
            task_id=task.id if task else TaskId(""),
            attempt=scope.attempt.number if scope.attempt is not None else 1,
            workspace=getattr(run.saver, "workspace", DEFAULT_WORKSPACE),
        )

    def heartbeat(self) -> None:
        self._scope.heartbeat()

    def step(self, name: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return perform_step(self._current_scope, name, function, args, kwargs)

    def spend(self, tokens: int, cost: float) -> None:
        if not self._scope.abandoned:
            self._scope.run.spending.add(tokens, cost)

    def asked(self, key: str) -> Interrupt | None:
        run, task = self._scope.run, self._current_scope.task
        question = run.known_interrupts.get(interrupt_id(task.id, key)) if task is not None else None
        return question.shown() if question is not None else None

    def start_run(self, graph: str, input: Any, *, wait: bool, key: str | None, options: Mapping[str, Any]) -> Any:  # noqa: A002
        return start_run(self._current_scope, graph, input, wait=wait, key=key, options=options)

    def record(self, kind: DurableKind, data: Mapping[str, Any]) -> None:
        scope = self._scope
        if scope.abandoned:
            return
        run, task = scope.run, scope.task
        if run.saver is not None and task is not None and scope.checkpoint is not None:
            run.log((kind, scope.checkpoint.step + 1, task.node, task.planned_id, data))
        emit_task_event(kind, scope, data)

    @property
    def is_recorded(self) -> bool:
        run = self._scope.run
        return run.saver is not None or run.emitter is not None

    @property
    def remaining_steps(self) -> int:
        checkpoint = self._scope.checkpoint
        return self._scope.run.step_limit - (checkpoint.step if checkpoint is not None else 0)

    def check_saveable(self, value: Any) -> None:
        check_value(self._scope.run.saver, value)

    @property
    def shows_messages(self) -> bool:
        emitter = self._scope.run.emitter
        return emitter is not None and emitter.wants("message")

    def push_message(self, message: Any) -> None:
        scope = self._scope
        if scope.run.emitter is not None and not scope.abandoned:
            scope.reset_idle_timeout()
            emit_task_event("message", scope, message)


def writer_of(scope: Scope) -> StreamWriter:
    """Return a function that writes values to the stream mode `custom`.

    `scope` must not be reused for another task. So pass a copy, unless it is one already.
    """
    if scope.run.emitter is None:
        return scope.reset_idle_timeout if scope.attempt is not None else _discard_value

    def write(value: Any) -> None:
        if not scope.abandoned:
            scope.reset_idle_timeout()
            emit_task_event("custom", scope, value)

    return write


def _discard_value(value: Any) -> None:
    """Discard a value, because nothing listens to events."""


def previous_of(scope: Scope) -> Any:
    """Return the value that the last run of an entrypoint has saved; None in other graphs."""
    return copy_container(scope.checkpoint.values.get(PREVIOUS)) if scope.checkpoint is not None else None


PREVIOUS = "__previous__"
"""The channel of an entrypoint that keeps the value saved by its last run."""


# -- the same services as functions, for code that a node calls without passing on its parameters

C = TypeVar("C")


@overload
def get_runtime(context_schema: type[C]) -> Runtime[C]: ...
@overload
def get_runtime(context_schema: None = None) -> Runtime[Any]: ...
def get_runtime(context_schema: Any = None) -> Runtime[Any]:
    """Return the runtime of the current task. Raises InvalidUpdateError outside a node.

    `context_schema` is the type of `runtime.context`, for type checkers only.
    """
    return Runtime(RuntimeHost(_require_scope("get_runtime()")))


def get_config() -> Mapping[str, Any]:
    """Return the config of the current run. Raises InvalidUpdateError outside a node."""
    return _require_scope("get_config()").run.node_config()


def get_store() -> Store | None:
    """Return the store of the current run; None if its graph has none. Raises InvalidUpdateError outside a node."""
    return _require_scope("get_store()").run.ports.store


def get_stream_writer() -> StreamWriter:
    """Return a function that sends values to the stream of the run. Raises InvalidUpdateError outside a node."""
    return writer_of(_require_scope("get_stream_writer()").pinned_copy())


def _require_scope(function: str) -> Scope:
    scope = current_scope()
    if scope is None or scope.task is None:
        raise InvalidUpdateError(
            f"{function} was called outside a node. Call it in a node, or in code that a node calls; in a thread that "
            f"the node has started, run that code with contextvars.copy_context().run()."
        )
    return scope


# -- child runs: their ids derive from the task, so that a replay does not start them again

RUN_ENDED = "__run_ended:"
"""Prefix of the name of the event that a parent run waits for; the id of the child run follows."""


def start_run(
    scope: Scope,
    graph: str,
    input: Any,  # noqa: A002  # the usual word
    *,
    wait: bool,
    key: str | None,
    options: Mapping[str, Any],
) -> Any:
    """Start a child run for the current task. Implements `Runtime.start_run`."""
    run, task = scope.run, scope.task
    if run.ports.starter is None or task is None:
        raise InvalidConfig(
            f"start_run({graph!r}) needs a service, which stores the new run. Start the current run with a service, "
            f"e.g. `statewright dev`."
        )
    starter: RunStarter = run.ports.starter
    check_may_start(scope, f"start_run({graph!r})")
    # The "=" distinguishes a key such as "0" from an ordinal.
    label = scope.numbering().new_ordinal("start_run") if key is None else f"={scope.use_key('start_run key', key)}"
    child = f"run_{digest('run', run.run_id, task.id, label)}"
    if starter.differs(child, graph, input):
        raise NonDeterminismError(task.node, f"start_run({graph!r})", label if isinstance(label, int) else 0)
    if not wait:
        starter.start(child, graph, input, work=enclosing_task_ids(scope), awaited=False, options=options)
        return child

    question = _completion_key(scope, task.id, label)
    question_id = interrupt_id(task.id, question)
    if question_id not in run.known_interrupts and question_id not in run.answers:
        starter.start(child, graph, input, work=enclosing_task_ids(scope), awaited=True, options=options)
    value = {"type": "child_run", "runId": child, "graph": graph}
    parts = {"value": value, "kind": "event", "event": f"{RUN_ENDED}{child}"}
    return _output_of(child, graph, wait_for("start_run()", question, None, lambda: parts, repeats=True))


def _completion_key(scope: Scope, task_id: TaskId, label: int | str) -> str:
    """Return the key of the question that will be answered when the child run ends.

    If the child has completed, this is the question that was answered then. If it has failed, each retry of the parent
    run asks a new question, because the child may have been retried too.
    """
    # A service sets "retry": how often it has retried the run.
    retries: int = scope.run.node_config()["configurable"].get("retry", 0)
    keys = [f"start_run {label}", *(f"start_run.{number} {label}" for number in range(1, retries + 1))]
    answers = [(key, scope.run.answers.get(interrupt_id(task_id, key))) for key in keys]
    completed = (key for key, answer in answers if answer is not None and answer["status"] == "completed")
    return next(completed, keys[-1])


def _output_of(child: str, graph: str, answer: Mapping[str, Any]) -> Any:
    """Return the output of a child run from the answer that its end has given. Raises ChildRunFailed if it failed."""
    if answer["status"] != "completed":
        raise ChildRunFailed(child, graph, answer["status"], answer.get("error"))
    return copy_container(answer["output"])
