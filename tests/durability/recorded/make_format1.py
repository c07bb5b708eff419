"""Creates `format1.db`, the recorded file of format 1, with the public API. The file is never changed:

    python tests/durability/recorded/make_format1.py

Ids are consecutive numbers and the clock stands still, so they are the same each time. The graphs here are those with
which `tests/durability/test_recorded.py` resumes from this file.
"""

import itertools
import operator
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, TypedDict
from unittest import mock

from statewright import (
    END,
    START,
    Command,
    Message,
    Runtime,
    StateGraph,
    add_messages,
    append,
    interrupt,
    sleep,
)
from statewright.storage.sqlite import SqliteSaver
from statewright.testing import FakeClock

FILE = Path(__file__).with_name("format1.db")
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
LONG = 170
"""Supersteps of the long thread, so many that old ones are compacted into segments."""


class Mood(Enum):
    """A user-defined type."""

    GLAD = 1
    CROSS = 2


class Chat(TypedDict, total=False):
    messages: Annotated[list[Message], add_messages]
    words: Annotated[list[str], append]
    count: Annotated[int, operator.add]
    goal: int
    mood: Mood
    last: Any


class Order(TypedDict, total=False):
    log: Annotated[list[str], append]
    total: Annotated[int, operator.add]


class Kept(TypedDict, total=False):
    visits: Annotated[int, operator.add]
    seen: int


class Outer(TypedDict, total=False):
    log: Annotated[list[str], append]
    seen: int


class EffectLog:
    """The effects of nodes since the graphs were built: recorded effects must not be repeated."""

    def __init__(self) -> None:
        self.nodes: list[str] = []
        self.charged: list[int] = []

    def charge(self, amount: int) -> str:
        self.charged.append(amount)
        return f"receipt {amount}"


def turn(state: Any) -> dict[str, Any]:
    """Append to a list, and add messages, of which some are replaced later."""
    n = state["count"]
    messages = [Message(f"text {n}", role="assistant", id=f"m{n}")] if n % 5 == 0 else []
    if n % 20 == 15:
        messages.append(Message(f"better {n - 10}", role="assistant", id=f"m{n - 10}"))
    mood = {"mood": Mood.CROSS} if n % 50 == 49 else {}
    return {"count": 1, "words": [f"w{n}"], "messages": messages, "last": f"turn {n}", **mood}


def chat(saver: Any, clock: FakeClock) -> Any:
    """Return a loop that ends at a goal."""
    graph = StateGraph(Chat).add_node("turn", turn).add_edge(START, "turn")
    route = graph.add_conditional_edges("turn", lambda s: "turn" if s["count"] < s["goal"] else END, ["turn", END])
    return route.compile(saver, clock=clock)


def order(saver: Any, clock: FakeClock, effects: EffectLog) -> Any:
    """Return a graph of concurrent tasks: one asks twice, one ends, one asks after it has charged a customer."""

    def review(state: Any) -> dict[str, Any]:
        effects.nodes.append("review")
        return {"log": [interrupt("Is it good?"), interrupt("Send it?", key="send", schema=str)]}

    def beside(state: Any) -> dict[str, Any]:
        effects.nodes.append("beside")
        return {"log": ["beside"], "total": 1}

    def pay(state: Any, runtime: Runtime) -> dict[str, Any]:
        effects.nodes.append("pay")
        receipt = runtime.step("charge", effects.charge, 42)
        return {"log": [receipt, str(interrupt({"pay": 42}))], "total": 42}

    graph = StateGraph(Order).add_node("plan", lambda s: {"log": ["plan"]})
    graph.add_node("review", review).add_node("beside", beside).add_node("pay", pay)
    graph.add_node("close", lambda s: {"log": [f"closed at {s['total']}"]})
    graph.add_edge(START, "plan").add_edge(["review", "beside", "pay"], "close")
    for name in ("review", "beside", "pay"):
        graph.add_edge("plan", name)
    return graph.compile(saver, clock=clock)


def waiting(saver: Any, clock: FakeClock) -> Any:
    """Return a graph of a node that sleeps for an hour."""

    def wait(state: Any) -> dict[str, Any]:
        sleep(timedelta(hours=1))
        return {"log": ["awake"]}

    return StateGraph(Order).add_node("wait", wait).add_edge(START, "wait").compile(saver, clock=clock)


def remembering(saver: Any, clock: FakeClock) -> Any:
    """Return a graph that calls another one, which counts its calls."""
    inner = StateGraph(Kept).add_node("visit", lambda s: {"visits": 1})
    inner.add_node("show", lambda s: {"seen": s["visits"]}).add_edge(START, "visit").add_edge("visit", "show")
    graph = StateGraph(Outer).add_node("inner", inner.compile(), memory="thread")
    graph.add_node("after", lambda s: {"log": [f"seen {s['seen']}"]})
    return graph.add_edge(START, "inner").add_edge("inner", "after").compile(saver, clock=clock)


def joining(saver: Any, clock: FakeClock) -> Any:
    """Return a graph of two paths that meet twice: in a join, and in a node that waits for all that can reach it."""
    graph = StateGraph(Order)
    for name in ("short", "long", "longer", "join"):
        graph.add_node(name, lambda s, name=name: {"log": [name]})
    graph.add_node("end", lambda s: {"log": ["end"]}, join="reachable")
    graph.add_edge(START, "short").add_edge(START, "long").add_edge("long", "longer")
    graph.add_edge(["short", "longer"], "join").add_edge("short", "end").add_edge("join", "end")
    return graph.compile(saver, clock=clock, interrupt_before=["longer"])


@contextmanager
def drawn() -> Iterator[None]:
    """Replace random ids by consecutive numbers during the block."""
    from statewright.runtime.drivers import saver_calls
    from statewright.runtime.drivers import sync as drive_sync
    from statewright.runtime.methods import run_factory

    numbers = itertools.count(1)

    def draw() -> str:
        return f"{next(numbers):032x}"

    with (
        mock.patch.object(saver_calls, "new_checkpoint_id", draw),
        mock.patch.object(drive_sync, "new_checkpoint_id", draw),
        mock.patch.object(run_factory, "new_run_id", draw),
    ):
        yield


def register_mood(saver: SqliteSaver) -> SqliteSaver:
    """Register the user-defined type by the name that it has in recorded files."""
    saver.serde.register(Mood, name="recorded.Mood")
    return saver


def fill(saver: SqliteSaver) -> None:
    """Run everything that is recorded."""
    clock, effects = FakeClock(BEGIN), EffectLog()
    talk = chat(saver, clock)
    talk.invoke({"count": 0, "goal": LONG, "words": ["in"], "mood": Mood.GLAD}, thread_id="long", durability="sync")
    clock.advance(60)
    history = talk.get_state_history(thread_id="long")
    early = next(state for state in history if state.metadata["step"] == 30)
    talk.fork(early.config, branch="other")
    talk.update_state(
        {"configurable": {"thread_id": "long", "branch": "other"}}, {"goal": 35, "words": ["edited"]}, as_node=START
    )
    talk.invoke(None, thread_id="long", branch="other", durability="sync")

    clock.advance(60)
    asks = order(saver, clock, effects)
    first = asks.invoke({"log": ["in"], "total": 0}, thread_id="ask", durability="sync")
    question = next(question for question in first["__interrupt__"] if question.value == "Is it good?")
    asks.invoke(Command(resume={question.id: "fine"}), thread_id="ask", durability="sync")

    waiting(saver, clock).invoke({"log": ["in"]}, thread_id="timer", durability="sync")
    for text in ("one", "two"):
        remembering(saver, clock).invoke({"log": [text]}, thread_id="remembers", durability="sync")
    joining(saver, clock).invoke({"log": ["in"]}, thread_id="join", durability="sync")


def main(path: Path = FILE) -> None:
    path.unlink(missing_ok=True)
    with drawn(), register_mood(SqliteSaver(path)) as saver:
        fill(saver)


if __name__ == "__main__":
    main()
