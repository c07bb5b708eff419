"""Workspaces of savers: whatever happens in two of them at once is what would happen in two savers."""

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


class World:
    """A saver, and what is known of its heads."""

    def __init__(self, saver: WorkspaceCheckpointer) -> None:
        self.saver = saver

    def act(self, step: int, dice: random.Random) -> Any:
        """Do something that the dice choose; what came of it."""
        thread, owner = dice.choice(THREADS), dice.choice("ab")
        action = dice.choice([self.commit, self.commit, self.commit, self.note, self.hold, self.copy, self.forget])
        try:
            return action(step, thread, owner)
        except StatewrightError as error:
            return type(error).__name__, str(error)

    def commit(self, step: int, thread: str, owner: str) -> Any:
        head: Any = self.saver.load(thread)
        identity = CheckpointId(f"{step:032x}")
        return self.saver.commit(
            Commit(
                branch_key=BranchKey(thread),
                expected=head.id if head else None,
                parent_id=head.id if head else None,
                checkpoint=Checkpoint(identity, step, {"n": step}, (Task("a", NO_ARG, identity, 0),)),
                deltas={"n": step},
                source="loop",
                run_id="run",
                created_at=NOW,
                metadata={},
                hold=LeaseRequest(owner, NOW, NOW.replace(year=2027) if step % 2 else None, claims=True),
            )
        )

    def note(self, step: int, thread: str, owner: str) -> Any:
        head: Any = self.saver.load(thread)
        identity = head.id if head else CheckpointId(f"{step:032x}")
        return self.saver.save_results(BranchKey(thread), identity, Pending(attempts={"x": step}))  # type: ignore[dict-item]

    def hold(self, step: int, thread: str, owner: str) -> Any:
        return self.saver.want(thread, f"{owner}{step}"), self.saver.renew(
            thread, LeaseRequest(owner, NOW, None, claims=True)
        )

    def copy(self, step: int, thread: str, owner: str) -> Any:
        return self.saver.copy_thread(thread, f"{thread}{step % 5}")

    def forget(self, step: int, thread: str, owner: str) -> Any:
        if step % 3:
            return self.saver.prune(PrunePolicy(keep_last=2), thread_id=thread if step % 2 else None)
        return self.saver.delete_thread(f"{thread}{step % 5}")

    def everything(self) -> Any:
        names: list[Any] = sorted(one.thread_id for one in self.saver.threads())  # type: ignore[union-attr]
        return [
            (name, self.saver.lease(name), self.saver.branches(name), [repr(one) for one in self.history(name)])
            for name in names
        ]

    def history(self, name: str) -> Any:
        return [
            (one.id, one.parent_id, one.checkpoint.values, one.pending.attempts)
            for one in self.saver.history(name)  # type: ignore[union-attr]
        ]


@pytest.fixture(params=["memory", "sqlite"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    with ExitStack() as stack:
        numbers = iter(range(10))

        def new() -> Any:
            if request.param == "memory":
                return InMemorySaver()
            return stack.enter_context(SqliteSaver(tmp_path / f"{next(numbers)}.db"))

        yield new


@pytest.mark.parametrize("seed", range(5))
def test_two_workspaces_are_like_two_savers(make: Any, seed: int) -> None:
    shared = make()
    pairs = [(World(shared.for_workspace(name)), World(make())) for name in ("one", "two")]
    dice = random.Random(seed)
    for step in range(STEPS):
        here, apart = dice.choice(pairs)
        state = dice.getstate()
        told = here.act(step, dice)
        dice.setstate(state)
        assert told == apart.act(step, dice), step
    for here, apart in pairs:
        assert here.everything() == apart.everything()
    assert shared.threads() == []


def test_a_view_of_a_database_closes_nothing(tmp_path: Path) -> None:
    with SqliteSaver(tmp_path / "runs.db") as saver:
        view = saver.for_workspace("one")
        view.close()
        assert view.threads() == saver.threads() == []


def test_savers_of_one_file_share_a_scope(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    with SqliteDatabase(path) as database, SqliteSaver(path, workspace="one") as other:
        one = SqliteSaver(database, workspace="one")
        assert one.scope == other.scope == SqliteSaver(database).for_workspace("one").scope
        assert one.scope != SqliteSaver(database).scope


@pytest.mark.parametrize("name", ["", None, 7, b"one", "half \ud800"])
def test_what_is_no_name_of_a_workspace_is_refused_before_a_file_is_made(tmp_path: Path, name: Any) -> None:
    for make in (check_workspace, lambda one: InMemorySaver(workspace=one)):
        with pytest.raises(InvalidConfig, match=r"workspace is .*Give "):
            make(name)
    with pytest.raises(InvalidConfig):
        SqliteSaver(tmp_path / "runs.db", workspace=name)
    assert not (tmp_path / "runs.db").exists()
