"""Durability under `kill -9`: children run graphs, are killed at random moments, and the next child goes on.

    python -m tests.durability.chaos --kills 1000 --seed 7

A parent starts one child after the other: a separate interpreter with a `SqliteSaver` on a file. A child advances
several threads at once, from wherever the file says that they stand, begins new ones when all are done, and writes
what it does and what it is told to its *notes*: a line each, with O_APPEND, so that a line counts once it is whole.
The parent kills it with SIGKILL, reads a copy of the file as the kill left it, and compares that with the notes of
all children so far. Of the last child of each file all threads are taken to their ends.

When a commit is known to be saved:

- durability `sync`: before its `on_commit`. The superstep after it begins later still.
- durability `async`: when the `on_commit` of the next commit of the same line comes, or when the call returns. So of
  the commits of a line that a child was told of, only the last one may be missing; and when superstep s begins, the
  commit of s - 2 is saved (under `sync`: that of s - 1).
- a task, under `sync`: before its `on_task_finished`. While its siblings run, results are saved in groups.
- `update_state`, `runtime.step`, answers and failed attempts: when the call returns, whatever the durability.

What must hold is said where it is checked, in `Books`. The kills are drawn by a seeded generator, but what they hit
depends on the machine: the same seed gives the same kind of run, never the same run.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import operator
import os
import random
import select
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple, TypedDict

from statewright import (
    END,
    START,
    Command,
    Ephemeral,
    InMemorySaver,
    Instrument,
    Message,
    Overwrite,
    RemoveMessage,
    RetryPolicy,
    Runtime,
    Send,
    StateGraph,
    add_messages,
    append,
    interrupt,
    sleep,
    wait_for_event,
)
from statewright.checkpoint import SavedCheckpoint, TaskResult
from statewright.clock import SystemClock
from statewright.runtime.run import LEASE
from statewright.storage.sqlite import SqliteDatabase, SqliteSaver, commits, fold

ROOT: Final = Path(__file__).resolve().parents[2]
SMALL_FOLDS: Final = {"LONGEST": 8, "RECENT": 12, "SMALL": 64, "MOST_WITHOUT_BASE": 3}
"""Limits with which old checkpoints are laid together all the time."""
PATIENCE: Final = 60.0
"""Seconds after which a child hangs."""
PAGE: Final = 40
"""How many checkpoints are read at once."""


# -- what children tell


class Notes:
    """What one child tells, in a file of its own."""

    def __init__(self, folder: Path, generation: int) -> None:
        self._marks = folder / "marks"
        self._marks.mkdir(exist_ok=True)
        path = folder / f"notes-{generation:05}.log"
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def write(self, kind: str, *, durable: bool = False, **facts: Any) -> None:
        os.write(self._file, json.dumps({"kind": kind, **facts}).encode() + b"\n")
        if durable:
            os.fsync(self._file)

    def is_first(self, what: str) -> bool:
        """Whether nobody, in any child, has asked this before."""
        try:
            os.close(os.open(self._marks / what, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
        return True


class NoNotes(Notes):
    """Of a run in memory that nobody kills."""

    def __init__(self) -> None:
        self._asked: set[str] = set()

    def write(self, kind: str, *, durable: bool = False, **facts: Any) -> None:
        """Nobody reads it."""

    def is_first(self, what: str) -> bool:
        known = what in self._asked
        self._asked.add(what)
        return not known


def read_notes(path: Path) -> list[dict[str, Any]]:
    """The whole lines of the notes of a child."""
    if not path.exists():
        return []
    *whole, _ = path.read_bytes().split(b"\n")
    return [json.loads(line) for line in whole]


class Teller(Instrument):
    """Notes the supersteps that begin, and the commits and ends of tasks that a run is told of."""

    def __init__(self, notes: Notes) -> None:
        self._notes = notes

    def on_superstep(self, event: Any) -> None:
        tasks = [task.id for task in event.data]
        self._notes.write("begun", line=[event.thread_id, event.namespace], step=event.step, tasks=tasks)

    def on_commit(self, event: Any) -> None:
        line, checkpoint = event.data.line, event.data.checkpoint
        line = [line.thread_id, line.namespace]
        self._notes.write("told", line=line, step=checkpoint.step, id=checkpoint.id, source=event.data.source)

    def on_task_finished(self, event: Any) -> None:
        if type(event.data) is TaskResult:
            line = [event.thread_id, event.namespace]
            self._notes.write("finished", line=line, node=event.node, task=event.data.task.id)


# -- the graphs


class Mishap(ConnectionError):
    """What goes wrong here."""


class Plain(TypedDict, total=False):
    item: int
    rounds: Annotated[int, operator.add]
    log: Annotated[list[Any], append]
    total: int
    edited: Annotated[int, operator.add]


class Long(TypedDict, total=False):
    count: Annotated[int, operator.add]
    words: Annotated[list[str], append]
    messages: Annotated[list[Message], add_messages]
    last: str
    signal: Annotated[str | None, Ephemeral]


class Kept(TypedDict, total=False):
    visits: Annotated[int, operator.add]
    seen: int


class Outer(Plain, total=False):
    seen: int


Action = Callable[[Any, Runtime], Any]


class Maker:
    """Makes nodes that note each execution and take a random time, in both colours."""

    def __init__(self, notes: Notes, driver: str) -> None:
        self.notes = notes
        self._coroutines = itertools.cycle([True, True, False] if driver == "async" else [False, False, True])

    def node(self, graph: StateGraph, name: str, action: Action, *, pause: float = 0.001, **options: Any) -> None:
        note = self._note

        def plain(state: Any, runtime: Runtime) -> Any:
            note("ran", runtime)
            time.sleep(random.random() * pause)
            answer = action(state, runtime)
            note("ended", runtime)
            return answer

        async def coroutine(state: Any, runtime: Runtime) -> Any:
            note("ran", runtime)
            await asyncio.sleep(random.random() * pause)
            answer = action(state, runtime)
            note("ended", runtime)
            return answer

        graph.add_node(name, coroutine if next(self._coroutines) else plain, **options)

    def _note(self, kind: str, runtime: Runtime) -> None:
        info = runtime.execution_info
        line = [info.thread_id, info.namespace]
        self.notes.write(kind, line=line, node=info.node, task=info.task_id, attempt=info.attempt)

    def effect(self, runtime: Runtime, name: str, number: int) -> str:
        """A side effect done once: what it gave."""
        key = [runtime.execution_info.task_id, name, number]

        def act(number: int) -> str:
            token = f"{name} {number}#{os.urandom(6).hex()}"
            self.notes.write("effect", durable=True, key=key, token=token)
            aims.reached("effect")
            return token

        token = runtime.step(name, act, number)
        self.notes.write("recorded", key=key, token=token)
        return token


def round_again(node: str, rounds: int) -> Callable[[Any], Any]:
    """Go to the node again, until so many rounds are done."""

    def route(state: Any) -> str:
        return node if state["rounds"] < rounds else END

    return route


def chain(make: Maker) -> StateGraph:
    """One node after the other."""
    graph = StateGraph(Plain)
    names = [f"node {number}" for number in range(12)]
    for name in names:
        make.node(graph, name, lambda s, r, name=name: {"log": [name], "total": len(s["log"])})
    for before, after in itertools.pairwise([START, *names]):
        graph.add_edge(before, after)
    return graph


LOOPS: Final = 240


def turn(state: Any, runtime: Runtime) -> dict[str, Any]:
    """One of many supersteps: lists grow, messages come, are replaced and go, a signal is given, a list is set anew."""
    n = state["count"]
    messages: list[Any] = [Message(f"text {n}", role="assistant", id=f"m{n}")]
    if n % 7 == 6:
        messages.append(Message(f"better {n}", role="assistant", id=f"m{n - 3}"))
    if n % 11 == 10:
        messages.append(RemoveMessage(f"m{n - 2}"))
    update: dict[str, Any] = {"count": 1, "words": [f"word {n}"], "messages": messages, "last": f"turn {n}"}
    if n % 10 == 3:
        update["signal"] = "now"
    if state.get("signal"):
        update["words"] = ["heard", f"word {n}"]
    if n % 100 == 99:
        update["words"] = Overwrite([*state["words"][-10:], "cut"])
    return update


def loop(make: Maker) -> StateGraph:
    """A few hundred supersteps, the checkpoints of which are laid together meanwhile."""
    graph = StateGraph(Long)
    make.node(graph, "turn", turn, pause=0.0002)
    graph.add_edge(START, "turn")
    graph.add_conditional_edges("turn", lambda s: "turn" if s["count"] < LOOPS else END, ["turn", END])
    return graph


def fan(make: Maker) -> StateGraph:
    """Sends that take different times, some long enough that others are saved meanwhile, and a node for what came."""

    def work(n: int, runtime: Runtime) -> dict[str, Any]:
        if n % 4 == 0:
            time.sleep(random.random() * 0.15)
        return {"log": [n * n]}

    graph = StateGraph(Plain)
    make.node(graph, "plan", lambda s, r: Command(goto=[Send("work", n) for n in range(9)]), destinations=["work"])
    make.node(graph, "work", work, pause=0.004)
    make.node(graph, "collect", lambda s, r: {"rounds": 1, "total": sum(s["log"])})
    graph.add_edge(START, "plan").add_edge("work", "collect")
    graph.add_conditional_edges("collect", round_again("plan", 3), ["plan", END])
    return graph


def joins(make: Maker) -> StateGraph:
    """A join of paths that are not equally long."""
    graph = StateGraph(Plain)
    for name in ("a", "b", "b2", "b3", "c"):
        make.node(graph, name, lambda s, r, name=name: {"log": [name]})
    make.node(graph, "d", lambda s, r: {"log": ["d"], "rounds": 1})
    for before, after in [(START, "a"), ("a", "b"), ("a", "c"), ("b", "b2"), ("b2", "b3"), (["b3", "c"], "d")]:
        graph.add_edge(before, after)
    graph.add_conditional_edges("d", round_again("a", 3), ["a", END])
    return graph


def held(make: Maker) -> StateGraph:
    """Activations that wait in the checkpoint: gathered Sends, and a node that waits for all that can reach it."""

    def square(n: int, runtime: Runtime) -> Command:
        return Command(update={"log": [n]}, goto=Send("add", n * n, gather=True))

    graph = StateGraph(Plain)
    goto = [*(Send("square", n) for n in range(5)), "slow"]
    make.node(graph, "split", lambda s, r: Command(goto=goto), destinations=["square", "slow"])
    make.node(graph, "square", square, pause=0.004, destinations=["add"])
    make.node(graph, "add", lambda numbers, r: {"total": sum(numbers)})
    make.node(graph, "slow", lambda s, r: {"log": ["slow"]})
    make.node(graph, "slower", lambda s, r: {"log": ["slower"]})
    make.node(graph, "slowest", lambda s, r: {"log": ["slowest"]})
    make.node(graph, "end", lambda s, r: {"log": [s["total"]], "rounds": 1}, join="reachable")
    for before, after in [(START, "split"), ("add", "end"), ("slow", "slower"), ("slower", "slowest")]:
        graph.add_edge(before, after)
    graph.add_edge("slowest", "end").add_conditional_edges("end", round_again("split", 3), ["split", END])
    return graph


def called(make: Maker) -> Any:
    """A graph for the others to call, which asks when it is given the item 2."""

    def second(state: Any, runtime: Runtime) -> dict[str, Any]:
        asked = [interrupt(f"item {state['item']}?")] if state["item"] == 2 else []
        return {"log": [f"second {state['item']}", *asked]}

    graph = StateGraph(Plain)
    make.node(graph, "first", lambda s, r: {"log": [f"first {s['item']}"]})
    make.node(graph, "second", second)
    make.node(graph, "third", lambda s, r: {"log": [f"third {s['item']}"]})
    return graph.add_edge(START, "first").add_edge("first", "second").add_edge("second", "third").compile()


def remembering(make: Maker) -> Any:
    """A graph that counts its calls."""
    graph = StateGraph(Kept)
    make.node(graph, "count", lambda s, r: {"visits": 1})
    make.node(graph, "show", lambda s, r: {"seen": s["visits"]})
    return graph.add_edge(START, "count").add_edge("count", "show").compile()


def subgraphs(make: Maker) -> StateGraph:
    """Calls beside each other that are forgotten, and calls that remember."""
    graph = StateGraph(Outer)
    goto = [Send("call", {"item": n}) for n in range(3)]
    make.node(graph, "plan", lambda s, r: Command(goto=goto), destinations=["call"])
    graph.add_node("call", called(make), memory="call")
    make.node(graph, "between", lambda s, r: {"log": ["between"]})
    graph.add_node("remember", remembering(make), memory="thread")
    make.node(graph, "after", lambda s, r: {"log": [s["seen"]], "rounds": 1})
    for before, after in [(START, "plan"), ("call", "between"), ("between", "remember"), ("remember", "after")]:
        graph.add_edge(before, after)
    return graph.add_conditional_edges("after", round_again("plan", 3), ["plan", END])


def waits(make: Maker) -> StateGraph:
    """Tasks that wait for time, events and answers, beside one that does not."""

    def order(state: Any, runtime: Runtime) -> dict[str, Any]:
        sleep(60)
        paid = wait_for_event("paid")
        return {"log": [paid["amount"], interrupt("Wrap it?"), interrupt("Send it?")]}

    graph = StateGraph(Plain)
    make.node(graph, "begin", lambda s, r: {"log": ["begin"]})
    make.node(graph, "order", order)
    make.node(graph, "name", lambda s, r: {"log": [interrupt("Name?", schema=str), wait_for_event("paid")["amount"]]})
    make.node(graph, "beside", lambda s, r: {"log": ["beside"]}, pause=0.004)
    make.node(graph, "close", lambda s, r: {"log": ["closed"], "rounds": 1})
    graph.add_edge(START, "begin")
    for name in ("order", "name", "beside"):
        graph.add_edge("begin", name)
    graph.add_edge(["order", "name", "beside"], "close")
    return graph.add_conditional_edges("close", round_again("begin", 2), ["begin", END])


RETRY: Final = RetryPolicy(initial_interval=0.002, max_attempts=4, jitter=False, retry_on=Mishap)


def retries(make: Maker) -> StateGraph:
    """Tasks that are tried again, and one that ends the run the first time."""

    def flaky(n: int, runtime: Runtime) -> dict[str, Any]:
        attempt = runtime.execution_info.attempt
        if attempt <= n:
            raise Mishap(f"attempt {attempt} at {n}")
        return {"log": [f"flaky {n}"]}

    def fragile(state: Any, runtime: Runtime) -> dict[str, Any]:
        if make.notes.is_first(runtime.execution_info.task_id):
            raise Mishap("the first time")
        return {"log": ["fragile"]}

    graph = StateGraph(Plain)
    goto = [*(Send("flaky", n) for n in range(3)), "fragile", "steady"]
    make.node(graph, "plan", lambda s, r: Command(goto=goto), destinations=["flaky", "fragile", "steady"])
    make.node(graph, "flaky", flaky, retry_policy=RETRY)
    make.node(graph, "fragile", fragile, pause=0.006)
    make.node(graph, "steady", lambda s, r: {"log": ["steady"]})
    make.node(graph, "end", lambda s, r: {"rounds": 1})
    graph.add_edge(START, "plan").add_edge("fragile", "end")
    return graph.add_conditional_edges("end", round_again("plan", 3), ["plan", END])


def effects(make: Maker) -> StateGraph:
    """Side effects done once, in tasks that run again: as they ask, fail, or are killed."""

    def pay(n: int, runtime: Runtime) -> dict[str, Any]:
        receipts = [make.effect(runtime, "charge", number) for number in range(2)]
        if n == 1 and runtime.execution_info.attempt == 1:
            raise Mishap("after two charges")
        receipts.append(make.effect(runtime, "mail", n))
        answers = [interrupt(f"Is {n} right?")] if n == 2 else []
        return {"log": [*receipts, make.effect(runtime, "file", n), *answers]}

    graph = StateGraph(Plain)
    goto = [Send("pay", n) for n in range(4)]
    make.node(graph, "plan", lambda s, r: Command(goto=goto), destinations=["pay"])
    make.node(graph, "pay", pay, pause=0.002, retry_policy=RETRY)
    make.node(graph, "end", lambda s, r: {"rounds": 1, "log": [make.effect(r, "end", s["rounds"])]})
    graph.add_edge(START, "plan").add_edge("pay", "end")
    return graph.add_conditional_edges("end", round_again("plan", 3), ["plan", END])


def updates(make: Maker) -> StateGraph:
    """A run that stops for somebody to change the state from outside."""
    graph = StateGraph(Plain)
    make.node(graph, "draft", lambda s, r: {"log": ["draft"]})
    make.node(graph, "review", lambda s, r: {"log": [f"review of {s['log'][-1]}"]})
    make.node(graph, "publish", lambda s, r: {"log": ["published"], "rounds": 1})
    graph.add_edge(START, "draft").add_edge("draft", "review").add_edge("review", "publish")
    return graph.add_conditional_edges("publish", round_again("draft", 4), ["draft", END])


def edit(values: Mapping[str, Any]) -> dict[str, Any] | None:
    """What is to be changed from outside, if it was not yet."""
    if values["edited"] > values["rounds"]:
        return None
    return {"edited": 1, "log": [f"edited {values['rounds']}"]}


class Shape(NamedTuple):
    """A kind of graph, and how its threads are begun."""

    build: Callable[[Maker], StateGraph]
    given: Mapping[str, Any]
    options: Mapping[str, Any] = {}
    edits: bool = False
    threads: int = 3
    """How many are advanced at once."""


SHAPES: Final[Mapping[str, Shape]] = {
    "chain": Shape(chain, {"log": ["in"]}, threads=4),
    "loop": Shape(loop, {"words": ["in"]}, threads=2),
    "fan": Shape(fan, {"log": []}),
    "joins": Shape(joins, {"log": ["in"]}),
    "held": Shape(held, {"log": ["in"]}),
    "subgraphs": Shape(subgraphs, {"log": ["in"]}),
    "waits": Shape(waits, {"log": ["in"]}),
    "retries": Shape(retries, {"log": ["in"]}),
    "effects": Shape(effects, {"log": ["in"]}),
    "updates": Shape(updates, {"log": ["in"]}, {"interrupt_before": ["review"]}, edits=True),
}


class ShiftedClock(SystemClock):
    """The clock of the machine, so far ahead that the leases of all generations before have lapsed."""

    def __init__(self, generation: int) -> None:
        self._ahead = generation * (LEASE + timedelta(seconds=1))

    def now(self) -> datetime:
        return super().now() + self._ahead


def app_of(shape: str, saver: Any, notes: Notes, driver: str = "sync", generation: int = 0) -> Any:
    """The graph of a shape, on a saver."""
    graph = SHAPES[shape].build(Maker(notes, driver))
    clock, tellers = ShiftedClock(generation), [] if isinstance(notes, NoNotes) else [Teller(notes)]
    return graph.compile(saver, clock=clock, instruments=tellers, **SHAPES[shape].options)


# -- the child


class Aims:
    """Tells the parent when a moment comes that it waits for."""

    def __init__(self) -> None:
        self._kind, self._left = "", 0

    def take(self, kind: str, number: int) -> None:
        self._kind, self._left = kind, number

    def reached(self, kind: str) -> None:
        if kind == self._kind:
            self._left -= 1
            if self._left == 0:
                os.write(1, b"aim\n")

    def around(self, owner: Any, method: str, kind: str, notes: Notes, *, pause: float = 0.0) -> None:
        """Have a method of a class reach a moment when it is called, note when it begins and ends, and take longer."""
        original = getattr(owner, method)

        def watched(*args: Any) -> Any:
            notes.write("in", what=kind)
            self.reached(kind)
            time.sleep(random.random() * pause)
            answer = original(*args)
            notes.write("out", what=kind)
            return answer

        setattr(owner, method, watched)


aims = Aims()


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a child is to do."""

    folder: str
    shape: str
    driver: str
    durability: str
    small_folds: bool
    slow_disk: bool
    generation: int
    round: int
    """The first round of threads of which some may not be done."""
    is_last: bool
    """Whether it ends when that round is done, rather than being killed."""
    aim: str
    number: int


Call = tuple[str, tuple[Any, ...], dict[str, Any]]


def next_call(shape: str, state: Any, now: datetime) -> Call | None:
    """What the thread needs to go on, as a method of its app; None if it is done."""
    if state.created_at is None:
        return "invoke", (dict(SHAPES[shape].given),), {}
    waiting = {question.kind: question for question in reversed(state.interrupts)}
    if event := waiting.get("event"):
        return "send_event", (event.event, {"amount": 30}), {}
    if question := waiting.get("question"):
        return "invoke", (Command(resume={question.id: f"answer to {question.value}"}),), {}
    if waiting:
        return "resume_due", (), {"now": now + timedelta(hours=2)}
    if SHAPES[shape].edits and "review" in state.next and (changes := edit(state.values)):
        return "update_state", (None, changes), {"as_node": "draft"}
    return ("invoke", (None,), {}) if state.next else None


class Child:
    """Advances threads until it is killed."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._notes = Notes(Path(plan.folder), plan.generation)
        aims.take(plan.aim, plan.number)
        pause = 0.006 if plan.slow_disk else 0.0
        aims.around(SqliteDatabase, "_written_together", "commit", self._notes, pause=pause)
        aims.around(fold.Folder, "fold", "fold", self._notes)
        self._saver = SqliteSaver(Path(plan.folder) / "runs.db")
        self._app = app_of(plan.shape, self._saver, self._notes, plan.driver, plan.generation)
        self._clock = ShiftedClock(plan.generation)

    def run(self) -> None:
        os.write(1, b"ready\n")
        for number in itertools.count(self._plan.round):
            threads = thread_ids(self._plan.shape, number)
            if self._plan.driver == "async":
                asyncio.run(self._advance_beside(threads))
            else:
                with ThreadPoolExecutor(len(threads)) as pool:
                    list(pool.map(self._advance, threads))
            if self._plan.is_last:
                break
        self._saver.close()

    async def _advance_beside(self, threads: Sequence[str]) -> None:
        await asyncio.gather(*(self._aadvance(thread) for thread in threads))

    def _advance(self, thread: str) -> None:
        while call := self._next_call(thread, self._app.get_state(thread_id=thread)):
            try:
                result = getattr(self._app, call[0])(*call[1], **call[2])
            except Mishap:
                continue
            self._note_rest(thread, result)

    async def _aadvance(self, thread: str) -> None:
        while call := self._next_call(thread, await self._app.aget_state(thread_id=thread)):
            try:
                result = await getattr(self._app, f"a{call[0]}")(*call[1], **call[2])
            except Mishap:
                continue
            self._note_rest(thread, result)

    def _note_rest(self, thread: str, result: Any) -> None:
        """Note that a call has returned, and the checkpoint that it named."""
        changed = result.get("configurable", {}).get("checkpoint_id")
        self._notes.write("rested", thread=thread, id=changed)

    def _next_call(self, thread: str, state: Any) -> Call | None:
        if state.interrupts:
            aims.reached("wait")
        call = next_call(self._plan.shape, state, self._clock.now())
        if call is None:
            self._notes.write("done", thread=thread)
            return None
        options = {} if call[0] == "update_state" else {"durability": self._plan.durability}
        return call[0], call[1], {**call[2], **options, "thread_id": thread}


def thread_ids(shape: str, number: int) -> list[str]:
    """The threads of a round."""
    return [f"{shape}-{number}-{one}" for one in range(SHAPES[shape].threads)]


def child_main(plan: Plan) -> None:
    if plan.small_folds:
        for name, value in SMALL_FOLDS.items():
            setattr(fold, name, value)
        setattr(commits, "RECENT", SMALL_FOLDS["RECENT"])  # noqa: B010  # a constant, but for this
    Child(plan).run()


# -- the books of the parent

LineName = tuple[str, str]
"""A thread, and a namespace in it."""


class BrokenPromise(Exception):
    """What must not happen has happened."""


@dataclass
class LineBook:
    """What the file has held of a line."""

    ids: list[str] = field(default_factory=list[str])
    """Of its checkpoints, by step."""
    sources: list[str] = field(default_factory=list[str])
    due: frozenset[str] = frozenset()
    """The tasks that are due at its head."""
    asking: frozenset[str] = frozenset()
    """Those of them that wait for an answer."""


@dataclass
class Effect:
    """What is known of a journalled side effect."""

    done: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])
    """In which generations it was done, and what it gave."""
    recorded: str | None = None
    """What a node was given for it first."""


class Books:
    """All that children have told and the file has held; raises BrokenPromise when the two do not fit."""

    def __init__(self, shape: str, durability: str, reference: Any) -> None:
        self._shape = shape
        self._slack = 1 if durability == "sync" else 2
        """How far behind a superstep that begins the last commit may be that is saved."""
        self._reference = reference
        self._lines: dict[LineName, LineBook] = {}
        self._ids: set[str] = set()
        self._finished: set[str] = set()
        """Tasks that count as finished on disk."""
        self._attempts: dict[str, int] = {}
        self._broken_off: set[str] = set()
        """Tasks that ran when a child was killed, and did not count as finished."""
        self._effects: dict[tuple[Any, ...], Effect] = {}
        self._done: set[str] = set()
        self.count: Counter[str] = Counter()

    def count_kill(self, notes: Sequence[Mapping[str, Any]]) -> None:
        """Count a kill, and what it hit."""
        within = Counter(note["what"] for note in notes if note["kind"] == "in")
        within.subtract(note["what"] for note in notes if note["kind"] == "out")
        self.count["kills"] += 1
        self.count["in commits"] += within["commit"] > 0
        self.count["in folds"] += within["fold"] > 0

    def close_generation(self, generation: int, notes: Sequence[Mapping[str, Any]], app: Any, path: Path) -> None:
        """Compare what a child has told with the file that it left."""
        self._check_executions(notes)
        self._check_effects(generation, notes)
        self._check_integrity(path)
        self._read_file(app, path)
        self._check_told(notes)
        self._check_begun(notes)
        self._check_finished(notes)
        self._note_broken_off(notes)
        self._check_done(app, notes)

    # -- executions

    def _check_executions(self, notes: Sequence[Mapping[str, Any]]) -> None:
        """A task that counts as finished never runs again, and attempts are counted over kills.

        It counts when its superstep was committed, or it had ended when the run came to rest.
        """
        begun: dict[LineName, list[str]] = {}
        ended: dict[str, set[str]] = {}
        finished, rested = set[str](), set[str]()
        for note in notes:
            if note["kind"] == "begun":
                begun[_line(note)] = note["tasks"]
            elif note["kind"] == "told" and note["source"] == "loop":
                finished.update(begun.pop(_line(note), ()))
            elif note["kind"] == "ended":
                ended.setdefault(_line(note)[0], set()).add(note["task"])
            elif note["kind"] == "rested":
                rested |= ended.pop(note["thread"], set())
            elif note["kind"] == "ran":
                self._check_execution(note, finished | rested)
        self._finished |= rested

    def _check_execution(self, note: Mapping[str, Any], finished: set[str]) -> None:
        task, name = note["task"], _named(note)
        if task in self._finished or task in finished:
            raise BrokenPromise(f"{name} ran again, though it counted as finished.")
        if any(one in self._finished for one in _callers(note["line"][1])):
            raise BrokenPromise(f"{name} ran again, though the task that had called its graph counted as finished.")
        if note["attempt"] < self._attempts.get(task, 0):
            raise BrokenPromise(f"{name} was at attempt {self._attempts[task]}, and then at {note['attempt']} again.")
        self._attempts[task] = note["attempt"]
        if task in self._broken_off:
            self._broken_off.discard(task)
            self.count["run again"] += 1

    def _note_broken_off(self, notes: Sequence[Mapping[str, Any]]) -> None:
        asking = {task for book in self._lines.values() for task in book.asking}
        ran = {note["task"] for note in notes if note["kind"] == "ran"}
        self._broken_off |= ran - self._finished - asking

    # -- effects

    def _check_effects(self, generation: int, notes: Sequence[Mapping[str, Any]]) -> None:
        """What a step gave is recorded once: the effect may be done again only if a kill came before the record."""
        for note in notes:
            if note["kind"] not in ("effect", "recorded"):
                continue
            key, token = tuple(note["key"]), note["token"]
            known = self._effects.setdefault(key, Effect())
            if note["kind"] == "effect":
                if known.recorded is not None:
                    raise BrokenPromise(f"The effect {key} was done again, though {known.recorded!r} was recorded.")
                if known.done and known.done[-1][0] == generation:
                    raise BrokenPromise(f"The effect {key} was done twice by the same process.")
                self.count["effects repeated"] += bool(known.done)
                known.done.append((generation, token))
            elif token != (known.recorded or known.done[-1][1]):
                raise BrokenPromise(f"The effect {key} gave {known.done}, {known.recorded!r}, and then {token!r}.")
            else:
                known.recorded = token

    # -- the file

    def _check_integrity(self, path: Path) -> None:
        connection = sqlite3.connect(path)
        try:
            found = connection.execute("PRAGMA integrity_check").fetchall()
        finally:
            connection.close()
        if found != [("ok",)]:
            raise BrokenPromise(f"integrity_check says {found[:5]}.")

    def _read_file(self, app: Any, path: Path) -> None:
        """Take up what has come to the lines of the file; whatever was there before is there still."""
        connection = sqlite3.connect(path)
        try:
            lines = set(connection.execute(_LINES).fetchall())
        finally:
            connection.close()
        for line in sorted(lines):
            if line[0] not in self._done:
                self._read_line(app, line)
        for line in self._lines.keys() - lines:
            if not self._is_consumed(line):
                raise BrokenPromise(f"The line {line} is gone, though nothing consumed it.")

    def _read_line(self, app: Any, line: LineName) -> None:
        book = self._lines.setdefault(line, LineBook())
        came: list[SavedCheckpoint] = []
        for saved in _checkpoints(app, line):
            if book.ids and saved.id == book.ids[-1]:
                self._take_pending(book, saved)
                break
            came.append(saved)
        else:
            if book.ids:
                raise BrokenPromise(f"Checkpoint {book.ids[-1]} of {line} was saved, and is lost.")
        for saved in reversed(came):
            self._take(book, line, saved)

    def _take(self, book: LineBook, line: LineName, saved: SavedCheckpoint) -> None:
        """Take up a checkpoint. Its line is a chain without gaps, and no id comes twice."""
        before = book.ids[-1] if book.ids else None
        if saved.checkpoint.step != len(book.ids) or saved.parent_id != before:
            raise BrokenPromise(
                f"Checkpoint {saved.id} of {line} has step {saved.checkpoint.step} and parent {saved.parent_id}, "
                f"but follows {before} as number {len(book.ids)}."
            )
        if saved.id in self._ids:
            raise BrokenPromise(f"Checkpoint {saved.id} of {line} was committed twice.")
        due = frozenset(task.id for task in saved.checkpoint.frontier)
        self._ids.add(saved.id)
        self._finished |= book.due - due
        book.ids.append(saved.id)
        book.sources.append(saved.source)
        book.due = due
        self._take_pending(book, saved)
        self.count["supersteps"] += saved.source == "loop"

    def _take_pending(self, book: LineBook, saved: SavedCheckpoint) -> None:
        self._finished |= saved.pending.landed.keys()
        book.asking = frozenset(saved.pending.interrupts)

    def _is_consumed(self, line: LineName) -> bool:
        """Whether a line of a subgraph is gone with the task that had called it."""
        return any(task in self._finished for task in _callers(line[1]))

    # -- what was told

    def _check_told(self, notes: Sequence[Mapping[str, Any]]) -> None:
        """Commits that are known to be saved are saved; under `async` only the last one told may be missing."""
        unsure: dict[LineName, str] = {}
        for note in notes:
            if note["kind"] == "told":
                line = _line(note)
                if line in unsure:
                    self._must_have(line, unsure.pop(line))
                if self._slack > 1:
                    unsure[line] = note["id"]
                else:
                    self._must_have(line, note["id"])
            elif note["kind"] == "rested":
                for line in [line for line in unsure if line[0] == note["thread"]]:
                    self._must_have(line, unsure.pop(line))
                if note["id"] is not None:
                    self._must_have((note["thread"], ""), note["id"])
        for line, identity in unsure.items():
            self.count["acknowledged" if self._has(line, identity) else "lost in flight"] += 1

    def _has(self, line: LineName, identity: str) -> bool:
        return identity in self._ids or self._is_consumed(line)

    def _must_have(self, line: LineName, identity: str) -> None:
        if not self._has(line, identity):
            raise BrokenPromise(f"Checkpoint {identity} of {line} was acknowledged, and is lost.")
        self.count["acknowledged"] += 1

    def _check_begun(self, notes: Sequence[Mapping[str, Any]]) -> None:
        """A run is never further ahead of the file than its durability allows."""
        last: dict[LineName, int] = {}
        for note in notes:
            if note["kind"] == "begun":
                last[_line(note)] = max(note["step"], last.get(_line(note), 0))
        for line, step in last.items():
            saved = len(self._lines[line].ids) - 1 if line in self._lines else -1
            if saved < step - self._slack and not self._is_consumed(line):
                raise BrokenPromise(f"Superstep {step} of {line} had begun, but only {saved} is saved.")

    def _check_finished(self, notes: Sequence[Mapping[str, Any]]) -> None:
        """A task of which is told under `sync` that it has finished is not lost."""
        for note in notes if self._slack == 1 else ():
            if note["kind"] == "finished" and not (note["task"] in self._finished or self._is_consumed(_line(note))):
                raise BrokenPromise(f"{_named(note)} had finished, and its result is lost.")

    # -- the ends

    def _check_done(self, app: Any, notes: Sequence[Mapping[str, Any]]) -> None:
        told = {note["thread"] for note in notes if note["kind"] == "done"}
        for thread in sorted({line[0] for line in self._lines} - self._done):
            state = app.get_state(thread_id=thread)
            if next_call(self._shape, state, ShiftedClock(0).now()) is None:
                self._check_end(app, thread, state)
            elif thread in told:
                raise BrokenPromise(f"Thread {thread!r} was done, and then at {state.next}.")

    def _check_end(self, app: Any, thread: str, state: Any) -> None:
        """The end of a thread is that of a run that nobody disturbs, and its whole history can be read."""
        if normal(state.values) != self._reference:
            raise BrokenPromise(
                f"Thread {thread!r} ended otherwise than undisturbed:\n{normal(state.values)}\n{self._reference}"
            )
        recorded = {one.recorded for one in self._effects.values()}
        strangers = [one for one in state.values.get("log", ()) if is_token(one) and one not in recorded]
        if strangers:
            raise BrokenPromise(f"Thread {thread!r} ended with {strangers}, which no step gave.")
        for line, book in self._lines.items():
            if line[0] == thread and not self._is_consumed(line):
                found = [saved.id for saved in _checkpoints(app, line)]
                if found[::-1] != book.ids:
                    raise BrokenPromise(f"The history of {line} is not what was committed: {found[::-1]}, {book.ids}.")
        self._done.add(thread)
        self.count["runs"] += 1

    def first_open_round(self) -> int:
        """The first round of threads of which not all are known to be done."""
        rounds = itertools.count()
        return next(number for number in rounds if not self._done.issuperset(thread_ids(self._shape, number)))

    def open_threads(self) -> list[str]:
        return sorted({line[0] for line in self._lines} - self._done)


_LINES: Final = "SELECT threads.name, namespace FROM lines JOIN threads ON threads.id = lines.thread"


def _line(note: Mapping[str, Any]) -> LineName:
    thread, namespace = note["line"]
    return thread, namespace


def _named(note: Mapping[str, Any]) -> str:
    return f"Task {note['task']} of node {note['node']!r} in {_line(note)}"


def _callers(namespace: str) -> list[str]:
    """The ids of the tasks that lead to a namespace."""
    return [part for segment in namespace.split("|") for part in segment.split(":")[1:2]]


def _checkpoints(app: Any, line: LineName) -> Iterator[SavedCheckpoint]:
    """The checkpoints of a line, the newest first."""
    before = None
    while True:
        page = app.checkpointer.history(line[0], namespace=line[1], branch="main", before=before, limit=PAGE)
        yield from page
        if len(page) < PAGE:
            return
        before = page[-1].id


def is_token(value: object) -> bool:
    """Whether it is what an effect gave."""
    return isinstance(value, str) and "#" in value


def normal(values: Mapping[str, Any]) -> dict[str, Any]:
    """A state without what is drawn anew in each run."""
    log = [one.partition("#")[0] if is_token(one) else one for one in values.get("log", ())]
    return {**values, "log": log} if log else dict(values)


def undisturbed(shape: str) -> Any:
    """How a thread of a shape ends in memory, where nobody kills it."""
    app = app_of(shape, InMemorySaver(), NoNotes())
    while call := next_call(shape, state := app.get_state(thread_id="1"), ShiftedClock(0).now()):
        try:
            getattr(app, call[0])(*call[1], **call[2], thread_id="1")
        except Mishap:
            continue
    return normal(state.values)


# -- the parent


@dataclass(frozen=True)
class Scenario:
    """One file, and the children that are killed over it."""

    shape: str
    driver: str
    durability: str
    small_folds: bool
    slow_disk: bool
    kills: int
    seed: str

    def __str__(self) -> str:
        also = ", small folds" * self.small_folds + ", slow disk" * self.slow_disk
        return f"{self.shape} ({self.driver} driver, durability {self.durability}{also}, seed {self.seed})"


class Strike(NamedTuple):
    """When a child is killed: so long after a moment."""

    moment: str
    """`birth`, `ready`, or something that the child does: `commit`, `fold`, `wait`, `effect`."""
    number: int
    """Which of them."""
    delay: float


def draw_strike(chance: random.Random, shape: str) -> Strike:
    """A moment to kill: in start-up, at any time, or around what the shape has of commits, folds, waits and effects."""
    moments = {"birth": 2, "ready": 4, "commit": 4, "fold": 4 if shape in ("loop", "chain") else 1}
    moments["wait"] = 4 if shape in ("waits", "effects", "subgraphs", "updates") else 0
    moments["effect"] = 5 if shape == "effects" else 0
    (moment,) = chance.choices(list(moments), list(moments.values()))
    if moment == "birth":
        return Strike(moment, 0, chance.uniform(0.0, 0.5))
    if moment == "ready":
        return Strike(moment, 0, 0.5 * chance.random() ** 2)
    most = {"commit": 100, "fold": 25, "wait": 8, "effect": 25}[moment]
    return Strike(moment, int(most ** chance.random()), 0.002 * chance.random() ** 2)


LONGEST_LIFE: Final = 0.6
"""Seconds after which a child is killed that has not reached the moment."""


class Siege:
    """Plays a scenario: kills children, one after the other, and lets the last one finish."""

    def __init__(self, scenario: Scenario, folder: Path) -> None:
        self._scenario = scenario
        self._folder = folder
        self._books = Books(scenario.shape, scenario.durability, undisturbed(scenario.shape))
        self._chance = random.Random(scenario.seed)
        self.broken: str | None = None

    def play(self) -> Counter[str]:
        """What was counted. `broken` says which promise was broken, if one was."""
        begun, generation = time.monotonic(), 0
        try:
            for generation in range(self._scenario.kills):
                strike = draw_strike(self._chance, self._scenario.shape)
                self._kill(self._start(generation, strike), strike)
                self._books.count_kill(self._notes(generation))
                self._look(generation)
            generation = self._scenario.kills
            self._finish(self._start(generation, None))
            self._look(generation)
            if self._books.open_threads():
                raise BrokenPromise(f"Threads were left open: {self._books.open_threads()}.")
        except BrokenPromise as broken:
            self.broken = f"{self._scenario}, child {generation}, {self._folder}: {broken}"
        except Exception:
            self.broken = f"{self._scenario}, child {generation}, {self._folder}: {traceback.format_exc()}"
        self._books.count["milliseconds"] = int((time.monotonic() - begun) * 1000)
        return self._books.count

    def _start(self, generation: int, strike: Strike | None) -> subprocess.Popen[bytes]:
        scenario = self._scenario
        plan = Plan(
            folder=str(self._folder),
            shape=scenario.shape,
            driver=scenario.driver,
            durability=scenario.durability,
            small_folds=scenario.small_folds,
            slow_disk=scenario.slow_disk,
            generation=generation,
            round=self._books.first_open_round(),
            is_last=strike is None,
            aim=strike.moment if strike is not None else "",
            number=strike.number if strike is not None else 0,
        )
        command = [sys.executable, "-m", "tests.durability.chaos", "--child", json.dumps(asdict(plan))]
        with (self._folder / "stderr.log").open("ab") as stderr:
            return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=stderr)

    def _kill(self, child: subprocess.Popen[bytes], strike: Strike) -> None:
        with child:
            try:
                if strike.moment != "birth":
                    self._expect(child, b"ready\n", PATIENCE)
                if strike.moment not in ("birth", "ready"):
                    self._expect(child, b"aim\n", LONGEST_LIFE)
                time.sleep(strike.delay)
            finally:
                child.kill()
            if child.wait() != -signal.SIGKILL:
                raise BrokenPromise(f"The child ended by itself: {self._last_words()}")

    def _expect(self, child: subprocess.Popen[bytes], line: bytes, seconds: float) -> None:
        """Wait until the child says something, for so long at most."""
        assert child.stdout is not None
        if select.select([child.stdout], [], [], seconds)[0]:
            os.read(child.stdout.fileno(), len(line))

    def _finish(self, child: subprocess.Popen[bytes]) -> None:
        with child:
            try:
                code = child.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                raise BrokenPromise(f"The last child hangs: {self._last_words()}") from None
            finally:
                child.kill()
        if code:
            raise BrokenPromise(f"The last child failed: {self._last_words()}")

    def _last_words(self) -> str:
        return (self._folder / "stderr.log").read_text(encoding="utf-8")[-1500:]

    def _notes(self, generation: int) -> list[dict[str, Any]]:
        return read_notes(self._folder / f"notes-{generation:05}.log")

    def _look(self, generation: int) -> None:
        """Look at a copy of the file: the next child is to find it as the kill left it."""
        if not (self._folder / "runs.db").exists():
            return
        copy = self._folder / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        copy.mkdir()
        for name in ("runs.db", "runs.db-wal"):
            if (self._folder / name).exists():
                shutil.copyfile(self._folder / name, copy / name)
        with SqliteSaver(copy / "runs.db") as saver:
            app = app_of(self._scenario.shape, saver, NoNotes())
            self._books.close_generation(generation, self._notes(generation), app, copy / "runs.db")


def scenarios(kills: int, seed: int, shapes: Sequence[str]) -> list[Scenario]:
    """The kills spread over shapes, drivers, durabilities, sizes of folds and speeds of the disk."""
    colours = ("sync", "async")
    ways = list(itertools.product(colours, colours, (True, False), (True, False)))
    random.Random(seed).shuffle(ways)
    deal = itertools.cycle(ways)
    found: list[Scenario] = []
    for number, shape in enumerate(shapes):
        quota = kills // len(shapes) + (number < kills % len(shapes))
        count = max(1, min(8, quota // 4))
        for part in range(count):
            own = quota // count + (part < quota % count)
            found.append(Scenario(shape, *next(deal), own, f"{seed}-{shape}-{part}"))
    return [one for one in found if one.kills]


def play(scenario: Scenario, folder: Path) -> tuple[Counter[str], str | None]:
    """What was counted, and which promise was broken; the files are kept then."""
    own = folder / scenario.seed
    own.mkdir()
    siege = Siege(scenario, own)
    count = siege.play()
    if siege.broken is None:
        shutil.rmtree(own)
    return count, siege.broken


COLUMNS: Final = {
    "runs": "runs",
    "kills": "kills",
    "in commits": "in commits",
    "in folds": "in folds",
    "supersteps": "supersteps",
    "acknowledged": "acknowledged",
    "lost in flight": "lost in flight",
    "run again": "tasks run again",
    "effects repeated": "effects repeated",
}


def table(counts: Mapping[str, Counter[str]]) -> str:
    """What happened, shape by shape."""
    rows = [["shape", *COLUMNS.values(), "seconds"]]
    total: Counter[str] = sum(counts.values(), Counter())
    for name, count in [*counts.items(), ("all", total)]:
        seconds = f"{count['milliseconds'] / 1000:.1f}"
        rows.append([name, *(str(count[column]) for column in COLUMNS), seconds])
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    padded = [[one.rjust(width) for one, width in zip(row, widths, strict=True)] for row in rows]
    return "\n".join(
        "  ".join([row[0].ljust(widths[0]), *others]) for row, (_, *others) in zip(rows, padded, strict=True)
    )


@dataclass
class Outcome:
    """What came of many scenarios."""

    counts: dict[str, Counter[str]] = field(default_factory=dict[str, Counter[str]])
    broken: list[str] = field(default_factory=list[str])

    @property
    def kills(self) -> int:
        return sum(count["kills"] for count in self.counts.values())

    def __str__(self) -> str:
        ending = f"{self.kills} kills, {len(self.broken)} broken promises"
        return "\n".join([table(self.counts), "", *self.broken, ending])


def run(kills: int, seed: int, *, shapes: Sequence[str] = tuple(SHAPES), lanes: int | None = None) -> Outcome:
    """Kill so many children, in all shapes, some scenarios beside each other."""
    folder = Path(tempfile.mkdtemp(prefix="chaos-"))
    outcome = Outcome({shape: Counter() for shape in shapes})
    lock = threading.Lock()

    def one(scenario: Scenario) -> None:
        count, broken = play(scenario, folder)
        with lock:
            outcome.counts[scenario.shape] += count
            outcome.broken.extend([broken] if broken is not None else [])

    with ThreadPoolExecutor(lanes or max(2, os.cpu_count() or 2)) as pool:
        list(pool.map(one, scenarios(kills, seed, shapes)))
    if not outcome.broken:
        shutil.rmtree(folder)
    return outcome


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, and print the table; 1 if a promise was broken."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.durability.chaos", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--kills", type=int, default=200, help="how many children are killed")
    parser.add_argument("--seed", type=int, default=1, help="for the generator that draws when")
    parser.add_argument("--shapes", nargs="+", choices=list(SHAPES), default=list(SHAPES), help="of the graphs")
    parser.add_argument("--lanes", type=int, default=None, help="how many files are worked on at once")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.child is not None:
        child_main(Plan(**json.loads(given.child)))
        return 0
    outcome = run(given.kills, given.seed, shapes=given.shapes, lanes=given.lanes)
    print(outcome)
    return 1 if outcome.broken else 0


if __name__ == "__main__":
    sys.exit(main())
