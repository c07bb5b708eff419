"""Every error that Statewright raises on purpose.

    StatewrightError                 .code: "SW-" and the name in kebab case
    ├── GraphError                   the graph is wrong; found before it runs
    │   ├── InvalidGraph             .problems: all of them, with near misses
    │   └── InvalidSchema            a field or its reducer cannot become a channel
    ├── RunError                     a run cannot go on
    │   ├── InvalidUpdateError       an answer, update or input of the wrong shape
    │   ├── ConflictingWrites        two tasks of one superstep, one single-valued channel
    │   ├── UnknownTarget            a goto, Send or path that leads nowhere
    │   ├── EmptyInputError          nothing to start with and nothing to go on with
    │   ├── InvalidConfig            a setting of the call that is unknown or out of range
    │   ├── GraphRecursionError      (RecursionError) more supersteps than allowed
    │   ├── NodeFailed               a node's own exception, in records and batch results
    │   ├── NodeCancelledError       a node raised CancelledError though nobody cancelled it
    │   ├── InvalidResume            an answer to no open question
    │   ├── UnansweredInterrupts     fresh input while questions are open
    │   ├── MutatedState             a node changed shared state in place (debug)
    │   └── GraphDrained             the run was asked to stop, and can go on later
    ├── StorageError
    │   ├── CheckpointConflict       the head moved under a commit
    │   └── CheckpointNotFound       no such thread, branch or checkpoint
    └── InternalError                a broken invariant: ours, please report it

Build-time, run-time, storage and our own faults differ by type because different people repair them. Control
flow is not in the tree: the signals that pause a run derive from `BaseException`, so that a node's
`except Exception` cannot swallow them. An error takes data and writes its own sentence: what happened, where,
what was found, what to do.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

__all__ = [
    "CheckpointConflict",
    "CheckpointNotFound",
    "ConflictingWrites",
    "EmptyInputError",
    "GraphDrained",
    "GraphError",
    "GraphRecursionError",
    "InternalError",
    "InvalidConfig",
    "InvalidGraph",
    "InvalidResume",
    "InvalidSchema",
    "InvalidUpdateError",
    "MutatedState",
    "NodeCancelledError",
    "NodeFailed",
    "RunError",
    "StatewrightError",
    "StorageError",
    "UnansweredInterrupts",
    "UnknownKeyWarning",
    "UnknownTarget",
    "nearest",
]


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that `name` was probably meant to be, if one is close."""
    from difflib import get_close_matches  # an error is being written: nobody is in a hurry

    matches = get_close_matches(name, list(known), n=1, cutoff=0.6)
    return matches[0] if matches else None


def suggestion(name: str, known: Iterable[str], *, noun: str) -> str:
    """A sentence or two that help to find what `name` should have been."""
    names = sorted({str(one) for one in known})
    guess = nearest(name, names)
    listed = ", ".join(names) if names else "none"
    return (f"Did you mean {guess!r}? " if guess else "") + f"{noun}: {listed}."


class StatewrightError(Exception):
    """The root of the tree."""

    code: str = "SW-statewright-error"

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        cls.code = "SW-" + re.sub(r"(?<!^)(?=[A-Z])", "-", cls.__name__).lower()


# -- the graph is wrong


class GraphError(StatewrightError):
    """The graph is wrong; found before it runs."""


class InvalidGraph(GraphError):
    """The shape of a graph does not hold together; `problems` lists everything that was found."""

    def __init__(self, problems: Sequence[str], *, graph: str = "graph") -> None:
        self.problems = tuple(problems)
        count = len(self.problems)
        numbered = "\n".join(f"  {number}. {problem}" for number, problem in enumerate(self.problems, 1))
        super().__init__(f"{graph} has {count} problem{'s' if count != 1 else ''}:\n{numbered}")


class InvalidSchema(GraphError):
    """A schema, or one of its fields, cannot be turned into channels."""


# -- a run cannot go on


class RunError(StatewrightError):
    """A run cannot go on."""


class InvalidUpdateError(RunError):
    """An answer, an update or an input does not have the shape that the state asks for."""


class ConflictingWrites(RunError):
    """Two tasks of one superstep wrote to a channel that holds a single value."""

    def __init__(self, channel: str, nodes: Sequence[str], *, what: str = "keeps one value") -> None:
        self.channel = channel
        self.nodes = tuple(nodes)
        writers = " and ".join(repr(node) for node in self.nodes)
        super().__init__(
            f"Channel {channel!r} was written by {writers} in the same superstep, but {what}. "
            f"Give the field a reducer, e.g. Annotated[list, append], or put one node after the other."
        )


class UnknownTarget(RunError):
    """A Command, Send or conditional edge names a node to which it cannot go."""

    def __init__(self, source: str, target: object, known: Iterable[str], *, via: str) -> None:
        self.source = source
        self.target = target
        super().__init__(
            f"Node {source!r} answered {via} to {target!r}, where it cannot go. "
            + suggestion(str(target), known, noun="It can go to")
        )


class EmptyInputError(RunError):
    """There is neither an input to start with nor a saved run to go on with."""


class InvalidConfig(RunError):
    """A setting of a call is unknown, of the wrong type or out of range."""


class GraphRecursionError(RunError, RecursionError):
    """A run took more supersteps than its `recursion_limit`."""

    def __init__(self, limit: int, last_steps: Sequence[Sequence[str]], *, thread_id: str | None = None) -> None:
        self.limit = limit
        self.last_steps = tuple(tuple(step) for step in last_steps)
        where = f" on thread {thread_id!r}" if thread_id else ""
        steps = ", ".join("+".join(repr(node) for node in step) for step in self.last_steps)
        super().__init__(
            f"The run{where} stopped after {limit} supersteps; the last {len(self.last_steps)} ran {steps}. "
            f"Raise recursion_limit, or check the condition that should end the loop."
        )


class NodeFailed(RunError):
    """A node raised; the exception itself is the cause. Used where an error is kept rather than raised."""

    def __init__(self, node: str, error: BaseException, *, step: int, attempt: int = 1) -> None:
        self.node = node
        self.error = error
        self.step = step
        self.attempt = attempt
        super().__init__(f"Node {node!r} failed in step {step}, attempt {attempt}: {type(error).__name__}: {error}")
        self.__cause__ = error


class NodeCancelledError(RunError):
    """A node raised CancelledError, though nobody had cancelled it."""

    def __init__(self, node: str, error: BaseException) -> None:
        self.node = node
        super().__init__(
            f"Node {node!r} raised CancelledError though nobody cancelled it: something that it awaited was cancelled. "
            f"Catch it there, or raise an exception that says what went wrong."
        )
        self.__cause__ = error


class InvalidResume(RunError):
    """An answer does not fit the open questions of its thread."""

    def __init__(self, reason: str, *, open_ids: Sequence[str] = ()) -> None:
        self.open_ids = tuple(open_ids)
        listed = ", ".join(self.open_ids) if self.open_ids else "none"
        super().__init__(f"{reason} Open questions: {listed}.")


class UnansweredInterrupts(RunError):
    """Fresh input arrived on a thread that still waits for answers."""

    def __init__(self, thread_id: str, open_questions: Sequence[tuple[str, object]]) -> None:
        self.thread_id = thread_id
        self.open_ids = tuple(identity for identity, _ in open_questions)
        listed = "; ".join(f"{identity}: {value!r}" for identity, value in open_questions)
        super().__init__(
            f"Thread {thread_id!r} waits for answers ({listed}), so fresh input would throw its work away. "
            f"Answer with Command(resume=...), or pass on_unfinished='discard' to start anew."
        )


class MutatedState(RunError):
    """A node changed a value of the shared state in place instead of answering with an update."""

    def __init__(self, node: str, channels: Sequence[str]) -> None:
        self.node = node
        self.channels = tuple(channels)
        names = ", ".join(repr(channel) for channel in self.channels)
        super().__init__(
            f"Node {node!r} changed {names} in place. Other nodes and saved checkpoints share these objects: "
            f"copy the value, change the copy, and return it as an update."
        )


class GraphDrained(RunError):
    """The run was asked to stop at a superstep boundary, and did; what was done is kept."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"The run was drained: {reason}. Call invoke(None) on its thread to go on.")


# -- storage


class StorageError(StatewrightError):
    """What was to be kept could not be kept, or could not be found."""


class CheckpointConflict(StorageError):
    """Another run moved the head of the thread after this run had read it."""

    def __init__(self, thread_id: str, expected: str | None, found: str | None) -> None:
        self.thread_id = thread_id
        self.expected = expected
        self.found = found
        super().__init__(
            f"Thread {thread_id!r} is at checkpoint {found or 'none'}, but this run goes on from "
            f"{expected or 'none'}: another run has moved it. Nothing was written; load the thread and try again."
        )


class CheckpointNotFound(StorageError):
    """No such thread, branch or checkpoint."""


# -- ours


class InternalError(StatewrightError):
    """A broken invariant of Statewright itself; please report it with the message."""


class UnknownKeyWarning(UserWarning):
    """An update or input held a key that the schema does not know; the key was dropped."""
