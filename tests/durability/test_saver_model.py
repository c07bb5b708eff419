"""A `SqliteSaver` loads what an `InMemorySaver` loads after the same calls, however old checkpoints are compacted.

The model is the saver in memory, which keeps every checkpoint as it was. Both get the same calls through the same
graph, with ids and times that are drawn alike, and with limits so small that segments, bases and growth stored apart
come up all the time. After the calls every way to look at the threads has to show the same.
"""

import itertools
import operator
import tempfile
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, TypedDict
from unittest import mock

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.work import FULL

from statewright import (
    END,
    REMOVE_ALL_MESSAGES,
    START,
    Command,
    Ephemeral,
    InMemorySaver,
    Message,
    Overwrite,
    RemoveMessage,
    Send,
    StateGraph,
    add_messages,
    append,
    interrupt,
)
from statewright.checkpoint import SavedCheckpoint
from statewright.errors import StatewrightError
from statewright.runtime.drivers import saver_calls
from statewright.runtime.drivers import sync as drive_sync
from statewright.runtime.methods import run_factory
from statewright.storage.checkpoints import commits
from statewright.storage.checkpoints import segments as fold
from statewright.storage.sqlite import SqliteSaver
from statewright.testing import FakeClock

THREADS = ("a", "b")
BRANCHES = ("main", "other")


def joined(old: dict[str, int], new: dict[str, int]) -> dict[str, int]:
    """A reducer that does not commute."""
    return {**old, **new}


class State(TypedDict, total=False):
    script: list[Any]
    plain: Any
    words: Annotated[list[str], append]
    messages: Annotated[list[Message], add_messages]
    total: Annotated[int, operator.add]
    table: Annotated[dict[str, int], joined]
    signal: Annotated[str, Ephemeral]


class Inner(TypedDict, total=False):
    words: Annotated[list[str], append]
    visits: Annotated[list[int], append]


Update = Mapping[str, Any]
Script = Sequence[Sequence[Update]]
"""For each superstep, what its tasks write."""


def sends(script: Script) -> list[Send] | str:
    """The tasks of the first superstep of a script; the first of them sends the next."""
    if not script:
        return END
    return [Send("work", {"update": one, "rest": [] if n else script[1:]}) for n, one in enumerate(script[0])]


def work(task: Mapping[str, Any]) -> Command:
    """Write what the script says, having asked first if it says so."""
    update = dict(task["update"])
    if update.pop("ask", False):
        update["words"] = [f"answered {interrupt('?')}"]
    following = sends(task["rest"])
    targets = [] if following == END else list(following)
    if update.pop("call", False):
        targets.append("inner")
    return Command(update=update, goto=targets or END)


def app_on(saver: Any, clock: FakeClock) -> Any:
    """A graph that does what its input says, and has a subgraph that remembers.

    Its nodes run one after the other, so that what has landed when one fails is the same each time.
    """
    inner = StateGraph(Inner).add_node("note", lambda s: {"words": ["noted"], "visits": [len(s["visits"])]})
    graph = StateGraph(State)
    graph.add_node("begin", lambda s: Command(goto=sends(s.get("script", []))), destinations=["work", END])
    graph.add_node("work", work, destinations=["work", "inner", END], inline=True)
    graph.add_node("inner", inner.add_edge(START, "note").compile(), memory="thread", inline=True)
    return graph.add_edge(START, "begin").compile(saver, clock=clock, unknown_keys="error")


# -- calls


@dataclass
class World:
    """A saver, and a graph on it. What it draws are numbers."""

    saver: Any
    clock: FakeClock = field(default_factory=FakeClock)
    counter: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def __post_init__(self) -> None:
        self.app = app_on(self.saver, self.clock)

    def draw(self) -> str:
        return f"{next(self.counter):032x}"

    def do(self, call: Callable[["World"], Any]) -> Any:
        """What a call gives, or the error that it raises."""
        self.clock.advance(1)
        with (
            mock.patch.object(saver_calls, "draw_checkpoint_id", self.draw),
            mock.patch.object(drive_sync, "draw_checkpoint_id", self.draw),
            mock.patch.object(run_factory, "draw_run_id", self.draw),
        ):
            try:
                return call(self)
            except StatewrightError as error:
                return type(error), str(error)

    def config(self, thread: str, branch: str, back: int | None) -> dict[str, Any]:
        """The config of a branch, or of a checkpoint so many before its head."""
        named = {"configurable": {"thread_id": thread, "branch": branch}}
        if back is None:
            return named
        history = list(self.app.get_state_history(named))
        return dict(history[back % len(history)].config) if history else named


Call = Callable[[World], Any]


def run(thread: str, branch: str, script: Script, durability: str) -> Call:
    config = {"configurable": {"thread_id": thread, "branch": branch}}
    given = {"script": script}
    return lambda world: world.app.invoke(given, config, durability=durability, on_unfinished="discard")


def resume(thread: str, branch: str, answer: str) -> Call:
    def call(world: World) -> Any:
        config = world.config(thread, branch, None)
        open_ids = [one.id for one in world.app.get_state(config).interrupts]
        return world.app.invoke(Command(resume={open_ids[0]: answer}) if open_ids else None, config)

    return call


def replay(thread: str, branch: str, back: int) -> Call:
    return lambda world: world.app.invoke(None, world.config(thread, branch, back))


def change(thread: str, branch: str, back: int | None, update: Update, node: str | None) -> Call:
    return lambda world: world.app.update_state(world.config(thread, branch, back), update, as_node=node)


def fork(thread: str, branch: str, back: int, to: str | None) -> Call:
    return lambda world: world.app.fork(world.config(thread, branch, back), branch=to)


def copy(thread: str, to: str) -> Call:
    return lambda world: world.saver.copy_thread(thread, to)


def delete(thread: str) -> Call:
    return lambda world: world.saver.delete_thread(thread)


# -- drawn


words = st.lists(st.sampled_from(["one", "two", "three", "a longer word " * 4]), max_size=3)
message_ids = st.sampled_from(["m0", "m1", "m2", "m3"])
messages = st.builds(lambda text, name: Message(text, role="user", id=name), st.sampled_from(["hi", "ho"]), message_ids)
new_messages = st.builds(lambda text: Message(text, role="user"), st.sampled_from(["new", "newer"]))
removals = st.builds(RemoveMessage, st.one_of(message_ids, st.just(REMOVE_ALL_MESSAGES)))
tables = st.dictionaries(st.sampled_from("xyz"), st.integers(0, 9), max_size=2)
updates = st.fixed_dictionaries(
    {},
    optional={
        "words": st.one_of(words, words, words.map(Overwrite)),
        "messages": st.lists(st.one_of(messages, new_messages, messages, removals), min_size=1, max_size=3),
        "total": st.one_of(st.integers(-3, 3), st.integers(0, 9).map(Overwrite)),
        "table": st.one_of(tables, tables.map(Overwrite)),
        "signal": st.sampled_from(["red", "green"]),
    },
)
plain = st.one_of(st.none(), st.integers(), st.text(max_size=4), st.lists(st.integers(0, 9), max_size=30))
lone = st.builds(lambda update, value: [{**update, "plain": value}], updates, plain)
some = st.one_of(
    st.lists(updates, min_size=1, max_size=3),
    lone,
    lone,
    st.just([{"words": ["calls"], "call": True}]),
    st.builds(lambda update: [{"ask": True}, update], updates),
)
quiet = st.sampled_from([[{"words": ["w"]}], [{"total": 1}], [{"messages": [Message("m", id="m0")]}]])
scripts = st.one_of(st.lists(some, max_size=6), st.lists(st.one_of(lone, quiet), min_size=4, max_size=20))
threads, branches = st.sampled_from(THREADS), st.sampled_from(BRANCHES)
steps_back = st.integers(0, 12)
nodes = st.sampled_from(["begin", "work", END, None])
calls = st.one_of(
    st.builds(run, threads, branches, scripts, st.sampled_from(["sync", "async", "exit"])),
    st.builds(run, threads, st.just("main"), scripts, st.just("sync")),
    st.builds(resume, threads, branches, st.sampled_from(["yes", "no"])),
    st.builds(replay, threads, branches, steps_back),
    st.builds(change, threads, branches, st.one_of(st.none(), steps_back), updates, nodes),
    st.builds(fork, threads, branches, steps_back, st.one_of(st.none(), branches)),
    st.builds(copy, threads, threads),
    st.builds(delete, threads),
)
limits = st.fixed_dictionaries(
    {
        "LONGEST": st.integers(1, 5),
        "LARGEST": st.sampled_from([200, 1 << 20]),
        "SMALL": st.sampled_from([0, 20, 300]),
        "MOST_WITHOUT_BASE": st.integers(1, 4),
    }
)


@contextmanager
def folded_with(limits: Mapping[str, Any]) -> Generator[None]:
    """Have old checkpoints laid together with these limits."""
    recent, largest = limits["LONGEST"] + 1, limits["LARGEST"]
    with (
        mock.patch.multiple(fold, **limits, RECENT=recent),
        mock.patch.multiple(commits, RECENT=recent, LARGEST=largest),
    ):
        yield


# -- compared


def plain_checkpoint(saved: SavedCheckpoint) -> dict[str, Any]:
    """All of a saved checkpoint, in a form that compares."""
    pending = saved.pending
    landed = {task: (dict(one.writes), repr(list(one.targets)), one.goto) for task, one in pending.completed.items()}
    known = (landed, pending.interrupts, pending.answers, pending.errors, pending.attempts, pending.journal)
    return {
        "line": saved.branch_key,
        "parent": saved.parent_id,
        "checkpoint": saved.checkpoint,
        "source": saved.source,
        "run": saved.run_id,
        "at": saved.created_at,
        "metadata": dict(saved.metadata),
        "known": known,
        "paused": pending.paused,
    }


def shown(world: World, thread: str) -> Iterator[tuple[str, Any]]:
    """Everything that can be seen of a thread, each with a name."""
    saver, app = world.saver, world.app
    yield f"events of {thread}", list(saver.events(thread))
    for namespace in ("", "inner"):
        known = list(saver.branches(thread, namespace=namespace))
        yield f"branches of {thread} {namespace}", known
        for branch in known:
            where = f"{thread} {namespace} {branch}"
            history = saver.history(thread, namespace=namespace, branch=branch)
            yield f"history of {where}", [plain_checkpoint(one) for one in history]
            for place, one in enumerate(history):
                again = saver.load(thread, namespace=namespace, branch=branch, checkpoint_id=one.id)
                yield f"checkpoint {place} of {where}", plain_checkpoint(again)
                cut = saver.history(thread, namespace=namespace, branch=branch, before=one.id, limit=2)
                yield f"before {place} of {where}", [plain_checkpoint(older) for older in cut]
        everything = saver.history(thread, namespace=namespace, branch=None)
        yield f"all of {thread} {namespace}", [plain_checkpoint(one) for one in everything]
    for branch in BRANCHES:
        state = app.get_state(thread_id=thread, branch=branch, subgraphs=True)
        yield f"state of {thread} {branch}", state if state.created_at is not None else state.values


def check_alike(model: World, world: World, threads: Sequence[str]) -> None:
    for thread in threads:
        for (name, expected), (_, found) in zip(shown(model, thread), shown(world, thread), strict=True):
            assert found == expected, name


@settings(
    max_examples=60 if FULL else 25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(limits=limits, calls=st.lists(calls, min_size=4, max_size=20), compress=st.booleans())
def test_loaded_state_equals_that_of_the_model(
    limits: Mapping[str, Any], calls: Sequence[Call], compress: bool
) -> None:
    with tempfile.TemporaryDirectory() as folder, folded_with(limits):
        path = Path(folder) / "runs.db"
        model = World(InMemorySaver())
        with SqliteSaver(path, compress=compress) as saver:
            world = World(saver)
            for call in calls:
                assert world.do(call) == model.do(call)
            check_alike(model, world, THREADS)
        with SqliteSaver(path) as saver:  # what another process finds
            found = World(saver)
            check_alike(model, found, THREADS)
