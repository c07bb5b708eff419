"""Recorded files of each format can be loaded, have the content below, and runs continue from it.

The files are never changed; every test works on a copy. The expected content was written by hand.
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
"""The maximum size of a recorded file in bytes, because it stays in the repository forever."""


def script(name: str) -> ModuleType:
    """Import a script of the folder as a module."""
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
    with graphs.register_mood(SqliteSaver(copy)) as saver:
        yield saver


format_1 = pytest.mark.parametrize("copy", ["format1"], indirect=True)


def ident(number: int) -> str:
    return f"{number:032x}"


def texts(saved: SavedCheckpoint) -> list[tuple[str, str | None]]:
    return [(message.content, message.id) for message in saved.checkpoint.values["messages"]]


def words(count: int) -> list[str]:
    return ["in", *(f"w{n}" for n in range(count))]


def replies(count: int) -> list[tuple[str, str]]:
    """The messages after a number of turns: one for every fifth turn; some are replaced ten turns later."""
    return [(f"{'better' if n % 20 == 5 and count > n + 10 else 'text'} {n}", f"m{n}") for n in range(0, count, 5)]


def loaded(saver: SqliteSaver, thread: str, **where: Any) -> SavedCheckpoint:
    checkpoint = saver.load(thread, **where)
    assert isinstance(checkpoint, SavedCheckpoint)
    return checkpoint


def chain(saver: SqliteSaver, thread: str, **where: Any) -> list[SavedCheckpoint]:
    """A history, the oldest first."""
    return list(reversed(saver.history(thread, **where)))


def identity_of(saved: SavedCheckpoint) -> tuple[Any, ...]:
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
    for folder in (b"/work", b"/home", b"/tmp", b"/root", str(Path.home()).encode()):
        assert folder not in content


@format_1
def test_every_thread_and_branch_is_loaded(saver: SqliteSaver) -> None:
    assert sorted(entry.thread_id for entry in saver.threads()) == ["ask", "join", "long", "remembers", "timer"]
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
    with graphs.register_mood(SqliteSaver(copy)) as reopened:
        assert everything(reopened) == first


def everything(saver: SqliteSaver) -> list[Any]:
    lines = [("ask", ""), ("join", ""), ("long", ""), ("remembers", ""), ("remembers", "inner"), ("timer", "")]
    saved = [item for thread, namespace in lines for item in saver.history(thread, namespace=namespace)]
    return [(identity_of(item), item.checkpoint, dict(item.metadata), repr(item.pending)) for item in saved]


@format_1
def test_open_questions_answers_results_and_steps_are_loaded(saver: SqliteSaver) -> None:
    head = loaded(saver, "ask")
    review, beside, pay = (task.id for task in head.checkpoint.frontier)
    pending = head.pending
    assert [task.node for task in head.checkpoint.frontier] == ["review", "beside", "pay"]
    assert head.checkpoint.values == {"log": ["in", "plan"], "total": 0}
    assert [(question.value, question.schema, question.kind) for question in pending.open] == [
        ("Send it?", str, "question"),
        ({"pay": 42}, None, "question"),
    ]
    assert [question.value for question in pending.interrupts[review]][-1] == "Send it?"
    assert list(pending.answers.values()) == ["fine"]
    assert list(pending.completed) == [beside]
    result = pending.completed[beside]
    assert (dict(result.writes), list(result.targets), result.goto) == ({"log": ["beside"], "total": 1}, [], False)
    assert [(key, entry.value) for key, entry in pending.journal.items()] == [((pay, "charge", 0), "receipt 42")]


@format_1
def test_answering_completes_the_run_without_repeating_effects(saver: SqliteSaver) -> None:
    effects = graphs.EffectLog()
    app = graphs.order(saver, LATE, effects)
    send, amount = (question.id for question in app.get_state(thread_id="ask").interrupts)
    ended = app.invoke(Command(resume={send: "now", amount: True}), thread_id="ask")
    assert ended == {"log": ["in", "plan", "fine", "now", "beside", "receipt 42", "True", "closed at 43"], "total": 43}
    assert sorted(effects.nodes) == ["pay", "review"]
    assert effects.charged == []


@format_1
def test_a_due_timer_continues_its_run(saver: SqliteSaver) -> None:
    early = FakeClock(datetime(2025, 6, 1, 12, 59, tzinfo=UTC))
    assert [wait.kind for wait in graphs.waiting(saver, early).get_state(thread_id="timer").interrupts] == ["timer"]
    assert graphs.waiting(saver, LATE).resume_due(thread_id="timer")["log"] == ["in", "awake"]


@format_1
def test_a_run_continues_past_a_breakpoint_a_join_and_a_deferred_task(saver: SqliteSaver) -> None:
    head = loaded(saver, "join")
    (held,) = head.checkpoint.deferred
    assert (held.task.node, held.task.position, held.gather) == ("end", 1, False)
    assert head.checkpoint.joins == {"'short' + 'longer' -> 'join'": frozenset({"short"})}
    assert [task.node for task in head.checkpoint.frontier] == ["longer"]
    assert head.pending.paused
    ended = graphs.joining(saver, LATE).invoke(None, thread_id="join")
    assert ended["log"] == ["in", "short", "long", "longer", "join", "end"]


@format_1
def test_a_recorded_thread_can_be_forked_and_continues(saver: SqliteSaver) -> None:
    app = graphs.chat(saver, LATE)
    begun = next(state for state in app.get_state_history(thread_id="long") if state.metadata["step"] == 7)
    app.fork(begun.config, branch="third")
    changed = {"configurable": {"thread_id": "long", "branch": "third"}}
    app.update_state(changed, {"goal": 17}, as_node="__start__")
    ended = app.invoke(None, changed)
    assert ended["count"] == 17
    assert ended["words"] == words(17)
    assert [(message.content, message.id) for message in ended["messages"]] == replies(17)
    assert saver.branches("long") == ["main", "other", "third"]


# -- format 1


@format_1
def test_format_1_has_segments(copy: Path, saver: SqliteSaver) -> None:
    assert isinstance(saver.load("long"), SavedCheckpoint)
    with closing(sqlite3.connect(copy)) as connection:
        for table in ("records", "segments", "grown", "jumps", "pending", "events"):
            assert connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0] > 0, table


@format_1
def test_format_1_checkpoints_form_one_chain(saver: SqliteSaver) -> None:
    saved = chain(saver, "long", branch="main")
    assert [identity_of(item) for item in saved] == [
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
    for step, item in enumerate(saved):
        check_turns(item, step, goal=170)
        assert item.metadata == {"nodes": ["turn"] if step else ["__start__"]}
        assert item.checkpoint.values["mood"] == (CROSS if step >= 50 else GLAD)
    assert texts(saved[-1])[:6] == [
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
def test_format_1_fork_is_loaded_and_continues(saver: SqliteSaver) -> None:
    *_, before, forked, edited, first, _, _, _, head = chain(saver, "long", branch="other")
    assert identity_of(before)[:5] == (ident(33), ident(32), "main", 30, "loop")
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
def test_format_1_long_thread_continues(saver: SqliteSaver) -> None:
    ended = graphs.chat(saver, LATE).invoke({"goal": 300}, thread_id="long")
    assert ended["words"] == words(300)
    assert [(message.content, message.id) for message in ended["messages"]] == replies(300)
    check_turns(chain(saver, "long", branch="main")[90], 90, goal=170)


@format_1
def test_format_1_timer_and_subgraph_memory_are_loaded(saver: SqliteSaver) -> None:
    (timer,) = loaded(saver, "timer").pending.open
    assert timer.due_at == datetime(2026, 1, 1, 1, 2, tzinfo=UTC)
    inner = chain(saver, "remembers", namespace="inner")
    assert [saved.checkpoint.values.get("visits") for saved in inner] == [0, 1, 1, 1, 2, 2]
    assert [saved.checkpoint.values.get("seen") for saved in inner] == [None, None, 1, 1, 1, 2]
    assert [saved.checkpoint.step for saved in inner] == [0, 1, 2, 3, 4, 5]
    ended = graphs.remembering(saver, LATE).invoke({"log": ["three"]}, thread_id="remembers")
    assert ended == {"log": ["one", "seen 1", "two", "seen 2", "three", "seen 3"], "seen": 3}


@format_1
def test_format_1_event_log_is_loaded(saver: SqliteSaver) -> None:
    events = saver.events("long", run_id=ident(2))
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    kinds = [event.kind for event in events]
    assert (kinds[0], kinds[-1]) == ("run_started", "run_finished")
    assert kinds.count("superstep_finished") == 170
    assert [event.kind for event in saver.events("timer")] == ["run_started", "interrupted", "run_finished"]


@format_1
def test_format_1_is_migrated_to_the_current_format(copy: Path, saver: SqliteSaver, tmp_path: Path) -> None:
    saver.close()
    SqliteSaver(tmp_path / "new.db").close()
    assert schema(copy) == schema(tmp_path / "new.db")


def schema(path: Path) -> list[Any]:
    """The tables of a file and its format."""
    with closing(sqlite3.connect(path)) as connection:
        tables = connection.execute("SELECT name, sql FROM sqlite_schema ORDER BY name").fetchall()
        names = ("user_version", "application_id", "journal_mode")
        return [tables, *(connection.execute(f"PRAGMA {name}").fetchone()[0] for name in names)]
