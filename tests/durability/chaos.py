"""Durability under `kill -9`: child processes run graphs, are killed at random moments, and the next child resumes.

    python -m tests.durability.chaos --kills 1000 --seed 7

The parent starts one child after the other: a separate interpreter with a `SqliteSaver` on a file. A child advances
several threads concurrently, from wherever the file says they are, starts new ones when all are done, and appends
everything that it does and learns to its *notes*, with O_APPEND: a line each, which counts once it is complete. The
parent kills the child with SIGKILL, reads a copy of the file in the state in which the kill left it, and compares it
with the notes of all children so far. The last child of each file runs all threads to their ends. Some threads are
forked on the way, and their branches are advanced by turns; some are copied, while they are idle or while a run
advances them.

When a commit is known to be saved:

- durability `sync`: before its `on_commit`. The next superstep starts later still.
- durability `async`: at the `on_commit` of the next commit of the same line, or when the call returns. So of the
  commits of a line that were reported to a child, only the last one may be missing; and when superstep s starts, the
  commit of s - 2 is saved (under `sync`: that of s - 1).
- durability `exit`: also before its `on_commit`, which only comes when the run is idle, or when the result of a step
  is saved.
- a task, under `sync`: before its `on_task_finished`. While other tasks of the superstep run, results are saved in
  groups.
- `update_state`, `fork`, `copy_thread`, `runtime.step`, answers, and failed attempts (except under `exit`): when the
  call returns, with any durability.
- a checkpoint that a child has read: at once.

The invariants are described where they are checked, in `Auditor`. The kills are drawn by a seeded generator, but their
effect depends on the machine: the same seed gives the same kind of run, never the same run.
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
SMALL_SEGMENTS: Final = {"LONGEST": 8, "RECENT": 12, "SMALL": 64, "MOST_WITHOUT_BASE": 3}
"""Limits with which old checkpoints are compacted all the time."""
PATIENCE: Final = 600.0
"""Seconds after which a child is considered to hang."""
PAGE: Final = 40
"""Checkpoints of one page."""
DURABILITIES: Final = ("sync", "async", "exit")


# -- the notes of children


class Notes:
    """The notes of one child, in a file of its own."""

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
        """Return True for the first call with a name, in all children."""
        try:
            os.close(os.open(self._marks / what, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
        return True


class DiscardedNotes(Notes):
    """Ignores the notes of a run that is not killed."""

    def __init__(self) -> None:
        self._asked: set[str] = set()

    def write(self, kind: str, *, durable: bool = False, **facts: Any) -> None:
        pass

    def is_first(self, what: str) -> bool:
        is_first = what not in self._asked
        self._asked.add(what)
        return is_first


def read_notes(path: Path) -> list[dict[str, Any]]:
    """Return the complete lines of the notes of a child."""
    if not path.exists():
        return []
    *lines, _ = path.read_bytes().split(b"\n")
    return [json.loads(line) for line in lines]


def branch_of(run_id: str) -> str:
    """Return the branch that a run advances: its id begins with the branch, unless that is `main`."""
    branch, slash, _ = run_id.partition("/")
    return branch if slash else "main"


class NoteTaker(Instrument):
    """Notes the supersteps that start, and the reported commits and ends of tasks."""

    def __init__(self, notes: Notes) -> None:
        self._notes = notes

    def on_superstep(self, event: Any) -> None:
        tasks = [task.id for task in event.data]
        self._notes.write("superstep", line=self._line(event), step=event.step, tasks=tasks)

    def on_commit(self, event: Any) -> None:
        line, checkpoint = event.data.line, event.data.checkpoint
        line = [line.thread_id, line.namespace, line.branch]
        self._notes.write("committed", line=line, step=checkpoint.step, id=checkpoint.id, source=event.data.source)

    def on_task_finished(self, event: Any) -> None:
        if type(event.data) is TaskResult:
            self._notes.write("finished", line=self._line(event), node=event.node, task=event.data.task.id)

    def _line(self, event: Any) -> list[str]:
        return [event.thread_id, event.namespace, branch_of(event.run_id)]


# -- the graphs


class ExpectedFailure(ConnectionError):
    """The failures of nodes that are part of a scenario."""


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


class Visits(TypedDict, total=False):
    visits: Annotated[int, operator.add]
    seen: int


class Outer(Plain, total=False):
    seen: int


Action = Callable[[Any, Runtime], Any]


class NodeFactory:
    """Creates nodes that note each execution and take a random time, as plain functions and as coroutines."""

    def __init__(self, notes: Notes, driver: str) -> None:
        self.notes = notes
        self._coroutines = itertools.cycle([True, True, False] if driver == "async" else [False, False, True])

    def node(self, graph: StateGraph, name: str, action: Action, *, pause: float = 0.001, **options: Any) -> None:
        note = self._note

        def plain(state: Any, runtime: Runtime) -> Any:
            note("started", runtime)
            time.sleep(random.random() * pause)
            answer = action(state, runtime)
            note("ended", runtime)
            return answer

        async def coroutine(state: Any, runtime: Runtime) -> Any:
            note("started", runtime)
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
        """Perform a side effect in a step, and return its token."""
        info = runtime.execution_info
        key = [info.thread_id, info.task_id, name, number]

        def act(number: int) -> str:
            token = f"{name} {number}#{os.urandom(6).hex()}"
            self.notes.write("effect", durable=True, key=key, token=token)
            moments.reach("effect")
            return token

        token = runtime.step(name, act, number)
        self.notes.write("recorded", key=key, token=token)
        return token


def round_again(node: str, rounds: int) -> Callable[[Any], Any]:
    """Return a conditional edge to the node, until a number of rounds is done."""

    def route(state: Any) -> str:
        return node if state["rounds"] < rounds else END

    return route


def chain(make: NodeFactory) -> StateGraph:
    """Return a graph of nodes in a row."""
    graph = StateGraph(Plain)
    names = [f"node {number}" for number in range(12)]
    for name in names:
        make.node(graph, name, lambda s, r, name=name: {"log": [name], "total": len(s["log"])})
    for before, after in itertools.pairwise([START, *names]):
        graph.add_edge(before, after)
    return graph


LOOPS: Final = 240


def turn(state: Any, runtime: Runtime) -> dict[str, Any]:
    """Update the state in one of many supersteps.

    Lists grow, messages are added, replaced and removed, a signal is sent, a list is replaced.
    """
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


def loop(make: NodeFactory) -> StateGraph:
    """Return a graph of a few hundred supersteps, whose checkpoints are compacted meanwhile."""
    graph = StateGraph(Long)
    make.node(graph, "turn", turn, pause=0.0002)
    graph.add_edge(START, "turn")
    graph.add_conditional_edges("turn", lambda s: "turn" if s["count"] < LOOPS else END, ["turn", END])
    return graph


def fan(make: NodeFactory) -> StateGraph:
    """Return a graph of Sends with different durations, some so long that results of others are saved meanwhile."""

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


def joins(make: NodeFactory) -> StateGraph:
    """Return a graph with a join of paths of different lengths."""
    graph = StateGraph(Plain)
    for name in ("a", "b", "b2", "b3", "c"):
        make.node(graph, name, lambda s, r, name=name: {"log": [name]})
    make.node(graph, "d", lambda s, r: {"log": ["d"], "rounds": 1})
    for before, after in [(START, "a"), ("a", "b"), ("a", "c"), ("b", "b2"), ("b2", "b3"), (["b3", "c"], "d")]:
        graph.add_edge(before, after)
    graph.add_conditional_edges("d", round_again("a", 3), ["a", END])
    return graph


def held(make: NodeFactory) -> StateGraph:
    """Return a graph with deferred tasks: gathered Sends, and a node that waits for all nodes that can reach it."""

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


def called(make: NodeFactory) -> Any:
    """Return a graph for others to call, which asks a question about item 2."""

    def second(state: Any, runtime: Runtime) -> dict[str, Any]:
        answers = [interrupt(f"item {state['item']}?")] if state["item"] == 2 else []
        return {"log": [f"second {state['item']}", *answers]}

    graph = StateGraph(Plain)
    make.node(graph, "first", lambda s, r: {"log": [f"first {s['item']}"]})
    make.node(graph, "second", second)
    make.node(graph, "third", lambda s, r: {"log": [f"third {s['item']}"]})
    return graph.add_edge(START, "first").add_edge("first", "second").add_edge("second", "third").compile()


def remembering(make: NodeFactory) -> Any:
    """Return a graph that counts its calls."""
    graph = StateGraph(Visits)
    make.node(graph, "count", lambda s, r: {"visits": 1})
    make.node(graph, "show", lambda s, r: {"seen": s["visits"]})
    return graph.add_edge(START, "count").add_edge("count", "show").compile()


def subgraphs(make: NodeFactory) -> StateGraph:
    """Return a graph with concurrent calls of a graph without memory, and calls of a graph with memory."""
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


def waits(make: NodeFactory) -> StateGraph:
    """Return a graph of tasks that wait for time, events and answers, and one that does not wait."""

    def order(state: Any, runtime: Runtime) -> dict[str, Any]:
        sleep(60)
        paid = wait_for_event("paid")
        return {"log": [paid["amount"], interrupt("Wrap it?"), interrupt("Send it?")]}

    graph = StateGraph(Plain)
    make.node(graph, "begin", lambda s, r: {"log": ["begin"]})
    make.node(graph, "order", order)
    make.node(graph, "name", lambda s, r: {"log": [interrupt("Name?", schema=str), wait_for_event("paid")["amount"]]})
    make.node(graph, "sibling", lambda s, r: {"log": ["sibling"]}, pause=0.004)
    make.node(graph, "close", lambda s, r: {"log": ["closed"], "rounds": 1})
    graph.add_edge(START, "begin")
    for name in ("order", "name", "sibling"):
        graph.add_edge("begin", name)
    graph.add_edge(["order", "name", "sibling"], "close")
    return graph.add_conditional_edges("close", round_again("begin", 2), ["begin", END])


RETRY: Final = RetryPolicy(initial_interval=0.002, max_attempts=4, jitter=False, retry_on=ExpectedFailure)


def retries(make: NodeFactory) -> StateGraph:
    """Return a graph of tasks that are retried, and one that fails the run at its first execution."""

    def flaky(n: int, runtime: Runtime) -> dict[str, Any]:
        attempt = runtime.execution_info.attempt
        if attempt <= n:
            raise ExpectedFailure(f"attempt {attempt} at {n}")
        return {"log": [f"flaky {n}"]}

    def fragile(state: Any, runtime: Runtime) -> dict[str, Any]:
        if make.notes.is_first(runtime.execution_info.task_id):
            raise ExpectedFailure("the first time")
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


def effects(make: NodeFactory) -> StateGraph:
    """Return a graph with side effects in tasks that are repeated, because they ask, fail or are killed."""

    def pay(n: int, runtime: Runtime) -> dict[str, Any]:
        receipts = [make.effect(runtime, "charge", number) for number in range(2)]
        if n == 1 and runtime.execution_info.attempt == 1:
            raise ExpectedFailure("after two charges")
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


def updates(make: NodeFactory) -> StateGraph:
    """Return a graph that stops at a breakpoint, where its state is edited."""
    graph = StateGraph(Plain)
    make.node(graph, "draft", lambda s, r: {"log": ["draft"]})
    make.node(graph, "review", lambda s, r: {"log": [f"review of {s['log'][-1]}"]})
    make.node(graph, "publish", lambda s, r: {"log": ["published"], "rounds": 1})
    graph.add_edge(START, "draft").add_edge("draft", "review").add_edge("review", "publish")
    return graph.add_conditional_edges("publish", round_again("draft", 4), ["draft", END])


def edit(values: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the edit of a state at the breakpoint; None if it has been made."""
    if values["edited"] > values["rounds"]:
        return None
    return {"edited": 1, "log": [f"edited {values['rounds']}"]}


def forks(make: NodeFactory) -> StateGraph:
    """Return a graph of questions at which a thread may be forked: a side effect is done, another task has ended."""

    def ask(state: Any, runtime: Runtime) -> dict[str, Any]:
        receipt = make.effect(runtime, "charge", state["rounds"])
        return {"log": [receipt, interrupt(f"Which way at {state['rounds']}?")]}

    graph = StateGraph(Plain)
    make.node(graph, "begin", lambda s, r: {"log": ["begin"]})
    make.node(graph, "ask", ask)
    make.node(graph, "sibling", lambda s, r: {"log": ["sibling"]})
    make.node(graph, "work", lambda s, r: {"log": [f"work on {s['log'][-1]}"]})
    make.node(graph, "end", lambda s, r: {"rounds": 1, "total": len(s["log"])})
    for before, after in [(START, "begin"), ("begin", "ask"), ("begin", "sibling"), (["ask", "sibling"], "work")]:
        graph.add_edge(before, after)
    return graph.add_edge("work", "end").add_conditional_edges("end", round_again("begin", 3), ["begin", END])


FORKED_AT: Final = {("main", 0): "early", ("main", 1): "late", ("early", 2): "later"}
"""The branches that are forked at a question, by the branch and the round of the question."""
FORKED_AT_END: Final = "afterwards"
"""A branch that is forked from the oldest checkpoint of `main` once `main` is done."""


class Shape(NamedTuple):
    """A kind of graph, and the start of its threads."""

    build: Callable[[NodeFactory], StateGraph]
    given: Mapping[str, Any]
    options: Mapping[str, Any] = {}
    edits: bool = False
    forks: bool = False
    copies: str = ""
    """The connection that copies threads: the `same`, or `another`; empty if they are not copied."""
    rests: bool = True
    """True if runs become idle before they are done, or save results of steps."""
    threads: int = 3
    """Threads that are advanced concurrently, without their copies."""
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
    """The clock of the machine, so far ahead that the leases of all earlier generations have expired."""

    def __init__(self, generation: int) -> None:
        self._ahead = generation * (LEASE + timedelta(seconds=1))

    def now(self) -> datetime:
        return super().now() + self._ahead


def app_of(shape: str, saver: Any, notes: Notes, driver: str = "sync", generation: int = 0) -> Any:
    """Compile the graph of a shape with a saver."""
    graph = SHAPES[shape].build(NodeFactory(notes, driver))
    clock, instruments = ShiftedClock(generation), [] if isinstance(notes, DiscardedNotes) else [NoteTaker(notes)]
    return graph.compile(saver, clock=clock, instruments=instruments, **SHAPES[shape].options)


# -- the child


class Moments:
    """Notifies the parent of the moment that it waits for."""

    def __init__(self) -> None:
        self._kind, self._left = "", 0

    def take(self, kind: str, number: int) -> None:
        self._kind, self._left = kind, number

    def reach(self, kind: str) -> None:
        if kind == self._kind:
            self._left -= 1
            if self._left == 0:
                os.write(1, b"aim\n")

    def watch_method(self, owner: Any, method: str, kind: str, notes: Notes, *, pause: float = 0.0) -> None:
        """Replace a method of a class: its calls reach a moment, are noted at their start and end, and take longer."""
        original = getattr(owner, method)

        def watched(*args: Any, **options: Any) -> Any:
            notes.write("in", what=kind)
            self.reach(kind)
            time.sleep(random.random() * pause)
            answer = original(*args, **options)
            notes.write("out", what=kind)
            return answer

        setattr(owner, method, watched)


moments = Moments()


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The work of a child."""

    folder: str
    shape: str
    driver: str
    durability: str
    small_segments: bool
    slow_disk: bool
    generation: int
    round: int
    """The first round with threads that may not be done."""
    is_last: bool
    """True if the child ends when that round is done, and is not killed."""
    aim: str
    number: int


Call = tuple[str, tuple[Any, ...], dict[str, Any]]


class ThreadView(NamedTuple):
    """Facts that decide the next call on a thread, besides the states of its branches."""

    branches: Sequence[str]
    old: Any = None
    """The config of the oldest checkpoint, to be forked when `main` is done."""
    needs_copy: bool = False


def view_thread(app: Any, shape: str, thread: str, *, may_copy: bool = False) -> ThreadView:
    """Return the facts about a thread. `may_copy` allows a copy, if it has none."""
    is_source = may_copy and SHAPES[shape].copies != "" and is_copied_at_rest(thread)
    needs_copy = is_source and not exists(app, copy_of(thread))
    if not SHAPES[shape].forks:
        return ThreadView(["main"], needs_copy=needs_copy)
    branches = sorted({"main", *resolve(app.checkpointer.branches(thread))})
    history = [*app.get_state_history(thread_id=thread)] if FORKED_AT_END not in branches else []
    return ThreadView(branches, history[-1].config if history else None, needs_copy)


def next_action(
    shape: str, thread: str, view: ThreadView, states: Mapping[str, Any], now: datetime
) -> tuple[str, Call] | None:
    """Return the next call on a thread with its branch, that with the fewest supersteps first; None if done."""
    main = states["main"]
    if view.needs_copy and main.created_at is not None and (main.interrupts or not main.next):
        return "main", ("copy_thread", (thread, copy_of(thread)), {})
    for branch in sorted(states, key=lambda branch: (states[branch].metadata.get("step", -1), branch)):
        call = next_fork(shape, branch, view, states) or next_call(shape, states[branch], now, branch)
        if call is not None:
            return branch, call
    return None


def next_fork(shape: str, branch: str, view: ThreadView, states: Mapping[str, Any]) -> Call | None:
    """Return the fork to be made at the head of a branch; None if there is none."""
    state = states[branch]
    if not SHAPES[shape].forks or state.created_at is None:
        return None
    if branch == "main" and not state.next and FORKED_AT_END not in states:
        return "fork", (view.old,), {"branch": FORKED_AT_END}
    to = FORKED_AT.get((branch, state.values["rounds"])) if state.interrupts else None
    return ("fork", (state.config,), {"branch": to}) if to is not None and to not in states else None


def next_call(shape: str, state: Any, now: datetime, branch: str) -> Call | None:
    """Return the next call on a branch, as a method of its app; None if it is done."""
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
        moments.take(plan.aim, plan.number)
        pause = 0.006 if plan.slow_disk else 0.0
        moments.watch_method(SqliteDatabase, "_write_group", "commit", self._notes, pause=pause)
        moments.watch_method(segments.SegmentWriter, "compact", "compaction", self._notes)
        moments.watch_method(CompiledGraph, "fork", "fork", self._notes)
        moments.watch_method(CompiledGraph, "copy_thread", "copy", self._notes)
        self._saver = SqliteSaver(Path(plan.folder) / "runs.db")
        self._app = app_of(plan.shape, self._saver, self._notes, plan.driver, plan.generation)
        self._clock = ShiftedClock(plan.generation)
        self._other_saver = (
            SqliteSaver(Path(plan.folder) / "runs.db") if SHAPES[plan.shape].copies == "another" else None
        )
        self._copier = app_of(plan.shape, self._other_saver or self._saver, DiscardedNotes())

    def run(self) -> None:
        os.write(1, b"ready\n")
        for number in itertools.count(self._plan.round):
            threads = thread_ids(self._plan.shape, number)
            if self._plan.driver == "async":
                asyncio.run(self._advance_all(threads))
            else:
                with ThreadPoolExecutor(len(threads)) as pool:
                    list(pool.map(self._advance, threads))
            if self._plan.is_last:
                break
        self._saver.close()
        if self._other_saver is not None:
            self._other_saver.close()

    async def _advance_all(self, threads: Sequence[str]) -> None:
        await asyncio.gather(*(self._advance_async(thread) for thread in threads))

    def _advance(self, thread: str) -> None:
        self._await_copy(thread)
        while True:
            view = view_thread(self._app, self._plan.shape, thread, may_copy=True)
            states = {branch: self._app.get_state(thread_id=thread, branch=branch) for branch in view.branches}
            action = self._next_action(thread, view, states)
            if action is None:
                return
            branch, (method, args, options) = action
            try:
                result = self._method(method)(*args, **options)
            except ExpectedFailure:
                continue
            self._note_return(thread, branch, result, options)

    async def _advance_async(self, thread: str) -> None:
        await asyncio.to_thread(self._await_copy, thread)
        while True:
            view = await asyncio.to_thread(view_thread, self._app, self._plan.shape, thread, may_copy=True)
            states = {branch: await self._app.aget_state(thread_id=thread, branch=branch) for branch in view.branches}
            action = self._next_action(thread, view, states)
            if action is None:
                return
            branch, (method, args, options) = action
            try:
                if method in ("fork", "copy_thread"):
                    result = await asyncio.to_thread(self._method(method), *args, **options)
                else:
                    result = await self._method(f"a{method}")(*args, **options)
            except ExpectedFailure:
                continue
            self._note_return(thread, branch, result, options)

    def _method(self, name: str) -> Callable[..., Any]:
        return getattr(self._copier if name == "copy_thread" else self._app, name)

    def _await_copy(self, thread: str) -> None:
        """Wait until the copy `thread` exists; make it here if it is to be made during a run."""
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
        heads = {branch: checkpoint_id_of(state) for branch, state in states.items()}
        self._notes.write("copying", source=source, to=copy_of(source), heads=heads)

    def _note_forking(self, thread: str, config: Any, to: str) -> None:
        saved = [task.id for task in self._app.get_state(config).tasks if task.result is not None]
        self._notes.write("forking", line=[thread, "", to], saved=saved)

    def _note_return(self, thread: str, branch: str, result: Any, options: Mapping[str, Any]) -> None:
        """Note that a call has returned, with the checkpoint that it returned."""
        if result is None:
            self._notes.write("copied", to=copy_of(thread))
            return
        changed = result.get("configurable", {}).get("checkpoint_id")
        changed_branch = options.get("branch", branch)
        self._notes.write("returned", line=[thread, "", changed_branch], id=changed)

    def _next_action(self, thread: str, view: ThreadView, states: Mapping[str, Any]) -> tuple[str, Call] | None:
        for branch, state in states.items():
            if state.created_at is not None:
                self._notes.write("read", line=[thread, "", branch], id=checkpoint_id_of(state))
        if any(state.interrupts for state in states.values()):
            moments.reach("wait")
        action = next_action(self._plan.shape, thread, view, states, self._clock.now())
        if action is None:
            self._notes.write("done", thread=thread)
            return None
        branch, (method, args, options) = action
        if method == "copy_thread":
            self._note_copying(thread, states)
        if method == "fork":
            self._note_forking(thread, args[0], options["branch"])
        if method in ("fork", "copy_thread"):
            return action
        named = {"thread_id": thread, "branch": branch}
        if method != "update_state":
            named["durability"] = self._plan.durability
            if branch != "main":
                named["run_id"] = f"{branch}/{os.urandom(8).hex()}"
        return branch, (method, args, {**options, **named})


def checkpoint_id_of(state: Any) -> str:
    """Return the id of the checkpoint of a state."""
    return state.config["configurable"]["checkpoint_id"]


COPY: Final = "+copy"


def copy_of(thread: str) -> str:
    return f"{thread}{COPY}"


def is_copy(thread: str) -> bool:
    return thread.endswith(COPY)


def is_copied_at_rest(thread: str) -> bool:
    """Return True if the copy of a thread is made while it is idle, False if it is made during a run."""
    return thread.endswith("0")


def exists(app: Any, thread: str) -> bool:
    return app.get_state(thread_id=thread).created_at is not None


def thread_ids(shape: str, number: int) -> list[str]:
    """Return the threads of a round."""
    threads = [f"{shape}-{number}-{index}" for index in range(SHAPES[shape].threads)]
    return [*threads, *(map(copy_of, threads) if SHAPES[shape].copies else ())]


def child_main(plan: Plan) -> None:
    if plan.small_segments:
        for name, value in SMALL_SEGMENTS.items():
            setattr(segments, name, value)
        setattr(commits, "RECENT", SMALL_SEGMENTS["RECENT"])  # noqa: B010  # a constant, but for this
    Child(plan).run()


# -- the checks of the parent

LineName = tuple[str, str, str]
"""A thread, a namespace in it, and a branch."""
TaskName = tuple[str, str, str]
"""A thread, a branch, and the id of a task: forks and copies have tasks of the same ids."""


class BrokenPromise(Exception):
    """An invariant does not hold."""


@dataclass
class LineHistory:
    """The checkpoints of a line that have been in the file."""

    ids: list[str] = field(default_factory=list[str])
    """Ids of its checkpoints and their ancestors, by step."""
    step: int = -1
    """The step of the last one."""
    owns: bool = False
    """True if some of them are not ancestors from another branch."""
    due: frozenset[str] = frozenset()
    """The tasks that are due at its head."""
    asking: frozenset[str] = frozenset()
    """The due tasks that wait for an answer."""


@dataclass
class Effect:
    """The history of a journalled side effect."""

    done: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])
    """The generations in which it was done, with their tokens."""
    recorded: str | None = None
    """The first token that a node received for it."""


class Auditor:
    """Compares the notes of all children with the contents of the file; raises BrokenPromise if they contradict."""

    def __init__(self, shape: str, durability: str, reference: Any) -> None:
        self._shape = shape
        self._durability = durability
        self._reference = reference
        self._lines: dict[LineName, LineHistory] = {}
        self._ids: set[tuple[str, str]] = set()
        """The ids of checkpoints, with their threads."""
        self._finished: set[TaskName] = set()
        """Tasks that count as finished on disk."""
        self._attempts: dict[TaskName, int] = {}
        self._interrupted: set[TaskName] = set()
        """Tasks that were running when a child was killed, and did not count as finished."""
        self._present: set[LineName] = set()
        """The lines of the file."""
        self._effects: dict[tuple[Any, ...], Effect] = {}
        self._done: set[str] = set()
        self.count: Counter[str] = Counter()

    def count_kill(self, notes: Sequence[Mapping[str, Any]]) -> None:
        """Count a kill, and the operations that it interrupted."""
        within = Counter(note["what"] for note in notes if note["kind"] == "in")
        within.subtract(note["what"] for note in notes if note["kind"] == "out")
        self.count["kills"] += 1
        self.count["in commits"] += within["commit"] > 0
        self.count["in compactions"] += within["compaction"] > 0
        self.count["in forks or copies"] += within["fork"] + within["copy"] > 0

    def close_generation(self, generation: int, notes: Sequence[Mapping[str, Any]], app: Any, path: Path) -> None:
        """Compare the notes of a child with the file that it left."""
        self._check_executions(notes)
        self._check_effects(generation, notes)
        self._check_integrity(path)
        self._read_file(app, path)
        self._check_copies(app, notes)
        self._add_spanned(notes)
        self._check_missing_lines()
        self._check_commits(notes)
        self._check_progress(notes)
        self._check_finished(notes)
        self._note_interrupted(notes)
        self._check_done(app, notes)

    # -- executions

    def _check_executions(self, notes: Sequence[Mapping[str, Any]]) -> None:
        """Check that no finished task runs again, and that attempts are counted across kills.

        A task counts as finished when its superstep was committed, or when it had ended before its run became idle; in
        a new branch, if its result was saved where the branch begins.
        """
        begun: dict[LineName, dict[int, list[TaskName]]] = {}
        ended: dict[tuple[str, str], set[TaskName]] = {}
        finished, returned = set[TaskName](), set[TaskName]()
        for note in notes:
            if note["kind"] == "superstep":
                begun.setdefault(_line(note), {})[note["step"]] = [_task(note, task) for task in note["tasks"]]
            elif note["kind"] == "committed" and note["source"] == "loop":
                steps = begun.get(_line(note), {})
                for step in [step for step in steps if step <= note["step"]]:
                    finished.update(steps.pop(step))
            elif note["kind"] == "ended":
                ended.setdefault(_thread_branch(_line(note)), set()).add(_task(note))
            elif note["kind"] == "forking":
                returned |= {_task(note, task) for task in note["saved"]}
            elif note["kind"] == "returned":
                returned |= ended.pop(_thread_branch(_line(note)), set())
            elif note["kind"] == "started":
                self._check_execution(note, finished | returned)
        self._finished |= returned

    def _check_execution(self, note: Mapping[str, Any], finished: set[TaskName]) -> None:
        task, name = _task(note), _named(note)
        if task in self._finished or task in finished:
            raise BrokenPromise(f"{name} ran again, though it was finished.")
        if self._is_consumed(_line(note)):
            raise BrokenPromise(f"{name} ran again, though the task that had called its graph was finished.")
        if note["attempt"] < self._attempts.get(task, 0) and self._durability != "exit":
            raise BrokenPromise(f"{name} was at attempt {self._attempts[task]}, and then at {note['attempt']} again.")
        self._attempts[task] = note["attempt"]
        if task in self._interrupted:
            self._interrupted.discard(task)
            self.count["run again"] += 1

    def _note_interrupted(self, notes: Sequence[Mapping[str, Any]]) -> None:
        asking = {(*_thread_branch(line), task) for line, history in self._lines.items() for task in history.asking}
        ran = {_task(note) for note in notes if note["kind"] == "started"}
        self._interrupted |= ran - self._finished - asking

    # -- effects

    def _check_effects(self, generation: int, notes: Sequence[Mapping[str, Any]]) -> None:
        """Check that each result of a step is recorded once: only a kill before the record may repeat the effect.

        A copy has the records of its thread.
        """
        for note in notes:
            if note["kind"] == "copying":
                for key, effect in list(self._effects.items()):
                    if key[0] == note["source"] and effect.recorded:
                        self._effects[note["to"], *key[1:]] = Effect(effect.done[:], effect.recorded)
            if note["kind"] not in ("effect", "recorded"):
                continue
            key, token = tuple(note["key"]), note["token"]
            effect = self._effects.setdefault(key, Effect())
            if note["kind"] == "effect":
                if effect.recorded is not None:
                    raise BrokenPromise(f"The effect {key} was done again, though {effect.recorded!r} was recorded.")
                if effect.done and effect.done[-1][0] == generation:
                    raise BrokenPromise(f"The effect {key} was done twice by the same process.")
                self.count["effects repeated"] += bool(effect.done)
                effect.done.append((generation, token))
            elif token != self._expected_token(key, effect):
                raise BrokenPromise(
                    f"The effect {key} returned {effect.done}, {effect.recorded!r}, and then {token!r}."
                )
            else:
                effect.recorded = token

    def _expected_token(self, key: tuple[Any, ...], effect: Effect) -> str | None:
        """Return the last token of an effect.

        A copy may have a token that was being recorded for its thread when the copy was made.
        """
        if effect.recorded is not None or effect.done:
            return effect.recorded or effect.done[-1][1]
        original = self._effects.get((key[0].removesuffix(COPY), *key[1:]))
        return original.done[-1][1] if original is not None and original.done else None

    # -- the file

    def _check_integrity(self, path: Path) -> None:
        connection = sqlite3.connect(path)
        try:
            rows = connection.execute("PRAGMA integrity_check").fetchall()
        finally:
            connection.close()
        if rows != [("ok",)]:
            raise BrokenPromise(f"integrity_check reports {rows[:5]}.")

    def _read_file(self, app: Any, path: Path) -> None:
        """Add the new checkpoints of all lines, and check that none of the earlier ones is missing."""
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
        """Check that each row belongs to a line or run, and each of these to a thread."""
        connection = sqlite3.connect(path)
        try:
            orphans = {name: connection.execute(statement).fetchall() for name, statement in _ORPHANS.items()}
        finally:
            connection.close()
        if any(orphans.values()):
            raise BrokenPromise(f"Rows belong to no line, run or thread: {orphans}.")

    def _check_missing_lines(self) -> None:
        """Check that a line is deleted only with the task that had called its graph."""
        for line in self._lines.keys() - self._present:
            if not self._is_consumed(line):
                raise BrokenPromise(
                    f"The line {line} is missing, though the task that called its graph has not finished."
                )

    def _read_line(self, app: Any, line: LineName) -> None:
        history = self._lines.setdefault(line, LineHistory())
        added: list[SavedCheckpoint] = []
        for saved in _checkpoints(app, line):
            if history.ids and saved.id == history.ids[-1]:
                self._add_pending(history, line, saved)
                break
            added.append(saved)
        else:
            if history.ids:
                raise BrokenPromise(f"Checkpoint {history.ids[-1]} of {line} was saved, and is missing.")
        for saved in reversed(added):
            self._add_checkpoint(history, line, saved)

    def _add_checkpoint(self, history: LineHistory, line: LineName, saved: SavedCheckpoint) -> None:
        """Add a checkpoint. Check that its line has no gaps and repeats no id, except ids of ancestors of forks."""
        before, step = history.ids[-1] if history.ids else None, saved.checkpoint.step
        follows = step > history.step if self._durability == "exit" else step == history.step + 1
        if not follows or saved.parent_id != before:
            raise BrokenPromise(
                f"Checkpoint {saved.id} of {line} has step {step} and parent {saved.parent_id}, "
                f"but follows {before}, which has step {history.step}."
            )
        is_own = (line[0], saved.id) not in self._ids
        if not is_own and (history.owns or line[2] == "main"):
            raise BrokenPromise(f"Checkpoint {saved.id} of {line} was committed twice.")
        due = frozenset(task.id for task in saved.checkpoint.frontier)
        if is_own and not history.owns and line[2] != "main" and not line[1]:
            self._check_fork(history, line, saved, due)
        self._ids.add((line[0], saved.id))
        self._finished |= {(*_thread_branch(line), task) for task in history.due - due}
        history.ids.append(saved.id)
        history.step, history.due, history.owns = step, due, is_own
        if is_own:
            self._check_own(line, saved)
            self._add_pending(history, line, saved)
            self.count["supersteps"] += saved.source == "loop"

    def _check_fork(self, history: LineHistory, line: LineName, saved: SavedCheckpoint, due: frozenset[str]) -> None:
        """Check that a branch begins with the tasks that are due at its parent."""
        if saved.source != "fork" or due != history.due:
            raise BrokenPromise(f"The branch of {line} begins with {saved.source!r} and {due}, after {history.due}.")
        self.count["forks"] += not is_copy(line[0])

    def _check_own(self, line: LineName, saved: SavedCheckpoint) -> None:
        """Check that a run that saves only when idle, and is idle only at its end, has saved nothing else."""
        is_intermediate = saved.source == "loop" and not saved.checkpoint.at_rest
        if self._durability == "exit" and is_intermediate and not SHAPES[self._shape].rests:
            raise BrokenPromise(f"Checkpoint {saved.id} of {line} was saved though its run was not idle.")

    def _add_spanned(self, notes: Sequence[Mapping[str, Any]]) -> None:
        """Add tasks of supersteps that were saved with later ones: finished, but never due in the file."""
        for note in notes:
            history = self._lines.get(_line(note)) if note["kind"] == "superstep" else None
            if history is not None and note["step"] <= history.step:
                self._finished |= {_task(note, task) for task in note["tasks"] if task not in history.due}

    def _add_pending(self, history: LineHistory, line: LineName, saved: SavedCheckpoint) -> None:
        self._finished |= {(*_thread_branch(line), task) for task in saved.pending.completed}
        history.asking = frozenset(saved.pending.interrupts)

    def _is_consumed(self, line: LineName) -> bool:
        """Return True if a line belongs to a subgraph whose calling task has finished."""
        return any((*_thread_branch(line), task) in self._finished for task in _callers(line[1]))

    # -- copies

    def _check_copies(self, app: Any, notes: Sequence[Mapping[str, Any]]) -> None:
        """Check that each copy is complete or absent."""
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
                    self._check_equal_copy(app, source, to)
                self.count["copies"] += 1
            elif to in copied:
                raise BrokenPromise(f"The copy {to!r} was made, and is missing.")

    def _check_copy(self, app: Any, source: str, to: str, heads: Mapping[str, str]) -> None:
        """Check that thread and copy have the same history and the same log up to the copy."""
        for branch, head in heads.items():
            if (to, "", branch) not in self._lines or head not in self._lines[to, "", branch].ids:
                raise BrokenPromise(
                    f"The copy {to!r} has no checkpoint {head} on branch {branch!r}, which was the head of its thread."
                )
        for line in [line for line in self._lines if line[0] == to]:
            original = [*_checkpoints(app, (source, *line[1:]))][::-1]
            for first, copied in zip(original, [*_checkpoints(app, line)][::-1], strict=False):
                if first.id != copied.id:
                    break
                if _facts(first) != _facts(copied):
                    raise BrokenPromise(
                        f"The copy of checkpoint {first.id} in {line} is {_facts(copied)}, not {_facts(first)}."
                    )
        logs = _logs(app, source)
        for run, log in _logs(app, to).items():
            if run in logs and log != logs[run][: len(log)]:
                raise BrokenPromise(f"The copy of the log of run {run!r} in {to!r} is {log}, not {logs[run]}.")

    def _check_equal_copy(self, app: Any, source: str, to: str) -> None:
        """Check that thread and copy are equal, because no run has advanced either of them."""
        original, copied = ({line[1:] for line in self._present if line[0] == thread} for thread in (source, to))
        if copied != original:
            raise BrokenPromise(f"Thread {to!r} has the lines {sorted(copied)}, not {sorted(original)}.")
        for line in sorted(copied):
            expected, ids = (self._lines[thread, *line].ids for thread in (source, to))
            if ids != expected:
                raise BrokenPromise(f"Line {line} of {to!r} has the checkpoints {ids}, not {expected}.")
            newest = [next(_checkpoints(app, (thread, *line))).pending for thread in (source, to)]
            saved, copy = (
                (*map(repr, pending.completed.items()), replace(pending, completed={})) for pending in newest
            )
            if copy != saved:
                raise BrokenPromise(f"The results saved for {line} of {to!r} are {copy}, not {saved}.")
        if _logs(app, source) != _logs(app, to):
            raise BrokenPromise(f"The logs of {to!r} are not those of {source!r}.")

    # -- acknowledged commits and results

    def _check_commits(self, notes: Sequence[Mapping[str, Any]]) -> None:
        """Check that acknowledged commits are saved; under `async` the last reported one may be missing."""
        unsure: dict[LineName, str] = {}
        for note in notes:
            if note["kind"] == "committed":
                line = _line(note)
                if line in unsure:
                    self._require(line, unsure.pop(line))
                if self._durability == "async":
                    unsure[line] = note["id"]
                else:
                    self._require(line, note["id"])
            elif note["kind"] == "returned":
                for line in [line for line in unsure if _thread_branch(line) == _thread_branch(_line(note))]:
                    self._require(line, unsure.pop(line))
                if note["id"] is not None:
                    self._require(_line(note), note["id"])
            elif note["kind"] == "read" and not self._has(_line(note), note["id"]):
                raise BrokenPromise(f"Checkpoint {note['id']} of {_line(note)} was read, and is missing.")
        for line, checkpoint_id in unsure.items():
            self.count["acknowledged" if self._has(line, checkpoint_id) else "lost in flight"] += 1

    def _has(self, line: LineName, checkpoint_id: str) -> bool:
        return (line[0], checkpoint_id) in self._ids or self._is_consumed(line)

    def _require(self, line: LineName, checkpoint_id: str) -> None:
        if not self._has(line, checkpoint_id):
            raise BrokenPromise(f"Checkpoint {checkpoint_id} of {line} was acknowledged, and is missing.")
        self.count["acknowledged"] += 1

    def _check_progress(self, notes: Sequence[Mapping[str, Any]]) -> None:
        """Check that no run is further ahead of the file than its durability allows."""
        last: dict[LineName, int] = {}
        for note in notes:
            if note["kind"] == "superstep":
                last[_line(note)] = max(note["step"], last.get(_line(note), 0))
        slack = 1 if self._durability == "sync" else 2
        for line, step in last.items():
            saved = self._lines[line].step if line in self._lines else -1
            if self._durability == "exit":
                self.count["lost under exit"] += saved < step
            elif saved < step - slack and not self._is_consumed(line):
                raise BrokenPromise(f"Superstep {step} of {line} had started, but the last saved one is {saved}.")

    def _check_finished(self, notes: Sequence[Mapping[str, Any]]) -> None:
        """Check that under `sync` the result of a task is saved before its end is reported."""
        for note in notes if self._durability == "sync" else ():
            if note["kind"] == "finished" and not (_task(note) in self._finished or self._is_consumed(_line(note))):
                raise BrokenPromise(f"{_named(note)} had finished, and its result is missing.")

    # -- the ends

    def _check_done(self, app: Any, notes: Sequence[Mapping[str, Any]]) -> None:
        done = {note["thread"] for note in notes if note["kind"] == "done"}
        for thread in sorted({line[0] for line in self._lines} - self._done):
            view = view_thread(app, self._shape, thread)
            states = {branch: app.get_state(thread_id=thread, branch=branch) for branch in view.branches}
            action = next_action(self._shape, thread, view, states, ShiftedClock(0).now())
            if action is None:
                self._check_end(app, thread, states)
            elif thread in done:
                raise BrokenPromise(f"Thread {thread!r} was done, and is now at {states[action[0]].next}.")

    def _check_end(self, app: Any, thread: str, states: Mapping[str, Any]) -> None:
        """Check that a thread ended in the state of a run without kills, and that its whole history can be read."""
        ends = {branch: normalized(state.values) for branch, state in states.items()}
        if ends != self._reference:
            raise BrokenPromise(f"Thread {thread!r} ended with:\n{ends}\nexpected:\n{self._reference}")
        recorded = {effect.recorded for effect in self._effects.values()}
        logged = [entry for state in states.values() for entry in state.values.get("log", ())]
        unknown = [entry for entry in logged if is_token(entry) and entry not in recorded]
        if unknown:
            raise BrokenPromise(f"Thread {thread!r} ended with {unknown}, which no step returned.")
        for line, history in self._lines.items():
            if line[0] == thread and not self._is_consumed(line):
                ids = [saved.id for saved in _checkpoints(app, line)][::-1]
                if ids != history.ids:
                    raise BrokenPromise(f"The history of {line} is {ids}; the committed checkpoints are {history.ids}.")
        self._done.add(thread)
        self.count["runs"] += 1

    def first_open_round(self) -> int:
        """Return the first round with threads that are not done."""
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


def _thread_branch(line: LineName) -> tuple[str, str]:
    """Return the thread and the branch of a line, which the lines of its subgraphs share."""
    return line[0], line[2]


def _task(note: Mapping[str, Any], task: str | None = None) -> TaskName:
    return *_thread_branch(_line(note)), task or note["task"]


def _named(note: Mapping[str, Any]) -> str:
    return f"Task {note['task']} of node {note['node']!r} in {_line(note)}"


def _callers(namespace: str) -> list[str]:
    """Return the ids of the tasks that lead to a namespace."""
    return [part for segment in namespace.split("|") for part in segment.split(":")[1:2]]


def _checkpoints(app: Any, line: LineName) -> Iterator[SavedCheckpoint]:
    """Yield the checkpoints of a line, newest first."""
    before = None
    while True:
        page = app.checkpointer.history(line[0], namespace=line[1], branch=line[2], before=before, limit=PAGE)
        yield from page
        if len(page) < PAGE:
            return
        before = page[-1].id


def _facts(saved: SavedCheckpoint) -> Mapping[str, Any]:
    """Return the attributes of a checkpoint that its copy shares."""
    names = ("parent_id", "checkpoint", "source", "run_id", "created_at", "metadata")
    return {name: getattr(saved, name) for name in names}


def _logs(app: Any, thread: str) -> dict[str, list[Any]]:
    """Return the events of a thread by run."""
    logs: dict[str, list[Any]] = {}
    for event in app.get_events(thread_id=thread):
        entry = (event.seq, event.kind, event.step, event.node, event.task_id, repr(event.data))
        logs.setdefault(event.run_id, []).append(entry)
    return logs


def is_token(value: object) -> bool:
    """Return True for the token of an effect."""
    return isinstance(value, str) and "#" in value


def normalized(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a state without the random parts of its tokens."""
    log = [entry.partition("#")[0] if is_token(entry) else entry for entry in values.get("log", ())]
    return {**values, "log": log} if log else dict(values)


def reference_states(shape: str) -> Any:
    """Return the final states of the branches of a thread, from a run in memory without kills."""
    app = app_of(shape, InMemorySaver(), DiscardedNotes())
    while True:
        view = view_thread(app, shape, "1")
        states = {branch: app.get_state(thread_id="1", branch=branch) for branch in view.branches}
        action = next_action(shape, "1", view, states, ShiftedClock(0).now())
        if action is None:
            return {branch: normalized(state.values) for branch, state in states.items()}
        branch, (method, args, options) = action
        try:
            getattr(app, method)(*args, **options, **({} if method == "fork" else {"thread_id": "1", "branch": branch}))
        except ExpectedFailure:
            continue


# -- the execution of scenarios


@dataclass(frozen=True)
class Scenario:
    """The parameters of one file and of the children that work on it."""

    shape: str
    driver: str
    durability: str
    small_segments: bool
    slow_disk: bool
    kills: int
    seed: str

    def __str__(self) -> str:
        also = ", small segments" * self.small_segments + ", slow disk" * self.slow_disk
        return f"{self.shape} ({self.driver} driver, durability {self.durability}{also}, seed {self.seed})"


class Strike(NamedTuple):
    """The time of a kill: a delay after a moment."""

    moment: str
    """`birth`, `ready`, or an operation of the child: `commit`, `compaction`, `wait`, `effect`, `fork`, `copy`."""
    number: int
    """The number of the operation, from 1."""
    delay: float


def draw_strike(chance: random.Random, shape: str) -> Strike:
    """Draw the time of a kill: during start-up, at any time, or at an operation that the shape performs."""
    moments = {"birth": 2, "ready": 4, "commit": 4, "compaction": 4 if shape in ("loop", "chain") else 1}
    moments["wait"] = 4 if shape in ("waits", "effects", "subgraphs", "updates") else 0
    moments["effect"] = {"effects": 5, "forks": 2, "copies": 2}.get(shape, 0)
    moments["fork"] = 8 if SHAPES[shape].forks else 0
    moments["copy"] = 8 if SHAPES[shape].copies else 0
    (moment,) = chance.choices(list(moments), list(moments.values()))
    if moment == "birth":
        return Strike(moment, 0, chance.uniform(0.0, 0.5))
    if moment == "ready":
        return Strike(moment, 0, 0.5 * chance.random() ** 2)
    most = {"commit": 100, "compaction": 25, "wait": 8, "effect": 25, "fork": 8, "copy": 3}[moment]
    return Strike(moment, int(most ** chance.random()), 0.002 * chance.random() ** 2)


LONGEST_LIFE: Final = 0.6
"""Seconds after which a child that has not reached the moment is killed."""


class Execution:
    """Executes a scenario: kills children, one after the other, and lets the last one finish."""

    def __init__(self, scenario: Scenario, folder: Path) -> None:
        self._scenario = scenario
        self._folder = folder
        self._auditor = Auditor(scenario.shape, scenario.durability, reference_states(scenario.shape))
        self._chance = random.Random(scenario.seed)
        self.broken: str | None = None

    def play(self) -> Counter[str]:
        """Execute the scenario and return the counts. A broken promise is described by `broken`."""
        begun, generation = time.monotonic(), 0
        try:
            for generation in range(self._scenario.kills):
                strike = draw_strike(self._chance, self._scenario.shape)
                self._kill(self._start(generation, strike), strike)
                self._auditor.count_kill(self._notes(generation))
                self._audit(generation)
            generation = self._scenario.kills
            self._finish(self._start(generation, None))
            self._audit(generation)
            if self._auditor.open_threads():
                raise BrokenPromise(f"Threads have not ended: {self._auditor.open_threads()}.")
        except BrokenPromise as broken:
            self.broken = f"{self._scenario}, child {generation}, {self._folder}: {broken}"
        except Exception:
            self.broken = f"{self._scenario}, child {generation}, {self._folder}: {traceback.format_exc()}"
        self._auditor.count["milliseconds"] = int((time.monotonic() - begun) * 1000)
        return self._auditor.count

    def _start(self, generation: int, strike: Strike | None) -> subprocess.Popen[bytes]:
        scenario = self._scenario
        plan = Plan(
            folder=str(self._folder),
            shape=scenario.shape,
            driver=scenario.driver,
            durability=scenario.durability,
            small_segments=scenario.small_segments,
            slow_disk=scenario.slow_disk,
            generation=generation,
            round=self._auditor.first_open_round(),
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
                raise BrokenPromise(f"The child ended by itself: {self._stderr_tail()}")

    def _expect(self, child: subprocess.Popen[bytes], line: bytes, seconds: float) -> None:
        """Wait until the child writes a line, for a number of seconds at most."""
        assert child.stdout is not None
        if select.select([child.stdout], [], [], seconds)[0]:
            os.read(child.stdout.fileno(), len(line))

    def _finish(self, child: subprocess.Popen[bytes]) -> None:
        with child:
            try:
                code = child.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                raise BrokenPromise(f"The last child hangs: {self._stderr_tail()}") from None
            finally:
                child.kill()
        if code:
            raise BrokenPromise(f"The last child failed: {self._stderr_tail()}")

    def _stderr_tail(self) -> str:
        return (self._folder / "stderr.log").read_text(encoding="utf-8")[-1500:]

    def _notes(self, generation: int) -> list[dict[str, Any]]:
        return read_notes(self._folder / f"notes-{generation:05}.log")

    def _audit(self, generation: int) -> None:
        """Check a copy of the file, so that the next child opens the file in the state in which the kill left it."""
        if not (self._folder / "runs.db").exists():
            return
        copy = self._folder / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        copy.mkdir()
        for name in ("runs.db", "runs.db-wal"):
            if (self._folder / name).exists():
                shutil.copyfile(self._folder / name, copy / name)
        with SqliteSaver(copy / "runs.db") as saver:
            app = app_of(self._scenario.shape, saver, DiscardedNotes())
            self._auditor.close_generation(generation, self._notes(generation), app, copy / "runs.db")


def scenarios(kills: int, seed: int, shapes: Sequence[str]) -> list[Scenario]:
    """Distribute the kills over shapes, drivers, durabilities, sizes of segments and speeds of the disk."""
    drivers = ("sync", "async")
    variants = list(itertools.product(drivers, DURABILITIES, (True, False), (True, False)))
    random.Random(seed).shuffle(variants)
    deal = itertools.cycle(variants)
    result: list[Scenario] = []
    for number, shape in enumerate(shapes):
        quota = kills // len(shapes) + (number < kills % len(shapes))
        count = max(1, min(8, quota // 4))
        for part in range(count):
            own = quota // count + (part < quota % count)
            variant = next(variant for variant in deal if variant[1] in SHAPES[shape].durabilities)
            result.append(Scenario(shape, *variant, own, f"{seed}-{shape}-{part}"))
    return [scenario for scenario in result if scenario.kills]


def play(scenario: Scenario, folder: Path) -> tuple[Counter[str], str | None]:
    """Execute a scenario; return its counts and the broken promise, if any, in which case the files are not deleted."""
    own = folder / scenario.seed
    own.mkdir()
    execution = Execution(scenario, own)
    count = execution.play()
    if execution.broken is None:
        shutil.rmtree(own)
    return count, execution.broken


COLUMNS: Final = {
    "runs": "runs",
    "kills": "kills",
    "in commits": "in commits",
    "in compactions": "in compactions",
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
    """Return the counts as a table, a row for each shape."""
    rows = [["shape", *COLUMNS.values(), "seconds"]]
    total: Counter[str] = sum(counts.values(), Counter())
    for name, count in [*counts.items(), ("all", total)]:
        seconds = f"{count['milliseconds'] / 1000:.1f}"
        rows.append([name, *(str(count[column]) for column in COLUMNS), seconds])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    padded = [[cell.rjust(width) for cell, width in zip(row, widths, strict=True)] for row in rows]
    return "\n".join(
        "  ".join([row[0].ljust(widths[0]), *others]) for row, (_, *others) in zip(rows, padded, strict=True)
    )


@dataclass
class Outcome:
    """The results of many scenarios."""

    counts: dict[str, Counter[str]] = field(default_factory=dict[str, Counter[str]])
    broken: list[str] = field(default_factory=list[str])

    @property
    def kills(self) -> int:
        return sum(count["kills"] for count in self.counts.values())

    def __str__(self) -> str:
        ending = f"{self.kills} kills, {len(self.broken)} broken promises"
        return "\n".join([table(self.counts), "", *self.broken, ending])


def run(kills: int, seed: int, *, shapes: Sequence[str] = tuple(SHAPES), lanes: int | None = None) -> Outcome:
    """Kill a number of children, in all shapes, with `lanes` scenarios at a time."""
    folder = Path(tempfile.mkdtemp(prefix="chaos-"))
    outcome = Outcome({shape: Counter() for shape in shapes})
    lock = threading.Lock()

    def execute(scenario: Scenario) -> None:
        count, broken = play(scenario, folder)
        with lock:
            outcome.counts[scenario.shape] += count
            outcome.broken.extend([broken] if broken is not None else [])

    with ThreadPoolExecutor(lanes or max(2, os.cpu_count() or 2)) as pool:
        list(pool.map(execute, scenarios(kills, seed, shapes)))
    if not outcome.broken:
        shutil.rmtree(folder)
    return outcome


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, print the table, and return the exit code: 1 if a promise was broken."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.durability.chaos", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--kills", type=int, default=200, help="number of children to kill")
    parser.add_argument("--seed", type=int, default=1, help="of the generator that draws the kills")
    parser.add_argument("--shapes", nargs="+", choices=list(SHAPES), default=list(SHAPES), help="graphs to run")
    parser.add_argument("--lanes", type=int, default=None, help="files that are used concurrently")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.child is not None:
        child_main(Plan(**json.loads(options.child)))
        return 0
    outcome = run(options.kills, options.seed, shapes=options.shapes, lanes=options.lanes)
    print(outcome)
    return 1 if outcome.broken else 0


if __name__ == "__main__":
    sys.exit(main())
