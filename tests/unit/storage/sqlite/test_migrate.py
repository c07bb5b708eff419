"""Files when they are opened: new ones, those of other versions and with other keys, and what is no database."""

from __future__ import annotations

import importlib.util
import multiprocessing
import os
import sqlite3
import sys
import threading
import tracemalloc
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import ormsgpack
import pytest

from statewright.checkpoint import NO_ARG, Held, Interrupt, Pending, SavedCheckpoint, Task, TimedTask
from statewright.checkpoint.serde import Serde
from statewright.errors import DamagedDatabase, InvalidConfig, NewerFormat, StorageError, StorageUnavailable, WrongKey
from statewright.storage.sqlite.cache import SqliteCache
from statewright.storage.sqlite.database import SqliteDatabase
from statewright.storage.sqlite.migrate import FORMAT, PAGE, STEPS
from statewright.storage.sqlite.saver import SqliteSaver

KEY, OTHER = bytes(range(32)), bytes(32)
RECORDED = Path(__file__).parents[3] / "durability" / "recorded"


def script(name: str) -> ModuleType:
    """A script that makes a recorded file, as a module."""
    spec = importlib.util.spec_from_file_location(f"migrated_{name}", RECORDED / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


prototype = script("make_format0")
graphs = script("make_format1")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


def made(path: Path, key: bytes | None = None) -> Path:
    with SqliteDatabase(path, key=key) as database:
        SqliteCache(database)  # makes a table to write to
        database.write(lambda connection: connection.execute("INSERT INTO cache VALUES ('n', 'i', x'01', NULL)"))
    return path


def pragma(path: Path, name: str) -> object:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(f"PRAGMA {name}").fetchone()[0]


def tables(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as connection:
        found = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")
        return [name for (name,) in found]


def test_a_new_file_has_todays_format_and_is_marked_as_ours(path: Path) -> None:
    made(path)
    assert pragma(path, "user_version") == FORMAT == len(STEPS)
    assert pragma(path, "application_id") == int.from_bytes(b"SWrt")
    assert pragma(path, "journal_mode") == "wal"


def test_an_empty_file_is_a_new_one(path: Path) -> None:
    path.touch()
    made(path)
    assert pragma(path, "user_version") == FORMAT


def test_opening_again_changes_nothing(path: Path) -> None:
    made(path)
    with SqliteDatabase(path) as database, database.read() as connection:
        assert connection.execute("SELECT node, input FROM cache").fetchall() == [("n", "i")]


def test_a_newer_format_is_refused_and_left_as_it_is(path: Path) -> None:
    with closing(sqlite3.connect(made(path))) as connection:
        connection.execute(f"PRAGMA user_version={FORMAT + 1}")
    with pytest.raises(NewerFormat, match=f"has format {FORMAT + 1}.*reads up to {FORMAT}") as caught:
        SqliteDatabase(path)
    assert caught.value.found == FORMAT + 1
    assert pragma(path, "user_version") == FORMAT + 1


def test_a_step_that_fails_leaves_no_half_made_tables(path: Path) -> None:
    with closing(prototype.made(path)) as connection:
        connection.execute("CREATE TABLE events (other)")  # the last table that is made
    with pytest.raises(StorageUnavailable, match="already exists"):
        SqliteDatabase(path)
    assert tables(path) == ["checkpoints", "events", "writes"]
    assert pragma(path, "user_version") == 0


def test_a_new_file_waits_for_who_writes_to_it(path: Path) -> None:
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")  # SQLite itself would not wait here to change the file's mode
    release = threading.Timer(0.05, other.rollback)
    release.start()
    made(path)
    release.join()
    other.close()
    assert pragma(path, "journal_mode") == "wal"


def _open(path: Path, together: Any, answers: Any) -> None:
    together.wait(600)
    try:
        SqliteDatabase(path).close()
    except BaseException as error:
        answers.put(repr(error))
    else:
        answers.put("opened")


@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
def test_several_processes_may_make_one_file_at_once(tmp_path: Path) -> None:
    fork = multiprocessing.get_context("fork")
    for n in range(2):
        together, answers = fork.Barrier(8), fork.SimpleQueue()
        makers = [fork.Process(target=_open, args=(tmp_path / f"{n}.db", together, answers)) for _ in range(8)]
        for maker in makers:
            maker.start()
        assert [answers.get() for _ in makers] == ["opened"] * 8
        for maker in makers:
            maker.join(600)


# -- keys


def test_a_file_is_opened_with_its_key(path: Path) -> None:
    made(path, KEY)
    made(path.with_name("other.db"), KEY)
    SqliteDatabase(path, key=KEY).close()


@pytest.mark.parametrize(
    ("with_key", "opened_with", "said"),
    [
        (KEY, OTHER, "the key is another one"),
        (KEY, None, "no key was given"),
        (None, KEY, "not encrypted, and a key was given"),
    ],
)
def test_a_file_is_not_opened_with_another_key(
    path: Path, with_key: bytes | None, opened_with: bytes | None, said: str
) -> None:
    made(path, with_key)
    with pytest.raises(WrongKey, match=said):
        SqliteDatabase(path, key=opened_with)
    SqliteDatabase(path, key=with_key).close()


# -- what is no database


@pytest.mark.parametrize("content", [os.urandom(10_000), b"a letter to my aunt\n" * 500, bytes(range(256)) * 16])
def test_a_file_of_something_else_is_damage_and_left_as_it_is(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(DamagedDatabase, match=r"runs\.db is damaged"):
        SqliteDatabase(path)
    assert path.read_bytes() == content


@pytest.mark.parametrize("left", [50, 100, 600, 4096, 5000, 12_000])
def test_a_file_that_was_cut_short_is_damage(path: Path, left: int) -> None:
    whole = made(path).read_bytes()
    path.write_bytes(whole[:left])
    with pytest.raises(DamagedDatabase), SqliteDatabase(path) as database:
        database.write(lambda connection: connection.execute("INSERT INTO items VALUES (1, 'n.', 'k', 1, 1, 1, 1, 1)"))


def test_damage_inside_is_found_by_whoever_reads_there(path: Path) -> None:
    content = bytearray(made(path).read_bytes())
    place = content.rindex(b"ni\x01")  # the row of the cache: the last table
    content[place - 50 : place + 3] = os.urandom(53)
    first = place // PAGE * PAGE
    content[first : first + 12] = b"\xff" * 12
    path.write_bytes(content)
    with SqliteDatabase(path) as database, pytest.raises(DamagedDatabase, match="malformed"), database.read() as one:
        one.execute("SELECT * FROM cache").fetchall()


# -- places where no file can be


@pytest.mark.parametrize("place", ["nowhere/runs.db", "file/runs.db", "."])
def test_where_no_file_can_be_there_is_no_database(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StorageUnavailable, match="cannot be used"):
        SqliteDatabase(tmp_path / place)


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="only Linux has a folder that nobody may write to")
def test_a_folder_that_cannot_be_written_to_is_refused() -> None:
    with pytest.raises(StorageUnavailable, match="unable to open"):
        SqliteDatabase("/proc/runs.db")


@pytest.mark.parametrize("name", ["", ":memory:"])
def test_a_database_needs_a_file(name: str) -> None:
    with pytest.raises(InvalidConfig, match="needs a file"):
        SqliteDatabase(name)


def test_a_database_that_could_not_be_opened_holds_nothing(path: Path) -> None:
    path.write_bytes(b"a letter to my aunt\n" * 500)
    with pytest.raises(StorageError):
        SqliteDatabase(path)
    path.unlink()
    made(path)


# -- files of other programs


def somebody_elses(path: Path, *statements: str) -> bytes:
    with closing(sqlite3.connect(path)) as connection:
        for statement in statements:
            connection.execute(statement)
    return path.read_bytes()


@pytest.mark.parametrize(
    ("statements", "said"),
    [
        (["CREATE TABLE letters (x)"], "application_id 0, user_version 0, tables letters"),
        (["CREATE TABLE checkpoints (x)"], "user_version 0, tables checkpoints"),
        (["CREATE TABLE threads (x)", "PRAGMA user_version=1"], "user_version 1, tables threads"),
        ([f"CREATE TABLE t{n} (x)" for n in range(6)], "tables t0, t1, t2, t3, t4 and others"),
        (["PRAGMA user_version=7"], "application_id 0, user_version 7, no tables"),
        (["PRAGMA application_id=252006674"], "application_id 252006674, user_version 0, no tables"),
        (["PRAGMA user_version=-1", "CREATE TABLE t (x)"], "user_version -1, tables t"),
    ],
)
def test_the_file_of_another_program_is_refused_and_left_as_it_is(
    path: Path, statements: Sequence[str], said: str
) -> None:
    content = somebody_elses(path, *statements)
    with pytest.raises(StorageUnavailable, match=f"belongs to another program.*{said}.*Nothing was changed"):
        SqliteDatabase(path)
    assert path.read_bytes() == content
    assert [one.name for one in path.parent.iterdir()] == ["runs.db"]


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("PRAGMA user_version=-1", "it has format -1, and no tables"),
        ("CREATE TABLE letters (x)", "it has format 0, and tables letters"),
    ],
)
def test_a_file_of_ours_that_has_no_known_format_is_damage(path: Path, statement: str, said: str) -> None:
    content = somebody_elses(path, f"PRAGMA application_id={prototype.MARK}", statement)
    with pytest.raises(DamagedDatabase, match=said):
        SqliteDatabase(path)
    assert path.read_bytes() == content


def test_a_file_that_is_marked_as_ours_and_empty_is_a_new_one(path: Path) -> None:
    somebody_elses(path, f"PRAGMA application_id={prototype.MARK}")
    made(path)
    assert pragma(path, "user_version") == FORMAT


# -- format 0


def as_format_0(saver: SqliteSaver, path: Path) -> None:
    """What a saver holds, as a prototype would have kept it."""
    with closing(prototype.made(path)) as connection:
        connection.execute("BEGIN")
        for thread, namespace in lines_of(saver):
            for one in reversed(saver.history(thread, namespace=namespace)):
                add_saved(connection, one, saver.serde)
        connection.execute("COMMIT")


def lines_of(saver: SqliteSaver) -> list[tuple[str, str]]:
    with saver.database.read() as connection:
        found = "SELECT DISTINCT thread_id, namespace FROM lines JOIN threads ON threads.id = thread ORDER BY lines.id"
        return connection.execute(found).fetchall()


def add_saved(connection: sqlite3.Connection, saved: SavedCheckpoint, serde: Serde) -> None:
    checkpoint, line = saved.checkpoint, saved.line
    body = {
        "state": {name: plain(value, serde) for name, value in checkpoint.values.items()},
        "next": [plain_task(one, serde) for one in checkpoint.frontier],
        "waiting": [plain_held(one, serde) for one in checkpoint.held],
        "arrived": {key: sorted(names) for key, names in checkpoint.joins.items()},
        "info": plain(dict(saved.metadata), serde),
        "report": [[name, plain(update, serde)] for name, update in checkpoint.reported],
        "graph": saved.graph_version,
    }
    source = {"input": "start", "loop": "step", "update": "edit", "fork": "fork"}[saved.source]
    columns = (saved.id, saved.parent_id, checkpoint.step, source, saved.run_id, saved.created_at.isoformat())
    prototype.add_checkpoint(connection, body, line.thread_id, line.namespace, line.branch, *columns)
    for task, kind, told in told_of(saved.pending, serde):
        prototype.add_write(connection, told, line.thread_id, line.namespace, saved.id, task, kind)


def plain(value: Any, serde: Serde) -> ormsgpack.Fragment:
    return ormsgpack.Fragment(serde.encode(value))


def plain_task(task: Task, serde: Serde) -> dict[str, Any]:
    arg = {"arg": plain(task.arg, serde)} if task.arg is not NO_ARG else {}
    limits = {"limits": list(task.timeout)} if isinstance(task, TimedTask) else {}
    return prototype.task(task.node, task.origin, task.position, **arg, **limits)


def plain_held(held: Held, serde: Serde) -> dict[str, Any]:
    return {"task": plain_task(held.task, serde), "gather": held.gather, "by": held.sender}


def told_of(pending: Pending, serde: Serde) -> list[tuple[str, str, Any]]:
    told: list[tuple[str, str, Any]] = []
    for task, one in pending.landed.items():
        result = {"writes": plain(one.writes, serde), "targets": plain(list(one.targets), serde), "goto": one.goto}
        told.append((task, "result", result))
    for task, questions in pending.interrupts.items():
        told.extend((task, "question", plain_question(question, serde)) for question in questions)
    told.extend(("", "answer", {"question": key, "value": plain(one, serde)}) for key, one in pending.answers.items())
    for (task, name, nth), (given, value) in pending.journal.items():
        told.append((task, "step", {"name": name, "nth": nth, "given": given, "value": plain(value, serde)}))
    return [*told, ("", "paused", None)] if pending.paused else told


def plain_question(question: Interrupt, serde: Serde) -> dict[str, Any]:
    due = question.due_at.isoformat() if question.due_at is not None else None
    schema = question.schema.__name__ if question.schema is not None else None
    told = {"id": question.id, "kind": question.kind, "event": question.event, "due": due, "schema": schema}
    return {**told, "value": plain(question.value, serde)}


def everything(saver: SqliteSaver) -> list[Any]:
    lines = sorted(lines_of(saver))
    return [
        (
            one.line,
            one.parent_id,
            one.checkpoint,
            one.source,
            one.run_id,
            one.created_at,
            dict(one.metadata),
            known(one),
        )
        for thread, namespace in lines
        for one in saver.history(thread, namespace=namespace)
    ]


def known(saved: SavedCheckpoint) -> Any:
    pending = saved.pending
    landed = [(task, dict(one.writes), repr(one.targets)) for task, one in pending.landed.items()]
    asked = {task: [_as_of_format_0(one) for one in questions] for task, questions in pending.interrupts.items()}
    return landed, asked, pending.answers, pending.journal, pending.paused


def _as_of_format_0(question: Interrupt) -> Interrupt:
    """A question without what the prototype did not know yet."""
    return replace(question, key=None, namespace="", schema_form=None)


@pytest.mark.parametrize("key", [None, KEY])
def test_what_a_prototype_kept_is_what_is_loaded(tmp_path: Path, path: Path, key: bytes | None) -> None:
    """Enough of it for old checkpoints to be laid together, with types that nobody knows then."""
    with graphs.drawn(), graphs.knowing_moods(SqliteSaver(tmp_path / "today.db")) as saver:
        graphs.fill(saver)
        expected = everything(saver)
        as_format_0(saver, path)
    SqliteDatabase(path, key=key).close()
    with graphs.knowing_moods(SqliteSaver(path, key=key)) as saver:
        assert everything(saver) == expected
        with saver.database.read() as connection:
            assert connection.execute("SELECT count(*) FROM segments").fetchone() == (1,)
            (growth,) = connection.execute("SELECT total(length(body)) FROM grown").fetchone()
    assert tables(path) == [
        "events",
        "grown",
        "jumps",
        "lines",
        "meta",
        "pending",
        "records",
        "runs",
        "segments",
        "threads",
    ]
    assert growth < 10_000


@pytest.fixture
def old(path: Path) -> Path:
    """A file of format 0 with a thread of one checkpoint."""
    return filled(path, {"n": 1})


def filled(path: Path, *states: Any, **more: Any) -> Path:
    """A file of format 0 with a thread of some states."""
    with closing(prototype.made(path)) as connection:
        for step, state in enumerate(states):
            body = {**prototype.body(state, [prototype.task("a", str(step))], "a"), **more}
            columns = (str(step), str(step - 1) if step else None, step, "step", "run", prototype.AT.format(step))
            prototype.add_checkpoint(connection, body, "1", "", "main", *columns)
    return path


def values(path: Path) -> list[Any]:
    with SqliteSaver(path) as saver:
        return [one.checkpoint.values for one in reversed(saver.history("1"))]


def test_states_are_told_apart_as_they_are_stored(path: Path) -> None:
    states = [
        {"n": 1, "m": {"a": 1, "b": 2}, "l": [1]},
        {"n": True, "m": {"b": 2, "a": 1}, "l": [1, 2]},
        {"n": 1.0, "m": {"b": 2}, "l": [True, 2]},
        {"n": 0.0, "l": []},
        {"n": -0.0, "l": [None], "m": {1: b"x", None: [float("inf")]}},
        {"n": [], "l": None},
        {"n": [[1]], "l": None},
    ]
    assert repr(values(filled(path, *states))) == repr(states)


def test_only_what_was_added_is_stored_of_a_list_that_grows(path: Path) -> None:
    assert values(filled(path, {"l": ["x" * 5000]}, {"l": ["x" * 5000, "y"]}))[1] == {"l": ["x" * 5000, "y"]}
    with closing(sqlite3.connect(path)) as connection:
        sizes = connection.execute("SELECT length(changes) FROM records ORDER BY place").fetchall()
    assert [size > 100 for (size,) in sizes] == [True, False]


def test_a_checkpoint_whose_parent_is_gone_begins_anew(old: Path) -> None:
    with closing(sqlite3.connect(old, isolation_level=None)) as connection:
        columns = ("2", "gone", 9, "step", "run", prototype.AT.format(9))
        prototype.add_checkpoint(connection, prototype.body({"m": 2}), "1", "", "main", *columns)
    with SqliteSaver(old) as saver:
        head = saver.load("1")
        assert isinstance(head, SavedCheckpoint)
        assert (head.id, head.parent_id, head.checkpoint.values) == ("2", None, {"m": 2})
        assert [one.id for one in saver.history("1")] == ["2", "0"]


def test_of_what_tells_the_same_the_last_counts(old: Path) -> None:
    question = {"kind": "question", "event": None, "due": None, "schema": None}
    own = prototype.digest("task", "0", 0)
    with closing(sqlite3.connect(old, isolation_level=None)) as connection:
        for n in (1, 2):
            for name in ("p", "q"):
                prototype.add_write(connection, {"id": name, "value": n, **question}, "1", "", "0", own, "question")
            prototype.add_write(connection, {"question": "p", "value": n}, "1", "", "0", own, "answer")
    with SqliteSaver(old) as saver:
        head = saver.load("1")
        assert isinstance(head, SavedCheckpoint)
        assert [(one.id, one.value) for one in head.pending.interrupts[own]] == [("p", 2), ("q", 2)]
        assert head.pending.answers == {"p": 2}


def test_a_question_keeps_the_type_of_a_user_that_its_answer_must_have(old: Path) -> None:
    question = {"id": "p", "value": 1, "kind": "question", "event": None, "due": None}
    schema = ["union", ["class", "recorded.Mood"], ["of", "list", "str"], "None"]
    with closing(sqlite3.connect(old, isolation_level=None)) as connection:
        prototype.add_write(connection, {**question, "schema": schema}, "1", "", "0", "t", "question")
    with graphs.knowing_moods(SqliteSaver(old)) as saver:
        head = saver.load("1")
        assert isinstance(head, SavedCheckpoint)
        assert head.pending.open[0].schema == graphs.Mood | list[str] | None


def damaged(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(statement)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        ("UPDATE checkpoints SET body = x'c1'", "checkpoint '0' of thread '1' is not of format 0: ValueError"),
        ("UPDATE checkpoints SET body = x'80'", "checkpoint '0' of thread '1' is not of format 0: KeyError"),
        ("UPDATE checkpoints SET source = 'loop'", "checkpoint '0' of thread '1' is not of format 0: KeyError: 'loop'"),
        ("UPDATE checkpoints SET created_at = 'now'", "checkpoint '0' of thread '1'.*Invalid isoformat"),
        ("UPDATE checkpoints SET created_at = '2025-06-01'", "has no offset"),
        (
            "UPDATE checkpoints SET parent = '0'",
            "is not of format 0: CheckpointNotFound: .*no checkpoint '0' to follow",
        ),
        (
            "INSERT INTO writes VALUES ('1', '', '9', 't', 'paused', x'c0')",
            "told of checkpoint '9', which is not there",
        ),
        ("INSERT INTO writes VALUES ('1', '', '0', 't', 'result', x'80')", "a result of task t, which is not due"),
        ("INSERT INTO writes VALUES ('1', '', '0', 't', 'mood', x'c0')", "nobody knows what 'mood' tells"),
        ("INSERT INTO writes VALUES ('1', '', '0', 't', 'answer', x'c0')", "what is known of checkpoint '0' of thread"),
    ],
)
def test_what_is_not_of_format_0_is_named_and_left_as_it_is(old: Path, damage: str, said: str) -> None:
    damaged(old, damage)
    with pytest.raises(DamagedDatabase, match=f"{old.name} is damaged: .*{said}"):
        SqliteDatabase(old)
    assert tables(old) == ["checkpoints", "writes"]
    assert pragma(old, "user_version") == 0


def test_a_prototype_without_threads_becomes_a_new_file(path: Path) -> None:
    prototype.made(path).close()
    assert values(path) == []
    assert "checkpoints" not in tables(path)


def test_a_large_file_is_carried_over_in_little_memory(path: Path) -> None:
    with closing(prototype.made(path)) as connection:
        connection.execute("BEGIN")
        for thread in range(20):
            text = [os.urandom(10).hex() for _ in range(800)]
            for step in range(20):
                body = prototype.body({"text": text[: 400 + 20 * step], "n": step})
                columns = (str(step), str(step - 1) if step else None, step, "step", "run", prototype.AT.format(step))
                prototype.add_checkpoint(connection, body, f"thread {thread}", "", "main", *columns)
        connection.execute("COMMIT")
    size = path.stat().st_size
    tracemalloc.start()
    try:
        SqliteDatabase(path).close()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1_000_000 < size / 4
    with SqliteSaver(path) as saver:
        assert len(saver.threads()) == 20
        assert len(saver.history("thread 7")) == 20


@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
def test_several_processes_may_carry_one_file_over_at_once(old: Path) -> None:
    fork = multiprocessing.get_context("fork")
    together, answers = fork.Barrier(4), fork.SimpleQueue()
    carriers = [fork.Process(target=_open, args=(old, together, answers)) for _ in range(4)]
    for carrier in carriers:
        carrier.start()
    assert [answers.get() for _ in carriers] == ["opened"] * 4
    for carrier in carriers:
        carrier.join(600)
    assert values(old) == [{"n": 1}]
