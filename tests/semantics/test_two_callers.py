"""Several callers on one thread, interleaved at any call of its saver: some order of them explains every result.

Part I sections 6.2, 6.5 and 7.2. The oracle is the engine itself: the accepted calls, made one after another in the
order in which they held the thread, must have the same results and lead to the same state; a refused call must have
been refusable at some point of that order. Effects are counted outside the graph.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from tests.semantics.scheduler import GatedClock, GatedSaver, Scheduler
from tests.work import FULL, wait_until

from statewright import START, Command, InMemorySaver, RunControl, Runtime, StateGraph, append, interrupt
from statewright.checkpoint import is_holder_gone
from statewright.errors import EmptyInputError, InvalidResume, InvalidUpdateError, ThreadBusy, UnansweredInterrupts
from statewright.storage.sqlite import SqliteSaver

THREAD = {"thread_id": "t"}
SEEDS = range(400 if FULL else 25)
LATER = datetime(2999, 1, 1, tzinfo=UTC)
"""An instant after the timeout of every question."""
REFUSALS = (EmptyInputError, InvalidResume, InvalidUpdateError, UnansweredInterrupts)
"""Errors that may refuse a call, in addition to ThreadBusy."""


class State(TypedDict, total=False):
    x: int
    log: Annotated[list[Any], append]


@dataclass(frozen=True)
class Call:
    """A call that a caller makes on the thread."""

    name: str
    kind: str
    value: int
    on_busy: str
    is_async: bool = False
    """True if it is made on its own event loop."""

    def perform(self, app: Any, **options: Any) -> Any:
        """Make the call, and return the state that the caller sees."""
        function, args = self._function(app)
        options |= {"on_busy": self.on_busy}
        if self.kind != "fork":
            options |= {"run_id": self.name}
        if self.is_async:

            async def main() -> Any:
                return await function(*args, **options)

            return self._visible_state(app, asyncio.run(main()))
        return self._visible_state(app, function(*args, **options))

    def _function(self, app: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        a = "a" * self.is_async
        match self.kind:
            case "update":
                return partial(app.update_state, as_node="note"), (THREAD, {"log": [self.name]})
            case "fork":
                return partial(app.fork, branch=self.name), (THREAD,)
            case "roll back":
                return app.roll_back, (THREAD,)
            case "time out":
                return partial(getattr(app, f"{a}resume_due"), now=LATER), (THREAD,)
        input_ = {"input": {"x": self.value}, "answer": Command(resume=self.value), "continue": None}[self.kind]
        return partial(getattr(app, f"{a}invoke"), durability="sync"), (input_, THREAD)

    def _visible_state(self, app: Any, result: Any) -> Any:
        if self.kind == "fork":
            return app.get_state({"configurable": {**THREAD, "branch": self.name}}).values
        if self.kind in ("update", "roll back") or result is None:
            return None
        return {key: value for key, value in result.items() if key != "__interrupt__"}


def graph_of(effects: list[str], start_effect: Callable[[str], object] | None = None) -> Any:
    """A graph of three supersteps: it notes its input, asks, pays once, and for some inputs fails after the payment."""

    def note(state: State) -> dict[str, Any]:
        return {"log": [f"in {state.get('x', 0)}"]}

    def pay(state: State, runtime: Runtime[Any]) -> dict[str, Any]:
        x = state.get("x", 0)  # an input that was rolled back is gone
        answer = interrupt("pay?", timeout=3600) if x % 2 else None
        task = runtime.execution_info.task_id
        runtime.step("pay", lambda: (start_effect or effects.append)(task))
        if x % 3 == 0 and effects.count(task) < 2 and runtime.idempotency_key not in failed:
            failed.add(runtime.idempotency_key)
            raise OSError("after the payment")
        return {"log": [f"paid {x} on {answer}"]}

    failed: set[str] = set()
    graph = StateGraph(State).add_node("note", note).add_node("pay", pay)
    graph.add_node("end", lambda state: {"log": ["end"]})
    return graph.add_edge(START, "note").add_edge("note", "pay").add_edge("pay", "end")


KINDS = {"input": 3, "answer": 4, "continue": 3, "update": 1, "time out": 2, "fork": 1, "roll back": 1}
"""The kinds of calls and their weights."""
BLOCKING = ("update", "fork", "roll back")
"""Calls that are not awaited: they would wait on an OS thread that the scheduler does not control."""


def calls_of(seed: int, policies: tuple[str, ...] = ("reject", "enqueue")) -> list[Call]:
    """The concurrent calls after the first input."""
    chance = random.Random(seed)
    kinds = chance.choices(list(KINDS), list(KINDS.values()), k=chance.choice([2, 2, 3, 4]))
    return [
        Call(
            f"call{number}",
            kind,
            chance.randrange(6),
            chance.choice(policies),
            chance.random() < 0.3 and kind not in BLOCKING,
        )
        for number, kind in enumerate(kinds)
    ]


@pytest.fixture(params=["memory", "sqlite"])
def savers(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], Callable[[], Any]]]:
    """Makes, for each history, a function that returns the saver of a caller; with SQLite each caller has its own."""
    opened: list[SqliteSaver] = []
    numbers = itertools.count()

    def make() -> Callable[[], Any]:
        if request.param == "memory":
            shared = InMemorySaver()
            return lambda: shared
        path = tmp_path / f"{next(numbers)}.db"

        def open_file() -> SqliteSaver:
            opened.append(SqliteSaver(path))
            return opened[-1]

        return open_file

    yield make
    for saver in opened:
        saver.close()


@pytest.mark.parametrize("seed", SEEDS)
def test_some_order_of_the_calls_explains_every_result(seed: int, savers: Any) -> None:
    saver_of, effects = savers(), list[str]()
    graph, first = graph_of(effects), Call("first", "input", seed % 6, "reject")
    calls = calls_of(seed)
    begin = outcome_of(first, graph.compile(saver_of()))
    scheduler = Scheduler(seed)
    callers = [scheduler.add(call.name, caller_of(call, graph, saver_of(), scheduler)) for call in calls]
    scheduler.run()

    app = graph.compile(saver_of())
    outcomes = {call: (caller.error, caller.result) for call, caller in zip(calls, callers, strict=True)}
    order = order_of(app, {call.name: call for call in calls})
    assert not [task for task, count in Counter(effects).items() if count > 1], "an effect happened twice"
    assert app.checkpointer.lease("t") is None, "a finished caller still holds the thread"
    expected = replayed([first, *order])
    assert (begin, {call: simplified(outcomes[call]) for call in order}) == (
        expected.outcomes[first],
        {call: expected.outcomes[call] for call in order},
    )
    assert app.get_state(THREAD).values == expected.values
    for call in calls:
        error, result = outcomes[call]
        if call not in order and not isinstance(error, ThreadBusy):
            assert isinstance(error, REFUSALS) or error is None, f"{call} raised {error!r}"
            assert is_possible(call, simplified((error, result)), [first, *order]), (
                f"no order explains {error!r} of {call}"
            )


@pytest.mark.parametrize("seed", SEEDS)
def test_callers_that_take_over_the_thread_repeat_no_effects(seed: int, savers: Any) -> None:
    saver_of, effects = savers(), list[str]()
    graph = graph_of(effects)
    outcome_of(Call("first", "input", seed % 6, "reject"), graph.compile(saver_of()))
    calls = calls_of(seed, ("reject", "enqueue", "interrupt", "rollback"))
    controls = {call: RunControl() for call in calls if call.kind in ("input", "answer", "continue", "time out")}
    scheduler = Scheduler(seed)
    for call in calls:
        options = {"control": controls[call]} if call in controls else {}
        scheduler.add(call.name, caller_of(call, graph, saver_of(), scheduler, **options))
    if controls:
        victim = random.Random(seed).choice(list(controls.values()))
        scheduler.add("canceller", partial(cancelling, victim, scheduler, seed % 5))
    scheduler.run()

    app = graph.compile(saver_of())
    check_effects_and_commits(app, effects)
    while app.get_state(THREAD).next:  # finish the remaining work without repeating any
        waits = app.get_state(THREAD).interrupts
        with suppress(OSError):  # the payment that fails once
            app.invoke(Command(resume=1) if waits else None, THREAD)
    check_effects_and_commits(app, effects)


@pytest.mark.parametrize("seed", SEEDS if FULL else [*SEEDS, 340])  # 340: killed while another caller loads the thread
def test_callers_that_are_killed_at_any_call_of_their_savers_leave_no_step_to_be_repeated(
    seed: int, savers: Any
) -> None:
    saver_of, recorded, repeated = savers(), set[str](), list[str]()
    graph = graph_of([], lambda task: repeated.append(task) if task in recorded else None)
    chance = random.Random(seed)
    outcome_of(Call("first", "input", 1, "reject"), graph.compile(saver_of()))
    scheduler = Scheduler(seed)
    for number in range(4):
        kind, is_async = chance.choice(["answer", "continue"]), chance.random() < 0.3
        call = Call(f"call{number}", kind, number, chance.choice(["reject", "enqueue", "interrupt"]), is_async)
        saver = GatedSaver(saver_of(), scheduler)
        saver.recorded = recorded.add
        app = graph.compile(saver, clock=GatedClock(scheduler))
        saver.caller = scheduler.add(call.name, partial(call.perform, app))
        saver.caller.stops_left = chance.randrange(25) if number < 3 else None
    scheduler.run()

    app = graph.compile(saver_of())
    while app.get_state(THREAD).next:
        waits = app.get_state(THREAD).interrupts
        app.invoke(Command(resume=1) if waits else None, THREAD)
    assert not repeated

    def is_free() -> bool:
        lease = app.checkpointer.lease("t")
        return lease is None or is_holder_gone(lease.owner)

    wait_until(is_free)  # a killed caller counts as alive until a worker thread has tried to release the thread
    check_no_interleaving(app)
    log = app.get_state(THREAD).values["log"]
    assert len(log) == 3
    assert (log[0], log[2]) == ("in 1", "end")


def check_effects_and_commits(app: Any, effects: list[str]) -> None:
    assert not [task for task, count in Counter(effects).items() if count > 1]
    assert app.checkpointer.lease("t") is None
    check_no_interleaving(app)
    log = app.get_state(THREAD).values["log"]
    assert all(log.count(entry) <= 1 or not str(entry).startswith("call") for entry in log)


def cancelling(control: RunControl, scheduler: Scheduler, stops: int) -> None:
    """Cancel a run, which may not have begun or may have ended, while other callers are active."""
    for _ in range(stops):
        scheduler.stop_here()
    control.cancel("enough")


def caller_of(call: Call, graph: Any, saver: Any, scheduler: Scheduler, **options: Any) -> Callable[[], Any]:
    app = graph.compile(GatedSaver(saver, scheduler), clock=GatedClock(scheduler))
    return lambda: call.perform(app, **options)


def outcome_of(call: Call, app: Any) -> Any:
    try:
        return simplified((None, call.perform(app)))
    except Exception as error:
        return simplified((error, None))


def simplified(outcome: tuple[BaseException | None, Any]) -> Any:
    error, result = outcome
    return type(error).__name__ if error is not None else result


def order_of(app: Any, calls: dict[str, Call]) -> list[Call]:
    """The calls that have held the thread, in that order; their commits must not interleave."""
    check_no_interleaving(app)
    names = dict.fromkeys(event.run_id for event in app.get_events(THREAD))
    return [calls[name] for name in names if name in calls]


def check_no_interleaving(app: Any) -> None:
    runs = [snapshot.metadata["run_id"] for snapshot in app.get_state_history(THREAD)][::-1]
    groups = [name for name, _ in itertools.groupby(runs)]
    assert len(groups) == len(set(groups)), f"the commits of two runs interleave: {runs}"


@dataclass
class Replayed:
    outcomes: dict[Call, Any]
    values: Any


def replayed(calls: list[Call]) -> Replayed:
    """Make the calls one after another."""
    app = graph_of([]).compile(InMemorySaver())
    outcomes = {call: outcome_of(replace(call, is_async=False), app) for call in calls}
    return Replayed(outcomes, app.get_state(THREAD).values)


def is_possible(call: Call, outcome: Any, order: list[Call]) -> bool:
    """Return whether the call would have this outcome at some point of the order."""
    points = range(1, len(order) + 1)
    return any(replayed([*order[:point], call]).outcomes[call] == outcome for point in points)
