"""A run that is stopped after any superstep and resumed in another process ends as if it had not been stopped.

A few child processes serve all examples. They share one SQLite file, and a run is handed from one child to the next:
each advances it by a *stretch*, up to a given stop, with a graph that it compiles from a plain description. So only
the file carries the run, and whatever a child has cached of the file is out of date, because others have written to it.

The graphs are those of the property tests in memory, and *errands*: fan-outs, joins, deferred tasks, subgraphs,
questions, and side effects that must happen once.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import pickle
import select
import subprocess
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple, TypedDict

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from tests.semantics.test_properties import GIVEN, LIMIT, Frontiers, GraphPlan, compiled, graph_plans
from tests.work import FULL

from statewright import (
    END,
    START,
    Command,
    InMemorySaver,
    Instrument,
    RunControl,
    Runtime,
    Send,
    StateGraph,
    append,
    interrupt,
)
from statewright.errors import GraphDrained, GraphRecursionError, RunError
from statewright.storage.sqlite import SqliteSaver

ROOT: Final = Path(__file__).resolve().parents[2]
CHILDREN: Final = 2
PATIENCE: Final = 600.0
"""Seconds after which a child counts as hung."""
MOST_STRETCHES: Final = 400


# -- errands

Stage = tuple[Any, ...]
"""A part of an errand: its kind and its parameters."""


class Errand(TypedDict, total=False):
    item: int
    log: Annotated[list[Any], append]
    total: int


class Effects:
    """Side effects: lines of a file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def perform(self, runtime: Runtime, name: str) -> str:
        """Perform the effect once, however often the task begins."""
        return runtime.step(name, self._act, name)

    def _act(self, name: str) -> str:
        with self._path.open("a", encoding="utf-8") as file:
            file.write(f"{name}\n")
        return f"did {name}"

    def done(self) -> Counter[str]:
        return Counter(self._path.read_text(encoding="utf-8").splitlines() if self._path.exists() else ())


class Builder:
    """Builds the graph of an errand, one stage after the other."""

    def __init__(self, stages: Sequence[Stage], effects: Effects, prefix: str = "") -> None:
        self._graph = StateGraph(Errand)
        self._effects = effects
        self._prefix = prefix
        last = START
        for number, (kind, *parameters) in enumerate(stages):
            last = getattr(self, f"_{kind}")(f"{prefix}{kind}{number}", last, *parameters)
        self._graph.add_edge(last, END)

    def compile(self, **options: Any) -> Any:
        return self._graph.compile(**options)

    def _note(self, name: str, last: str) -> str:
        self._graph.add_node(name, lambda s: {"log": [name], "total": len(s["log"])})
        self._graph.add_edge(last, name)
        return name

    def _errand(self, name: str, last: str, questions: int) -> str:
        """A node that performs effects before, between and after its questions."""

        def act(state: Any, runtime: Runtime) -> dict[str, Any]:
            return {"log": self._ask_and_perform(runtime, name, questions)}

        self._graph.add_node(name, act)
        self._graph.add_edge(last, name)
        return name

    def _ask_and_perform(self, runtime: Runtime, name: str, questions: int) -> list[Any]:
        log: list[Any] = [self._effects.perform(runtime, f"{name} first")]
        for number in range(questions):
            log.append(interrupt(f"{name}: {number}?"))
            log.append(self._effects.perform(runtime, f"{name} after {number}"))
        return log

    def _fan(self, name: str, last: str, count: int, asking: int, gather: bool) -> str:
        """Sends, one of which may ask, and a node that follows them by gathering or by an edge."""
        work, end = f"{name} work", f"{name} end"

        def act(task: Any, runtime: Runtime) -> Any:
            number = task["item"]
            questions = 1 if number == asking else 0
            update = {"log": self._ask_and_perform(runtime, f"{name} {number}", questions) if number % 2 else [number]}
            return Command(update=update, goto=Send(end, number, gather=True)) if gather else update

        goto = [Send(work, {"item": number}) for number in range(count)]
        self._graph.add_node(name, lambda s: Command(goto=goto), destinations=[work])
        self._graph.add_node(work, act, destinations=[end] if gather else [])
        if gather:
            self._graph.add_node(end, lambda numbers: {"log": [numbers], "total": sum(numbers)})
        else:
            self._graph.add_node(end, lambda s: {"log": [end], "total": len(s["log"])})
            self._graph.add_edge(work, end)
        self._graph.add_edge(last, name)
        return end

    def _join(self, name: str, last: str, length: int, waits: bool) -> str:
        """Two paths of different lengths that meet in a join or in a deferred node."""
        end = f"{name} end"
        path = [f"{name} {number}" for number in range(length)]
        for node in (name, *path, f"{name} short"):
            self._graph.add_node(node, lambda s, node=node: {"log": [node]})
        self._graph.add_node(end, lambda s: {"log": [end]}, join="reachable" if waits else "any")
        for before, after in itertools.pairwise([last, name, *path]):
            self._graph.add_edge(before, after)
        self._graph.add_edge(name, f"{name} short")
        if waits:
            self._graph.add_edge(path[-1], end).add_edge(f"{name} short", end)
        else:
            self._graph.add_edge([path[-1], f"{name} short"], end)
        return end

    def _call(self, name: str, last: str, stages: Sequence[Stage], memory: str) -> str:
        """A subgraph."""
        inner = Builder(stages, self._effects, f"{name}/").compile()
        self._graph.add_node(name, inner, memory=memory)  # type: ignore[arg-type]
        self._graph.add_edge(last, name)
        return name


# -- a stretch of a run: the job and the answer of a child


class Stop(NamedTuple):
    """The end of a stretch."""

    method: str
    after: int
    """The number of supersteps or tasks, if the method allows more than one."""
    driver: str
    durability: str


TO_REST: Final = Stop("rest", 0, "sync", "async")


@dataclass(frozen=True)
class Job:
    """One stretch of a run."""

    path: Path
    thread: str
    subject: GraphPlan | tuple[Stage, ...]
    stop: Stop
    reopens: bool = False
    """True if the child reopens the file."""


@dataclass
class Stretch:
    """The outcome of a stretch."""

    frontiers: list[list[tuple[str, str]]] = field(default_factory=list[list[tuple[str, str]]])
    is_over: bool = False
    result: Any = None
    """The state or the error, if the run is over."""
    history: list[Any] = field(default_factory=list[Any])
    pid: int = 0


class Drain(Instrument):
    """Drains a run after the superstep in which a number of tasks have ended, including those of subgraphs."""

    def __init__(self, control: RunControl, after: int) -> None:
        self._control = control
        self._left = after

    def on_task_finished(self, event: Any) -> None:
        self._left -= 1
        if self._left == 0:
            self._control.request_drain("handed over")


def stretch_of(job: Job, saver: Any) -> Stretch:
    """Advance the thread to the stop."""
    answer, control = Stretch(pid=os.getpid()), RunControl()
    watching = Frontiers()
    instruments: list[Any] = [watching, *([Drain(control, job.stop.after)] if job.stop.method == "drain" else [])]
    if isinstance(job.subject, GraphPlan):
        app = compiled(job.subject, checkpointer=saver, instruments=instruments)
    else:
        app = Builder(job.subject, effects_of(job)).compile(checkpointer=saver, instruments=instruments)
    thread = {"thread_id": job.thread}
    try:
        advance(app, job, control, thread)
    except (GraphDrained, GraphRecursionError):
        pass
    except RunError as error:
        answer.is_over, answer.result = True, (type(error).__name__, str(error))
    state = app.get_state(**thread)
    answer.frontiers = watching.seen
    if not (answer.is_over or state.next):
        answer.is_over, answer.result = True, state.values
    if answer.is_over:
        answer.history = [comparable(snapshot) for snapshot in app.get_state_history(**thread)]
    return answer


def advance(app: Any, job: Job, control: RunControl, thread: dict[str, Any]) -> None:
    """Continue the thread with the method of the stop; raise the error that stops it."""
    stop, state = job.stop, app.get_state(**thread)
    input_: Any = None
    if state.created_at is None:
        input_ = GIVEN if isinstance(job.subject, GraphPlan) else {"log": ["in"]}
    elif state.interrupts:
        question = state.interrupts[-1]
        input_ = Command(resume={question.id: f"yes to {question.value}"})
    options = {**thread, "durability": stop.durability}
    if stop.method == "iter":
        counted = itertools.count(1)
        with app.iter(input_, halt=lambda step: next(counted) >= stop.after, **options) as steps:
            for _ in steps:
                pass
        return
    if stop.method in ("interrupt_after", "interrupt_before"):
        options[stop.method] = "*"
    elif stop.method == "drain":
        options["control"] = control
    elif stop.method == "limit":
        options["recursion_limit"] = stop.after
    if stop.driver == "async":
        asyncio.run(app.ainvoke(input_, **options))
    else:
        app.invoke(input_, **options)


def comparable(snapshot: Any) -> Any:
    """The parts of a checkpoint that are the same in each run."""
    metadata = snapshot.metadata
    return snapshot.values, snapshot.next, metadata["step"], metadata["source"], metadata.get("nodes")


def effects_of(job: Job) -> Effects:
    return Effects(job.path.with_name(f"{job.thread}.effects"))


# -- the children


class Child:
    """Another process, which executes one job after the other."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def do(self, job: Job) -> Stretch:
        into, out = self._process.stdin, self._process.stdout
        assert into is not None
        assert out is not None
        pickle.dump(job, into)
        into.flush()
        if not select.select([out], [], [], PATIENCE)[0]:
            pytest.fail(f"A child hangs over {job}.")
        answer = pickle.load(out)
        if isinstance(answer, str):
            pytest.fail(f"A child failed at {job}:\n{answer}")
        return answer


@contextmanager
def child() -> Generator[Child]:
    """Start a child that waits for jobs during the block."""
    # Not `-m`: objects in the pipes must belong to the module of the same name on both sides.
    command = [sys.executable, "-c", f"from {__name__} import serve; serve()"]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            yield Child(process)
        finally:
            process.kill()


def serve() -> None:
    """Execute jobs until the input ends."""
    into, out = sys.stdin.buffer, sys.stdout.buffer
    savers: dict[Path, SqliteSaver] = {}
    while True:
        try:
            job = pickle.load(into)
        except EOFError:
            return
        if job.reopens and job.path in savers:
            savers.pop(job.path).close()
        try:
            saver = savers.get(job.path) or savers.setdefault(job.path, SqliteSaver(job.path))
            answer: Any = stretch_of(job, saver)
        except BaseException:
            answer = traceback.format_exc()
        pickle.dump(answer, out)
        out.flush()


class Relay:
    """Completes runs with several processes in turn."""

    def __init__(self, children: Sequence[Child], folder: Path) -> None:
        self._turns = itertools.cycle(children)
        self._folder = folder
        self._threads = itertools.count()

    def carry(
        self, subject: GraphPlan | tuple[Stage, ...], stops: Sequence[Stop], *, reopens: bool
    ) -> tuple[Stretch, Counter[str]]:
        """Run with the stops in turn; return all stretches as one, and the side effects."""
        thread, whole = str(next(self._threads)), Stretch()
        job = Job(self._folder / "runs.db", thread, subject, TO_REST, reopens)
        for stop in itertools.islice(itertools.cycle(stops), MOST_STRETCHES):
            job = Job(job.path, thread, subject, stop, reopens)
            part = next(self._turns).do(job)
            assert part.pid not in (whole.pid, os.getpid())
            part.frontiers[:0] = whole.frontiers
            whole = part
            if whole.is_over:
                return whole, effects_of(job).done()
        pytest.fail(f"Thread {thread!r} never came to rest.")

    def undisturbed(self, subject: GraphPlan | tuple[Stage, ...]) -> tuple[Stretch, Counter[str]]:
        """Make the same run in this process, in memory, stopped only by its questions."""
        saver, whole = InMemorySaver(), Stretch()
        job = Job(self._folder / "runs.db", f"undisturbed {next(self._threads)}", subject, TO_REST)
        while not whole.is_over:
            part = stretch_of(job, saver)
            part.frontiers[:0] = whole.frontiers
            whole = part
        return whole, effects_of(job).done()


@pytest.fixture(scope="module")
def relay() -> Iterator[Relay]:
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        yield Relay([stack.enter_context(child()) for _ in range(CHILDREN)], Path(folder))


# -- strategies

methods = st.sampled_from(["iter", "interrupt_after", "interrupt_before", "drain", "limit"])
durabilities = st.sampled_from(["sync", "async", "exit"])
# Closing an iterator abandons its run, which with `exit` durability loses its progress.
one_stop = st.builds(Stop, methods, st.integers(1, 4), st.sampled_from(["sync", "async"]), durabilities).filter(
    lambda stop: (stop.method, stop.durability) != ("iter", "exit")
)
stops = st.lists(one_stop, min_size=1, max_size=3)

plain_stages = st.one_of(
    st.just(("note",)),
    st.tuples(st.just("errand"), st.integers(0, 2)),
    st.tuples(st.just("fan"), st.integers(1, 5), st.sampled_from([-1, 1, 3]), st.booleans()),
    st.tuples(st.just("join"), st.integers(2, 3), st.booleans()),
)
inner_stages = st.lists(plain_stages, min_size=1, max_size=3).map(tuple)
calls = st.tuples(st.just("call"), inner_stages, st.sampled_from(["call", "call", "thread"]))
errands = st.lists(st.one_of(plain_stages, plain_stages, calls), min_size=1, max_size=4).map(tuple)


def examples_of(examples: int) -> Any:
    return settings(
        max_examples=examples,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
    )


# -- tests


def check_history(actual: Stretch, expected: Stretch, stops: Sequence[Stop]) -> None:
    """Check that all supersteps are saved, or, with `exit` durability, some of them in the same order."""
    if all(stop.durability != "exit" for stop in stops):
        assert actual.history == expected.history
        return
    # A commit that spans supersteps does not name the nodes that ran.
    assert actual.history[0][:-1] == expected.history[0][:-1]
    older = iter(state[:-1] for state in expected.history)
    missing = [state for state in actual.history if state[:-1] not in older]
    assert not missing


@examples_of(200 if FULL else 50)
@given(plan=graph_plans(), stops=stops, reopens=st.booleans())
@pytest.mark.filterwarnings("ignore::statewright.errors.UnfinishedJoinWarning")  # some graphs have such joins
def test_a_random_graph_continues_in_another_process(
    relay: Relay, plan: GraphPlan, stops: list[Stop], reopens: bool
) -> None:
    expected, _ = relay.undisturbed(plan)
    assume(len(expected.frontiers) < LIMIT)

    actual, _ = relay.carry(plan, stops, reopens=reopens)

    assert actual.result == expected.result
    assert actual.frontiers == expected.frontiers
    check_history(actual, expected, stops)


@examples_of(200 if FULL else 50)
@given(stages=errands, stops=stops, reopens=st.booleans())
def test_an_errand_continues_in_another_process_and_has_each_effect_once(
    relay: Relay, stages: tuple[Stage, ...], stops: list[Stop], reopens: bool
) -> None:
    expected, expected_effects = relay.undisturbed(stages)

    actual, effects = relay.carry(stages, stops, reopens=reopens)

    assert actual.result == expected.result
    check_history(actual, expected, stops)
    assert effects == expected_effects
    assert set(effects.values()) <= {1}
