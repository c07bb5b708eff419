"""Durability under `kill -9`: child processes run graphs, are killed at random moments, and the next child resumes.

    python -m tests.durability.chaos --kills 1000 --seed 7

A parent starts one child after the other: a separate interpreter with a `SqliteSaver` on a file. A child advances
several threads at once, from wherever the file says that they stand, begins new ones when all are done, and writes
what it does and what it is told to its *notes*: a line each, with O_APPEND, so that a line counts once it is whole.
The parent kills it with SIGKILL, reads a copy of the file as the kill left it, and compares that with the notes of
all children so far. Of the last child of each file all threads are taken to their ends. Some threads are forked on
the way, and their branches taken to their ends by turns; some are copied, at rest or while a run advances them.

When a commit is known to be saved:

- durability `sync`: before its `on_commit`. The superstep after it begins later still.
- durability `async`: when the `on_commit` of the next commit of the same line comes, or when the call returns. So of
  the commits of a line that a child was told of, only the last one may be missing; and when superstep s begins, the
  commit of s - 2 is saved (under `sync`: that of s - 1).
- durability `exit`: before its `on_commit` too, which comes only when the run rests, or when a step is kept.
- a task, under `sync`: before its `on_task_finished`. While its siblings run, results are saved in groups.
- `update_state`, `fork`, `copy_thread`, `runtime.step`, answers, and failed attempts unless under `exit`: when the
  call returns, whatever the durability.
- what a child has read of a thread: at once.

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
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple, TypedDict

from statewright import (
    END,
    START,
    Command,
    CompiledGraph,
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
from statewright.futures import resolve
from statewright.runtime.invocation.run import LEASE
from statewright.storage.checkpoints import commits, segments
from statewright.storage.sqlite import SqliteDatabase, SqliteSaver

ROOT: Final = Path(__file__).resolve().parents[2]
SMALL_FOLDS: Final = {"LONGEST": 8, "RECENT": 12, "SMALL": 64, "MOST_WITHOUT_BASE": 3}
"""Limits with which old checkpoints are laid together all the time."""
PATIENCE: Final = 600.0
"""Seconds after which a child hangs."""
PAGE: Final = 40
"""How many checkpoints are read at once."""
DURABILITIES: Final = ("sync", "async", "exit")


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


def branch_of(run_id: str) -> str:
    """The branch that a run advances: runs of others than `main` are named after it."""
    branch, is_named, _ = run_id.partition("/")
    return branch if is_named else "main"


class Teller(Instrument):
    """Notes the supersteps that begin, and the commits and ends of tasks that a run is told of."""

    def __init__(self, notes: Notes) -> None:
        self._notes = notes

    def on_superstep(self, event: Any) -> None:
        tasks = [task.id for task in event.data]
        self._notes.write("begun", line=self._line(event), step=event.step, tasks=tasks)

    def on_commit(self, event: Any) -> None:
        line, checkpoint = event.data.line, event.data.checkpoint
        line = [line.thread_id, line.namespace, line.branch]
        self._notes.write("told", line=line, step=checkpoint.step, id=checkpoint.id, source=event.data.source)

    def on_task_finished(self, event: Any) -> None:
        if type(event.data) is TaskResult:
            self._notes.write("finished", line=self._line(event), node=event.node, task=event.data.task.id)

    def _line(self, event: Any) -> list[str]:
        return [event.thread_id, event.namespace, branch_of(event.run_id)]


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
        line = [info.thread_id, info.namespace, branch_of(info.run_id)]
        self.notes.write(kind, line=line, node=info.node, task=info.task_id, attempt=info.attempt)

    def effect(self, runtime: Runtime, name: str, number: int) -> str:
        """A side effect done once: what it gave."""
        info = runtime.execution_info
        key = [info.thread_id, info.task_id, name, number]

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


def forks(make: Maker) -> StateGraph:
    """Questions at which a thread may be forked, when a side effect was done and the task beside has landed."""

    def ask(state: Any, runtime: Runtime) -> dict[str, Any]:
        receipt = make.effect(runtime, "charge", state["rounds"])
        return {"log": [receipt, interrupt(f"Which way at {state['rounds']}?")]}

    graph = StateGraph(Plain)
    make.node(graph, "begin", lambda s, r: {"log": ["begin"]})
    make.node(graph, "ask", ask)
    make.node(graph, "beside", lambda s, r: {"log": ["beside"]})
    make.node(graph, "work", lambda s, r: {"log": [f"work on {s['log'][-1]}"]})
    make.node(graph, "end", lambda s, r: {"rounds": 1, "total": len(s["log"])})
    for before, after in [(START, "begin"), ("begin", "ask"), ("begin", "beside"), (["ask", "beside"], "work")]:
        graph.add_edge(before, after)
    return graph.add_edge("work", "end").add_conditional_edges("end", round_again("begin", 3), ["begin", END])


FORKED_AT: Final = {("main", 0): "early", ("main", 1): "late", ("early", 2): "later"}
"""By branch and round, which branches begin at its question."""
FORKED_AFTERWARDS: Final = "afterwards"
"""A branch that begins at the oldest checkpoint of `main`, when that is done."""


class Shape(NamedTuple):
    """A kind of graph, and how its threads are begun."""

    build: Callable[[Maker], StateGraph]
    given: Mapping[str, Any]
    options: Mapping[str, Any] = {}
    edits: bool = False
    forks: bool = False
    copies: str = ""
    """Whether threads are copied, and who does it: the `same` connection, or `another`."""
    rests: bool = True
    """Whether runs come to rest before they are done, or keep steps."""
    threads: int = 3
    """How many are advanced at once, without their copies."""
    durabilities: Sequence[str] = DURABILITIES


SHAPES: Final[Mapping[str, Shape]] = {
    "chain": Shape(chain, {"log": ["in"]}, rests=False, threads=4),
    "loop": Shape(loop, {"words": ["in"]}, rests=False, threads=2),
    "fan": Shape(fan, {"log": []}, rests=False),
    "joins": Shape(joins, {"log": ["in"]}, rests=False),
    "held": Shape(held, {"log": ["in"]}, rests=False),
    "subgraphs": Shape(subgraphs, {"log": ["in"]}),
    "waits": Shape(waits, {"log": ["in"]}),
    "retries": Shape(retries, {"log": ["in"]}),
    "effects": Shape(effects, {"log": ["in"]}),
    "updates": Shape(updates, {"log": ["in"]}, {"interrupt_before": ["review"]}, edits=True),
    "forks": Shape(forks, {"log": ["in"]}, forks=True),
    "copies": Shape(forks, {"log": ["in"]}, forks=True, copies="same", threads=2),
    "copied calls": Shape(subgraphs, {"log": ["in"]}, copies="same", threads=2),
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

        def watched(*args: Any, **options: Any) -> Any:
            notes.write("in", what=kind)
            self.reached(kind)
            time.sleep(random.random() * pause)
            answer = original(*args, **options)
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


class Outlook(NamedTuple):
    """What is to be known of a thread before its next call, but for the states of its branches."""

    branches: Sequence[str]
    old: Any = None
    """The config of the oldest checkpoint, to be forked when `main` is done."""
    needs_copy: bool = False


def look_out(app: Any, shape: str, thread: str, *, may_copy: bool = False) -> Outlook:
    """Look at a thread, which may be made a copy of if it has none."""
    is_source = may_copy and SHAPES[shape].copies != "" and is_copied_at_rest(thread)
    needs_copy = is_source and not exists(app, copy_of(thread))
    if not SHAPES[shape].forks:
        return Outlook(["main"], needs_copy=needs_copy)
    branches = sorted({"main", *resolve(app.checkpointer.branches(thread))})
    history = [*app.get_state_history(thread_id=thread)] if FORKED_AFTERWARDS not in branches else []
    return Outlook(branches, history[-1].config if history else None, needs_copy)


def next_move(
    shape: str, thread: str, outlook: Outlook, states: Mapping[str, Any], now: datetime
) -> tuple[str, Call] | None:
    """What the thread needs to go on, and on which branch: those that are behind come first. None if it is done."""
    main = states["main"]
    if outlook.needs_copy and main.created_at is not None and (main.interrupts or not main.next):
        return "main", ("copy_thread", (thread, copy_of(thread)), {})
    for branch in sorted(states, key=lambda branch: (states[branch].metadata.get("step", -1), branch)):
        call = next_fork(shape, branch, outlook, states) or next_call(shape, states[branch], now, branch)
        if call is not None:
            return branch, call
    return None


def next_fork(shape: str, branch: str, outlook: Outlook, states: Mapping[str, Any]) -> Call | None:
    """The fork to be made where a branch stands, if there is one."""
    state = states[branch]
    if not SHAPES[shape].forks or state.created_at is None:
        return None
    if branch == "main" and not state.next and FORKED_AFTERWARDS not in states:
        return "fork", (outlook.old,), {"branch": FORKED_AFTERWARDS}
    to = FORKED_AT.get((branch, state.values["rounds"])) if state.interrupts else None
    return ("fork", (state.config,), {"branch": to}) if to is not None and to not in states else None


def next_call(shape: str, state: Any, now: datetime, branch: str) -> Call | None:
    """What a branch needs to go on, as a method of its app; None if it is done."""
    if state.created_at is None:
        return "invoke", (dict(SHAPES[shape].given),), {}
    waiting = {question.kind: question for question in reversed(state.interrupts)}
    if event := waiting.get("event"):
        return "send_event", (event.event, {"amount": 30}), {}
    if question := waiting.get("question"):
        return "invoke", (Command(resume={question.id: f"answer of {branch} to {question.value}"}),), {}
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
        aims.around(SqliteDatabase, "_write_group", "commit", self._notes, pause=pause)
        aims.around(segments.SegmentWriter, "compact", "fold", self._notes)
        aims.around(CompiledGraph, "fork", "fork", self._notes)
        aims.around(CompiledGraph, "copy_thread", "copy", self._notes)
        self._saver = SqliteSaver(Path(plan.folder) / "runs.db")
        self._app = app_of(plan.shape, self._saver, self._notes, plan.driver, plan.generation)
        self._clock = ShiftedClock(plan.generation)
        self._others = SqliteSaver(Path(plan.folder) / "runs.db") if SHAPES[plan.shape].copies == "another" else None
        self._copier = app_of(plan.shape, self._others or self._saver, NoNotes())

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
        if self._others is not None:
            self._others.close()

    async def _advance_beside(self, threads: Sequence[str]) -> None:
        await asyncio.gather(*(self._aadvance(thread) for thread in threads))

    def _advance(self, thread: str) -> None:
        self._await_copy(thread)
        while True:
            outlook = look_out(self._app, self._plan.shape, thread, may_copy=True)
            states = {branch: self._app.get_state(thread_id=thread, branch=branch) for branch in outlook.branches}
            move = self._next_move(thread, outlook, states)
            if move is None:
                return
            branch, (method, args, options) = move
            try:
                result = self._method(method)(*args, **options)
            except Mishap:
                continue
            self._note_rest(thread, branch, result, options)

    async def _aadvance(self, thread: str) -> None:
        await asyncio.to_thread(self._await_copy, thread)
        while True:
            outlook = await asyncio.to_thread(look_out, self._app, self._plan.shape, thread, may_copy=True)
            states = {
                branch: await self._app.aget_state(thread_id=thread, branch=branch) for branch in outlook.branches
            }
            move = self._next_move(thread, outlook, states)
            if move is None:
                return
            branch, (method, args, options) = move
            try:
                if method in ("fork", "copy_thread"):
                    result = await asyncio.to_thread(self._method(method), *args, **options)
                else:
                    result = await self._method(f"a{method}")(*args, **options)
            except Mishap:
                continue
            self._note_rest(thread, branch, result, options)

    def _method(self, name: str) -> Callable[..., Any]:
        return getattr(self._copier if name == "copy_thread" else self._app, name)

    def _await_copy(self, thread: str) -> None:
        """Wait until a thread that is to be a copy is one; make it, if that is to happen beside a run."""
        if not is_copy(thread):
            return
        source = thread.removesuffix(COPY)
        while not is_copied_at_rest(source) and not exists(self._app, thread):
            time.sleep(random.random() * 0.05)
            state = self._app.get_state(thread_id=source)
            if state.created_at is not None:
                self._note_copying(source, {"main": state})
                self._copier.copy_thread(source, thread)
                self._notes.write("copied", to=thread)
        while not exists(self._app, thread):
            time.sleep(0.002)

    def _note_copying(self, source: str, states: Mapping[str, Any]) -> None:
        heads = {branch: identity_of(state) for branch, state in states.items()}
        self._notes.write("copying", source=source, to=copy_of(source), heads=heads)

    def _note_forking(self, thread: str, config: Any, to: str) -> None:
        landed = [task.id for task in self._app.get_state(config).tasks if task.result is not None]
        self._notes.write("forking", line=[thread, "", to], landed=landed)

    def _note_rest(self, thread: str, branch: str, result: Any, options: Mapping[str, Any]) -> None:
        """Note that a call has returned, and the checkpoint that it named."""
        if result is None:
            self._notes.write("copied", to=copy_of(thread))
            return
        changed = result.get("configurable", {}).get("checkpoint_id")
        changed_branch = options.get("branch", branch)
        self._notes.write("rested", line=[thread, "", changed_branch], id=changed)

    def _next_move(self, thread: str, outlook: Outlook, states: Mapping[str, Any]) -> tuple[str, Call] | None:
        for branch, state in states.items():
            if state.created_at is not None:
                self._notes.write("stood", line=[thread, "", branch], id=identity_of(state))
        if any(state.interrupts for state in states.values()):
            aims.reached("wait")
        move = next_move(self._plan.shape, thread, outlook, states, self._clock.now())
        if move is None:
            self._notes.write("done", thread=thread)
            return None
        branch, (method, args, options) = move
        if method == "copy_thread":
            self._note_copying(thread, states)
        if method == "fork":
            self._note_forking(thread, args[0], options["branch"])
        if method in ("fork", "copy_thread"):
            return move
        named = {"thread_id": thread, "branch": branch}
        if method != "update_state":
            named["durability"] = self._plan.durability
            if branch != "main":
                named["run_id"] = f"{branch}/{os.urandom(8).hex()}"
        return branch, (method, args, {**options, **named})


def identity_of(state: Any) -> str:
    """The id of the checkpoint that a state is of."""
    return state.config["configurable"]["checkpoint_id"]


COPY: Final = "+copy"


def copy_of(thread: str) -> str:
    return f"{thread}{COPY}"


def is_copy(thread: str) -> bool:
    return thread.endswith(COPY)


def is_copied_at_rest(thread: str) -> bool:
    """Whether the copy of a thread is made while it rests; else it is made beside its run."""
    return thread.endswith("0")


def exists(app: Any, thread: str) -> bool:
    return app.get_state(thread_id=thread).created_at is not None


def thread_ids(shape: str, number: int) -> list[str]:
    """The threads of a round."""
    threads = [f"{shape}-{number}-{one}" for one in range(SHAPES[shape].threads)]
    return [*threads, *(map(copy_of, threads) if SHAPES[shape].copies else ())]


def child_main(plan: Plan) -> None:
    if plan.small_folds:
        for name, value in SMALL_FOLDS.items():
            setattr(segments, name, value)
        setattr(commits, "RECENT", SMALL_FOLDS["RECENT"])  # noqa: B010  # a constant, but for this
    Child(plan).run()


# -- the books of the parent

LineName = tuple[str, str, str]
"""A thread, a namespace in it, and a branch."""
TaskName = tuple[str, str, str]
"""A thread, a branch, and the id of a task: forks and copies have tasks of the same ids."""


class BrokenPromise(Exception):
    """What must not happen has happened."""


@dataclass
class LineBook:
    """What the file has held of a line."""

    ids: list[str] = field(default_factory=list[str])
    """Of its checkpoints and their ancestors, by step."""
    step: int = -1
    """Of the last of them."""
    owns: bool = False
    """Whether some of them are no ancestors of another branch."""
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
        self._durability = durability
        self._reference = reference
        self._lines: dict[LineName, LineBook] = {}
        self._ids: set[tuple[str, str]] = set()
        """Those of checkpoints, with their threads."""
        self._finished: set[TaskName] = set()
        """Tasks that count as finished on disk."""
        self._attempts: dict[TaskName, int] = {}
        self._broken_off: set[TaskName] = set()
        """Tasks that ran when a child was killed, and did not count as finished."""
        self._present: set[LineName] = set()
        """The lines of the file."""
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
        self.count["in forks or copies"] += within["fork"] + within["copy"] > 0

    def close_generation(self, generation: int, notes: Sequence[Mapping[str, Any]], app: Any, path: Path) -> None:
        """Compare what a child has told with the file that it left."""
        self._check_executions(notes)
        self._check_effects(generation, notes)
        self._check_integrity(path)
        self._read_file(app, path)
        self._check_copies(app, notes)
        self._take_spanned(notes)
        self._check_gone()
        self._check_told(notes)
        self._check_begun(notes)
        self._check_finished(notes)
        self._note_broken_off(notes)
        self._check_done(app, notes)

    # -- executions

    def _check_executions(self, notes: Sequence[Mapping[str, Any]]) -> None:
        """A task that counts as finished never runs again, and attempts are counted over kills.

        It counts when its superstep was committed, or it had ended when the run came to rest; in a new branch, if it
        had landed where that begins.
        """
        begun: dict[LineName, dict[int, list[TaskName]]] = {}
        ended: dict[tuple[str, str], set[TaskName]] = {}
        finished, rested = set[TaskName](), set[TaskName]()
        for note in notes:
            if note["kind"] == "begun":
                begun.setdefault(_line(note), {})[note["step"]] = [_task(note, task) for task in note["tasks"]]
            elif note["kind"] == "told" and note["source"] == "loop":
                steps = begun.get(_line(note), {})
                for step in [step for step in steps if step <= note["step"]]:
                    finished.update(steps.pop(step))
            elif note["kind"] == "ended":
                ended.setdefault(_world(_line(note)), set()).add(_task(note))
            elif note["kind"] == "forking":
                rested |= {_task(note, task) for task in note["landed"]}
            elif note["kind"] == "rested":
                rested |= ended.pop(_world(_line(note)), set())
            elif note["kind"] == "ran":
                self._check_execution(note, finished | rested)
        self._finished |= rested

    def _check_execution(self, note: Mapping[str, Any], finished: set[TaskName]) -> None:
        task, name = _task(note), _named(note)
        if task in self._finished or task in finished:
            raise BrokenPromise(f"{name} ran again, though it counted as finished.")
        if self._is_consumed(_line(note)):
            raise BrokenPromise(f"{name} ran again, though the task that had called its graph counted as finished.")
        if note["attempt"] < self._attempts.get(task, 0) and self._durability != "exit":
            raise BrokenPromise(f"{name} was at attempt {self._attempts[task]}, and then at {note['attempt']} again.")
        self._attempts[task] = note["attempt"]
        if task in self._broken_off:
            self._broken_off.discard(task)
            self.count["run again"] += 1

    def _note_broken_off(self, notes: Sequence[Mapping[str, Any]]) -> None:
        asking = {(*_world(line), task) for line, book in self._lines.items() for task in book.asking}
        ran = {_task(note) for note in notes if note["kind"] == "ran"}
        self._broken_off |= ran - self._finished - asking

    # -- effects

    def _check_effects(self, generation: int, notes: Sequence[Mapping[str, Any]]) -> None:
        """What a step gave is recorded once: the effect may be done again only if a kill came before the record.

        A copy has the records that its thread had.
        """
        for note in notes:
            if note["kind"] == "copying":
                known = {key: one for key, one in self._effects.items() if key[0] == note["source"] and one.recorded}
                self._effects.update(
                    {(note["to"], *key[1:]): Effect(one.done[:], one.recorded) for key, one in known.items()}
                )
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
            elif token != self._given(key, known):
                raise BrokenPromise(f"The effect {key} gave {known.done}, {known.recorded!r}, and then {token!r}.")
            else:
                known.recorded = token

    def _given(self, key: tuple[Any, ...], known: Effect) -> str | None:
        """What an effect gave last; of a copy, to its thread, if it was being recorded there when the copy was made."""
        if known.recorded is not None or known.done:
            return known.recorded or known.done[-1][1]
        original = self._effects.get((key[0].removesuffix(COPY), *key[1:]))
        return original.done[-1][1] if original is not None and original.done else None

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
        for line in sorted(lines, key=lambda line: (line[2] != "main", line)):  # ancestors first
            if line[0] not in self._done:
                self._read_line(app, line)
        self._present = lines
        self._check_orphans(path)

    def _check_orphans(self, path: Path) -> None:
        """Whatever is in the file belongs to a line or a run, and that to a thread."""
        connection = sqlite3.connect(path)
        try:
            found = {name: connection.execute(statement).fetchall() for name, statement in _ORPHANS.items()}
        finally:
            connection.close()
        if any(found.values()):
            raise BrokenPromise(f"Something belongs to nothing: {found}.")

    def _check_gone(self) -> None:
        """A line goes with the task that had called its graph, and not before."""
        for line in self._lines.keys() - self._present:
            if not self._is_consumed(line):
                raise BrokenPromise(f"The line {line} is gone, though nothing consumed it.")

    def _read_line(self, app: Any, line: LineName) -> None:
        book = self._lines.setdefault(line, LineBook())
        came: list[SavedCheckpoint] = []
        for saved in _checkpoints(app, line):
            if book.ids and saved.id == book.ids[-1]:
                self._take_pending(book, line, saved)
                break
            came.append(saved)
        else:
            if book.ids:
                raise BrokenPromise(f"Checkpoint {book.ids[-1]} of {line} was saved, and is lost.")
        for saved in reversed(came):
            self._take(book, line, saved)

    def _take(self, book: LineBook, line: LineName, saved: SavedCheckpoint) -> None:
        """Take up a checkpoint. Its line is a chain without gaps, and no id comes twice, but for ancestors of forks."""
        before, step = book.ids[-1] if book.ids else None, saved.checkpoint.step
        follows = step > book.step if self._durability == "exit" else step == book.step + 1
        if not follows or saved.parent_id != before:
            raise BrokenPromise(
                f"Checkpoint {saved.id} of {line} has step {step} and parent {saved.parent_id}, "
                f"but follows {before}, which has step {book.step}."
            )
        is_own = (line[0], saved.id) not in self._ids
        if not is_own and (book.owns or line[2] == "main"):
            raise BrokenPromise(f"Checkpoint {saved.id} of {line} was committed twice.")
        due = frozenset(task.id for task in saved.checkpoint.frontier)
        if is_own and not book.owns and line[2] != "main" and not line[1]:
            self._check_fork(book, line, saved, due)
        self._ids.add((line[0], saved.id))
        self._finished |= {(*_world(line), task) for task in book.due - due}
        book.ids.append(saved.id)
        book.step, book.due, book.owns = step, due, is_own
        if is_own:
            self._check_own(line, saved)
            self._take_pending(book, line, saved)
            self.count["supersteps"] += saved.source == "loop"

    def _check_fork(self, book: LineBook, line: LineName, saved: SavedCheckpoint, due: frozenset[str]) -> None:
        """A branch begins with what its parent was, and with the tasks that were due there."""
        if saved.source != "fork" or due != book.due:
            raise BrokenPromise(f"The branch of {line} begins with {saved.source!r} and {due}, after {book.due}.")
        self.count["forks"] += not is_copy(line[0])

    def _check_own(self, line: LineName, saved: SavedCheckpoint) -> None:
        """A run that saves only at rest, and rests only when it is done, has saved nothing in its midst."""
        midst = saved.source == "loop" and not saved.checkpoint.at_rest
        if self._durability == "exit" and midst and not SHAPES[self._shape].rests:
            raise BrokenPromise(f"Checkpoint {saved.id} of {line} was saved though its run was not at rest.")

    def _take_spanned(self, notes: Sequence[Mapping[str, Any]]) -> None:
        """Tasks of supersteps that were saved with later ones are finished, though they were never due in the file."""
        for note in notes:
            book = self._lines.get(_line(note)) if note["kind"] == "begun" else None
            if book is not None and note["step"] <= book.step:
                self._finished |= {_task(note, task) for task in note["tasks"] if task not in book.due}

    def _take_pending(self, book: LineBook, line: LineName, saved: SavedCheckpoint) -> None:
        self._finished |= {(*_world(line), task) for task in saved.pending.completed}
        book.asking = frozenset(saved.pending.interrupts)

    def _is_consumed(self, line: LineName) -> bool:
        """Whether a line of a subgraph is gone with the task that had called it."""
        return any((*_world(line), task) in self._finished for task in _callers(line[1]))

    # -- copies

    def _check_copies(self, app: Any, notes: Sequence[Mapping[str, Any]]) -> None:
        """A copy is whole or absent: it has all that its thread had."""
        copied = {note["to"] for note in notes if note["kind"] == "copied"}
        touched = copied | {_line(note)[0] for note in notes if "line" in note}
        for note in notes:
            if note["kind"] != "copying":
                continue
            source, to = note["source"], note["to"]
            lines = {line for line in self._lines if line[0] == to}
            if lines:
                self._check_copy(app, source, to, note["heads"])
                if is_copied_at_rest(source) and to not in touched:
                    self._check_untouched(app, source, to)
                self.count["copies"] += 1
            elif to in copied:
                raise BrokenPromise(f"Thread {to!r} was made a copy, and is lost.")

    def _check_copy(self, app: Any, source: str, to: str, heads: Mapping[str, str]) -> None:
        """Up to where they parted, thread and copy have had the same history, and the same log."""
        for branch, head in heads.items():
            if (to, "", branch) not in self._lines or head not in self._lines[to, "", branch].ids:
                raise BrokenPromise(
                    f"Thread {to!r} has no checkpoint {head} on {branch!r}, which it was to be a copy of."
                )
        for line in [line for line in self._lines if line[0] == to]:
            original = [*_checkpoints(app, (source, *line[1:]))][::-1]
            for one, other in zip(original, [*_checkpoints(app, line)][::-1], strict=False):
                if one.id != other.id:
                    break
                if _facts(one) != _facts(other):
                    raise BrokenPromise(
                        f"The copy of checkpoint {one.id} in {line} is {_facts(other)}, not {_facts(one)}."
                    )
        logs = _logs(app, source)
        for run, log in _logs(app, to).items():
            if run in logs and log != logs[run][: len(log)]:
                raise BrokenPromise(f"The copy of the log of run {run!r} in {to!r} is {log}, not {logs[run]}.")

    def _check_untouched(self, app: Any, source: str, to: str) -> None:
        """Nobody has gone on with the thread or the copy: they differ in nothing."""
        known, copied = ({line[1:] for line in self._present if line[0] == one} for one in (source, to))
        if copied != known:
            raise BrokenPromise(f"Thread {to!r} has the lines {sorted(copied)}, not {sorted(known)}.")
        for line in sorted(copied):
            ids, found = (self._lines[thread, *line].ids for thread in (source, to))
            if found != ids:
                raise BrokenPromise(f"Line {line} of {to!r} has the checkpoints {found}, not {ids}.")
            newest = [next(_checkpoints(app, (thread, *line))).pending for thread in (source, to)]
            one, other = ((*map(repr, pending.completed.items()), replace(pending, completed={})) for pending in newest)
            if one != other:
                raise BrokenPromise(f"Of {line} of {to!r} is known {other}, not {one}.")
        if _logs(app, source) != _logs(app, to):
            raise BrokenPromise(f"The logs of {to!r} are not those of {source!r}.")

    # -- what was told

    def _check_told(self, notes: Sequence[Mapping[str, Any]]) -> None:
        """Commits that are known to be saved are saved; under `async` only the last one told may be missing."""
        unsure: dict[LineName, str] = {}
        for note in notes:
            if note["kind"] == "told":
                line = _line(note)
                if line in unsure:
                    self._must_have(line, unsure.pop(line))
                if self._durability == "async":
                    unsure[line] = note["id"]
                else:
                    self._must_have(line, note["id"])
            elif note["kind"] == "rested":
                for line in [line for line in unsure if _world(line) == _world(_line(note))]:
                    self._must_have(line, unsure.pop(line))
                if note["id"] is not None:
                    self._must_have(_line(note), note["id"])
            elif note["kind"] == "stood" and not self._has(_line(note), note["id"]):
                raise BrokenPromise(f"Checkpoint {note['id']} of {_line(note)} was read, and is lost.")
        for line, identity in unsure.items():
            self.count["acknowledged" if self._has(line, identity) else "lost in flight"] += 1

    def _has(self, line: LineName, identity: str) -> bool:
        return (line[0], identity) in self._ids or self._is_consumed(line)

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
        slack = 1 if self._durability == "sync" else 2
        for line, step in last.items():
            saved = self._lines[line].step if line in self._lines else -1
            if self._durability == "exit":
                self.count["lost under exit"] += saved < step
            elif saved < step - slack and not self._is_consumed(line):
                raise BrokenPromise(f"Superstep {step} of {line} had begun, but only {saved} is saved.")

    def _check_finished(self, notes: Sequence[Mapping[str, Any]]) -> None:
        """A task of which is told under `sync` that it has finished is not lost."""
        for note in notes if self._durability == "sync" else ():
            if note["kind"] == "finished" and not (_task(note) in self._finished or self._is_consumed(_line(note))):
                raise BrokenPromise(f"{_named(note)} had finished, and its result is lost.")

    # -- the ends

    def _check_done(self, app: Any, notes: Sequence[Mapping[str, Any]]) -> None:
        told = {note["thread"] for note in notes if note["kind"] == "done"}
        for thread in sorted({line[0] for line in self._lines} - self._done):
            outlook = look_out(app, self._shape, thread)
            states = {branch: app.get_state(thread_id=thread, branch=branch) for branch in outlook.branches}
            move = next_move(self._shape, thread, outlook, states, ShiftedClock(0).now())
            if move is None:
                self._check_end(app, thread, states)
            elif thread in told:
                raise BrokenPromise(f"Thread {thread!r} was done, and then at {states[move[0]].next}.")

    def _check_end(self, app: Any, thread: str, states: Mapping[str, Any]) -> None:
        """The end of a thread is that of a run that nobody disturbs, and its whole history can be read."""
        ends = {branch: normal(state.values) for branch, state in states.items()}
        if ends != self._reference:
            raise BrokenPromise(f"Thread {thread!r} ended otherwise than undisturbed:\n{ends}\n{self._reference}")
        recorded = {one.recorded for one in self._effects.values()}
        logged = [one for state in states.values() for one in state.values.get("log", ())]
        strangers = [one for one in logged if is_token(one) and one not in recorded]
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


_LINES: Final = "SELECT threads.thread_id, namespace, branch FROM lines JOIN threads ON threads.id = lines.thread"
_ORPHANS: Final = {
    **{
        table: f"SELECT place FROM {table} WHERE place >> 32 NOT IN (SELECT id FROM lines)"
        for table in ("records", "segments", "pending", "jumps")
    },
    "grown": "SELECT line, field FROM grown WHERE line NOT IN (SELECT id FROM lines)",
    "events": "SELECT place FROM events WHERE place >> 32 NOT IN (SELECT id FROM runs)",
    "lines": "SELECT id FROM lines WHERE thread NOT IN (SELECT id FROM threads)",
    "runs": "SELECT id FROM runs WHERE thread NOT IN (SELECT id FROM threads)",
    "threads": "SELECT thread_id FROM threads WHERE id NOT IN (SELECT thread FROM lines)",
}


def _line(note: Mapping[str, Any]) -> LineName:
    thread, namespace, branch = note["line"]
    return thread, namespace, branch


def _world(line: LineName) -> tuple[str, str]:
    """The thread and the branch of a line, to which all its subgraphs belong."""
    return line[0], line[2]


def _task(note: Mapping[str, Any], task: str | None = None) -> TaskName:
    return *_world(_line(note)), task or note["task"]


def _named(note: Mapping[str, Any]) -> str:
    return f"Task {note['task']} of node {note['node']!r} in {_line(note)}"


def _callers(namespace: str) -> list[str]:
    """The ids of the tasks that lead to a namespace."""
    return [part for segment in namespace.split("|") for part in segment.split(":")[1:2]]


def _checkpoints(app: Any, line: LineName) -> Iterator[SavedCheckpoint]:
    """The checkpoints of a line, the newest first."""
    before = None
    while True:
        page = app.checkpointer.history(line[0], namespace=line[1], branch=line[2], before=before, limit=PAGE)
        yield from page
        if len(page) < PAGE:
            return
        before = page[-1].id


def _facts(saved: SavedCheckpoint) -> Mapping[str, Any]:
    """What a copy of a checkpoint has in common with it."""
    names = ("parent_id", "checkpoint", "source", "run_id", "created_at", "metadata")
    return {name: getattr(saved, name) for name in names}


def _logs(app: Any, thread: str) -> dict[str, list[Any]]:
    """What the runs of a thread have logged."""
    logs: dict[str, list[Any]] = {}
    for one in app.get_events(thread_id=thread):
        logs.setdefault(one.run_id, []).append((one.seq, one.kind, one.step, one.node, one.task_id, repr(one.data)))
    return logs


def is_token(value: object) -> bool:
    """Whether it is what an effect gave."""
    return isinstance(value, str) and "#" in value


def normal(values: Mapping[str, Any]) -> dict[str, Any]:
    """A state without what is drawn anew in each run."""
    log = [one.partition("#")[0] if is_token(one) else one for one in values.get("log", ())]
    return {**values, "log": log} if log else dict(values)


def undisturbed(shape: str) -> Any:
    """How the branches of a thread of a shape end in memory, where nobody kills it."""
    app = app_of(shape, InMemorySaver(), NoNotes())
    while True:
        outlook = look_out(app, shape, "1")
        states = {branch: app.get_state(thread_id="1", branch=branch) for branch in outlook.branches}
        move = next_move(shape, "1", outlook, states, ShiftedClock(0).now())
        if move is None:
            return {branch: normal(state.values) for branch, state in states.items()}
        branch, (method, args, options) = move
        try:
            getattr(app, method)(*args, **options, **({} if method == "fork" else {"thread_id": "1", "branch": branch}))
        except Mishap:
            continue


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
    """`birth`, `ready`, or what the child does: `commit`, `fold`, `wait`, `effect`, `fork`, `copy`."""
    number: int
    """Which of them."""
    delay: float


def draw_strike(chance: random.Random, shape: str) -> Strike:
    """A moment to kill: in start-up, at any time, or around what the shape has of commits, folds, waits and so on."""
    moments = {"birth": 2, "ready": 4, "commit": 4, "fold": 4 if shape in ("loop", "chain") else 1}
    moments["wait"] = 4 if shape in ("waits", "effects", "subgraphs", "updates") else 0
    moments["effect"] = {"effects": 5, "forks": 2, "copies": 2}.get(shape, 0)
    moments["fork"] = 8 if SHAPES[shape].forks else 0
    moments["copy"] = 8 if SHAPES[shape].copies else 0
    (moment,) = chance.choices(list(moments), list(moments.values()))
    if moment == "birth":
        return Strike(moment, 0, chance.uniform(0.0, 0.5))
    if moment == "ready":
        return Strike(moment, 0, 0.5 * chance.random() ** 2)
    most = {"commit": 100, "fold": 25, "wait": 8, "effect": 25, "fork": 8, "copy": 3}[moment]
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
    ways = list(itertools.product(colours, DURABILITIES, (True, False), (True, False)))
    random.Random(seed).shuffle(ways)
    deal = itertools.cycle(ways)
    found: list[Scenario] = []
    for number, shape in enumerate(shapes):
        quota = kills // len(shapes) + (number < kills % len(shapes))
        count = max(1, min(8, quota // 4))
        for part in range(count):
            own = quota // count + (part < quota % count)
            way = next(way for way in deal if way[1] in SHAPES[shape].durabilities)
            found.append(Scenario(shape, *way, own, f"{seed}-{shape}-{part}"))
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
    "in forks or copies": "in forks or copies",
    "supersteps": "supersteps",
    "acknowledged": "acknowledged",
    "lost in flight": "lost in flight",
    "lost under exit": "lost under exit",
    "forks": "forks",
    "copies": "copies",
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
