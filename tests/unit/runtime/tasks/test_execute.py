"""Executing a task synchronously, without a driver."""

import asyncio
from enum import StrEnum
from typing import Annotated, Any, TypedDict

import pytest

from statewright import END, START, Command, InMemorySaver, Runtime, Send, append, interrupt
from statewright.channels import Ephemeral
from statewright.errors import (
    BudgetExceeded,
    InvalidUpdateError,
    MutatedState,
    NodeCancelledError,
    RunCancelled,
    UnknownTarget,
)
from statewright.graph import STOP, NodeError
from statewright.runtime.invocation.outcome import Failure, Pause
from statewright.runtime.tasks.execute import check_declared, check_targets, conclude_task, execute_task, settle_error
from statewright.runtime.tasks.interrupt import ChildCommand
from statewright.runtime.tasks.scope import enter_scope, leave_scope
from statewright.state import IsLastStep


class Fields(TypedDict, total=False):
    x: Any
    y: Any
    log: Annotated[list[Any], append]
    signal: Annotated[str, Ephemeral()]


class Name(StrEnum):
    B = "b"


VALUES: dict[str, Any] = {"x": 1, "log": ["old"]}


class Executor:
    """Performs the node `a` of a graph with nodes `a`, `b` and `c`, and an edge from `a` to `b`."""

    def __init__(self, make: Any) -> None:
        self.make = make

    def program(self, action: Any, edges: Any = (("a", "b"),), schema: Any = Fields, **options: Any) -> Any:
        program_options = {name: options.pop(name) for name in ("debug", "unknown_keys", "validate") if name in options}
        paths = options.pop("paths", [])
        graph = self.make.graph("b", "c", schema=schema).add_node("a", action, **options)
        for name in "abc":
            graph.add_edge(START, name)
        for start, end in edges:
            graph.add_edge(start, end)
        for path in paths:
            graph.add_conditional_edges("a", *(path if isinstance(path, tuple) else (path,)))
        return self.make.program(graph, **program_options)

    def perform(self, action: Any, *, task: Any = None, values: Any = None, run: Any = None, **options: Any) -> Any:
        """Return the outcome of `a`."""
        settings = run or {}
        program = self.program(action, **options)
        task = task or self.make.task("a")
        checkpoint = self.make.checkpoint(VALUES if values is None else values, [task])
        invocation = self.make.run(program, **settings)
        invocation.step_limit = checkpoint.step + invocation.settings.recursion_limit
        scope = self.make.scope(invocation, task, checkpoint)
        token = enter_scope(scope)
        try:
            return execute_task(scope, program.nodes["a"], task, checkpoint)
        finally:
            leave_scope(token)


@pytest.fixture
def executor(make: Any) -> Executor:
    return Executor(make)


# -- results


@pytest.mark.parametrize(
    ("answer", "writes", "targets", "goto"),
    [
        (None, {}, ["b"], False),
        ({}, {}, ["b"], False),
        ({"x": 2}, {"x": 2}, ["b"], False),
        (Command(update={"x": 2}), {"x": 2}, ["b"], False),
        (Command(goto="c"), {}, ["c"], True),
        (Command(update={"x": 2}, goto=["c", "c"]), {"x": 2}, ["c", "c"], True),
        (Command(goto=END), {}, [], True),
        (Command(goto=[END, "c"]), {}, ["c"], True),
        (Command(goto=STOP), {}, [STOP], True),
        (Send("c", 1), {}, [Send("c", 1)], True),
        ([{"x": 2}, {"x": 3}], [("x", 2), ("x", 3)], ["b"], False),
        ([{"x": 2}, Command(goto="c"), {"y": 3}], [("x", 2), ("y", 3)], ["c"], True),
    ],
)
def test_the_output_of_a_node_becomes_writes_and_targets(
    executor: Executor, answer: Any, writes: Any, targets: Any, goto: bool
) -> None:
    result = executor.perform(lambda state: answer)

    assert (result.writes, list(result.targets), result.goto) == (writes, targets, goto)


@pytest.mark.parametrize("answer", [3, "text", object(), [3]])
def test_an_invalid_output_fails_the_task(executor: Executor, answer: Any) -> None:
    outcome = executor.perform(lambda state: answer)

    assert type(outcome) is Failure
    assert isinstance(outcome.error, InvalidUpdateError)


def test_an_unknown_key_fails_the_task_if_unknown_keys_is_error(executor: Executor) -> None:
    outcome = executor.perform(lambda state: {"z": 1}, unknown_keys="error")

    assert isinstance(outcome.error, InvalidUpdateError)


@pytest.mark.parametrize(
    "answer", [Command(goto="missing"), Command(goto=START), Send("missing", 1), Send(END, 1), Send(STOP, 1)]
)
def test_an_unknown_target_fails_the_task(executor: Executor, answer: Any) -> None:
    outcome = executor.perform(lambda state: answer)

    assert isinstance(outcome.error, UnknownTarget)
    assert outcome.error.source == "a"


@pytest.mark.parametrize(
    ("answer", "allowed"),
    [
        (Command(goto="c"), True),
        (Command(goto="b"), True),
        (Command(goto=END), True),
        (Command(goto=STOP), True),
        (Send("c", 1), True),
        (Command(goto="a"), False),
        (Send("a", 1), False),
    ],
)
def test_a_node_can_only_go_to_its_destinations_and_along_its_edges(
    executor: Executor, answer: Any, allowed: bool
) -> None:
    outcome = executor.perform(lambda state: answer, destinations=["c"])

    assert isinstance(getattr(outcome, "error", None), UnknownTarget) is not allowed


@pytest.mark.parametrize(
    ("answer", "allowed"),
    [
        ({"x": 1}, True),
        (None, True),
        ({"y": 1}, False),
        ([{"x": 1}, {"y": 1}], False),
        (Command(update={"y": 1}), False),
    ],
)
def test_a_node_can_only_write_its_declared_fields(executor: Executor, answer: Any, allowed: bool) -> None:
    outcome = executor.perform(lambda state: answer, writes=["x"])

    assert isinstance(getattr(outcome, "error", None), InvalidUpdateError) is not allowed


@pytest.mark.parametrize("writes", [{"y": 1}, [("x", 1), ("y", 1)]])
def test_the_error_names_the_undeclared_field(executor: Executor, writes: Any) -> None:
    node = executor.program(lambda state: None, writes=["x"]).nodes["a"]

    with pytest.raises(InvalidUpdateError, match="'a' wrote 'y', but declares writes="):
        check_declared(node, writes)


@pytest.mark.parametrize("source", ["goto", "path"])
def test_a_member_of_a_string_enumeration_is_a_node_name(executor: Executor, source: str) -> None:
    if source == "goto":
        result = executor.perform(lambda state: Command(goto=Name.B))
    else:
        result = executor.perform(lambda state: None, edges=[], paths=[lambda state: Name.B])

    assert [(type(target), target) for target in result.targets] == [(str, "b")]


# -- the input of a node


def test_a_node_receives_its_own_mapping(executor: Executor) -> None:
    values = {"x": 1, "log": []}

    def node(state: Any) -> None:
        state["x"] = state["new"] = 5

    executor.perform(node, values=values)

    assert values == {"x": 1, "log": []}


def test_a_task_with_an_argument_receives_it_instead_of_the_state(executor: Executor, make: Any) -> None:
    result = executor.perform(lambda state: {"x": state}, task=make.task("a", {"own": 1}))

    assert result.writes == {"x": {"own": 1}}


def test_a_node_receives_its_declared_fields(executor: Executor) -> None:
    assert executor.perform(lambda state: {"x": state}, reads=["log"]).writes == {"x": {"log": ["old"]}}


def test_parameters_are_injected_by_name_or_type_hint(executor: Executor) -> None:
    def node(state: Any, config: Any, writer: Any, store: Any, rt: Runtime[Any]) -> Any:
        writer("ignored")
        return {"x": (config["run_id"], store, rt.context, rt.execution_info.step, rt.execution_info.node)}

    result = executor.perform(node, run={"context": "dependencies", "run_id": "run-1"})

    assert result.writes == {"x": ("run-1", None, "dependencies", 4, "a")}


def test_a_node_need_not_receive_the_state(executor: Executor) -> None:
    def node(*, config: Any) -> Any:
        return {"x": config["run_id"]}

    assert executor.perform(node, run={"run_id": "run-1"}).writes == {"x": "run-1"}


@pytest.mark.parametrize(("limit", "last"), [(1, True), (2, False)])
def test_managed_values_depend_on_the_recursion_limit(executor: Executor, limit: int, last: bool) -> None:
    class Computed(TypedDict, total=False):
        x: Any
        last: IsLastStep

    result = executor.perform(lambda state: {"x": state["last"]}, schema=Computed, run={"recursion_limit": limit})

    assert result.writes == {"x": last}


# -- conditional edges


@pytest.mark.parametrize(
    ("paths", "targets"),
    [
        ([lambda state: "c"], ["c"]),
        ([lambda state: END], []),
        ([lambda state: STOP], [STOP]),
        ([lambda state: ["c", "b"]], ["c", "b"]),
        ([lambda state: ("c", END)], ["c"]),
        ([lambda state: []], []),
        ([lambda state: Send("c", 1)], [Send("c", 1)]),
        ([lambda state: [Send("c", 1), "b"]], [Send("c", 1), "b"]),
        ([(lambda state: True, {True: "c", False: "b"})], ["c"]),
        ([(lambda state: "again", {"again": "c", "done": END})], ["c"]),
        ([(lambda state: "done", {"again": "c", "done": END})], []),
        ([(lambda state: ["done", "again"], {"again": "c", "done": END})], ["c"]),
        ([(lambda state: Send("c", 1), ["c"])], [Send("c", 1)]),
        ([lambda state: "c", lambda state: "b"], ["c", "b"]),
    ],
)
def test_a_conditional_edge_returns_the_next_targets(executor: Executor, paths: Any, targets: Any) -> None:
    assert list(executor.perform(lambda state: None, edges=[], paths=paths).targets) == targets


@pytest.mark.parametrize(
    "path",
    [
        lambda state: "missing",
        lambda state: None,
        lambda state: 3,
        lambda state: Send("missing", 1),
        lambda state: Send(END, 1),
        lambda state: ["c", "missing"],
        (lambda state: "c", ["b"]),
        (lambda state: "b", {"go": "b"}),
        (lambda state: {"no": "name"}, {"go": "b"}),
    ],
)
def test_an_invalid_target_of_a_conditional_edge_fails_the_task(executor: Executor, path: Any) -> None:
    outcome = executor.perform(lambda state: None, edges=[], paths=[path])

    assert type(outcome) is Failure
    assert isinstance(outcome.error, UnknownTarget)


def test_targets_of_plain_and_conditional_edges_are_combined(executor: Executor) -> None:
    assert list(executor.perform(lambda state: None, paths=[lambda state: "c"]).targets) == ["b", "c"]


def test_a_goto_replaces_plain_and_conditional_edges(executor: Executor) -> None:
    called: list[Any] = []
    result = executor.perform(lambda state: Command(goto="c"), paths=[called.append])

    assert list(result.targets) == ["c"]
    assert called == []


@pytest.mark.parametrize("count", [1, 2])
def test_a_conditional_edge_receives_the_state_with_the_writes_of_its_task(executor: Executor, count: int) -> None:
    seen: list[Any] = []

    def path(state: Any) -> str:
        seen.append(dict(state))
        state["x"] = "changed"  # its own mapping
        return END

    result = executor.perform(
        lambda state: {"log": ["new"], "signal": "s"},
        values={**VALUES, "y": 5},
        edges=[],
        paths=[path] * count,
    )

    assert seen == [{"x": 1, "y": 5, "log": ["old", "new"], "signal": "s"}] * count
    assert result.folded == seen[0]


def test_an_error_of_a_conditional_edge_fails_its_task(executor: Executor) -> None:
    def path(state: Any) -> str:
        raise ValueError("no way")

    outcome = executor.perform(lambda state: None, paths=[path])

    assert type(outcome) is Failure
    assert str(outcome.error) == "no way"


# -- errors and pauses


def test_an_error_of_a_node_is_a_failure_with_a_note_of_its_location(executor: Executor) -> None:
    error = ValueError("no")

    def node(state: Any) -> None:
        raise error

    outcome = executor.perform(node)

    assert (type(outcome), outcome.error) == (Failure, error)
    assert error.__notes__ == ["in node 'a', step 4, attempt 1"]


@pytest.mark.parametrize("signal", [KeyboardInterrupt, SystemExit])
def test_signals_that_end_the_process_are_not_caught(executor: Executor, signal: type[BaseException]) -> None:
    def node(state: Any) -> None:
        raise signal

    with pytest.raises(signal):
        executor.perform(node)


def test_an_unrequested_cancellation_fails_the_task(executor: Executor) -> None:
    def node(state: Any) -> None:
        raise asyncio.CancelledError

    assert isinstance(executor.perform(node).error, NodeCancelledError)


def test_a_question_pauses_the_task(executor: Executor) -> None:
    outcome = executor.perform(lambda state: {"x": interrupt("ok?")})

    assert type(outcome) is Pause
    assert [question.value for question in outcome.interrupts] == ["ok?"]


def test_an_error_handler_receives_the_input_and_the_error(executor: Executor) -> None:
    error = ValueError("no")

    def node(state: Any) -> None:
        raise error

    result = executor.perform(node, error_handler=lambda state, error: None)

    (send,) = result.targets
    assert (result.goto, result.writes) == (True, {})
    assert isinstance(send.arg, NodeError)
    assert (send.arg.node, send.arg.error, send.arg.input) == ("a", error, VALUES)


@pytest.mark.parametrize("error", [RunCancelled("enough"), BudgetExceeded("tokens", 1, 2)])
def test_an_error_handler_does_not_handle_the_end_of_the_run(executor: Executor, error: Exception) -> None:
    def node(state: Any) -> None:
        raise error

    outcome = executor.perform(node, error_handler=lambda state, error: None)

    assert (type(outcome), outcome.error) == (Failure, error)


@pytest.mark.parametrize("nested", [True, False])
def test_a_command_for_the_parent_needs_a_parent_graph(executor: Executor, nested: bool) -> None:
    command: Command[Any] = Command(graph=Command.PARENT, goto="b")
    call = executor.make.subgraph_call(executor.program(lambda state: command)) if nested else None
    outcome = executor.perform(lambda state: command, run={"call": call})

    assert type(outcome) is Failure
    if nested:
        assert outcome.error.commands == (command,)
    else:
        assert isinstance(outcome.error, InvalidUpdateError)


def test_a_command_of_a_subgraph_is_the_result_of_the_calling_node(executor: Executor) -> None:
    def node(state: Any) -> None:
        raise ChildCommand(Command(graph=Command.PARENT, update={"x": 2}, goto="c"))

    result = executor.perform(node)

    assert (result.writes, list(result.targets), result.goto) == ({"x": 2}, ["c"], True)


def test_a_command_of_a_subgraph_to_an_unknown_node_fails_the_calling_node(executor: Executor) -> None:
    def node(state: Any) -> None:
        raise ChildCommand(Command(graph=Command.PARENT, goto="missing"))

    assert isinstance(executor.perform(node).error, UnknownTarget)


def test_a_keyboard_interrupt_among_siblings_is_a_failure(executor: Executor, make: Any) -> None:
    program = executor.program(lambda state: None)
    scope = make.scope(make.run(program), make.task("a"), make.checkpoint())
    scope.sibling_group = object()

    outcome = settle_error(scope, program.nodes["a"], make.task("a"), KeyboardInterrupt())

    assert isinstance(outcome.error, KeyboardInterrupt)


# -- changes in place


@pytest.mark.parametrize("debug", [True, False])
def test_a_change_in_place_fails_the_task_in_debug_mode(executor: Executor, debug: bool) -> None:
    def node(state: Any) -> Any:
        state["log"].append("in place")
        return {"x": 2}

    outcome = executor.perform(node, values={"x": 1, "log": ["old"]}, debug=debug)

    assert isinstance(getattr(outcome, "error", None), MutatedState) is debug
    if debug:
        assert outcome.error.channels == ("log",)


def test_an_update_is_not_a_change_in_place(executor: Executor) -> None:
    assert executor.perform(lambda state: {"log": [*state["log"], "new"]}, debug=True).writes == {"log": ["old", "new"]}


# -- events


def test_events_of_a_task_have_its_input_and_outcome(executor: Executor) -> None:
    seen: list[Any] = []
    result = executor.perform(lambda state: {"x": 2}, run={"watched": ("task_started", "task_finished"), "seen": seen})

    assert [(event.kind, event.node, event.step) for event in seen] == [
        ("task_started", "a", 4),
        ("task_finished", "a", 4),
    ]
    assert seen[0].data[1] == VALUES
    assert seen[1].data is result


@pytest.mark.parametrize("fails", [True, False])
def test_failed_and_paused_tasks_emit_task_finished(executor: Executor, fails: bool) -> None:
    def node(state: Any) -> None:
        if fails:
            raise ValueError
        interrupt("ok?")

    seen: list[Any] = []
    outcome = executor.perform(node, run={"watched": ("task_finished",), "seen": seen})

    assert [event.data for event in seen] == [outcome]


# -- helpers


def test_check_targets_omits_end(executor: Executor, make: Any) -> None:
    program = executor.program(lambda state: None)

    assert check_targets(make.run(program), program.nodes["a"], [END, "b", Send("c", 1), END]) == ("b", Send("c", 1))


def test_the_input_is_the_result_of_start(executor: Executor, make: Any) -> None:
    program = executor.program(lambda state: None)
    base = make.checkpoint({"log": []})
    task = make.task(START)
    scope = make.scope(make.run(program, saver=InMemorySaver()), task, base)

    result = conclude_task(scope, program.start, task, base, {"x": 1})

    assert (result.writes, list(result.targets)) == ({"x": 1}, ["a", "b", "c"])
