"""Recorded files of each format keep loading: their content is that below, and runs continue from it.

The files stay as they were made; every test works on a copy. What is expected was written down by hand.
"""

import importlib.util
import shutil
import sqlite3
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from statewright import Command
from statewright.checkpoint import SavedCheckpoint
from statewright.storage.sqlite import SqliteSaver
from statewright.testing import FakeClock

RECORDED = Path(__file__).with_name("recorded")
LARGEST = 60_000
"""Bytes of a recorded file: it stays in the repository forever."""


def script(name: str) -> ModuleType:
    """A script of the folder, as a module."""
    spec = importlib.util.spec_from_file_location(f"recorded_{name}", RECORDED / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


graphs = script("make_format1")
GLAD, CROSS = graphs.Mood.GLAD, graphs.Mood.CROSS
LATE = FakeClock(datetime(2026, 1, 2, tzinfo=UTC))


@pytest.fixture
def copy(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A copy of a recorded file."""
    return Path(shutil.copy(RECORDED / f"{request.param}.db", tmp_path / "runs.db"))


@pytest.fixture
def saver(copy: Path) -> Iterator[SqliteSaver]:
    with graphs.knowing_moods(SqliteSaver(copy)) as saver:
        yield saver


format_1 = pytest.mark.parametrize("copy", ["format1"], indirect=True)


def ident(number: int) -> str:
    return f"{number:032x}"


def texts(saved: SavedCheckpoint) -> list[tuple[str, str | None]]:
    return [(one.content, one.id) for one in saved.checkpoint.values["messages"]]


def words(count: int) -> list[str]:
    return ["in", *(f"w{n}" for n in range(count))]


def replies(count: int) -> list[tuple[str, str]]:
    """The messages after so many turns: one in five, of which every fourth but one was replaced ten turns later."""
    return [(f"{'better' if n % 20 == 5 and count > n + 10 else 'text'} {n}", f"m{n}") for n in range(0, count, 5)]


def loaded(saver: SqliteSaver, thread: str, **where: Any) -> SavedCheckpoint:
    found = saver.load(thread, **where)
    assert isinstance(found, SavedCheckpoint)
    return found


def chain(saver: SqliteSaver, thread: str, **where: Any) -> list[SavedCheckpoint]:
    """A history, the oldest first."""
    return list(reversed(saver.history(thread, **where)))


def told(saved: SavedCheckpoint) -> tuple[Any, ...]:
    parent = saved.parent_id
    return (
        saved.id,
        parent,
        saved.branch_key.branch,
        saved.checkpoint.step,
        saved.source,
        saved.run_id,
        saved.created_at,
    )


@format_1
def test_the_file_is_small_and_contains_no_paths(copy: Path) -> None:
    content = copy.read_bytes()
    assert len(content) < LARGEST
    for place in (b"/work", b"/home", b"/tmp", b"/root", str(Path.home()).encode()):
        assert place not in content


@format_1
def test_every_thread_and_branch_is_there(saver: SqliteSaver) -> None:
    assert sorted(one.thread_id for one in saver.threads()) == ["ask", "join", "long", "remembers", "timer"]
    assert {thread: saver.branches(thread) for thread in ("ask", "join", "long", "remembers", "timer")} == {
        "ask": ["main"],
        "join": ["main"],
        "long": ["main", "other"],
        "remembers": ["main"],
        "timer": ["main"],
    }
    assert saver.branches("remembers", namespace="inner") == ["main"]


@format_1
def test_opening_twice_changes_nothing(copy: Path, saver: SqliteSaver) -> None:
    first = everything(saver)
    saver.close()
    with graphs.knowing_moods(SqliteSaver(copy)) as again:
        assert everything(again) == first


def everything(saver: SqliteSaver) -> list[Any]:
    lines = [("ask", ""), ("join", ""), ("long", ""), ("remembers", ""), ("remembers", "inner"), ("timer", "")]
    found = [one for thread, namespace in lines for one in saver.history(thread, namespace=namespace)]
    return [(told(one), one.checkpoint, dict(one.metadata), repr(one.pending)) for one in found]


@format_1
def test_open_questions_answers_results_and_steps_are_there(saver: SqliteSaver) -> None:
    head = loaded(saver, "ask")
    review, beside, pay = (task.id for task in head.checkpoint.frontier)
    known = head.pending
    assert [task.node for task in head.checkpoint.frontier] == ["review", "beside", "pay"]
    assert head.checkpoint.values == {"log": ["in", "plan"], "total": 0}
    assert [(one.value, one.schema, one.kind) for one in known.open] == [
        ("Send it?", str, "question"),
        ({"pay": 42}, None, "question"),
    ]
    assert [one.value for one in known.interrupts[review]][-1] == "Send it?"
    assert list(known.answers.values()) == ["fine"]
    assert list(known.completed) == [beside]
    result = known.completed[beside]
    assert (dict(result.writes), list(result.targets), result.goto) == ({"log": ["beside"], "total": 1}, [], False)
    assert [(key, entry.value) for key, entry in known.journal.items()] == [((pay, "charge", 0), "receipt 42")]


@format_1
def test_answering_ends_the_run_without_doing_anything_twice(saver: SqliteSaver) -> None:
    ran = graphs.Ran()
    app = graphs.order(saver, LATE, ran)
    send, amount = (one.id for one in app.get_state(thread_id="ask").interrupts)
    ended = app.invoke(Command(resume={send: "now", amount: True}), thread_id="ask")
    assert ended == {"log": ["in", "plan", "fine", "now", "beside", "receipt 42", "True", "closed at 43"], "total": 43}
    assert sorted(ran.nodes) == ["pay", "review"]
    assert ran.charged == []


@format_1
def test_a_timer_fires(saver: SqliteSaver) -> None:
    early = FakeClock(datetime(2025, 6, 1, 12, 59, tzinfo=UTC))
    assert [one.kind for one in graphs.waiting(saver, early).get_state(thread_id="timer").interrupts] == ["timer"]
    assert graphs.waiting(saver, LATE).resume_due(thread_id="timer")["log"] == ["in", "awake"]


@format_1
def test_a_breakpoint_a_join_and_what_is_held_are_passed(saver: SqliteSaver) -> None:
    head = loaded(saver, "join")
    (held,) = head.checkpoint.deferred
    assert (held.task.node, held.task.position, held.gather) == ("end", 1, False)
    assert head.checkpoint.joins == {"'short' + 'longer' -> 'join'": frozenset({"short"})}
    assert [task.node for task in head.checkpoint.frontier] == ["longer"]
    assert head.pending.paused
    ended = graphs.joining(saver, LATE).invoke(None, thread_id="join")
    assert ended["log"] == ["in", "short", "long", "longer", "join", "end"]


@format_1
def test_a_forked_branch_is_forked_again_and_continues(saver: SqliteSaver) -> None:
    app = graphs.chat(saver, LATE)
    begun = next(one for one in app.get_state_history(thread_id="long") if one.metadata["step"] == 7)
    app.fork(begun.config, branch="third")
    changed = {"configurable": {"thread_id": "long", "branch": "third"}}
    app.update_state(changed, {"goal": 17}, as_node="__start__")
    ended = app.invoke(None, changed)
    assert ended["count"] == 17
    assert ended["words"] == words(17)
    assert [(one.content, one.id) for one in ended["messages"]] == replies(17)
    assert saver.branches("long") == ["main", "other", "third"]


# -- format 1


@format_1
def test_format_1_has_segments(copy: Path, saver: SqliteSaver) -> None:
    assert isinstance(saver.load("long"), SavedCheckpoint)
    with closing(sqlite3.connect(copy)) as connection:
        for table in ("records", "segments", "grown", "jumps", "pending", "events"):
            assert connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0] > 0, table


@format_1
def test_format_1_chain(saver: SqliteSaver) -> None:
    found = chain(saver, "long", branch="main")
    assert [told(one) for one in found] == [
        (
            ident(step + 3),
            ident(step + 2) if step else None,
            "main",
            step,
            "loop" if step else "input",
            ident(2),
            datetime(2026, 1, 1, tzinfo=UTC),
        )
        for step in range(171)
    ]
    for step, one in enumerate(found):
        check_turns(one, step, goal=170)
        assert one.metadata == {"nodes": ["turn"] if step else ["__start__"]}
        assert one.checkpoint.values["mood"] == (CROSS if step >= 50 else GLAD)
    assert texts(found[-1])[:6] == [
        ("text 0", "m0"),
        ("better 5", "m5"),
        ("text 10", "m10"),
        ("text 15", "m15"),
        ("text 20", "m20"),
        ("better 25", "m25"),
    ]


def check_turns(saved: SavedCheckpoint, count: int, goal: int, edited: Sequence[str] = ()) -> None:
    values = saved.checkpoint.values
    assert (values["count"], values["goal"]) == (count, goal)
    assert values["words"] == [*words(min(count, 30)), *edited, *words(count)[31:]]
    assert texts(saved) == replies(count)
    assert values.get("last") == (f"turn {count - 1}" if count else None)


@format_1
def test_format_1_fork(saver: SqliteSaver) -> None:
    *_, before, forked, edited, first, _, _, _, head = chain(saver, "long", branch="other")
    assert told(before)[:5] == (ident(33), ident(32), "main", 30, "loop")
    assert (forked.parent_id, forked.branch_key.branch, forked.source) == (before.id, "other", "fork")
    assert (edited.parent_id, edited.source) == (forked.id, "update")
    assert first.parent_id == edited.id
    assert forked.created_at == datetime(2026, 1, 1, 0, 1, tzinfo=UTC)
    check_turns(forked, 30, goal=170)
    check_turns(edited, 30, goal=35, edited=["edited"])
    check_turns(head, 35, goal=35, edited=["edited"])
    assert head.checkpoint.is_complete
    ended = graphs.chat(saver, LATE).invoke({"goal": 37}, thread_id="long", branch="other")
    assert ended["words"][-3:] == ["w34", "w35", "w36"]


@format_1
def test_format_1_continues_where_it_was(saver: SqliteSaver) -> None:
    ended = graphs.chat(saver, LATE).invoke({"goal": 300}, thread_id="long")
    assert ended["words"] == words(300)
    assert [(one.content, one.id) for one in ended["messages"]] == replies(300)
    check_turns(chain(saver, "long", branch="main")[90], 90, goal=170)


@format_1
def test_format_1_timer_and_memory_of_a_subgraph(saver: SqliteSaver) -> None:
    (timer,) = loaded(saver, "timer").pending.open
    assert timer.due_at == datetime(2026, 1, 1, 1, 2, tzinfo=UTC)
    inner = chain(saver, "remembers", namespace="inner")
    assert [one.checkpoint.values.get("visits") for one in inner] == [0, 1, 1, 1, 2, 2]
    assert [one.checkpoint.values.get("seen") for one in inner] == [None, None, 1, 1, 1, 2]
    assert [one.checkpoint.step for one in inner] == [0, 1, 2, 3, 4, 5]
    ended = graphs.remembering(saver, LATE).invoke({"log": ["three"]}, thread_id="remembers")
    assert ended == {"log": ["one", "seen 1", "two", "seen 2", "three", "seen 3"], "seen": 3}


@format_1
def test_format_1_log(saver: SqliteSaver) -> None:
    events = saver.events("long", run_id=ident(2))
    assert [one.seq for one in events] == list(range(1, len(events) + 1))
    kinds = [one.kind for one in events]
    assert (kinds[0], kinds[-1]) == ("run_started", "run_finished")
    assert kinds.count("superstep_finished") == 170
    assert [one.kind for one in saver.events("timer")] == ["run_started", "interrupted", "run_finished"]


@format_1
def test_format_1_becomes_todays_format(copy: Path, saver: SqliteSaver, tmp_path: Path) -> None:
    saver.close()
    SqliteSaver(tmp_path / "new.db").close()
    assert schema(copy) == schema(tmp_path / "new.db")


def schema(path: Path) -> list[Any]:
    """The tables of a file, and what it says that it is."""
    with closing(sqlite3.connect(path)) as connection:
        found = connection.execute("SELECT name, sql FROM sqlite_schema ORDER BY name").fetchall()
        names = ("user_version", "application_id", "journal_mode")
        return [found, *(connection.execute(f"PRAGMA {name}").fetchone()[0] for name in names)]
