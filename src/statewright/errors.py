"""Every error that Statewright raises on purpose.

    StatewrightError                 .code: "SW-" and the name in kebab case
    ├── GraphError                   the graph is wrong; found before it runs
    │   ├── InvalidGraph             .problems: all of them, with near misses
    │   ├── InvalidSchema            a field or its reducer cannot become a channel
    │   ├── WorkflowError            .problems: all that is wrong in a workflow file, with line and column
    │   └── ExpressionError          an expression or template that cannot be parsed or evaluated
    ├── RunError                     a run cannot continue
    │   ├── InvalidUpdateError       a result, update or input of the wrong shape
    │   ├── ConflictingWrites        two tasks of one superstep, one single-valued channel
    │   ├── UnknownTarget            a goto, Send or path that leads nowhere
    │   ├── EmptyInputError          no input to start with, and no saved run to resume
    │   ├── InvalidConfig            a setting of the call that is unknown or out of range
    │   │   └── MissingLibrary       (ImportError) a feature needs a library that is not installed
    │   ├── GraphRecursionError      (RecursionError) more supersteps than allowed
    │   ├── BudgetExceeded           the call has spent what its Budget allows
    │   ├── NodeFailed               a node's own exception, in records and batch results
    │   ├── NodeTimeoutError         (TimeoutError) an attempt took too long
    │   ├── NodeCancelledError       a node raised CancelledError although it was not cancelled
    │   ├── RateLimited              an attempt above the rate that its RateLimit allows
    │   ├── CircuitOpen              an attempt while the circuit breaker is open
    │   ├── NonDeterminismError      a journalled step was called with other arguments than before
    │   ├── QuestionMismatch         a task asks another question than the one that was answered
    │   ├── InvalidResume            an answer to no open question, or an event that no run waits for
    │   ├── UnansweredInterrupts     fresh input while questions are open
    │   ├── GraphVersionMismatch     a thread saved by another version of the graph does not fit this one
    │   ├── MutatedState             a node changed shared state in place (debug)
    │   ├── RunCancelled             the run was cancelled
    │   ├── ChildRunFailed           a child run that a node waited for did not complete
    │   ├── GraphDrained             the run stopped at a superstep boundary, as requested; it can be resumed
    │   └── RoutingError             the result of a state names no valid next step
    ├── StorageError
    │   ├── CheckpointConflict       the head moved under a commit
    │   ├── ThreadBusy               another run is advancing the thread
    │   ├── LeaseLost                another run has taken over the thread
    │   ├── JournalConflict          a step is recorded already
    │   ├── NamespaceBusy            two live calls of a subgraph share one memory
    │   ├── CheckpointNotFound       the thread, branch or checkpoint does not exist
    │   ├── SerdeError               a value that cannot be stored, or cannot be read; .key_path
    │   ├── StoredError              a saved exception whose class is not known here
    │   ├── StorageUnavailable       the database cannot be reached or written to now
    │   │   ├── StorageFull          no room left
    │   │   └── StorageLocked        another process has locked it for too long
    │   ├── DamagedDatabase          stored data differs from what was written
    │   ├── RecordConflict           a record is missing, or has changed since it was read
    │   │   ├── DuplicateRecord      a record with this id or name exists
    │   │   └── RecordPresent        a record exists that must not
    │   ├── WrongEncryptionKey       encrypted with another key, or not encrypted
    │   └── NewerFormat              written by a newer version of Statewright
    ├── ModelError                   a model call produced no usable answer
    │   ├── ModelUnavailable         the provider is unreachable, or refuses for now
    │   ├── ModelAnswerInvalid       the answer does not have the requested form
    │   └── MissingApiKey            the API key of a model, or of a service used by a tool, is not set
    ├── ToolError                    a tool is missing, was called with invalid arguments, or failed
    ├── ServiceError                 the service rejected a request; .status, .api_code and .details
    │   ├── InvalidRequest           the request is incomplete or malformed
    │   ├── Unauthorized             no credentials, or an unknown, revoked or expired key
    │   ├── Forbidden                the caller lacks permission
    │   ├── NotFound                 no such resource, or not visible to the caller
    │   ├── RequestConflict          the request conflicts with current state
    │   │   ├── InvalidTransition    the run or step cannot change from its status to the requested one
    │   │   └── SignalMismatch       the run waits for another type of signal
    │   ├── ServiceUnreachable       no response from the service
    │   ├── PayloadTooLarge          the request is larger than the service accepts
    │   └── TooManyRequests          a rate limit was exceeded; .retry_after
    │       └── SpendingLimitReached a workspace has spent its daily limit; .limit, .used, .most, .ends_at
    └── InternalError                a broken invariant of Statewright itself; please report it

Errors of the graph, of a run, of storage and of Statewright itself have separate branches, because different people
repair them. Control flow is not in the tree: the signals that pause a run derive from `BaseException`, so that a node's
`except Exception` cannot swallow them. An error takes data and composes its own message: what happened, where, which
value was found, and how to solve it.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

__all__ = [
    "BudgetExceeded",
    "CheckpointConflict",
    "CheckpointNotFound",
    "ChildRunFailed",
    "CircuitOpen",
    "ConflictingWrites",
    "DamagedDatabase",
    "DuplicateRecord",
    "EmptyInputError",
    "ExpressionError",
    "Forbidden",
    "GraphDrained",
    "GraphError",
    "GraphRecursionError",
    "GraphVersionMismatch",
    "InternalError",
    "InvalidConfig",
    "InvalidGraph",
    "InvalidRequest",
    "InvalidResume",
    "InvalidSchema",
    "InvalidTransition",
    "InvalidUpdateError",
    "JournalConflict",
    "LeaseLost",
    "MissingApiKey",
    "MissingLibrary",
    "ModelAnswerInvalid",
    "ModelError",
    "ModelUnavailable",
    "MutatedState",
    "NamespaceBusy",
    "NewerFormat",
    "NoCheckpointerWarning",
    "NodeCancelledError",
    "NodeFailed",
    "NodeTimeoutError",
    "NonDeterminismError",
    "NotFound",
    "PayloadTooLarge",
    "Problem",
    "QuestionChanged",
    "QuestionMismatch",
    "RateLimited",
    "RecordConflict",
    "RecordPresent",
    "RequestConflict",
    "RoutingError",
    "RunCancelled",
    "RunError",
    "SerdeError",
    "ServiceError",
    "ServiceUnreachable",
    "SignalMismatch",
    "SpendingLimitReached",
    "StatewrightError",
    "StorageError",
    "StorageFull",
    "StorageLocked",
    "StorageUnavailable",
    "StoredError",
    "ThreadBusy",
    "TooManyRequests",
    "ToolError",
    "UnansweredInterrupts",
    "Unauthorized",
    "UnfinishedJoinWarning",
    "UnknownKeyWarning",
    "UnknownTarget",
    "WorkflowError",
    "WrongEncryptionKey",
    "nearest",
]

FORMER_NAMES: Final = {"Fenced": "LeaseLost", "MissingKey": "MissingApiKey", "WrongKey": "WrongEncryptionKey"}
"""The current names of errors by their former ones, which can be imported until the next release."""

if not TYPE_CHECKING:  # a type checker would take every name for one that exists

    def __getattr__(name: str) -> object:
        current = FORMER_NAMES.get(name)
        if current is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        warnings.warn(f"statewright.errors.{name} has been renamed to {current}.", DeprecationWarning, stacklevel=2)
        return globals()[current]


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that `name` was probably meant to be, or None if none is close."""
    from difflib import get_close_matches  # slow to import, and needed only when an error is composed

    matches = get_close_matches(name, list(known), n=1, cutoff=0.6)
    return matches[0] if matches else None


def suggestion(name: str, known: Iterable[str], *, noun: str) -> str:
    """Return a sentence or two with the closest known name and all known names."""
    names = sorted(set(map(str, known)))
    guess = nearest(name, names)
    return (f"Did you mean {guess!r}? " if guess else "") + f"{noun}: {', '.join(names) or 'none'}."


def _rebuild(kind: type[StatewrightError], args: tuple[Any, ...], attributes: dict[str, Any]) -> StatewrightError:
    """Rebuild a copied or unpickled error without calling its `__init__`, which has already composed the message."""
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(attributes)
    return error


def add_note(error: BaseException, note: str) -> None:
    """Add a note to an error, if it accepts one: a frozen dataclass does not, and must still be raised."""
    with suppress(Exception):
        error.add_note(note)


def code_of(error: BaseException) -> str:
    """Return the code of an error in records, logs and traces: its own if it has one, else the name of its class."""
    code = getattr(error, "code", None)
    return code if isinstance(code, str) and code else type(error).__name__


class StatewrightError(Exception):
    """The root of the tree."""

    code: str = "SW-statewright-error"
    exit_code: ClassVar[int] = 1
    """Exit code of a command that fails with the error: 2 if another command line would have avoided it."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.args, self.__dict__)

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        cls.code = "SW-" + re.sub(r"(?<!^)(?=[A-Z])", "-", cls.__name__).lower()


# -- the graph is wrong


class GraphError(StatewrightError):
    """The graph is wrong; found before it runs."""

    exit_code: ClassVar[int] = 2


class InvalidGraph(GraphError):
    """The graph is not valid; `problems` lists everything that was found."""

    def __init__(self, problems: Sequence[str], *, graph: str = "graph") -> None:
        self.problems = tuple(problems)
        super().__init__(_numbered(graph, self.problems))


def _numbered(subject: str, problems: Sequence[object]) -> str:
    """Return a message with a numbered line for each problem."""
    count = len(problems)
    lines = "".join(f"\n  {number}. {problem}" for number, problem in enumerate(problems, 1))
    return f"{subject} has {count} problem{'s' if count != 1 else ''}:{lines}"


class Problem(NamedTuple):
    """A problem in a workflow file, with its position."""

    path: str
    """The path in the document, such as `states[2].next.condition`; empty for the document itself."""
    line: int
    """Counted from 1; 0 if the problem concerns no line."""
    column: int
    message: str
    """The mistake."""
    suggestion: str = ""
    """How to solve it."""

    def __str__(self) -> str:
        position = f"line {self.line}, column {self.column}" if self.line else ""
        path = f"In {self.path!r}" if self.path else ""
        location = f"{path} ({position})" if path and position else path or position.capitalize()
        text = f"{self.message} {self.suggestion}".rstrip()
        return f"{location}: {text}" if location else text


class WorkflowError(GraphError):
    """A workflow file is not valid; `problems` lists everything that was found, in the order of the checks."""

    def __init__(self, problems: Sequence[Problem], *, source: str = "the workflow") -> None:
        self.problems = tuple(problems)
        self.source = source
        super().__init__(_numbered(source, self.problems))


class ExpressionError(GraphError):
    """An expression or a template of a workflow cannot be parsed or evaluated."""


class InvalidSchema(GraphError):
    """A schema, or one of its fields, cannot be turned into channels."""


# -- a run cannot continue


class RunError(StatewrightError):
    """A run cannot continue."""


class InvalidUpdateError(RunError):
    """A result, an update or an input does not match the schema of the state."""

    exit_code: ClassVar[int] = 2


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
    """A Command, Send or conditional edge leads to a node that is not one of its targets."""

    def __init__(self, source: str, target: object, known: Iterable[str], *, via: str) -> None:
        self.source = source
        self.target = target
        super().__init__(
            f"Node {source!r} returned {via} to {target!r}, which is not one of its targets. "
            + suggestion(str(target), known, noun="Targets")
        )


class EmptyInputError(RunError):
    """There is neither an input to start with nor a saved run to resume."""

    exit_code: ClassVar[int] = 2


class InvalidConfig(RunError):
    """A setting of a call is unknown, of the wrong type or out of range."""

    exit_code: ClassVar[int] = 2


class MissingLibrary(InvalidConfig, ImportError):
    """A feature needs an optional library that is not installed; the message names the extra to install."""


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


class BudgetExceeded(RunError):
    """A call has exceeded its Budget, and the Budget names no node to end with."""

    def __init__(self, what: str, limit: object, spent: object, *, last_steps: Sequence[Sequence[str]] = ()) -> None:
        self.what = what
        self.limit = limit
        self.spent = spent
        ran = "; the last superstep ran " + ", ".join(map(repr, last_steps[-1])) if last_steps else ""
        super().__init__(
            f"The budget is used up: {what} {spent} of {limit}{ran}. "
            f"Raise it, or name a node in Budget(on_budget=...) that ends the run properly."
        )


class NodeFailed(RunError):
    """A node raised an exception, which is the cause. Used in records and batch results, where nothing is raised."""

    def __init__(self, node: str, error: BaseException, *, step: int, attempt: int = 1) -> None:
        self.node = node
        self.error = error
        self.step = step
        self.attempt = attempt
        super().__init__(f"Node {node!r} failed in step {step}, attempt {attempt}: {type(error).__name__}: {error}")
        self.__cause__ = error


class NodeTimeoutError(RunError, TimeoutError):
    """An attempt took longer than its TimeoutPolicy allows. Its later effects and its result are ignored."""

    def __init__(self, node: str, kind: str, seconds: float) -> None:
        self.node = node
        self.kind = kind
        self.seconds = seconds
        failure = "took longer than" if kind == "run" else "gave no sign of life for"
        hint = "Raise run_timeout" if kind == "run" else "Call runtime.heartbeat() while it works, raise idle_timeout"
        super().__init__(f"Node {node!r} {failure} {seconds:g} s. {hint}, or give it a retry policy.")


class RateLimited(RunError):
    """An attempt was refused because it would exceed its RateLimit."""

    def __init__(self, subject: str, limit: int, per: float, retry_after: float) -> None:
        self.retry_after = retry_after
        super().__init__(
            f"{subject} may start {limit} times in {per:g} s; the next start is possible in {retry_after:.3g} s. "
            f"Try again then, or let it wait with RateLimit(on_limit='wait')."
        )


class CircuitOpen(RunError):
    """An attempt was refused because the circuit breaker of its node is open."""

    def __init__(self, subject: str, failures: int, retry_after: float) -> None:
        self.retry_after = retry_after
        super().__init__(
            f"{subject} has failed {failures} times in a row, so its circuit is open for another {retry_after:.3g} s. "
            f"Find out why it failed, and try again later."
        )


class NonDeterminismError(RunError):
    """A journalled step was called with other arguments than when its result was recorded."""

    def __init__(self, node: str, step: str, ordinal: int) -> None:
        self.node = node
        self.step = step
        super().__init__(
            f"Node {node!r} called step {step!r} (call {ordinal + 1} of that name) with other arguments than when its "
            f"result was recorded. A node that is executed again must make the same calls: derive them from its "
            f"input, or give each call a name of its own."
        )


class QuestionMismatch(RunError):
    """A task that was executed again asks another question than the one that was answered. The answer is not used."""

    def __init__(
        self, node: str, changed: str, answered: str, current: str, *, before: Any = None, now: Any = None
    ) -> None:
        self.node = node
        self.changed = changed
        """The property that differs: `kind`, `event`, `schema`, `key`, `place` or `value`."""
        self.before = before
        """The Interrupt that was answered."""
        self.now = now
        """The Interrupt that is asked instead."""
        super().__init__(
            f"Node {node!r} asks another question than the one that was answered ({changed}). Answered: {answered}. "
            f"Asked now: {current}. The answer was not used. A node that is executed again must ask the same "
            f"questions: derive them from its input, and distinguish several with key=. To ask anew, fork the thread "
            f"from its last checkpoint."
        )


class NodeCancelledError(RunError):
    """A node raised CancelledError although it was not cancelled."""

    def __init__(self, node: str, error: BaseException) -> None:
        self.node = node
        super().__init__(
            f"Node {node!r} raised CancelledError although it was not cancelled: something that it awaited was. "
            f"Catch it there, or raise an exception that says what went wrong."
        )
        self.__cause__ = error


class InvalidResume(RunError):
    """An answer does not fit the open questions of its thread."""

    exit_code: ClassVar[int] = 2

    def __init__(self, reason: str, *, open_ids: Sequence[str] = ()) -> None:
        self.open_ids = tuple(open_ids)
        super().__init__(f"{reason} Open questions: {', '.join(self.open_ids) or 'none'}.")


class UnansweredInterrupts(RunError):
    """Fresh input arrived on a thread that still waits for answers."""

    exit_code: ClassVar[int] = 2

    def __init__(self, thread_id: str, open_questions: Sequence[tuple[str, object]]) -> None:
        self.thread_id = thread_id
        self.open_ids = tuple(question_id for question_id, _ in open_questions)
        questions = "; ".join(f"{question_id}: {value!r}" for question_id, value in open_questions)
        super().__init__(
            f"Thread {thread_id!r} waits for answers ({questions}), so fresh input would discard its work. "
            f"Answer with Command(resume=...), or pass on_unfinished='discard' to start anew."
        )


class GraphVersionMismatch(RunError):
    """A thread that was saved by another version of the graph does not fit this one."""

    def __init__(
        self, thread_id: str, graph: str, problems: Sequence[str], *, found: str | None, version: str | None
    ) -> None:
        self.problems = tuple(problems)
        listed = " ".join(f"({number}) {problem}" for number, problem in enumerate(problems, 1))
        super().__init__(
            f"Thread {thread_id!r} was saved by version {found or 'none'} of graph {graph!r} and does not fit version "
            f"{version or 'none'}: {listed} Give nodes their former names as aliases=, or add "
            f"@graph.migration(from_version={found!r})."
        )


class MutatedState(RunError):
    """With `debug=True`: a node changed the state in place instead of returning an update."""

    def __init__(self, node: str, channels: Sequence[str]) -> None:
        self.node = node
        self.channels = tuple(channels)
        names = ", ".join(repr(channel) for channel in self.channels)
        super().__init__(
            f"Node {node!r} changed {names} in place. Objects inside the state are shared with other nodes and saved "
            f"checkpoints, and a list, dict or set that is not returned is lost: copy what you change, and return it "
            f"as an update."
        )


class RunCancelled(RunError):
    """The run was cancelled. Results that were saved before are kept."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"The run was cancelled: {reason}. Call invoke(None) on its thread to resume it.")


class ChildRunFailed(RunError):
    """A child run that a node waited for has failed or was cancelled."""

    def __init__(self, run_id: str, graph: str, status: str, error: Any = None) -> None:
        self.run_id = run_id
        self.status = status
        self.details = error
        cause = f": {error['message']}" if isinstance(error, dict) and "message" in error else ""
        super().__init__(f"Run {run_id} of {graph!r} is {status}{cause}. Look at its events, and try it again.")


class GraphDrained(RunError):
    """The run was asked to stop, and stopped at a superstep boundary. Everything done so far is kept."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"The run was drained: {reason}. Call invoke(None) on its thread to resume it.")


class RoutingError(RunError):
    """The result of a state or of a router names no valid next step: nothing to iterate over, or an unknown name."""


# -- storage


class StorageError(StatewrightError):
    """Data could not be stored or found."""


class CheckpointConflict(StorageError):
    """Another run has moved the head of the thread since this run read it."""

    exit_code: ClassVar[int] = 2

    def __init__(self, thread_id: str, expected: str | None, found: str | None) -> None:
        self.thread_id = thread_id
        self.expected = expected
        self.found = found
        change = f"is at checkpoint {found or 'none'}, and {expected or 'none'} was read: another run has moved it"
        if expected == found:  # the same head, but another epoch
            change = f"was claimed or written to by another caller after checkpoint {found or 'none'} was read"
        super().__init__(f"Thread {thread_id!r} {change}. Nothing was written; load the thread and try again.")


class ThreadBusy(StorageError):
    """Another run is advancing the thread."""

    def __init__(self, thread_id: str, owner: str, until: object) -> None:
        self.thread_id = thread_id
        self.owner = owner
        super().__init__(
            f"Thread {thread_id!r} is being advanced by run {owner.partition('@')[0]!r} (its lease ends at {until}). "
            f"Nothing was written. Wait for it, or pass on_busy='enqueue', 'interrupt' or 'rollback'."
        )


class LeaseLost(StorageError):
    """The run does not hold its thread any more: its lease expired or was ended, and another run may hold it."""

    def __init__(self, thread_id: str, owner: str, found: str | None) -> None:
        self.thread_id = thread_id
        self.owner = owner
        self.found = found
        holder = f"run {found.partition('@')[0]!r} has taken it over" if found else "no run does"
        super().__init__(
            f"Run {owner.partition('@')[0]!r} does not hold thread {thread_id!r} any more: {holder}. "
            f"Nothing was written. Load the thread to see its current state."
        )


class JournalConflict(StorageError):
    """A step already has a recorded result. The first record stays."""

    def __init__(self, task_id: str, name: str, ordinal: int) -> None:
        self.task_id = task_id
        self.name = name
        self.ordinal = ordinal
        super().__init__(
            f"Step {name!r} (call {ordinal + 1}) of task {task_id} already has a recorded result. It stays, and this "
            f"one was not saved. Run the task again to continue with the recorded result."
        )


class NamespaceBusy(StorageError):
    """Two live calls of a subgraph would write to one memory."""

    def __init__(self, namespace: str, node: str) -> None:
        self.namespace = namespace
        super().__init__(
            f"Node {node!r} calls a subgraph with memory='thread' while another call in {namespace!r} is still live. "
            f"Give each call a call_key of its own, or use memory='call'."
        )


class CheckpointNotFound(StorageError):
    """No such thread, branch or checkpoint."""

    exit_code: ClassVar[int] = 2


class SerdeError(StorageError):
    """A value cannot be serialized, or stored data cannot be deserialized."""

    def __init__(self, key_path: str, reason: str) -> None:
        self.key_path = key_path
        super().__init__(f"{key_path} cannot be stored or read: {reason}.")


class StorageUnavailable(StorageError):
    """The database cannot be reached or written to now. Earlier commits are safe."""


class StorageFull(StorageUnavailable):
    """The disk is full. Earlier commits are safe."""


class StorageLocked(StorageUnavailable):
    """Another process has held a lock on the database for longer than the time limit for waiting."""


class DamagedDatabase(StorageError):
    """Stored data differs from what was written: the file was truncated, overwritten, or is not a database."""

    def __init__(self, damage: str, *, where: str | None = None) -> None:
        self.where = where
        """The path of the database, if it is known."""
        super().__init__(
            f"The database{f' {where}' if where else ''} is damaged: {damage}. "
            f"Restore a copy of it; `statewright db check` reports which threads can still be read."
        )


class RecordConflict(StorageError):
    """A record of the ledger is missing or has changed since it was read: another caller was faster."""

    def __init__(self, table: str, record_id: str, expected: Sequence[Any] = ()) -> None:
        self.table = table
        self.id = record_id
        conditions = _described(expected)
        super().__init__(
            f"The record {record_id!r} of {table} does not exist"
            + (f" with {conditions}: it was changed meanwhile. Read it again." if conditions else ".")
        )


class RecordPresent(RecordConflict):
    """A record exists that must not exist for a change: another caller was faster."""

    def __init__(self, table: str, conditions: Sequence[Any]) -> None:
        super().__init__(table, "")
        self.args = (f"A record of {table} with {_described(conditions)} exists, and must not. Read it again.",)


def _described(conditions: Sequence[Any]) -> str:
    return " and ".join(f"{name} {operator} {value!r}" for name, operator, value in conditions)


class DuplicateRecord(RecordConflict):
    """A record with the same id, or the same unique values, already exists."""

    def __init__(self, table: str, columns: Sequence[str], values: Sequence[Any]) -> None:
        super().__init__(table, "")
        self.columns = tuple(columns)
        duplicate = " and ".join(f"{name} {value!r}" for name, value in zip(columns, values, strict=True))
        self.args = (f"A record of {table} with {duplicate} already exists. Choose another value.",)


class WrongEncryptionKey(StorageError):
    """The database is encrypted with another key, or is not encrypted."""

    exit_code: ClassVar[int] = 2


class NewerFormat(StorageError):
    """The database was written by a newer version of Statewright."""

    def __init__(self, where: str, found: int, supported: int) -> None:
        self.found = found
        """The format of the database."""
        super().__init__(
            f"The database {where} has format {found}, and this version of Statewright reads up to {supported}. "
            f"Use the version that wrote it, or a newer one."
        )


class StoredError(StorageError):
    """A saved exception whose class is not known here."""

    def __init__(self, kind: str, text: str) -> None:
        self.kind = kind
        """The module and name of its class."""
        super().__init__(text)


# -- models and tools


class ModelError(StatewrightError):
    """A model call produced no usable answer."""


class ModelUnavailable(ModelError):
    """The provider of a model is unreachable, or refuses for now."""

    def __init__(self, message: str, *, status: int | None = None, retry_after: float | None = None) -> None:
        self.status = status
        """The HTTP status, if there was a response."""
        self.retry_after = retry_after
        """Seconds after which the provider asks to be called again; None if it does not say."""
        super().__init__(message)


class ModelAnswerInvalid(ModelError):
    """The answer of a model does not have the requested form, after every attempt."""

    is_final: bool = False
    """True if the attempts for one answer are used up: no RetryPolicy starts another one."""


class MissingApiKey(ModelError):
    """The API key of a model, or of a service used by a tool, is not set."""


class ToolError(StatewrightError):
    """A tool is missing, is not allowed, was called with invalid arguments, or failed."""


# -- the service


class ServiceError(StatewrightError):
    """The service rejected a request."""

    status: ClassVar[int] = 500
    """The HTTP status of the response."""
    api_code: ClassVar[str] = "INTERNAL_ERROR"
    """The stable code by which client programs distinguish errors."""

    def __init__(self, message: str, *, details: Any = None) -> None:
        self.details = details
        """Further data for programs, as JSON."""
        super().__init__(message)


class InvalidRequest(ServiceError):
    """The request is incomplete or malformed."""

    exit_code: ClassVar[int] = 2
    status: ClassVar[int] = 400
    api_code: ClassVar[str] = "VALIDATION_ERROR"


class Unauthorized(ServiceError):
    """No credentials, or an unknown, revoked or expired key."""

    exit_code: ClassVar[int] = 2
    status: ClassVar[int] = 401
    api_code: ClassVar[str] = "AUTH_ERROR"


class Forbidden(ServiceError):
    """The caller lacks permission."""

    exit_code: ClassVar[int] = 2
    status: ClassVar[int] = 403
    api_code: ClassVar[str] = "FORBIDDEN"


class NotFound(ServiceError):
    """The resource does not exist or is not visible to the caller; the response does not reveal which."""

    exit_code: ClassVar[int] = 2
    status: ClassVar[int] = 404
    api_code: ClassVar[str] = "NOT_FOUND"


class RequestConflict(ServiceError):
    """The request conflicts with current state: a name that is taken, a thread that is busy."""

    exit_code: ClassVar[int] = 2
    status: ClassVar[int] = 409
    api_code: ClassVar[str] = "CONFLICT"


class SignalMismatch(RequestConflict):
    """A run waits for another type of signal than the one that was sent."""

    api_code: ClassVar[str] = "SIGNAL_MISMATCH"


class PayloadTooLarge(ServiceError):
    """The request, or the state of a run, is larger than the service accepts."""

    exit_code: ClassVar[int] = 2
    status: ClassVar[int] = 413
    api_code: ClassVar[str] = "PAYLOAD_TOO_LARGE"


class ServiceUnreachable(ServiceError):
    """The service sent no response: it is not running, or the connection was lost."""

    status: ClassVar[int] = 503
    api_code: ClassVar[str] = "UNAVAILABLE"


class TooManyRequests(ServiceError):
    """A rate limit was exceeded."""

    status: ClassVar[int] = 429
    api_code: ClassVar[str] = "RATE_LIMIT_ERROR"

    def __init__(self, message: str, *, retry_after: float) -> None:
        self.retry_after = retry_after
        """Seconds after which the request may succeed."""
        super().__init__(message, details={"retryAfter": retry_after})


class SpendingLimitReached(TooManyRequests):
    """The runs of a workspace have reached its spending limit for the day."""

    api_code: ClassVar[str] = "SPENDING_LIMIT_REACHED"

    def __init__(
        self, workspace_id: str, limit: str, *, used: float, most: float, ends_at: datetime, now: datetime
    ) -> None:
        self.workspace_id = workspace_id
        self.limit = limit
        """The limit that was reached: `tokens_per_day`, `cost_per_day` or `requests_per_day`."""
        self.used = used
        self.most = most
        self.ends_at = ends_at
        """The end of the day, when spending starts again from zero."""
        until = ends_at.isoformat().replace("+00:00", "Z")
        super().__init__(
            f"Workspace {workspace_id!r} has used up its {limit}: {used:.10g} of {most:.10g}. Its runs continue, and "
            f"new ones may start, at {until}; or raise the limit.",
            retry_after=max((ends_at - now).total_seconds(), 0.0),
        )
        self.details |= {"workspaceId": workspace_id, "limit": limit, "used": used, "most": most, "endsAt": until}


class InvalidTransition(RequestConflict):
    """The run or step cannot change from its current status to the requested one."""

    api_code: ClassVar[str] = "INVALID_TRANSITION"

    def __init__(
        self, subject: str, before: str, after: str, allowed: Sequence[str], *, is_asked_for: bool = False
    ) -> None:
        """Compose the message about `subject`, such as `Run 7`.

        `allowed` are the statuses that may follow, or, if `after` is what a request asks for, those that permit it.
        """
        self.before = before
        self.after = after
        if is_asked_for:
            refusal = f"cannot be {after}." + (f" Only one that is {' or '.join(allowed)} can." if allowed else "")
        else:
            options = f"It may become {', '.join(allowed)}." if allowed else "That status is final."
            refusal = f"cannot become {after}. {options}"
        details = {"status": str(before), "wanted": str(after), "allowed": list(map(str, allowed))}
        super().__init__(f"{subject} is {before}, and {refusal}", details=details)


# -- Statewright itself


class InternalError(StatewrightError):
    """A broken invariant of Statewright itself; please report it with the message."""


# -- warnings


class UnknownKeyWarning(UserWarning):
    """An update or input held a key that the schema does not know; the key was dropped."""


class QuestionChanged(UserWarning):
    """A task that was executed again words an answered question differently. It received the answer."""

    def __init__(self, node: str, answered: str, current: str, *, before: Any = None, now: Any = None) -> None:
        self.node = node
        self.before = before
        """The Interrupt that was answered."""
        self.now = now
        """The Interrupt that is asked now."""
        super().__init__(
            f"Node {node!r} was executed again and words its question differently: {current} now, {answered} when it "
            f"was answered. It received that answer. To ask the same again, draft the question in an earlier node or "
            f"in runtime.step; to make this an error, use compile(changed_questions='error')."
        )


class UnfinishedJoinWarning(UserWarning):
    """A run ended while some sources of a join edge had not run, so the join never fired."""


class HiddenMessagesWarning(UserWarning):
    """A stream of `messages` stayed empty because all messages came from subgraphs."""


class NoCheckpointerWarning(UserWarning):
    """A run waits for an answer without a checkpointer, so it cannot be resumed."""
