"""The tree of errors: its drawing, the codes, and messages that say what failed, where, and what to do."""

from __future__ import annotations

import asyncio
import copy
import pickle
import re
from datetime import UTC, datetime

import pytest

from statewright import errors
from statewright.errors import (
    BudgetExceeded,
    CheckpointConflict,
    CheckpointNotFound,
    ChildRunFailed,
    CircuitOpen,
    ConflictingWrites,
    DamagedDatabase,
    DuplicateRecord,
    EmptyInputError,
    ExpressionError,
    Forbidden,
    GraphDrained,
    GraphError,
    GraphRecursionError,
    GraphVersionMismatch,
    InternalError,
    InvalidConfig,
    InvalidGraph,
    InvalidRequest,
    InvalidResume,
    InvalidSchema,
    InvalidTransition,
    InvalidUpdateError,
    JournalConflict,
    LeaseLost,
    MissingApiKey,
    MissingLibrary,
    ModelAnswerInvalid,
    ModelError,
    ModelUnavailable,
    MutatedState,
    NamespaceBusy,
    NewerFormat,
    NodeCancelledError,
    NodeFailed,
    NodeTimeoutError,
    NonDeterminismError,
    NotFound,
    PayloadTooLarge,
    Problem,
    QuestionChanged,
    QuestionMismatch,
    RateLimited,
    RecordConflict,
    RecordPresent,
    RemoteCallError,
    RequestConflict,
    RoutingError,
    RunCancelled,
    RunError,
    SerdeError,
    ServiceError,
    ServiceUnreachable,
    SignalMismatch,
    SpendingLimitReached,
    StatewrightError,
    StorageError,
    StorageFull,
    StorageLocked,
    StorageUnavailable,
    StoredError,
    ThreadBusy,
    ToolError,
    TooManyRequests,
    UnansweredInterrupts,
    Unauthorized,
    UnknownKeyWarning,
    UnknownTarget,
    WorkerDied,
    WorkflowError,
    WrongEncryptionKey,
    nearest,
    suggestion,
)

LINE = re.compile(r"(?P<indent>[│├└─ ]*)(?P<name>[A-Z]\w+)(?: +|$)(?:\((?P<builtin>\w+)\) )?")


def parse_tree() -> list[tuple[str, str | None, str | None]]:
    """Parse each line of the docstring's tree: a name, its parent, and the built-in exception it also derives from."""
    assert errors.__doc__
    text = errors.__doc__.split("\n\n")[1]
    entries: list[tuple[str, str | None, str | None]] = []
    ancestors: list[str] = []
    for line in text.splitlines():
        match = LINE.match(line)
        assert match, line
        depth = len(match["indent"]) // 4 - 1
        del ancestors[depth:]
        entries.append((match["name"], ancestors[-1] if ancestors else None, match["builtin"]))
        ancestors.append(match["name"])
    return entries


def error_classes() -> dict[str, type[StatewrightError]]:
    values = vars(errors).values()
    return {
        value.__name__: value for value in values if isinstance(value, type) and issubclass(value, StatewrightError)
    }


def test_the_tree_names_every_error_once() -> None:
    names = [name for name, _, _ in parse_tree()]
    assert sorted(names) == sorted(error_classes())


@pytest.mark.parametrize(("name", "parent", "builtin"), parse_tree(), ids=str)
def test_every_error_has_the_parents_that_the_tree_shows(name: str, parent: str | None, builtin: str | None) -> None:
    kind = error_classes()[name]
    builtins = [base.__name__ for base in kind.__bases__ if not issubclass(base, StatewrightError)]
    assert builtins == ([builtin] if builtin else ["Exception"] if parent is None else [])
    assert [base.__name__ for base in kind.__bases__ if issubclass(base, StatewrightError)] == (
        [parent] if parent else []
    )


@pytest.mark.parametrize("kind", error_classes().values(), ids=list(error_classes()))
def test_every_error_has_a_code_in_kebab_case(kind: type[StatewrightError]) -> None:
    assert re.fullmatch(r"SW-[a-z]+(-[a-z]+)*", kind.code)
    assert kind.code.removeprefix("SW-").replace("-", "") == kind.__name__.lower()


def test_every_code_is_unique() -> None:
    assert len({kind.code for kind in error_classes().values()}) == len(error_classes())


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (StatewrightError, "SW-statewright-error"),
        (InvalidGraph, "SW-invalid-graph"),
        (NonDeterminismError, "SW-non-determinism-error"),
        (LeaseLost, "SW-lease-lost"),
    ],
)
def test_the_code_is_derived_from_the_class_name(kind: type[StatewrightError], code: str) -> None:
    assert kind.code == code


def test_a_subclass_defined_by_an_application_gets_a_code() -> None:
    class OutOfPaper(StatewrightError):
        pass

    assert OutOfPaper.code == "SW-out-of-paper"


def test_all_lists_every_error_in_alphabetical_order() -> None:
    assert errors.__all__ == sorted(errors.__all__)
    assert set(error_classes()) <= set(errors.__all__)
    assert [name for name in errors.__all__ if not hasattr(errors, name)] == []


@pytest.mark.parametrize("kind", [UnknownKeyWarning, QuestionChanged])
def test_warnings_are_user_warnings(kind: type[Warning]) -> None:
    assert issubclass(kind, UserWarning)


AT = datetime(2026, 1, 2, tzinfo=UTC)
EXAMPLES: list[tuple[StatewrightError, list[str]]] = [
    (InvalidGraph(["one.", "two."], graph="triage"), ["triage has 2 problems", "1. one.", "2. two."]),
    (InvalidGraph(["one."]), ["graph has 1 problem:"]),
    (
        WorkflowError(
            [
                Problem("states[1].next", 7, 5, "It says nothing.", "Write state_id."),
                Problem("", 0, 0, "There are no states."),
                Problem("", 2, 1, "A tab."),
            ],
            source="flow.yaml",
        ),
        [
            "flow.yaml has 3 problems",
            "1. In 'states[1].next' (line 7, column 5): It says nothing. Write state_id.",
            "2. There are no states.",
            "3. Line 2, column 1: A tab.",
        ],
    ),
    (ModelUnavailable("The model answers with status 429.", status=429, retry_after=2.0), ["status 429"]),
    (ConflictingWrites("x", ["a", "b"]), ["'x'", "'a' and 'b'", "same superstep", "reducer"]),
    (ConflictingWrites("x", ["a", "b"], what="was replaced"), ["but was replaced."]),
    (
        UnknownTarget("a", "reveiw", ["draft", "review"], via="Command"),
        ["'a'", "Command", "'reveiw'", "Did you mean 'review'", "draft, review"],
    ),
    (
        GraphRecursionError(50, [["plan"], ["act", "check"]]),
        ["50 supersteps", "last 2", "'plan', 'act'+'check'", "Raise recursion_limit"],
    ),
    (GraphRecursionError(50, [["plan"]], thread_id="acme-12"), ["on thread 'acme-12'"]),
    (BudgetExceeded("tokens", 10, 12), ["tokens 12 of 10", "Raise it", "on_budget"]),
    (BudgetExceeded("steps", 3, 3, last_steps=[["a"], ["b", "c"]]), ["the last superstep ran 'b', 'c'"]),
    (NodeFailed("a", ValueError("no luck"), step=2, attempt=3), ["'a'", "step 2", "attempt 3", "ValueError: no luck"]),
    (NodeTimeoutError("a", "run", 1.5), ["'a'", "longer than 1.5 s", "run_timeout", "retry policy"]),
    (NodeTimeoutError("a", "idle", 2), ["'a'", "showed no activity for 2 s", "heartbeat", "idle_timeout"]),
    (RateLimited("Node 'a'", 2, 60, 1.25), ["Node 'a'", "2 times in 60 s", "1.25 s", "on_limit='wait'"]),
    (WorkerDied("it was killed by signal 9", 3), ["died 3 times", "signal 9", "memory ran out", "resume the run"]),
    (CircuitOpen("Node 'a'", 5, 30), ["Node 'a'", "5 times", "30 s", "try again later"]),
    (NonDeterminismError("a", "pay", 1), ["'a'", "'pay'", "call 2", "different arguments"]),
    (QuestionMismatch("a", "kind", "'Ship?'", "a timer"), ["'a'", "(kind)", "'Ship?'", "a timer", "not used", "key="]),
    (
        NodeCancelledError("a", asyncio.CancelledError()),
        ["'a'", "although it was not cancelled", "Catch it around that await"],
    ),
    (
        InvalidResume("Question 'x' does not exist.", open_ids=["1", "2"]),
        ["Question 'x' does not exist.", "Open questions: 1, 2."],
    ),
    (InvalidResume("Nothing is asked."), ["Open questions: none."]),
    (SerdeError("values.x[2]", "its type is not known"), ["values.x[2]", "its type is not known"]),
    (DamagedDatabase("it is cut short", where="/x.db"), ["/x.db", "it is cut short", "Restore", "db check"]),
    (DamagedDatabase("it is cut short"), ["The database is damaged"]),
    (NewerFormat("/x.db", 3, 1), ["/x.db", "format 3", "up to 1", "Use the version"]),
    (StoredError("app.Oops", "It went wrong."), ["It went wrong."]),
    (
        GraphVersionMismatch("t", "g", ["Node 'a' does not exist."], found="1", version="2"),
        ["'t'", "version 1", "'g'", "version 2", "(1) Node 'a' does not exist.", "aliases=", "from_version='1'"],
    ),
    (
        UnansweredInterrupts("t", [("1", "how many?"), ("2", None)]),
        ["'t'", "1: 'how many?'; 2: None", "Command(resume=", "on_unfinished='discard'"],
    ),
    (
        InvalidTransition("run 1", "paused", "failed", ["cancelled", "running"]),
        ["run 1 is paused", "cannot become failed", "It may become cancelled, running."],
    ),
    (
        InvalidTransition("Run 1", "completed", "retried", ["failed"], is_request=True),
        ["Run 1 is completed, and cannot be retried. That is possible only while it is failed."],
    ),
    (
        InvalidTransition("Run 1", "completed", "resumed", ["waiting", "paused"], is_request=True),
        ["cannot be resumed. That is possible only while it is waiting or paused."],
    ),
    (
        InvalidTransition("Approval 1", "approved", "rejected", [], is_request=True),
        ["Approval 1 is approved, and cannot be rejected."],
    ),
    (
        ChildRunFailed("run_1", "research", "failed", {"message": "no luck", "code": "X"}),
        ["Run run_1 of 'research' is failed: no luck", "then retry it"],
    ),
    (
        RecordConflict("workflow_runs", "run_1", [("version", "=", 3)]),
        ["'run_1' of workflow_runs", "version = 3", "another caller has changed it", "Read it again"],
    ),
    (
        RecordPresent("workflow_runs", [("thread_id", "=", "t")]),
        ["A record of workflow_runs", "thread_id = 't'", "exists, but must not", "Read it again"],
    ),
    (
        DuplicateRecord("schedules", ("workspace_id", "name"), ("w", "nightly")),
        ["schedules", "name 'nightly'", "already", "Choose another value"],
    ),
    (InvalidRequest("page 0 cannot be: give a page from 1."), ["page 0", "give"]),
    (Unauthorized("The key is not known. Send a valid one."), ["key", "Send"]),
    (Forbidden("The key may not do this. Use another."), ["key", "Use"]),
    (NotFound("Run 'x' does not exist."), ["'x'"]),
    (RequestConflict("The thread is busy. Wait."), ["busy", "Wait"]),
    (SignalMismatch("The run does not wait for 'x'. It waits for: y."), ["'x'", "y"]),
    (PayloadTooLarge("The input has 5 bytes, and 4 are taken at most."), ["5", "4"]),
    (ServiceUnreachable("GET /x had no answer: refused. Check that the service runs."), ["refused", "Check"]),
    (TooManyRequests("60 requests a minute are allowed. Wait.", retry_after=1.5), ["60", "Wait"]),
    (
        SpendingLimitReached(
            "w1",
            "tokens_per_day",
            used=1_200_000,
            most=1_000_000,
            ends_at=datetime(2026, 2, 1, tzinfo=UTC),
            now=datetime(2026, 1, 31, tzinfo=UTC),
        ),
        ["'w1'", "tokens_per_day: 1200000 of 1000000", "2026-02-01T00:00:00Z", "Raise the limit"],
    ),
    (MutatedState("a", ["x", "y"]), ["'a'", "'x', 'y'", "in place", "copy"]),
    (RunCancelled("time is up"), ["cancelled: time is up", "invoke(None)"]),
    (GraphDrained("a new release"), ["drained: a new release", "invoke(None)"]),
    (
        CheckpointConflict("t", "1", "2"),
        ["'t'", "is at checkpoint 2", "1 was read", "Nothing was written", "load the thread"],
    ),
    (CheckpointConflict("t", None, "2"), ["none was read"]),
    (CheckpointConflict("t", "1", None), ["is at checkpoint none"]),
    (ThreadBusy("t", "run-1", AT), ["'t'", "'run-1'", str(AT), "on_busy='enqueue'"]),
    (LeaseLost("t", "run-1", "run-2"), ["'run-1'", "'t'", "run 'run-2' has taken it over", "Nothing was written"]),
    (LeaseLost("t", "run-1", None), ["no run does"]),
    (CheckpointConflict("t", "2", "2"), ["was claimed or written to by another caller after checkpoint 2 was read"]),
    (JournalConflict("t1", "pay", 0), ["'pay'", "call 1", "t1", "Run the task again"]),
    (NamespaceBusy("a:1", "a"), ["'a'", "'a:1'", "call_key", "memory='call'"]),
]
PLAIN = (
    StatewrightError,
    GraphError,
    InvalidSchema,
    ExpressionError,
    RunError,
    RoutingError,
    ModelError,
    ModelAnswerInvalid,
    MissingApiKey,
    MissingLibrary,
    ToolError,
    ServiceError,
    InvalidUpdateError,
    EmptyInputError,
    InvalidConfig,
    MissingLibrary,
    StorageError,
    CheckpointNotFound,
    RemoteCallError,
    StorageUnavailable,
    StorageFull,
    StorageLocked,
    WrongEncryptionKey,
    InternalError,
)
"""The errors whose message is written where they are raised."""


def test_every_error_has_an_example() -> None:
    assert {type(error) for error, _ in EXAMPLES} | set(PLAIN) == set(error_classes().values())


@pytest.mark.parametrize(("error", "parts"), EXAMPLES, ids=lambda part: getattr(part, "code", ""))
def test_a_message_says_what_failed_where_and_what_to_do(error: StatewrightError, parts: list[str]) -> None:
    message = str(error)
    assert [part for part in parts if part not in message] == []


@pytest.mark.parametrize(("error", "parts"), EXAMPLES, ids=lambda part: getattr(part, "code", ""))
def test_a_message_consists_of_whole_sentences(error: StatewrightError, parts: list[str]) -> None:
    message = str(error)
    assert "  " not in message.replace("\n  ", "\n")
    assert isinstance(error, NodeFailed | InvalidGraph | WorkflowError) or message.endswith(".")


@pytest.mark.parametrize(
    ("error", "attributes"),
    [
        (InvalidGraph(["one.", "two."]), {"problems": ("one.", "two.")}),
        (WorkflowError([Problem("a", 1, 2, "b", "c")]), {"problems": (Problem("a", 1, 2, "b", "c"),)}),
        (ModelUnavailable("no", status=503, retry_after=1.5), {"status": 503, "retry_after": 1.5}),
        (ConflictingWrites("x", ["a", "b"]), {"channel": "x", "nodes": ("a", "b")}),
        (UnknownTarget("a", "b", ["c"], via="Send"), {"source": "a", "target": "b"}),
        (GraphRecursionError(5, [["a"], ["b", "c"]]), {"limit": 5, "last_steps": (("a",), ("b", "c"))}),
        (BudgetExceeded("cost", 1.0, 1.5), {"what": "cost", "limit": 1.0, "spent": 1.5}),
        (NodeTimeoutError("a", "idle", 2.0), {"node": "a", "kind": "idle", "seconds": 2.0}),
        (RateLimited("a", 1, 2.0, 3.0), {"retry_after": 3.0}),
        (CircuitOpen("a", 1, 2.0), {"retry_after": 2.0}),
        (NonDeterminismError("a", "pay", 0), {"node": "a", "step": "pay"}),
        (QuestionMismatch("a", "key", "1", "2", before=1, now=2), {"changed": "key", "before": 1, "now": 2}),
        (InvalidResume("No.", open_ids=["1"]), {"open_ids": ("1",)}),
        (UnansweredInterrupts("t", [("1", "?")]), {"thread_id": "t", "open_ids": ("1",)}),
        (MutatedState("a", ["x"]), {"node": "a", "channels": ("x",)}),
        (RunCancelled("why"), {"reason": "why"}),
        (GraphDrained("why"), {"reason": "why"}),
        (CheckpointConflict("t", None, "2"), {"thread_id": "t", "expected": None, "found": "2"}),
        (ThreadBusy("t", "run", AT), {"thread_id": "t", "owner": "run"}),
        (LeaseLost("t", "run", None), {"thread_id": "t", "owner": "run", "found": None}),
        (JournalConflict("t1", "pay", 0), {"task_id": "t1", "name": "pay", "ordinal": 0}),
        (NamespaceBusy("a:1", "a"), {"namespace": "a:1"}),
    ],
    ids=lambda part: getattr(part, "code", ""),
)
def test_the_arguments_of_an_error_are_its_attributes(error: StatewrightError, attributes: dict[str, object]) -> None:
    assert {name: getattr(error, name) for name in attributes} == attributes


@pytest.mark.parametrize("kind", [NodeFailed, NodeCancelledError])
def test_the_exception_of_a_node_is_the_cause(kind: type[StatewrightError]) -> None:
    raised = ValueError("no luck")
    error = NodeFailed("a", raised, step=1) if kind is NodeFailed else NodeCancelledError("a", raised)
    assert error.__cause__ is raised


def test_catching_the_builtin_exception_catches_its_subclasses() -> None:
    with pytest.raises(RecursionError):
        raise GraphRecursionError(1, [])
    with pytest.raises(TimeoutError):
        raise NodeTimeoutError("a", "run", 1)


@pytest.mark.parametrize("kind", PLAIN, ids=lambda kind: kind.__name__)
def test_an_error_created_with_a_message_survives_pickling_and_copying(kind: type[StatewrightError]) -> None:
    error = kind("What went wrong. What to do.")
    for duplicate in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert (type(duplicate), str(duplicate), duplicate.args) == (kind, str(error), error.args)


@pytest.mark.parametrize(
    ("name", "known", "expected"),
    [
        ("reveiw", ["draft", "review"], "review"),
        ("review", ["review", "reviews"], "review"),
        ("Review", ["review", "draft"], "review"),
        ("xyz", ["draft", "review"], None),
        ("draft", [], None),
        ("", ["draft"], None),
    ],
)
def test_the_nearest_name_is_a_similar_known_name(name: str, known: list[str], expected: str | None) -> None:
    assert nearest(name, known) == expected


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        (["review", "draft", "draft"], "Did you mean 'review'? Nodes: draft, review."),
        (["draft"], "Nodes: draft."),
        ([], "Nodes: none."),
    ],
)
def test_a_suggestion_lists_the_known_names(known: list[str], expected: str) -> None:
    assert suggestion("reveiw", known, noun="Nodes") == expected


@pytest.mark.parametrize(("old_name", "new_name"), errors.FORMER_NAMES.items())
def test_a_former_name_returns_the_renamed_error_with_a_warning(old_name: str, new_name: str) -> None:
    with pytest.warns(DeprecationWarning, match=f"{old_name} has been renamed to {new_name}"):
        assert getattr(errors, old_name) is getattr(errors, new_name)


def test_an_unknown_name_raises_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Nowhere'"):
        _ = errors.Nowhere


def test_a_pickle_refers_to_the_public_module() -> None:
    pickled = pickle.dumps(ThreadBusy("t", "o", None))
    assert b"statewright.errors" in pickled
    assert b"statewright.errors." not in pickled
