"""A task's call of a compiled graph: its namespace, and its retries.

Each call saves its checkpoints in a namespace of its own, in the thread of its caller. The namespace is the path of
tasks that leads to the call: segments `node:task_id`, joined by `|`. With `memory="call"`, each task has a new
namespace. While the task is unfinished, the call is resumed there, and the commit that ends the task deletes the
namespace. With `memory="thread"`, the segment is the name of the node alone, so the subgraph keeps its state across
runs. With `memory="none"`, the call saves nothing.

Several calls in one task are distinguished by a `call_key`, or else by their number, because a replay makes the same
calls in the same order. A failed call keeps its number, so a replay makes it again.

With a `call_key`, a node can retry a call: a second call with the same key, graph, input and options. A retry of a
failed call starts over in the same namespace, and a retry of a cancelled call continues there. On a replay, the first
call then finds the result of the retry, and the node does not reach the retry. Without a key, a second call with the
same input may be an independent one, such as the second of three votes. If it were mistaken for a retry, all later
calls would have other numbers on a replay, and get the results of other calls.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from statewright.checkpoint import BranchKey
from statewright.data.fingerprint import fingerprint
from statewright.errors import NamespaceBusy
from statewright.graph import Memory
from statewright.runtime.invocation.run import CallingTask, Run, SubgraphCall
from statewright.runtime.tasks.liveness import reason_to_refuse
from statewright.runtime.tasks.scope import Scope

_NO_OPTIONS: Final[Mapping[str, Any]] = {}


def begin_call(
    scope: Scope,
    program: object,
    memory: Memory = "call",
    *,
    graph_input: Any = None,
    config: Any = None,
    options: Mapping[str, Any] = _NO_OPTIONS,
) -> SubgraphCall:
    """Begin the next subgraph call of the task of `scope`, which determines the namespace of the call.

    Raises InvalidUpdateError if the task has used the `call_key` before, unless this call is a retry.
    """
    numbering, key = scope.numbering(), options.get("call_key")
    retry_key, is_retry = None, False
    if key is None:
        label = f"#{numbering.unkeyed_calls}" if numbering.unkeyed_calls else ""
        numbering.unkeyed_calls += 1
    else:
        label = _escaped(str(key))
        retry_key = _retry_key(program, memory, graph_input, config, options)
        starts_over = numbering.starts_over.pop(retry_key, None)
        if starts_over is None:
            scope.use_key("call_key", str(key))
        is_retry = bool(starts_over)
    return SubgraphCall(
        scope.pinned_copy(), memory, _namespace(scope, memory, label), retry_key=retry_key, is_retry=is_retry
    )


def _retry_key(
    program: object, memory: Memory, graph_input: Any, config: Any, options: Mapping[str, Any]
) -> tuple[object, ...]:
    """Return a hashable key that a call shares with its retries.

    Context, config and limits are part of it, because a replay repeats the arguments of the first call. So it could not
    finish a retry that had, for example, a higher limit.
    """
    compared_options = sorted(item for item in options.items() if item[0] not in _NOT_COMPARED)
    values = (graph_input, config, *(part for item in compared_options for part in item))
    return program, memory, *map(_comparable, values)


_NOT_COMPARED: Final = frozenset({"control", "memory"})
"""Options that are not part of a retry key: `control` does not change the result, and `memory` is compared anyway."""


class _IdentityKey:
    """Wraps a value that has no fingerprint. Two wrappers are equal if they wrap the same object."""

    def __init__(self, value: object) -> None:
        self._value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _IdentityKey) and other._value is self._value

    def __hash__(self) -> int:
        return id(self._value)


def _comparable(value: Any) -> object:
    """Return a hashable object that can be compared instead of a value."""
    try:
        return fingerprint(value)
    except Exception:  # user-defined pickling methods may raise anything
        return _IdentityKey(value)


def _namespace(scope: Scope, memory: Memory, label: str) -> str:
    """Return the namespace of a call. `label` is its number or key, empty for the first call without a key."""
    assert scope.task is not None
    segment = scope.task.node if memory == "thread" else f"{scope.task.node}:{scope.task.id}"
    if label:
        segment = f"{segment}:{label}"
    return f"{scope.run.namespace}|{segment}" if scope.run.namespace else segment


def _escaped(key: str) -> str:
    """Return a call key in a form that cannot be mistaken for a number or a path when it is part of a namespace."""
    if key and key[0] not in "#%" and "|" not in key:
        return key
    return "%" + key.replace("%", "%25").replace("|", "%7C")


def former_namespaces(scope: Scope, namespace: str) -> tuple[str, ...]:
    """Return the namespaces that a call would have if the calling node still had one of its former names."""
    run, task = scope.run, scope.task
    names = run.program.former_names.get(task.node, ()) if task is not None else ()
    if task is None or not names:
        return ()
    path = f"{run.namespace}|" if run.namespace else ""
    suffix = namespace[len(path) + len(task.node) :]
    return tuple(f"{path}{name}{suffix}" for name in names)


def take_namespace(caller: CallingTask, namespace: str) -> None:
    """Record that a call with memory="thread" is running in its namespace. Raises NamespaceBusy if another one is.

    A call whose attempt or superstep is over is no obstacle, because its later effects are ignored.
    """
    thread_memory_callers = caller.run.thread_memory_callers
    current = thread_memory_callers.setdefault(namespace, caller)
    if current is caller:
        return
    if reason_to_refuse(current) is None:
        raise NamespaceBusy(namespace, caller.task.node if caller.task is not None else "")
    thread_memory_callers[namespace] = caller


class CallInProgress:
    """Context manager around a subgraph call: at the end it frees the namespace, and permits a retry after a failure.

    A retry of a failed call starts over. A retry of a call that was cancelled, or whose checkpoint could not be loaded
    or saved, continues from the checkpoint, which may have been saved by an earlier execution of the task.
    """

    __slots__ = ("_run",)

    def __init__(self, run: Run) -> None:
        self._run = run

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        run = self._run
        if (
            run.thread_memory_callers.get(run.namespace) is run.parent
        ):  # otherwise a later call has taken over the namespace
            run.thread_memory_callers.pop(run.namespace, None)
        if run.parent is None or run.call is None or run.call.retry_key is None:
            return
        if error is None:
            if run.outcome is not None and isinstance(run.outcome.error, Exception):
                run.parent.numbering().starts_over[run.call.retry_key] = True
        elif not isinstance(error, GeneratorExit):  # otherwise the node has only stopped reading, as a replay will too
            run.parent.numbering().starts_over[run.call.retry_key] = False


def call_branch_key(scope: Scope, namespace: str, memory: Memory, *, keep: bool) -> BranchKey | None:
    """Return the key of the branch on which a call is saved; None if it saves nothing.

    Unless `keep`, the checkpoints of a call with memory="call" will be deleted when its task ends.
    """
    caller = scope.run
    if caller.saver is None or caller.branch_key is None or memory == "none":
        return None
    if memory == "call" and not keep:
        caller.open_namespaces.add(namespace)
    return caller.branch_key._replace(namespace=namespace)
