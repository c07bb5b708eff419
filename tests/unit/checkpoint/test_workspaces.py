"""Workspaces of savers: two workspaces of one saver behave like two savers."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from statewright.checkpoint import (
    NO_ARG,
    BranchKey,
    Checkpoint,
    Commit,
    InMemorySaver,
    LeaseRequest,
    Pending,
    PrunePolicy,
    Task,
    WorkspaceCheckpointer,
    check_workspace,
)
from statewright.errors import InvalidConfig, StatewrightError
from statewright.ids import CheckpointId
from statewright.storage.sqlite import SqliteDatabase, SqliteSaver

NOW = datetime(2026, 1, 1, tzinfo=UTC)
THREADS = ("t", "u")
STEPS = 150


class RandomUser:
    """Performs random operations on a saver."""

    def __init__(self, saver: WorkspaceCheckpointer) -> None:
        self.saver = saver

    def act(self, step: int, rng: random.Random) -> Any:
        """Perform an operation chosen by `rng`, and return its result or its error."""
        thread, owner = rng.choice(THREADS), rng.choice("ab")
        operations = [self.commit, self.commit, self.commit, self.save, self.lease, self.copy, self.delete]
        try:
            return rng.choice(operations)(step, thread, owner)
        except StatewrightError as error:
            return type(error).__name__, str(error)

    def commit(self, step: int, thread: str, owner: str) -> Any:
        head: Any = self.saver.load(thread)
        checkpoint_id = CheckpointId(f"{step:032x}")
        return self.saver.commit(
            Commit(
                branch_key=BranchKey(thread),
                expected=head.id if head else None,
                parent_id=head.id if head else None,
                checkpoint=Checkpoint(checkpoint_id, step, {"n": step}, (Task("a", NO_ARG, checkpoint_id, 0),)),
                deltas={"n": step},
                source="loop",
                run_id="run",
                created_at=NOW,
                metadata={},
                hold=LeaseRequest(owner, NOW, NOW.replace(year=2027) if step % 2 else None, claims=True),
            )
        )

    def save(self, step: int, thread: str, owner: str) -> Any:
        head: Any = self.saver.load(thread)
        checkpoint_id = head.id if head else CheckpointId(f"{step:032x}")
        return self.saver.save_results(BranchKey(thread), checkpoint_id, Pending(attempts={"x": step}))  # type: ignore[dict-item]

    def lease(self, step: int, thread: str, owner: str) -> Any:
        return self.saver.want(thread, f"{owner}{step}"), self.saver.renew(
            thread, LeaseRequest(owner, NOW, None, claims=True)
        )

    def copy(self, step: int, thread: str, owner: str) -> Any:
        return self.saver.copy_thread(thread, f"{thread}{step % 5}")

    def delete(self, step: int, thread: str, owner: str) -> Any:
        if step % 3:
            return self.saver.prune(PrunePolicy(keep_last=2), thread_id=thread if step % 2 else None)
        return self.saver.delete_thread(f"{thread}{step % 5}")

    def dump(self) -> Any:
        names: list[Any] = sorted(thread.thread_id for thread in self.saver.threads())  # type: ignore[union-attr]
        return [
            (name, self.saver.lease(name), self.saver.branches(name), [repr(row) for row in self.history(name)])
            for name in names
        ]

    def history(self, name: str) -> Any:
        return [
            (saved.id, saved.parent_id, saved.checkpoint.values, saved.pending.attempts)
            for saved in self.saver.history(name)  # type: ignore[union-attr]
        ]


@pytest.fixture(params=["memory", "sqlite"])
def new_saver(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    with ExitStack() as stack:
        numbers = iter(range(10))

        def create() -> Any:
            if request.param == "memory":
                return InMemorySaver()
            return stack.enter_context(SqliteSaver(tmp_path / f"{next(numbers)}.db"))

        yield create


@pytest.mark.parametrize("seed", range(5))
def test_two_workspaces_of_a_saver_behave_like_two_savers(new_saver: Any, seed: int) -> None:
    shared = new_saver()
    pairs = [(RandomUser(shared.for_workspace(name)), RandomUser(new_saver())) for name in ("one", "two")]
    rng = random.Random(seed)
    for step in range(STEPS):
        shared_user, separate_user = rng.choice(pairs)
        state = rng.getstate()
        actual = shared_user.act(step, rng)
        rng.setstate(state)
        assert actual == separate_user.act(step, rng), step
    for shared_user, separate_user in pairs:
        assert shared_user.dump() == separate_user.dump()
    assert shared.threads() == []


def test_closing_the_saver_of_a_workspace_keeps_the_database_open(tmp_path: Path) -> None:
    with SqliteSaver(tmp_path / "runs.db") as saver:
        workspace_saver = saver.for_workspace("one")
        workspace_saver.close()
        assert workspace_saver.threads() == saver.threads() == []


def test_savers_of_one_file_and_workspace_share_a_scope(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    with SqliteDatabase(path) as database, SqliteSaver(path, workspace="one") as second:
        first = SqliteSaver(database, workspace="one")
        assert first.scope == second.scope == SqliteSaver(database).for_workspace("one").scope
        assert first.scope != SqliteSaver(database).scope


@pytest.mark.parametrize("name", ["", None, 7, b"one", "half \ud800"])
def test_an_invalid_workspace_name_is_refused_before_a_file_is_created(tmp_path: Path, name: Any) -> None:
    for check in (check_workspace, lambda value: InMemorySaver(workspace=value)):
        with pytest.raises(InvalidConfig, match=r"workspace is .*Give "):
            check(name)
    with pytest.raises(InvalidConfig):
        SqliteSaver(tmp_path / "runs.db", workspace=name)
    assert not (tmp_path / "runs.db").exists()
