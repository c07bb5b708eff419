"""Errors and warnings of runs, including those of their models and tools."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from statewright.errors.base import StatewrightError, suggestion


class RunError(StatewrightError):
    """A run cannot continue."""


class InvalidUpdateError(RunError):
    """A result, an update or an input does not match the schema of the state."""

    exit_code: ClassVar[int] = 2


class ConflictingWrites(RunError):
    """Two tasks of one superstep wrote to a channel that holds a single value."""

    def __init__(self, channel: str, nodes: Sequence[str], *, what: str = "keeps one value") -> None:
        """Compose the message. `what` says, as a predicate of the channel, why both writes cannot be applied."""
        self.channel = channel
        self.nodes = tuple(nodes)
        writers = " and ".join(repr(node) for node in self.nodes)
        super().__init__(
            f"Channel {channel!r} was written by {writers} in the same superstep, but {what}. "
            f"Give the field a reducer, e.g. Annotated[list, append], or put one node after the other."
        )


class UnknownTarget(RunError):
    """A Command, Send or conditional edge leads to a node that is not one of its targets."""

    def __init__(self, source: str, target: object, valid_targets: Iterable[str], *, via: str) -> None:
        """Compose the message. `via` says what the node `source` returned to name the target, such as `a handoff`."""
        self.source = source
        self.target = target
        super().__init__(
            f"Node {source!r} returned {via} to {target!r}, which is not one of its targets. "
            + suggestion(str(target), valid_targets, noun="Targets")
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
        """The limit that was exceeded, in words, such as `tokens`."""
        self.limit = limit
        self.spent = spent
        last_nodes = "; the last superstep ran " + ", ".join(map(repr, last_steps[-1])) if last_steps else ""
        super().__init__(
            f"The budget is used up: {what} {spent} of {limit}{last_nodes}. "
            f"Raise it, or name a node in Budget(on_budget=...) that ends the run properly."
        )


class NodeFailed(RunError):
    """A wrapper of an exception that a node raised, for records and batch results. It is never raised itself."""

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
        """`run` if the whole attempt took too long, `idle` if it was inactive for too long."""
        self.seconds = seconds
        failure = "took longer than" if kind == "run" else "showed no activity for"
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
    """A journalled step was called with different arguments than when its result was recorded."""

    def __init__(self, node: str, step: str, ordinal: int) -> None:
        self.node = node
        self.step = step
        super().__init__(
            f"Node {node!r} called step {step!r} (call {ordinal + 1} of that name) with different arguments than when "
            f"its result was recorded. A node that is executed again must make the same calls: derive them from its "
            f"input, or give each call its own name."
        )


class QuestionMismatch(RunError):
    """A task was executed again and asks a different question from the answered one. The answer is not used."""

    def __init__(
        self, node: str, changed: str, answered: str, current: str, *, before: Any = None, now: Any = None
    ) -> None:
        self.node = node
        self.changed = changed
        """The property that differs: `kind`, `event`, `schema`, `key`, `place` or `value`."""
        self.before = before
        """The Interrupt that was answered."""
        self.now = now
        """The Interrupt that is raised now."""
        super().__init__(
            f"Node {node!r} asks a different question from the one that was answered ({changed}). Answered: "
            f"{answered}. Asked now: {current}. The answer was not used. A node that is executed again must ask the "
            f"same questions: derive them from its input, and distinguish several with key=. To ask the new question, "
            f"fork the thread from its last checkpoint."
        )


class NodeCancelledError(RunError):
    """A node raised CancelledError although it was not cancelled."""

    def __init__(self, node: str, error: BaseException) -> None:
        self.node = node
        super().__init__(
            f"Node {node!r} raised CancelledError although it was not cancelled: something that it awaited was. "
            f"Catch it around that await, or raise an exception that says what went wrong."
        )
        self.__cause__ = error


class RemoteCallError(RunError):
    """A node cannot run in another process: something it needs cannot be sent there, or is not available there."""


class WorkerDied(RemoteCallError):
    """A worker process ended while it executed a node, again and again."""

    def __init__(self, cause: str, losses: int = 1) -> None:
        self.cause = cause
        self.losses = losses
        """The number of workers that have died with the same call."""
        times = "" if losses == 1 else f" {losses} times"
        super().__init__(
            f"A worker process died{times} while it executed this call: {cause}. Look for a crash of native code, or "
            f"for a process that the system has killed because memory ran out; then resume the run."
        )


class InvalidResume(RunError):
    """An answer does not match the open questions of its thread."""

    exit_code: ClassVar[int] = 2

    def __init__(self, reason: str, *, open_ids: Sequence[str] = ()) -> None:
        self.open_ids = tuple(open_ids)
        super().__init__(f"{reason} Open questions: {', '.join(self.open_ids) or 'none'}.")


class UnansweredInterrupts(RunError):
    """New input arrived on a thread that is still waiting for answers."""

    exit_code: ClassVar[int] = 2

    def __init__(self, thread_id: str, open_questions: Sequence[tuple[str, object]]) -> None:
        self.thread_id = thread_id
        self.open_ids = tuple(question_id for question_id, _ in open_questions)
        questions = "; ".join(f"{question_id}: {value!r}" for question_id, value in open_questions)
        super().__init__(
            f"Thread {thread_id!r} is waiting for answers ({questions}), so new input would discard its work. "
            f"Answer with Command(resume=...), or pass on_unfinished='discard' to start again."
        )


class GraphVersionMismatch(RunError):
    """A thread that was saved by another version of the graph is not compatible with this one."""

    def __init__(
        self, thread_id: str, graph: str, problems: Sequence[str], *, found: str | None, version: str | None
    ) -> None:
        self.problems = tuple(problems)
        numbered_problems = " ".join(f"({number}) {problem}" for number, problem in enumerate(problems, 1))
        super().__init__(
            f"Thread {thread_id!r} was saved by version {found or 'none'} of graph {graph!r} and is not compatible "
            f"with version {version or 'none'}: {numbered_problems} Give nodes their former names as aliases=, or add "
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
        super().__init__(f"Run {run_id} of {graph!r} is {status}{cause}. Inspect its events, then retry it.")


class GraphDrained(RunError):
    """The run was asked to stop, and stopped at a superstep boundary. Everything done so far is kept."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"The run was drained: {reason}. Call invoke(None) on its thread to resume it.")


class RoutingError(RunError):
    """The result of a state or of a router leads to no valid next step: an iteration is empty, or a name is unknown."""


# -- models and tools


class ModelError(StatewrightError):
    """A model call produced no usable answer."""


class ModelUnavailable(ModelError):
    """The provider of a model is unreachable, or rejects requests temporarily."""

    def __init__(self, message: str, *, status: int | None = None, retry_after: float | None = None) -> None:
        self.status = status
        """The HTTP status, if there was a response."""
        self.retry_after = retry_after
        """The number of seconds that the provider has asked to wait before another request; None if it has not."""
        super().__init__(message)


class ModelAnswerInvalid(ModelError):
    """The answer of a model does not have the requested form, after every attempt."""

    is_final: bool = False
    """True if all attempts to get an answer have been made, so that a RetryPolicy does not retry the node."""


class MissingApiKey(ModelError):
    """The API key of a model, or of a service used by a tool, is not set."""


class ToolError(StatewrightError):
    """A tool is missing, is not allowed, was called with invalid arguments, or failed."""


# -- warnings


class UnknownKeyWarning(UserWarning):
    """An update or input contained a key that is not in the schema; the key was dropped."""


class QuestionChanged(UserWarning):
    """A task was executed again and worded an answered question differently. It received the answer."""

    def __init__(self, node: str, answered: str, current: str, *, before: Any = None, now: Any = None) -> None:
        self.node = node
        self.before = before
        """The Interrupt that was answered."""
        self.now = now
        """The Interrupt that is raised now."""
        super().__init__(
            f"Node {node!r} was executed again and worded its question differently: {current} now, {answered} when it "
            f"was answered. It received that answer. To keep the wording, compose the question in an earlier node or "
            f"in runtime.step; to make this an error, use compile(changed_questions='error')."
        )


class UnfinishedJoinWarning(UserWarning):
    """A run ended while some sources of a join edge had not run, so the join never fired."""


class HiddenMessagesWarning(UserWarning):
    """A stream of `messages` stayed empty because all messages came from subgraphs."""


class NoCheckpointerWarning(UserWarning):
    """A run is waiting for an answer, but cannot be resumed because it has no checkpointer."""
