"""Random graphs behave the same with any order of completion, either driver, and any stops.

Each graph is made of nodes whose behaviour is a pure function of their input, with appending, summing, replacing and
non-commutative reducers, signals, branches, Sends, join lists, waiting nodes and gathered Sends. What is compared is
the sequence of frontiers (the tasks that ran, with their arguments) and the final state; an error is an outcome like
any other.
"""

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, Any, TypedDict

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.work import FULL

from statewright import (
    END,
    START,
    STOP,
    Command,
    Ephemeral,
    InMemorySaver,
    Instrument,
    Overwrite,
    RunControl,
    Send,
    StateGraph,
    append,
)
from statewright.checkpoint import NO_ARG
from statewright.errors import GraphDrained, RunError
from statewright.runtime.core.effects import RunTasks
from statewright.runtime.drivers.sync import perform_effect
from statewright.runtime.lifecycle.turn import run_until_idle
from statewright.runtime.tasks.execute import execute_task
from statewright.runtime.tasks.scope import Scope, enter_scope, leave_scope

pytestmark = pytest.mark.filterwarnings("ignore::statewright.errors.UnfinishedJoinWarning")  # random graphs have some

NAMES = "abcdef"
VISITS = 8
"""After so many visits no node goes back or sends any more, so every run ends."""
MODULUS = 1_000_003


def chained(old: int, new: int) -> int:
    """A reducer that is neither commutative nor associative, so that its value depends on the order of updates."""
    return (old * 31 + new * new + 7) % MODULUS


class State(TypedDict, total=False):
    log: Annotated[list[str], append]
    visits: Annotated[int, lambda old, new: old + new]
    chain: Annotated[int, chained]
    last: int
    signal: Annotated[int, Ephemeral()]
    bell: int


@dataclass(frozen=True)
class NodePlan:
    """The behaviour of one node."""

    edges: tuple[int, ...]
    """Plain edges; only to later nodes."""
    branch: tuple[int, ...]
    """Targets of its conditional edge; backwards too, as long as visits are left."""
    sends: tuple[tuple[int, bool], ...]
    """Sends of its Command, and whether they gather."""
    jumps: tuple[int, ...]
    """Targets of its Command."""
    join: str
    coroutine: bool
    signals: bool
    rings: bool
    """True if it writes the channel that subscribers wait for."""
    subscribes: bool
    last: bool
    """True if it writes the field that takes one writer."""
    stops: bool
    """True if it sometimes ends the run, or its path."""
    overwrites: bool


@dataclass(frozen=True)
class GraphPlan:
    nodes: tuple[NodePlan, ...]
    joins: tuple[tuple[tuple[int, ...], int], ...]
    entry: tuple[int, ...]


@st.composite
def node_plans(draw: st.DrawFn, index: int, count: int) -> NodePlan:
    others = st.integers(0, count - 1)
    later = st.lists(st.integers(index + 1, count - 1), max_size=2, unique=True) if index < count - 1 else st.just([])
    return NodePlan(
        edges=tuple(draw(later)),
        branch=tuple(draw(st.lists(others, max_size=3, unique=True))),
        sends=tuple(draw(st.lists(st.tuples(others, st.booleans()), max_size=2))),
        jumps=tuple(draw(st.lists(others, max_size=1))),
        join=draw(st.sampled_from(["any", "any", "any", "idle", "reachable"])),
        coroutine=draw(st.booleans()),
        signals=draw(st.booleans()),
        rings=draw(st.booleans()),
        subscribes=draw(st.sampled_from([False, False, False, True])),
        last=draw(st.sampled_from([False, False, False, True])),
        stops=draw(st.sampled_from([False, False, False, True])),
        overwrites=draw(st.sampled_from([False, False, False, True])),
    )


@st.composite
def graph_plans(draw: st.DrawFn) -> GraphPlan:
    count = draw(st.integers(2, len(NAMES)))
    nodes = tuple(draw(node_plans(index, count)) for index in range(count))
    indices = st.integers(0, count - 1)
    joins = []
    for starts in draw(st.lists(st.lists(indices, min_size=2, max_size=3, unique=True), max_size=2)):
        later = [index for index in range(count) if index > max(starts)]
        if later:
            joins.append((tuple(starts), draw(st.sampled_from(later))))
    entry = tuple(draw(st.lists(indices, min_size=1, max_size=3, unique=True)))
    return GraphPlan(nodes, tuple(joins), entry)


def behaviour(name: str, plan: NodePlan) -> Callable[[Any], Any]:
    """Return a node whose result depends only on its input."""

    def node(graph_input: Any) -> Any:
        if isinstance(graph_input, list):  # gathered arguments
            key, left = (
                sum(arg["n"] for arg in graph_input) + len(graph_input),
                min(arg["left"] for arg in graph_input) - 1,
            )
        elif "left" in graph_input:
            key, left = graph_input["n"], graph_input["left"] - 1
        else:
            visits = graph_input.get("visits", 0)
            key = (
                graph_input.get("chain", 0) + visits + graph_input.get("signal", 0) + len(graph_input.get("log", ()))
            ) % 97
            left = 2 if visits < VISITS else 0
        update: dict[str, Any] = {"log": [f"{name}{key}"], "visits": 1, "chain": key + ord(name)}
        if plan.last:
            update["last"] = key
        if plan.overwrites and key % 5 == 0:
            update["log"] = Overwrite([f"only {name}"])
        if left <= 0:
            return update
        if plan.stops and key % 7 == 0:
            return Command(update=update, goto=STOP if key % 2 else END)
        if plan.signals and key % 2:
            update["signal"] = key
        if plan.rings:
            update["bell"] = 1
        goto: list[Any] = [
            Send(NAMES[target], {"n": (key * 3 + number) % 89, "left": left}, gather=gather)
            for number, (target, gather) in enumerate(plan.sends)
        ]
        if key % 3 == 0:
            goto.extend(NAMES[target] for target in plan.jumps)
        return Command(update=update, goto=goto) if goto else update

    node.__name__ = name
    return node


def route(plan: NodePlan) -> Callable[[Any], Any]:
    def path(state: Any) -> Any:
        if state.get("visits", 0) > VISITS:
            return END
        key = state.get("chain", 0) + state.get("signal", 0)
        return [NAMES[target] for target in plan.branch if (key >> target) % 2] or END

    return path


Delays = Callable[[], int]


def no_delay() -> int:
    return 0


def compiled(plan: GraphPlan, delay: Delays = no_delay, **options: Any) -> Any:
    graph = StateGraph(State)
    for index, node in enumerate(plan.nodes):
        name = NAMES[index]
        graph.add_node(
            name,
            delayed(behaviour(name, node), delay) if node.coroutine else behaviour(name, node),
            join=node.join,  # type: ignore[arg-type]
            destinations=[NAMES[target] for target in {*node.jumps, *(target for target, _ in node.sends)}],
            on=["bell"] if node.subscribes and not node.rings else (),
        )
    for index, node in enumerate(plan.nodes):
        for target in node.edges:
            graph.add_edge(NAMES[index], NAMES[target])
        if node.branch:
            graph.add_conditional_edges(NAMES[index], route(node), [*(NAMES[target] for target in node.branch), END])
    for starts, end in plan.joins:
        graph.add_edge([NAMES[start] for start in starts], NAMES[end])
    # Every node is a possible entry, so that graphs are valid; few are used.
    graph.add_conditional_edges(START, lambda s: [NAMES[index] for index in plan.entry], list(NAMES[: len(plan.nodes)]))
    return graph.compile(**options)


def delayed(function: Callable[[Any], Any], delay: Delays) -> Callable[[Any], Any]:
    """Return a coroutine function that yields to the event loop `delay()` times."""

    async def node(graph_input: Any) -> Any:
        for _ in range(delay()):
            await asyncio.sleep(0)
        return function(graph_input)

    node.__name__ = function.__name__
    return node


class Frontiers(Instrument):
    """Records the tasks of each superstep."""

    def __init__(self) -> None:
        self.seen: list[list[tuple[str, str]]] = []

    def on_superstep(self, event: Any) -> None:
        self.seen.append(comparable(event.data))


def comparable(tasks: Any) -> list[tuple[str, str]]:
    return [(task.node, "" if task.arg is NO_ARG else repr(task.arg)) for task in tasks]


GIVEN = {"log": ["in"], "visits": 0, "chain": 1}
LIMIT = 60
Outcome = tuple[list[list[tuple[str, str]]], Any]


def outcome_of(frontiers: Frontiers, run: Callable[[], Any]) -> Outcome:
    """Return the frontiers and the final state, or the error."""
    try:
        result: Any = run()
    except RunError as error:
        result = (type(error).__name__, str(error))
    return frontiers.seen, result


def reference(plan: GraphPlan) -> Outcome:
    """Run a plan from start to end with the sync driver."""
    frontiers = Frontiers()
    app = compiled(plan, instruments=[frontiers])
    return outcome_of(frontiers, lambda: app.invoke(GIVEN, recursion_limit=LIMIT))


def run_in_random_order(plan: GraphPlan, order: random.Random) -> Outcome:
    """Run a plan with a driver that executes the tasks of each superstep in a random order."""
    app = compiled(plan)
    run = app._run(None, {"recursion_limit": LIMIT})
    core, answer, seen = run_until_idle(run, GIVEN), None, []
    while True:
        try:
            effect = core.send(answer)
        except StopIteration as stopped:
            rest = stopped.value
            break
        if type(effect) is not RunTasks:
            answer = perform_effect(run, effect)
            continue
        seen.append(comparable(effect.tasks))
        outcomes: list[Any] = [None] * len(effect.tasks)
        for index in order.sample(range(len(outcomes)), len(outcomes)):
            task = effect.tasks[index]
            scope = Scope(run, task, effect.checkpoint)
            token = enter_scope(scope)
            try:
                outcomes[index] = execute_task(scope, run.program.nodes[task.node], task, effect.checkpoint)
            finally:
                leave_scope(token)
        answer = outcomes, None, None
    if rest.error is not None:
        return seen, (type(rest.error).__name__, str(rest.error))
    return seen, run.program.output(rest.checkpoint.values)


def without_coroutines(plan: GraphPlan) -> GraphPlan:
    return replace(plan, nodes=tuple(replace(node, coroutine=False) for node in plan.nodes))


SCALE = 4 if FULL else 1


def with_examples(examples: int) -> Any:
    return settings(
        max_examples=examples * SCALE,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )


# -- (a) the order of completion


@with_examples(150)
@given(plan=graph_plans(), seed=st.integers(0, 2**16))
def test_the_outcome_does_not_depend_on_the_order_of_plain_tasks(plan: GraphPlan, seed: int) -> None:
    plain = without_coroutines(plan)

    assert run_in_random_order(plain, random.Random(seed)) == reference(plain)


@with_examples(100)
@given(plan=graph_plans(), seed=st.integers(0, 2**16))
def test_the_outcome_does_not_depend_on_the_order_of_coroutines(plan: GraphPlan, seed: int) -> None:
    delays = random.Random(seed)
    frontiers = Frontiers()
    app = compiled(plan, lambda: delays.randrange(6), instruments=[frontiers])

    assert outcome_of(frontiers, lambda: asyncio.run(app.ainvoke(GIVEN, recursion_limit=LIMIT))) == reference(plan)


# -- (b) the driver


@with_examples(60)
@given(plan=graph_plans(), limit=st.sampled_from([None, 1, 2]))
def test_both_drivers_have_the_same_outcome_at_any_concurrency_limit(plan: GraphPlan, limit: int | None) -> None:
    frontiers = Frontiers()
    app = compiled(plan, instruments=[frontiers])
    expected = reference(plan)

    run = app.ainvoke(GIVEN, recursion_limit=LIMIT, max_concurrency=limit)
    assert outcome_of(frontiers, lambda: asyncio.run(run)) == expected
    second_frontiers = Frontiers()
    app = compiled(plan, instruments=[second_frontiers])
    assert (
        outcome_of(second_frontiers, lambda: app.invoke(GIVEN, recursion_limit=LIMIT, max_concurrency=limit))
        == expected
    )


# -- (c) stopping after any superstep, and continuing from the saver


def run_in_calls(
    plan: GraphPlan, saver: InMemorySaver, frontiers: Frontiers, advance: Callable[[Any, Any], tuple[Any, bool]]
) -> Outcome:
    """Call newly compiled graphs until the thread completes."""

    def run() -> Any:
        graph_input: Any = GIVEN
        for _ in range(LIMIT + 2):
            app = compiled(plan, checkpointer=saver, instruments=[frontiers])
            result, is_done = advance(app, graph_input)
            if is_done or not app.get_state(thread_id="t").next:
                return result
            graph_input = None
        raise AssertionError("The thread never completed.")

    return outcome_of(frontiers, run)


def reached_limit(outcome: Outcome) -> bool:
    """Return whether the run ended at its recursion limit, which applies to each call."""
    return isinstance(outcome[1], tuple) and outcome[1][0] == "GraphRecursionError"


def stop_after(app: Any, graph_input: Any) -> tuple[Any, bool]:
    return app.invoke(graph_input, thread_id="t", interrupt_after="*"), False


def stop_before(app: Any, graph_input: Any) -> tuple[Any, bool]:
    return app.invoke(graph_input, thread_id="t", interrupt_before="*"), False


def stop_after_async(app: Any, graph_input: Any) -> tuple[Any, bool]:
    return asyncio.run(app.ainvoke(graph_input, thread_id="t", interrupt_after="*")), False


def stop_by_iter(app: Any, graph_input: Any) -> tuple[Any, bool]:
    with app.iter(graph_input, thread_id="t", halt=lambda step: True) as steps:
        for _ in steps:
            pass
    return app.get_state(thread_id="t").values, False


class DrainAfterOne(Instrument):
    def __init__(self, control: RunControl) -> None:
        self.control = control

    def on_superstep(self, event: Any) -> None:
        self.control.request_drain("test")


def stop_by_drain(app: Any, graph_input: Any) -> tuple[Any, bool]:
    control = RunControl()
    drained = app.graph, app.checkpointer
    app = type(app)(drained[0], checkpointer=drained[1], instruments=[*APP_INSTRUMENTS, DrainAfterOne(control)])
    try:
        return app.invoke(graph_input, thread_id="t", control=control), True
    except GraphDrained:
        return app.get_state(thread_id="t").values, False


APP_INSTRUMENTS: list[Instrument] = []

STOPS = [stop_after, stop_before, stop_after_async, stop_by_iter, stop_by_drain]


@pytest.mark.parametrize("advance", STOPS, ids=lambda advance: advance.__name__)
@with_examples(40)
@given(plan=graph_plans())
def test_a_run_stopped_after_every_superstep_has_the_same_outcome(advance: Any, plan: GraphPlan) -> None:
    expected = reference(plan)
    if reached_limit(expected):
        return
    frontiers = Frontiers()
    APP_INSTRUMENTS[:] = [frontiers]

    assert run_in_calls(plan, InMemorySaver(), frontiers, advance) == expected


@with_examples(60)
@given(plan=graph_plans(), stops=st.lists(st.integers(0, 5), min_size=1, max_size=3))
def test_a_run_stopped_after_random_supersteps_has_the_same_outcome(plan: GraphPlan, stops: list[int]) -> None:
    expected = reference(plan)
    if reached_limit(expected):
        return
    frontiers, pauses = Frontiers(), list(stops)

    def advance(app: Any, graph_input: Any) -> tuple[Any, bool]:
        if not pauses:
            return app.invoke(graph_input, thread_id="t"), True
        after = pauses.pop()
        count = [0]

        def halt(step: Any) -> bool:
            count[0] += 1
            return count[0] > after

        with app.iter(graph_input, thread_id="t", halt=halt) as steps:
            for _ in steps:
                pass
        return app.get_state(thread_id="t").values, False

    assert run_in_calls(plan, InMemorySaver(), frontiers, advance) == expected


@with_examples(40)
@given(plan=graph_plans(), seed=st.integers(0, 2**16))
def test_a_replay_from_any_checkpoint_ends_in_the_same_state(plan: GraphPlan, seed: int) -> None:
    expected = reference(plan)
    if isinstance(expected[1], tuple):
        return
    app = compiled(plan, checkpointer=InMemorySaver())
    app.invoke(GIVEN, thread_id="t")
    history = list(app.get_state_history(thread_id="t"))
    chosen = random.Random(seed).choice(history)

    assert app.invoke(None, chosen.config) == expected[1]


@with_examples(60)
@given(plan=graph_plans())
def test_an_unrelated_update_between_supersteps_changes_no_frontier(plan: GraphPlan) -> None:
    """A Command that only writes an unread field leaves due and waiting tasks unchanged."""
    plain = without_coroutines(plan)
    expected = reference(plain)
    if isinstance(expected[1], tuple) or any(node.last for node in plain.nodes) or any(n.signals for n in plain.nodes):
        return
    frontiers = Frontiers()
    app = compiled(plain, checkpointer=InMemorySaver(), instruments=[frontiers])
    result = app.invoke(GIVEN, thread_id="t", interrupt_after="*")
    while app.get_state(thread_id="t").next:
        result = app.invoke(Command(update={"last": 7}), thread_id="t", interrupt_after="*")

    result.pop("last", None)
    assert (frontiers.seen, result) == expected


def test_the_random_graphs_cover_all_kinds_of_runs() -> None:
    """The examples include runs of many supersteps, Sends, waiting nodes and errors."""
    lengths: list[int] = []
    kinds: set[str] = set()

    @with_examples(150)
    @given(plan=graph_plans())
    def look(plan: GraphPlan) -> None:
        seen, result = reference(without_coroutines(plan))
        lengths.append(len(seen))
        kinds.add(result[0] if isinstance(result, tuple) else "completed")
        kinds.update("gathered" if arg.startswith("[") else "sent" for step in seen for _, arg in step if arg)

    look()

    assert {"completed", "ConflictingWrites", "sent", "gathered"} <= kinds
    assert sum(length >= 4 for length in lengths) > 30
