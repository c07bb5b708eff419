"""A `SqliteSaver` loads the same data as an `InMemorySaver` after the same calls, however checkpoints are compacted.

The model is the saver in memory, which keeps every checkpoint unchanged. Both get the same calls through the same
graph, with equal ids and times, and with limits so small that segments, bases and separately stored growth occur
often. After the calls, all methods that read the threads must have the same results.
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
"""The writes of the tasks of each superstep."""


def sends(script: Script) -> list[Send] | str:
    """The tasks of the first superstep of a script; the first of them sends the next."""
    if not script:
        return END
    return [Send("work", {"update": update, "rest": [] if n else script[1:]}) for n, update in enumerate(script[0])]


def work(task: Mapping[str, Any]) -> Command:
    """Write the update of the script, after a question if the script has one."""
    update = dict(task["update"])
    if update.pop("ask", False):
        update["words"] = [f"answered {interrupt('?')}"]
    following = sends(task["rest"])
    targets = [] if following == END else list(following)
    if update.pop("call", False):
        targets.append("inner")
    return Command(update=update, goto=targets or END)


def app_on(saver: Any, clock: FakeClock) -> Any:
    """A graph that executes the script of its input, and has a subgraph with thread memory.

    Its nodes run one after the other, so that the same results are finished whenever one fails.
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
    """A saver and a graph on it; its ids are consecutive numbers."""

    saver: Any
    clock: FakeClock = field(default_factory=FakeClock)
    counter: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def __post_init__(self) -> None:
        self.app = app_on(self.saver, self.clock)

    def draw(self) -> str:
        return f"{next(self.counter):032x}"

    def do(self, call: Callable[["World"], Any]) -> Any:
        """Return the result of a call, or the error that it raises."""
        self.clock.advance(1)
        with (
            mock.patch.object(saver_calls, "new_checkpoint_id", self.draw),
            mock.patch.object(drive_sync, "new_checkpoint_id", self.draw),
            mock.patch.object(run_factory, "new_run_id", self.draw),
        ):
            try:
                return call(self)
            except StatewrightError as error:
                return type(error), str(error)

    def config(self, thread: str, branch: str, back: int | None) -> dict[str, Any]:
        """The config of a branch, or of a checkpoint `back` steps before its head."""
        named = {"configurable": {"thread_id": thread, "branch": branch}}
        if back is None:
            return named
        history = list(self.app.get_state_history(named))
        return dict(history[back % len(history)].config) if history else named


Call = Callable[[World], Any]


def run(thread: str, branch: str, script: Script, durability: str) -> Call:
    config = {"configurable": {"thread_id": thread, "branch": branch}}
    input_ = {"script": script}
    return lambda world: world.app.invoke(input_, config, durability=durability, on_unfinished="discard")


def resume(thread: str, branch: str, answer: str) -> Call:
    def call(world: World) -> Any:
        config = world.config(thread, branch, None)
        open_ids = [question.id for question in world.app.get_state(config).interrupts]
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


# -- strategies


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
def compaction_limits(limits: Mapping[str, Any]) -> Generator[None]:
    """Compact old checkpoints with these limits."""
    recent, largest = limits["LONGEST"] + 1, limits["LARGEST"]
    with (
        mock.patch.multiple(fold, **limits, RECENT=recent),
        mock.patch.multiple(commits, RECENT=recent, LARGEST=largest),
    ):
        yield


# -- comparison


def plain_checkpoint(saved: SavedCheckpoint) -> dict[str, Any]:
    """All data of a saved checkpoint, in a comparable form."""
    pending = saved.pending
    completed = {
        task: (dict(result.writes), repr(list(result.targets)), result.goto)
        for task, result in pending.completed.items()
    }
    known = (completed, pending.interrupts, pending.answers, pending.errors, pending.attempts, pending.journal)
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


def views_of(world: World, thread: str) -> Iterator[tuple[str, Any]]:
    """Everything that can be read of a thread, each item with a name."""
    saver, app = world.saver, world.app
    yield f"events of {thread}", list(saver.events(thread))
    for namespace in ("", "inner"):
        branches = list(saver.branches(thread, namespace=namespace))
        yield f"branches of {thread} {namespace}", branches
        for branch in branches:
            where = f"{thread} {namespace} {branch}"
            history = saver.history(thread, namespace=namespace, branch=branch)
            yield f"history of {where}", [plain_checkpoint(saved) for saved in history]
            for number, saved in enumerate(history):
                loaded = saver.load(thread, namespace=namespace, branch=branch, checkpoint_id=saved.id)
                yield f"checkpoint {number} of {where}", plain_checkpoint(loaded)
                older = saver.history(thread, namespace=namespace, branch=branch, before=saved.id, limit=2)
                yield f"before {number} of {where}", [plain_checkpoint(item) for item in older]
        everything = saver.history(thread, namespace=namespace, branch=None)
        yield f"all of {thread} {namespace}", [plain_checkpoint(saved) for saved in everything]
    for branch in BRANCHES:
        state = app.get_state(thread_id=thread, branch=branch, subgraphs=True)
        yield f"state of {thread} {branch}", state if state.created_at is not None else state.values


def check_equal(model: World, world: World, threads: Sequence[str]) -> None:
    for thread in threads:
        for (name, expected), (_, actual) in zip(views_of(model, thread), views_of(world, thread), strict=True):
            assert actual == expected, name


@settings(
    max_examples=60 if FULL else 25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(limits=limits, calls=st.lists(calls, min_size=4, max_size=20), compress=st.booleans())
def test_the_loaded_state_equals_that_of_the_model(
    limits: Mapping[str, Any], calls: Sequence[Call], compress: bool
) -> None:
    with tempfile.TemporaryDirectory() as folder, compaction_limits(limits):
        path = Path(folder) / "runs.db"
        model = World(InMemorySaver())
        with SqliteSaver(path, compress=compress) as saver:
            world = World(saver)
            for call in calls:
                assert world.do(call) == model.do(call)
            check_equal(model, world, THREADS)
        with SqliteSaver(path) as saver:  # like another process
            check_equal(model, World(saver), THREADS)
