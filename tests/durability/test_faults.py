"""Real faults of the environment: after each of them the last commit is readable, and nothing is written partially.

A run raises an error that explains the fault. Once the cause is gone, the thread continues from its saved state.
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
from statewright.cli.db.files import connect_to_read
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
"""Seconds after which a test fails. No test that passes waits this long."""
DURABILITIES = ("sync", "async", "exit")
LAPSED = LEASE + timedelta(seconds=1)
"""A time after which the lease of a stopped run has lapsed."""


class State(TypedDict, total=False):
    n: Annotated[int, operator.add]
    text: Annotated[list[str], append]
    goal: int
    last: Any


class Acknowledged(Instrument):
    """The steps that were reported as committed; with `sync` durability they are saved by then."""

    def __init__(self) -> None:
        self.steps: list[int] = []

    def on_commit(self, event: Any) -> None:
        self.steps.append(event.data.checkpoint.step)


Action = Callable[[int], Any]


def nothing(n: int) -> Any:
    return n


class World:
    """A graph on a saver: a loop in which two fields grow up to a goal."""

    def __init__(self, saver: SqliteSaver, action: Action = nothing, clock: FakeClock | None = None) -> None:
        self.saver = saver
        self.clock = clock or FakeClock()
        self.acknowledged = Acknowledged()
        self._action = action
        graph = StateGraph(State).add_node("turn", self._turn).add_edge(START, "turn")
        graph.add_conditional_edges("turn", lambda s: "turn" if s["n"] < s["goal"] else END, ["turn", END])
        self.app: Any = graph.compile(saver, clock=self.clock, instruments=[self.acknowledged])

    def _turn(self, state: Any) -> dict[str, Any]:
        n = state["n"]
        return {"n": 1, "text": [f"{n}".zfill(3000)], "last": self._action(n)}

    def begin(self, goal: int, thread: str = "1", **options: Any) -> Any:
        return self.app.invoke({"n": 0, "goal": goal}, thread_id=thread, **options)["n"]

    def resume(self, thread: str = "1", **options: Any) -> Any:
        """Continue after the lease of a stopped run has lapsed."""
        self.clock.advance(LAPSED)
        return self.app.invoke(None, thread_id=thread, **options)["n"]

    def saved(self, thread: str = "1") -> int:
        """Read and check everything that is saved of a thread; return its counter."""
        history = self.saver.history(thread)
        assert isinstance(history, list)
        for newer, older in itertools.pairwise(history):
            assert newer.parent_id == older.id
            assert newer.checkpoint.step == older.checkpoint.step + 1
        for saved in history:
            values = saved.checkpoint.values
            assert values["text"] == [f"{n}".zfill(3000) for n in range(values["n"])]
        list(self.saver.events(thread))
        head = self.saver.load(thread)
        assert isinstance(head, SavedCheckpoint)
        return head.checkpoint.values["n"]


def check_file(path: Path) -> None:
    """Check the integrity of the file."""
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


# -- full disks


@pytest.mark.parametrize("durability", DURABILITIES)
def test_a_full_database_keeps_the_last_commit(saver: SqliteSaver, durability: str) -> None:
    world = World(saver)
    world.begin(3)
    pages = limit_pages(saver, 1)
    limit_pages(saver, pages + 20)
    with pytest.raises(StorageFull, match=r"no space left for .*runs\.db.*Nothing was written. Free some space"):
        world.app.invoke({"goal": 100}, thread_id="1", durability=durability)
    reached = world.saved()
    assert 3 <= reached < 100
    if durability == "sync":
        assert max(world.acknowledged.steps) <= saver.history("1", limit=1)[0].checkpoint.step
    limit_pages(saver, 1 << 30)
    world.clock.advance(LAPSED)
    assert world.app.invoke({"goal": 100}, thread_id="1", on_unfinished="discard")["n"] == 100
    assert world.saved() == 100


def limit_pages(saver: SqliteSaver, pages: int) -> int:
    """Limit the pages of the file, but not below its present number; return that number."""
    set_limit = f"PRAGMA max_page_count={pages}"
    saver.database.write(lambda connection: connection.execute(set_limit).fetchone())
    return saver.database.write(lambda connection: connection.execute("PRAGMA page_count").fetchone()[0])


def in_child(function: Callable[..., Any], *args: Any) -> Any:
    """Call a function in a separate process, which may change its limits and its user; return its result."""
    fork = multiprocessing.get_context("fork")
    results = fork.SimpleQueue()

    def call() -> None:
        try:
            results.put((function(*args), None))
        except BaseException as error:
            results.put((None, f"{type(error).__name__}: {error}"))

    child = fork.Process(target=call)
    child.start()
    result, error = results.get()
    child.join(LONG)
    assert error is None, error
    return result


forks = pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
posix = pytest.mark.skipif(os.name != "posix", reason="this system does not limit files")


def run_without_room(path: Path, durability: str, driver: str) -> dict[str, Any]:
    """Run while the size of files is limited, and again without a limit."""
    import resource

    def limit(size: int) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

    report: dict[str, Any] = {}
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
            report["error"], report["message"] = type(error).__name__, str(error)
        report["saved"] = world.saved()
        report["acknowledged"] = max(world.acknowledged.steps)
        report["step"] = saver.history("1", limit=1)[0].checkpoint.step
        limit(resource.RLIM_INFINITY)
        world.clock.advance(LAPSED)
        world.app.invoke({"goal": 100}, thread_id="1", on_unfinished="discard")
        report["ended"] = world.saved()
    return report


@posix
@forks
@pytest.mark.parametrize("driver", ["sync", "async"])
@pytest.mark.parametrize("durability", ["sync", "async"])
def test_a_file_that_cannot_grow_keeps_the_last_commit(path: Path, durability: str, driver: str) -> None:
    report = in_child(run_without_room, path, durability, driver)
    assert report["error"] == "StorageFull"
    assert "no space left" in report["message"]
    assert 3 < report["saved"] < 100
    if durability == "sync":
        assert report["acknowledged"] <= report["step"]
    assert report["ended"] == 100
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


def migrate_and_die(path: Path, messages: Any) -> None:
    """Exit in the middle of a migration, after writing everything and before the commit."""

    def die(connection: sqlite3.Connection, encryption: Any) -> None:
        step(connection, encryption)
        messages.put("dies")
        os._exit(1)

    step = migrate.STEPS[-1]
    migrate.STEPS = (*migrate.STEPS[:-1], die)  # in this process only
    SqliteSaver(path).close()


@posix
@forks
@pytest.mark.parametrize("dies", [False, True])
def test_an_interrupted_migration_changes_nothing(path: Path, dies: bool) -> None:
    shutil.copy(RECORDED, path)
    if dies:
        fork = multiprocessing.get_context("fork")
        messages = fork.SimpleQueue()
        child = fork.Process(target=migrate_and_die, args=(path, messages))
        child.start()
        assert messages.get() == "dies"
        child.join(LONG)
    else:
        assert "no space left" in in_child(migrate_without_room, path)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (1,)
        assert connection.execute("SELECT count(*) FROM records").fetchone() == (67,)
    with SqliteSaver(path) as saver:
        assert sorted(entry.thread_id for entry in saver.threads()) == ["ask", "join", "long", "remembers", "timer"]


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
    """Let another process hold an exclusive lock during the block, or until its input is closed."""
    command = [sys.executable, "-c", HOLD, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "held\n"
            yield holder
        finally:
            holder.kill()


@pytest.mark.parametrize("durability", DURABILITIES)
def test_a_run_waits_for_a_locked_file_and_then_raises_an_error(
    path: Path, monkeypatch: pytest.MonkeyPatch, durability: str
) -> None:
    monkeypatch.setattr(module, "BUSY_TIMEOUT", 0.1)
    with SqliteSaver(path) as saver:
        world = World(saver)
        world.begin(3)
        with locked(path):
            with pytest.raises(StorageLocked, match=r"Another process has .*runs\.db locked.*Nothing was written"):
                world.app.invoke({"goal": 5}, thread_id="1", durability=durability)
            assert world.saved() == 3  # readers do not wait for writers
        assert world.app.invoke({"goal": 5}, thread_id="1")["n"] == 5


def test_a_lock_during_a_run_stops_it_at_its_last_commit(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
        assert world.resume() == 6
        assert world.saved() == 6


def test_a_lock_that_ends_in_time_only_delays_the_run(saver: SqliteSaver, path: Path) -> None:
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
    """The end of a text of the thread 'bad'."""
    position = content.index(b"0" * 500 + b"37") + 500
    return slice(position - 400, position + 30)


def a_page_of_text(content: bytes, checkpoint: str) -> slice:
    return page_of(content.index(b"0" * 500 + b"37"))


def a_page_of_rows(content: bytes, checkpoint: str) -> slice:
    """The page of a checkpoint."""
    return page_of(content.index(bytes.fromhex(checkpoint)))


def page_of(position: int) -> slice:
    return slice(position // PAGE * PAGE, position // PAGE * PAGE + PAGE)


@pytest.mark.parametrize(
    ("where", "message"),
    [
        (in_a_text, "is damaged: a stored value cannot be read"),
        (a_page_of_text, "is damaged: "),
        (a_page_of_rows, r"runs\.db is damaged: database disk image is malformed"),
    ],
)
def test_damage_to_one_thread_leaves_others_readable(
    path: Path, where: Callable[[bytes, str], slice], message: str
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
        with pytest.raises(DamagedDatabase, match=message):
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
    """An unfinished statement that fails must not keep its connection at an old snapshot."""
    monkeypatch.setattr(module, "BUSY_TIMEOUT", 0.1)

    def fail(connection: sqlite3.Connection) -> None:
        rows = connection.execute("SELECT * FROM records")
        next(rows)
        raise DamagedDatabase("this is no record")

    with SqliteSaver(path) as saver, SqliteSaver(path) as other:
        world = World(saver)
        world.begin(5)
        with pytest.raises(DamagedDatabase) as error:  # a reference
            saver.database.write(fail) if by_writing else saver.database.submit_read(fail).result()
        assert World(other).app.invoke({"goal": 7}, thread_id="1")["n"] == 7
        assert world.saved() == 7
        assert world.app.invoke({"goal": 9}, thread_id="1")["n"] == 9
        assert world.saved() == 9
        del error


# -- wrong keys and newer formats


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


# -- refused commits


@pytest.mark.parametrize("durability", ["sync", "async"])
def test_a_head_moved_by_another_run_is_a_conflict(saver: SqliteSaver, path: Path, durability: str) -> None:
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
        assert world.resume() == 6
        assert world.saved() == 6


def move_head(saver: SqliteSaver) -> None:
    """Commit another head of the thread, like a run that ignores leases."""
    head = saver.load("1")
    while isinstance(head, SavedCheckpoint) and head.checkpoint.values["n"] < 3:
        head = saver.load("1")  # the run may not have saved its last superstep yet
    assert isinstance(head, SavedCheckpoint)
    previous = head.checkpoint
    checkpoint = Checkpoint("f" * 32, previous.step + 1, previous.values, previous.frontier)
    commit = Commit(
        branch_key=BranchKey("1"),
        expected=head.id,
        parent_id=head.id,
        checkpoint=checkpoint,
        deltas={},
        source="update",
        run_id="another",
        created_at=head.created_at,
    )
    saver.commit(commit)


class Unknown:
    """A type that is not registered for storage."""


@pytest.mark.parametrize("durability", DURABILITIES)
def test_an_unknown_type_is_named_and_nothing_of_its_superstep_is_saved(saver: SqliteSaver, durability: str) -> None:
    results: list[Any] = [{"deep": [1, {"er": Unknown()}]}]
    world = World(saver, lambda n: results[0] if n >= 3 else n)
    world.begin(1)
    with pytest.raises(SerdeError, match=r"Unknown is not registered\. Name the type") as caught:
        world.app.invoke({"goal": 6}, thread_id="1", durability=durability)
    assert caught.value.key_path == "values.last.deep[1].er"
    assert world.saved() == (1 if durability == "exit" else 3)
    results[0] = "known"
    world.clock.advance(LAPSED)
    assert world.app.invoke({"goal": 6}, thread_id="1", on_unfinished="discard")["n"] == 6
    assert world.saved() == 6


# -- the file itself


def moved_away(path: Path) -> None:
    path.rename(path.with_name("moved.db"))


def removed(path: Path) -> None:
    for file in path.parent.glob("runs.db*"):
        file.unlink()


def replaced(path: Path) -> None:
    with SqliteSaver(path.with_name("other.db")) as other:
        World(other).begin(1)
    path.with_name("other.db").replace(path)


@pytest.mark.skipif(os.name != "posix", reason="open files cannot be moved on this system")
@pytest.mark.parametrize("action", [moved_away, removed, replaced])
@pytest.mark.parametrize("durability", ["sync", "async"])
def test_a_run_does_not_write_to_an_unlinked_file(path: Path, action: Callable[[Path], None], durability: str) -> None:
    with SqliteSaver(path) as saver:
        world = World(saver, lambda n: action(path) if n == 3 else None)
        with pytest.raises(StorageUnavailable, match=r"runs\.db was removed or replaced while it was open"):
            world.begin(6, durability=durability)
        with pytest.raises(StorageUnavailable, match="removed or replaced"):
            saver.load("1")
        with pytest.raises(StorageUnavailable, match="removed or replaced"):
            asyncio.run(world.app.ainvoke({"n": 0, "goal": 1}, thread_id="2"))
        assert path.exists() is (action is replaced)


@pytest.mark.skipif(os.name != "posix", reason="open files cannot be moved on this system")
def test_a_file_that_is_put_back_can_be_used_again(saver: SqliteSaver, path: Path) -> None:
    world = World(saver, lambda n: moved_away(path) if n == 3 else None)
    with pytest.raises(StorageUnavailable, match="Restore the file"):
        world.begin(6, durability="sync")
    path.with_name("moved.db").rename(path)
    assert world.saved() == 3
    world = World(saver, clock=world.clock)
    assert world.resume() == 6


def test_changing_the_working_folder_does_not_change_the_database(
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


# -- missing permissions


def become_nobody() -> None:
    """Continue as a user who may only read."""
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)


def as_nobody(path: Path) -> list[str]:
    """Open, read and run as a user who may only read; return the results and the error."""
    become_nobody()
    messages: list[str] = []
    try:
        with SqliteSaver(path) as saver:
            world = World(saver)
            messages.append(str(world.saved()))
            world.app.invoke({"goal": 9}, thread_id="1")
    except StorageUnavailable as error:
        messages.append(str(error))
    return messages


@posix
@forks
@pytest.mark.parametrize("may_create_files", [True, False])
def test_a_missing_write_permission_is_reported(may_create_files: bool) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder, path = Path(name), Path(name) / "runs.db"
        with SqliteSaver(path) as saver:
            World(saver).begin(3)
        path.chmod(0o444)
        folder.chmod(0o777 if may_create_files else 0o555)
        try:
            messages = in_child(as_nobody, path)
        finally:
            folder.chmod(0o700)
            path.chmod(0o600)
        assert "runs.db cannot be" in messages[-1]
        check_file(path)
        with SqliteSaver(path) as saver:
            assert World(saver).saved() == 3


def read_as_nobody(path: Path) -> str:
    """Read a database as a user who may only read; return the numbers in it, or the error."""
    become_nobody()
    try:
        with closing(connect_to_read(path)) as connection:
            return str(connection.execute("SELECT * FROM numbers").fetchall())
    except sqlite3.OperationalError as error:
        return str(error)


@posix
@forks
@pytest.mark.parametrize(
    ("mode", "is_killed", "result"),
    [
        ("WAL", False, "[(1,)]"),
        ("WAL", True, "unable to open database file"),
        ("DELETE", False, "[(1,)]"),
        ("DELETE", True, "attempt to write a readonly database"),
    ],
)
def test_without_write_permission_a_database_is_read_unless_it_has_to_be_repaired(
    mode: str, is_killed: bool, result: str
) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder, path, copy = Path(name), Path(name) / "numbers.db", Path(name) / "copy.db"
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute(f"PRAGMA journal_mode={mode}")
            connection.execute("CREATE TABLE numbers (n)")
            connection.execute("INSERT INTO numbers VALUES (1)")
            connection.execute("BEGIN")
            if is_killed:
                connection.execute("PRAGMA cache_size=1")  # so that pages are written before the end of the transaction
                connection.executemany("INSERT INTO numbers VALUES (?)", [(number,) for number in range(10_000)])
                for suffix in ("", "-wal", "-journal"):
                    if os.path.exists(f"{path}{suffix}"):
                        shutil.copy(f"{path}{suffix}", f"{copy}{suffix}")
            connection.execute("ROLLBACK")
        for file in folder.iterdir():
            file.chmod(0o444)
        folder.chmod(0o555)
        try:
            assert in_child(read_as_nobody, copy if is_killed else path) == result
        finally:
            folder.chmod(0o700)


# -- copies


def test_a_copy_made_during_a_run_is_complete(saver: SqliteSaver, path: Path, tmp_path: Path) -> None:
    copies: list[Path] = []

    def copy(n: int) -> None:
        if n % 50 == 25:
            copies.append(tmp_path / f"copy-{n}.db")
            with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(copies[-1])) as target:
                source.backup(target)

    world = World(saver, copy)
    world.begin(200, durability="async")
    assert len(copies) == 4
    for file in copies:
        n = int(file.stem.partition("-")[2])
        check_file(file)
        with SqliteSaver(file) as copied:
            world = World(copied)
            assert n - 2 <= world.saved() <= n
            assert world.resume() == 200
            assert world.saved() == 200


def test_a_copy_of_the_file_and_its_wal_is_complete(saver: SqliteSaver, path: Path, tmp_path: Path) -> None:
    """The copy is made between two commits, like a snapshot of the disk."""

    def copy(n: int) -> None:
        if n == 7:
            for name in ("runs.db", "runs.db-wal"):
                (tmp_path / "copy").mkdir(exist_ok=True)
                shutil.copy(path.with_name(name), tmp_path / "copy" / name)

    World(saver, copy).begin(10, durability="sync")
    with SqliteSaver(tmp_path / "copy" / "runs.db") as copied:
        world = World(copied)
        assert world.saved() == 7
        assert world.resume() == 10
