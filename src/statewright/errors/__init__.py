"""Every error that Statewright raises on purpose.

    StatewrightError                 .code: "SW-" and the name in kebab case
    ├── GraphError                   the graph is invalid; detected before it runs
    │   ├── InvalidGraph             .problems: every problem, with suggestions for misspelled names
    │   ├── InvalidSchema            a field or its reducer cannot become a channel
    │   ├── WorkflowError            .problems: every problem of a workflow file, with line and column
    │   └── ExpressionError          an expression or template that cannot be parsed or evaluated
    ├── RunError                     a run cannot continue
    │   ├── InvalidUpdateError       a result, update or input does not match the schema of the state
    │   ├── ConflictingWrites        two tasks of one superstep wrote to a single-valued channel
    │   ├── UnknownTarget            a goto, Send or conditional edge to a node that is not a valid target
    │   ├── EmptyInputError          no input to start with, and no saved run to resume
    │   ├── InvalidConfig            a setting of the call is unknown, of the wrong type or out of range
    │   │   └── MissingLibrary       (ImportError) a feature needs a library that is not installed
    │   ├── GraphRecursionError      (RecursionError) more supersteps than allowed
    │   ├── BudgetExceeded           the call has exceeded its Budget
    │   ├── NodeFailed               an exception raised by a node, in records and batch results
    │   ├── NodeTimeoutError         (TimeoutError) an attempt took too long
    │   ├── NodeCancelledError       a node raised CancelledError although it was not cancelled
    │   ├── RemoteCallError          a node cannot run in another process, because something cannot be pickled
    │   │   └── WorkerDied           a worker process died while it executed a node
    │   ├── RateLimited              an attempt was refused because it would exceed its RateLimit
    │   ├── CircuitOpen              an attempt was refused because the circuit breaker is open
    │   ├── NonDeterminismError      a journalled step was called with different arguments than before
    │   ├── QuestionMismatch         a task asks a different question from the one that was answered
    │   ├── InvalidResume            an answer to no open question, or an event that no run is waiting for
    │   ├── UnansweredInterrupts     new input on a thread with open questions
    │   ├── GraphVersionMismatch     a thread was saved by an incompatible version of the graph
    │   ├── MutatedState             a node changed shared state in place (debug)
    │   ├── RunCancelled             the run was cancelled
    │   ├── ChildRunFailed           a child run that a node waited for did not complete
    │   ├── GraphDrained             the run stopped at a superstep boundary, as requested; it can be resumed
    │   └── RoutingError             the result of a state names no valid next step
    ├── StorageError                 data cannot be read or written
    │   ├── CheckpointConflict       another run has moved the head of the thread before a commit
    │   ├── ThreadBusy               another run is advancing the thread
    │   ├── LeaseLost                another run has taken over the thread
    │   ├── JournalConflict          a step already has a recorded result
    │   ├── NamespaceBusy            two concurrent calls of a subgraph would write to the same memory
    │   ├── CheckpointNotFound       the thread, branch or checkpoint does not exist
    │   ├── SerdeError               a value cannot be stored or read; .key_path
    │   ├── StoredError              a saved exception that cannot be restored as its own class
    │   ├── StorageUnavailable       the database cannot be read or written at the moment
    │   │   ├── StorageFull          the disk is full
    │   │   └── StorageLocked        another process has locked the database for too long
    │   ├── DamagedDatabase          stored data differs from what was written
    │   ├── RecordConflict           a record is missing, or has changed since it was read
    │   │   ├── DuplicateRecord      a record with this id or name exists
    │   │   └── RecordPresent        a record exists that must be absent
    │   ├── WrongEncryptionKey       encrypted with another key, or not encrypted
    │   └── NewerFormat              written by a newer version of Statewright
    ├── ModelError                   a model call produced no usable answer
    │   ├── ModelUnavailable         the provider is unreachable, or temporarily rejects requests
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
    │   │   └── SignalMismatch       the run is waiting for another type of signal
    │   ├── ServiceUnreachable       no response from the service
    │   ├── PayloadTooLarge          the request is larger than the service accepts
    │   └── TooManyRequests          a rate limit was exceeded; .retry_after
    │       └── SpendingLimitReached a workspace has reached its daily limit; .limit, .used, .most, .ends_at
    └── InternalError                a broken invariant of Statewright itself; please report it

Errors of the graph, of a run, of storage and of Statewright itself have separate branches, because different people
repair them. Control flow is not in the tree: the signals that pause a run derive from `BaseException`, so that a node's
`except Exception` cannot swallow them. Most errors take data and compose their own message, which says what happened,
where, which value was found, and how to fix it.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Final

from statewright.errors.base import *
from statewright.errors.base import _rebuild  # pyright: ignore[reportPrivateUsage]  # pickles name it here
from statewright.errors.graph import *
from statewright.errors.run import *
from statewright.errors.service import *
from statewright.errors.storage import *

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
    "RemoteCallError",
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
    "WorkerDied",
    "WorkflowError",
    "WrongEncryptionKey",
    "nearest",
]

FORMER_NAMES: Final = {"Fenced": "LeaseLost", "MissingKey": "MissingApiKey", "WrongKey": "WrongEncryptionKey"}
"""Current names of renamed errors, by former name. The former names can be imported until the next release."""

if not TYPE_CHECKING:  # a type checker that saw this function would accept any name

    def __getattr__(name: str) -> object:
        current = FORMER_NAMES.get(name)
        if current is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        warnings.warn(f"statewright.errors.{name} has been renamed to {current}.", DeprecationWarning, stacklevel=2)
        return globals()[current]


# Tracebacks, pickles and savers refer to a class by its module, and pickles also to `_rebuild`. All of them should name
# this module, from which users import the errors, so that the modules in this package can change.
for _public in [_rebuild, *(value for value in globals().values() if isinstance(value, type))]:
    if _public.__module__.startswith(f"{__name__}."):
        _public.__module__ = __name__
