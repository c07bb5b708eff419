"""Real faults of the environment: after each of them the last commit is readable, and nothing is written partially.

A run gets an error that says what happened. Once the cause is gone it goes on from what was saved.
"""

import asyncio
import itertools
import multiprocessing
import operator
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest

from statewright import END, START, Instrument, StateGraph, append
from statewright.checkpoint import BranchKey, Checkpoint, Commit, SavedCheckpoint
from statewright.errors import (
    CheckpointConflict,
    DamagedDatabase,
    NewerFormat,
    SerdeError,
    StorageError,
    StorageFull,
    StorageLocked,
    StorageUnavailable,
    WrongEncryptionKey,
)
from statewright.ids import CheckpointId
from statewright.runtime.invocation.run import LEASE
from statewright.storage.sqlite import SqliteSaver, migrate
from statewright.storage.sqlite import database as module
from statewright.storage.sqlite.migrate import FORMAT, PAGE
from statewright.testing import FakeClock

KEY, OTHER = bytes(range(32)), bytes(32)
LONG = 600.0
"""Seconds after which a test is given up. No test waits that long if it passes."""
DURABILITIES = ("sync", "async", "exit")
LAPSED = LEASE + timedelta(seconds=1)
"""After this a run that could not let go of its thread does not hold it any more."""


class State(TypedDict, total=False):
    n: Annotated[int, operator.add]
    text: Annotated[list[str], append]
    goal: int
    last: Any


class Acknowledged(Instrument):
    """The steps that a run was told are saved. Under `sync` that is so when it is told."""

    def __init__(self) -> None:
        self.steps: list[int] = []

    def on_commit(self, event: Any) -> None:
        self.steps.append(event.data.checkpoint.step)


Deed = Callable[[int], Any]


def nothing(n: int) -> Any:
    return n


class World:
    """A graph on a saver: a loop in which two fields grow together, up to a goal."""

    def __init__(self, saver: SqliteSaver, deed: Deed = nothing, clock: FakeClock | None = None) -> None:
        self.saver = saver
        self.clock = clock or FakeClock()
        self.told = Acknowledged()
        self._deed = deed
        graph = StateGraph(State).add_node("turn", self._turn).add_edge(START, "turn")
        graph.add_conditional_edges("turn", lambda s: "turn" if s["n"] < s["goal"] else END, ["turn", END])
        self.app: Any = graph.compile(saver, clock=self.clock, instruments=[self.told])

    def _turn(self, state: Any) -> dict[str, Any]:
        n = state["n"]
        return {"n": 1, "text": [f"{n}".zfill(3000)], "last": self._deed(n)}

    def begin(self, goal: int, thread: str = "1", **options: Any) -> Any:
        return self.app.invoke({"n": 0, "goal": goal}, thread_id=thread, **options)["n"]

    def go_on(self, thread: str = "1", **options: Any) -> Any:
        """Go on after the lease of a run that was stopped has lapsed."""
        self.clock.advance(LAPSED)
        return self.app.invoke(None, thread_id=thread, **options)["n"]

    def saved(self, thread: str = "1") -> int:
        """How far a thread has come. Everything about it is read, and is whole."""
        history = self.saver.history(thread)
        assert isinstance(history, list)
        for newer, older in itertools.pairwise(history):
            assert newer.parent_id == older.id
            assert newer.checkpoint.step == older.checkpoint.step + 1
        for one in history:
            values = one.checkpoint.values
            assert values["text"] == [f"{n}".zfill(3000) for n in range(values["n"])]
        list(self.saver.events(thread))
        head = self.saver.load(thread)
        assert isinstance(head, SavedCheckpoint)
        return head.checkpoint.values["n"]


def check_file(path: Path) -> None:
    """The file is whole, as SQLite sees it."""
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


@pytest.fixture
def saver(path: Path) -> Iterator[SqliteSaver]:
    with SqliteSaver(path) as saver:
        yield saver
    if path.exists():
        check_file(path)


# -- no room


@pytest.mark.parametrize("durability", DURABILITIES)
def test_a_full_database_keeps_the_last_commit(saver: SqliteSaver, durability: str) -> None:
    world = World(saver)
    world.begin(3)
    pages = limited(saver, 1)
    limited(saver, pages + 20)
    with pytest.raises(StorageFull, match=r"no room left for .*runs\.db.*Nothing was written. Make room"):
        world.app.invoke({"goal": 100}, thread_id="1", durability=durability)
    reached = world.saved()
    assert 3 <= reached < 100
    if durability == "sync":
        assert max(world.told.steps) <= saver.history("1", limit=1)[0].checkpoint.step
    limited(saver, 1 << 30)
    world.clock.advance(LAPSED)
    assert world.app.invoke({"goal": 100}, thread_id="1", on_unfinished="discard")["n"] == 100
    assert world.saved() == 100


def limited(saver: SqliteSaver, pages: int) -> int:
    """Let the file have so many pages at most, but not less than it has; how many it has."""
    set_limit = f"PRAGMA max_page_count={pages}"
    saver.database.write(lambda connection: connection.execute(set_limit).fetchone())
    return saver.database.write(lambda connection: connection.execute("PRAGMA page_count").fetchone()[0])


def in_child(function: Callable[..., Any], *args: Any) -> Any:
    """What a function answers in a process of its own, whose limits and user are its own too."""
    fork = multiprocessing.get_context("fork")
    answers = fork.SimpleQueue()

    def call() -> None:
        try:
            answers.put((function(*args), None))
        except BaseException as error:
            answers.put((None, f"{type(error).__name__}: {error}"))

    child = fork.Process(target=call)
    child.start()
    answer, error = answers.get()
    child.join(LONG)
    assert error is None, error
    return answer


forks = pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
posix = pytest.mark.skipif(os.name != "posix", reason="no limits to files on this system")


def run_without_room(path: Path, durability: str, driver: str) -> dict[str, Any]:
    """Run while files may not grow beyond a limit, and again when they may."""
    import resource

    def limit(size: int) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

    told: dict[str, Any] = {}
    with SqliteSaver(path) as saver:
        world = World(saver)
        world.begin(3)
        limit(200_000)
        try:
            options = {"thread_id": "1", "durability": durability}
            if driver == "sync":
                world.app.invoke({"goal": 100}, **options)
            else:
                asyncio.run(world.app.ainvoke({"goal": 100}, **options))
        except StorageError as error:
            told["error"], told["said"] = type(error).__name__, str(error)
        told["saved"] = world.saved()
        told["acknowledged"] = max(world.told.steps)
        told["step"] = saver.history("1", limit=1)[0].checkpoint.step
        limit(resource.RLIM_INFINITY)
        world.clock.advance(LAPSED)
        world.app.invoke({"goal": 100}, thread_id="1", on_unfinished="discard")
        told["ended"] = world.saved()
    return told


@posix
@forks
@pytest.mark.parametrize("driver", ["sync", "async"])
@pytest.mark.parametrize("durability", ["sync", "async"])
def test_a_file_that_cannot_grow_keeps_the_last_commit(path: Path, durability: str, driver: str) -> None:
    told = in_child(run_without_room, path, durability, driver)
    assert told["error"] == "StorageFull"
    assert "no room left" in told["said"]
    assert 3 < told["saved"] < 100
    if durability == "sync":
        assert told["acknowledged"] <= told["step"]
    assert told["ended"] == 100
    check_file(path)


RECORDED = Path(__file__).with_name("recorded") / "format1.db"


def migrate_without_room(path: Path) -> str:
    import resource

    resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, resource.RLIM_INFINITY))
    try:
        SqliteSaver(path).close()
    except StorageFull as error:
        return str(error)
    return "there was room"


def migrate_and_die(path: Path, answers: Any) -> None:
    """End at once in the middle of a migration: everything is written, nothing is committed."""

    def die(connection: sqlite3.Connection, encryption: Any) -> None:
        step(connection, encryption)
        answers.put("dies")
        os._exit(1)

    step = migrate.STEPS[-1]
    migrate.STEPS = (*migrate.STEPS[:-1], die)  # this process alone
    SqliteSaver(path).close()


@posix
@forks
@pytest.mark.parametrize("dies", [False, True])
def test_a_migration_that_does_not_end_changes_nothing(path: Path, dies: bool) -> None:
    shutil.copy(RECORDED, path)
    if dies:
        fork = multiprocessing.get_context("fork")
        answers = fork.SimpleQueue()
        child = fork.Process(target=migrate_and_die, args=(path, answers))
        child.start()
        assert answers.get() == "dies"
        child.join(LONG)
    else:
        assert "no room left" in in_child(migrate_without_room, path)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (1,)
        assert connection.execute("SELECT count(*) FROM records").fetchone() == (67,)
    with SqliteSaver(path) as saver:
        assert sorted(one.thread_id for one in saver.threads()) == ["ask", "join", "long", "remembers", "timer"]


# -- locks


HOLD = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN EXCLUSIVE")
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def locked(path: Path) -> Iterator[subprocess.Popen[str]]:
    """While the block lasts, another process has the file to itself; it ends sooner if its input is closed."""
    command = [sys.executable, "-c", HOLD, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "held\n"
            yield holder
        finally:
            holder.kill()


@pytest.mark.parametrize("durability", DURABILITIES)
def test_a_locked_file_is_waited_for_and_then_reported(
    path: Path, monkeypatch: pytest.MonkeyPatch, durability: str
) -> None:
    monkeypatch.setattr(module, "BUSY_TIMEOUT", 0.1)
    with SqliteSaver(path) as saver:
        world = World(saver)
        world.begin(3)
        with locked(path):
            with pytest.raises(StorageLocked, match=r"Another process has .*runs\.db locked.*Nothing was written"):
                world.app.invoke({"goal": 5}, thread_id="1", durability=durability)
            assert world.saved() == 3  # who reads does not wait for who writes
        assert world.app.invoke({"goal": 5}, thread_id="1")["n"] == 5


def test_a_file_that_is_locked_during_a_run_stops_it_where_it_was_saved(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BUSY_TIMEOUT", 0.1)
    holders: list[Any] = []

    def lock_it(n: int) -> None:
        if n == 3 and not holders:
            holders.append(locked(path))
            holders[0].__enter__()

    with SqliteSaver(path) as saver:
        world = World(saver, lock_it)
        with pytest.raises(StorageLocked):
            world.begin(6, durability="sync")
        assert world.saved() == 3
        holders[0].__exit__(None, None, None)
        assert world.go_on() == 6
        assert world.saved() == 6


def test_a_lock_that_ends_in_time_is_only_waited_for(saver: SqliteSaver, path: Path) -> None:
    world = World(saver)
    with locked(path) as holder:
        assert holder.stdin is not None
        release = threading.Timer(0.2, holder.stdin.close)
        release.start()
        assert world.begin(3) == 3
        release.join()


# -- damage


def two_threads(path: Path) -> None:
    with SqliteSaver(path) as saver:
        world = World(saver)
        for thread in ("bad", "good"):
            world.begin(40, thread)


def in_a_text(content: bytes, checkpoint: str) -> slice:
    """The end of a text of the thread."""
    place = content.index(b"0" * 500 + b"37") + 500
    return slice(place - 400, place + 30)


def a_page_of_text(content: bytes, checkpoint: str) -> slice:
    return page_of(content.index(b"0" * 500 + b"37"))


def a_page_of_rows(content: bytes, checkpoint: str) -> slice:
    """The page where a checkpoint is."""
    return page_of(content.index(bytes.fromhex(checkpoint)))


def page_of(place: int) -> slice:
    return slice(place // PAGE * PAGE, place // PAGE * PAGE + PAGE)


@pytest.mark.parametrize(
    ("where", "said"),
    [
        (in_a_text, "is damaged: a stored value cannot be read"),
        (a_page_of_text, "is damaged: "),
        (a_page_of_rows, r"runs\.db is damaged: database disk image is malformed"),
    ],
)
def test_bytes_overwritten_in_one_thread_leave_the_others_readable(
    path: Path, where: Callable[[bytes, str], slice], said: str
) -> None:
    two_threads(path)
    with SqliteSaver(path) as saver:
        history = saver.history("bad")
        assert isinstance(history, list)
    content = bytearray(path.read_bytes())
    damage = where(bytes(content), history[20].id)
    content[damage] = b"\xff" * (damage.stop - damage.start)
    path.write_bytes(content)
    with SqliteSaver(path) as saver:
        world = World(saver)
        with pytest.raises(DamagedDatabase, match=said):
            saver.load("bad")
        with pytest.raises(DamagedDatabase):
            world.app.invoke({"goal": 50}, thread_id="bad")
        assert world.saved("good") == 40
        assert world.app.invoke({"goal": 45}, thread_id="good")["n"] == 45
        assert world.saved("good") == 45
        assert sorted(entry.thread_id for entry in saver.threads()) == ["bad", "good"]


def test_a_file_without_its_header_is_not_a_database(path: Path) -> None:
    two_threads(path)
    whole = path.read_bytes()
    path.write_bytes(bytes(PAGE) + whole[PAGE:])
    with pytest.raises(DamagedDatabase, match=r"runs\.db is damaged"):
        SqliteSaver(path)
    path.write_bytes(whole)
    with SqliteSaver(path) as saver:
        assert World(saver).saved("good") == 40


@pytest.mark.parametrize("by_writing", [False, True])
def test_a_reference_to_an_error_does_not_block_later_saves(
    path: Path, monkeypatch: pytest.MonkeyPatch, by_writing: bool
) -> None:
    """A statement that was not at its end when it failed would hold its connection at the state that it has read."""
    monkeypatch.setattr(module, "BUSY_TIMEOUT", 0.1)

    def fail(connection: sqlite3.Connection) -> None:
        rows = connection.execute("SELECT * FROM records")
        next(rows)
        raise DamagedDatabase("this is no record")

    with SqliteSaver(path) as saver, SqliteSaver(path) as other:
        world = World(saver)
        world.begin(5)
        with pytest.raises(DamagedDatabase) as kept:
            saver.database.write(fail) if by_writing else saver.database.submit_read(fail).result()
        assert World(other).app.invoke({"goal": 7}, thread_id="1")["n"] == 7
        assert world.saved() == 7
        assert world.app.invoke({"goal": 9}, thread_id="1")["n"] == 9
        assert world.saved() == 9
        del kept


# -- not this file, not this key


def test_a_wrong_key_and_a_newer_format_change_nothing(path: Path) -> None:
    with SqliteSaver(path, key=KEY) as saver:
        World(saver).begin(3)
    before = path.read_bytes()
    for key in (OTHER, None):
        with pytest.raises(WrongEncryptionKey):
            SqliteSaver(path, key=key)
    set_format(path, FORMAT + 1)
    with pytest.raises(NewerFormat, match=f"has format {FORMAT + 1}"):
        SqliteSaver(path, key=KEY)
    set_format(path, FORMAT)
    assert len(path.read_bytes()) == len(before)
    with SqliteSaver(path, key=KEY) as saver:
        assert World(saver).saved() == 3


def set_format(path: Path, number: int) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version={number}")


# -- commits that are refused


@pytest.mark.parametrize("durability", ["sync", "async"])
def test_a_head_that_another_run_has_moved_is_a_conflict(saver: SqliteSaver, path: Path, durability: str) -> None:
    with SqliteSaver(path) as other:

        def interfere(n: int) -> None:
            if n == 3 and other.load("1", checkpoint_id=CheckpointId("f" * 32)) is None:
                move_head(other)

        world = World(saver, interfere)
        with pytest.raises(CheckpointConflict, match=r"is at checkpoint f{32}.*Nothing was written"):
            world.begin(6, durability=durability)
        head = other.load("1")
        assert isinstance(head, SavedCheckpoint)
        assert head.id == "f" * 32
        assert world.go_on() == 6
        assert world.saved() == 6


def move_head(saver: SqliteSaver) -> None:
    """Commit the head of the thread once more, as another run would that does not heed leases."""
    head = saver.load("1")
    while isinstance(head, SavedCheckpoint) and head.checkpoint.values["n"] < 3:
        head = saver.load("1")  # the run may not have saved its last superstep yet
    assert isinstance(head, SavedCheckpoint)
    known = head.checkpoint
    checkpoint = Checkpoint("f" * 32, known.step + 1, known.values, known.frontier)
    commit = Commit(
        branch_key=BranchKey("1"),
        expected=head.id,
        parent_id=head.id,
        checkpoint=checkpoint,
        deltas={},
        source="update",
        run_id="somebody",
        created_at=head.created_at,
    )
    saver.commit(commit)


class Unknown:
    """Nobody has said that values of this type may be stored."""


@pytest.mark.parametrize("durability", DURABILITIES)
def test_a_value_that_cannot_be_stored_is_named_and_nothing_of_its_superstep_is_saved(
    saver: SqliteSaver, durability: str
) -> None:
    answers: list[Any] = [{"deep": [1, {"er": Unknown()}]}]
    world = World(saver, lambda n: answers[0] if n >= 3 else n)
    world.begin(1)
    with pytest.raises(SerdeError, match=r"Unknown is not known\. Name the type") as caught:
        world.app.invoke({"goal": 6}, thread_id="1", durability=durability)
    assert caught.value.key_path == "values.last.deep[1].er"
    assert world.saved() == (1 if durability == "exit" else 3)
    answers[0] = "known"
    world.clock.advance(LAPSED)
    assert world.app.invoke({"goal": 6}, thread_id="1", on_unfinished="discard")["n"] == 6
    assert world.saved() == 6


# -- the file itself


def moved_away(path: Path) -> None:
    path.rename(path.with_name("moved.db"))


def removed(path: Path) -> None:
    for one in path.parent.glob("runs.db*"):
        one.unlink()


def replaced(path: Path) -> None:
    with SqliteSaver(path.with_name("other.db")) as other:
        World(other).begin(1)
    path.with_name("other.db").replace(path)


@pytest.mark.skipif(os.name != "posix", reason="an open file stays in its place on this system")
@pytest.mark.parametrize("deed", [moved_away, removed, replaced])
@pytest.mark.parametrize("durability", ["sync", "async"])
def test_a_run_does_not_write_to_an_unlinked_file(path: Path, deed: Callable[[Path], None], durability: str) -> None:
    with SqliteSaver(path) as saver:
        world = World(saver, lambda n: deed(path) if n == 3 else None)
        with pytest.raises(StorageUnavailable, match=r"runs\.db was removed or replaced while it was open"):
            world.begin(6, durability=durability)
        with pytest.raises(StorageUnavailable, match="removed or replaced"):
            saver.load("1")
        with pytest.raises(StorageUnavailable, match="removed or replaced"):
            asyncio.run(world.app.ainvoke({"n": 0, "goal": 1}, thread_id="2"))
        assert path.exists() is (deed is replaced)


@pytest.mark.skipif(os.name != "posix", reason="an open file stays in its place on this system")
def test_a_file_that_is_put_back_is_used_again(saver: SqliteSaver, path: Path) -> None:
    world = World(saver, lambda n: moved_away(path) if n == 3 else None)
    with pytest.raises(StorageUnavailable, match="Put the file back"):
        world.begin(6, durability="sync")
    path.with_name("moved.db").rename(path)
    assert world.saved() == 3
    world = World(saver, clock=world.clock)
    assert world.go_on() == 6


def test_a_database_stays_the_same_when_the_working_folder_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    with SqliteSaver("runs.db") as saver:
        world = World(saver)
        world.begin(2)
        monkeypatch.chdir("elsewhere")
        with saver.database.read(), saver.database.read():  # connections that did not exist before
            assert world.saved() == 2
        assert world.app.invoke({"goal": 4}, thread_id="1")["n"] == 4
    assert list((tmp_path / "elsewhere").iterdir()) == []


# -- who may not write


def as_nobody(path: Path) -> list[str]:
    """What opening, reading and running say to a user who may only read."""
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
    said: list[str] = []
    try:
        with SqliteSaver(path) as saver:
            world = World(saver)
            said.append(str(world.saved()))
            world.app.invoke({"goal": 9}, thread_id="1")
    except StorageUnavailable as error:
        said.append(str(error))
    return said


@posix
@forks
@pytest.mark.parametrize("may_make_files", [True, False])
def test_a_missing_write_permission_is_reported(may_make_files: bool) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder, path = Path(name), Path(name) / "runs.db"
        with SqliteSaver(path) as saver:
            World(saver).begin(3)
        path.chmod(0o444)
        folder.chmod(0o777 if may_make_files else 0o555)
        try:
            said = in_child(as_nobody, path)
        finally:
            folder.chmod(0o700)
            path.chmod(0o600)
        assert "runs.db cannot be" in said[-1]
        check_file(path)
        with SqliteSaver(path) as saver:
            assert World(saver).saved() == 3


# -- copies


def test_a_copy_that_is_made_while_a_run_continues_is_whole(saver: SqliteSaver, path: Path, tmp_path: Path) -> None:
    copies: list[Path] = []

    def copy(n: int) -> None:
        if n % 50 == 25:
            copies.append(tmp_path / f"copy-{n}.db")
            with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(copies[-1])) as target:
                source.backup(target)

    world = World(saver, copy)
    world.begin(200, durability="async")
    assert len(copies) == 4
    for one in copies:
        n = int(one.stem.partition("-")[2])
        check_file(one)
        with SqliteSaver(one) as copied:
            again = World(copied)
            assert n - 2 <= again.saved() <= n
            assert again.go_on() == 200
            assert again.saved() == 200


def test_a_copy_of_the_file_and_its_log_is_whole(saver: SqliteSaver, path: Path, tmp_path: Path) -> None:
    """Between two commits, as a snapshot of the disk is."""

    def copy(n: int) -> None:
        if n == 7:
            for one in ("runs.db", "runs.db-wal"):
                (tmp_path / "copy").mkdir(exist_ok=True)
                shutil.copy(path.with_name(one), tmp_path / "copy" / one)

    World(saver, copy).begin(10, durability="sync")
    with SqliteSaver(tmp_path / "copy" / "runs.db") as copied:
        again = World(copied)
        assert again.saved() == 7
        assert again.go_on() == 10
