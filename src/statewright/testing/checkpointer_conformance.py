"""What every checkpointer must do: derive from the suite, say how to make yours, and let pytest collect it.

class TestMySaver(CheckpointerConformance):
    def make_saver(self):
        return MySaver()
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from datetime import UTC, datetime
from typing import Any, TypeVar, cast

from statewright.checkpoint import (
    NO_ARG,
    Answered,
    Checkpoint,
    Checkpointer,
    Commit,
    Interrupt,
    Line,
    Pending,
    SavedCheckpoint,
    Task,
    TaskResult,
)
from statewright.errors import CheckpointConflict, CheckpointNotFound
from statewright.ids import CheckpointId, InterruptId, draw_checkpoint_id

T = TypeVar("T")
LINE = Line("thread")


def answer(given: Answered[T]) -> T:
    """The answer of a saver, waited for if it is a future."""
    return cast("Future[T]", given).result() if isinstance(given, Future) else given


def commit_after(
    parent: str | None, *, line: Line = LINE, n: int = 0, expected: Any = ..., drops: tuple[str, ...] = ()
) -> Commit:
    """A commit that follows `parent`, which is the head unless `expected` says otherwise."""
    identity = draw_checkpoint_id()
    return Commit(
        line=line,
        expected=cast(Any, parent) if expected is ... else expected,
        parent_id=CheckpointId(parent) if parent is not None else None,
        checkpoint=Checkpoint(identity, n, {"n": n}, (Task("a", NO_ARG, identity, 0),)),
        deltas={"n": n},
        source="loop",
        run_id="run",
        created_at=datetime.now(UTC),
        metadata={"nodes": ["a"]},
        drops=drops,
    )


class CheckpointerConformance:
    """The promises of the port, one test each."""

    def make_saver(self) -> Checkpointer:
        """A new, empty saver."""
        raise NotImplementedError

    def chain(self, saver: Checkpointer, count: int, line: Line = LINE) -> list[CheckpointId]:
        """Commit `count` checkpoints, each on the one before."""
        ids: list[CheckpointId] = []
        for n in range(count):
            ids.append(answer(saver.commit(commit_after(ids[-1] if ids else None, line=line, n=n))))
        return ids

    def test_nothing_is_there_at_first(self) -> None:
        saver = self.make_saver()
        assert answer(saver.load("thread")) is None
        assert list(answer(saver.history("thread"))) == []
        assert list(answer(saver.branches("thread"))) == []

    def test_the_head_is_what_was_committed_last(self) -> None:
        saver = self.make_saver()
        ids = self.chain(saver, 3)
        head = _loaded(saver)
        assert (head.id, head.parent_id, head.checkpoint.values) == (ids[2], ids[1], {"n": 2})
        assert (head.source, head.run_id, head.metadata["nodes"]) == ("loop", "run", ["a"])

    def test_an_older_checkpoint_is_loaded_by_its_id(self) -> None:
        saver = self.make_saver()
        first, *_ = self.chain(saver, 3)
        saved = answer(saver.load("thread", checkpoint_id=first))
        assert saved is not None
        assert saved.checkpoint.values == {"n": 0}

    def test_a_commit_on_an_old_head_is_refused_and_changes_nothing(self) -> None:
        saver = self.make_saver()
        ids = self.chain(saver, 2)
        refused = _raises(CheckpointConflict, lambda: answer(saver.commit(commit_after(ids[0], n=9))))
        assert (refused.expected, refused.found) == (ids[0], ids[1])
        assert _loaded(saver).id == ids[1]
        assert [one.id for one in answer(saver.history("thread"))] == [ids[1], ids[0]]

    def test_of_many_commits_on_one_head_one_wins(self) -> None:
        saver = self.make_saver()
        (head,) = self.chain(saver, 1)
        outcomes: list[bool] = []
        together = threading.Barrier(8)

        def race(n: int) -> None:
            together.wait()
            try:
                answer(saver.commit(commit_after(head, n=n)))
            except CheckpointConflict:
                outcomes.append(False)
            else:
                outcomes.append(True)

        racers = [threading.Thread(target=race, args=(n,)) for n in range(8)]
        for racer in racers:
            racer.start()
        for racer in racers:
            racer.join()
        assert sorted(outcomes) == [False] * 7 + [True]
        assert len(list(answer(saver.history("thread")))) == 2

    def test_results_are_added_to_what_is_known(self) -> None:
        saver = self.make_saver()
        (head,) = self.chain(saver, 1)
        task = _loaded(saver).checkpoint.frontier[0]
        question = Interrupt(id=InterruptId("0" * 32), value="?")
        answer(saver.save_results(LINE, head, Pending(interrupts={task.id: (question,)})))
        assert _loaded(saver).pending.open == (question,)
        answer(saver.save_results(LINE, head, Pending(answers={question.id: None})))
        answer(saver.save_results(LINE, head, Pending(landed={task.id: TaskResult(task, {"n": 1}, ("b",))})))
        pending = _loaded(saver).pending
        assert (pending.open, pending.answers) == ((), {question.id: None})
        assert (pending.landed[task.id].writes, list(pending.landed[task.id].targets)) == ({"n": 1}, ["b"])

    def test_history_is_newest_first_and_can_be_cut(self) -> None:
        saver = self.make_saver()
        ids = self.chain(saver, 4)
        assert [one.id for one in answer(saver.history("thread"))] == ids[::-1]
        assert [one.id for one in answer(saver.history("thread", before=ids[2]))] == [ids[1], ids[0]]
        assert [one.id for one in answer(saver.history("thread", limit=2))] == [ids[3], ids[2]]
        unknown = CheckpointId("nothing")
        _raises(CheckpointNotFound, lambda: list(answer(saver.history("thread", before=unknown))))

    def test_a_branch_has_its_own_head_and_the_history_of_its_ancestors(self) -> None:
        saver = self.make_saver()
        ids = self.chain(saver, 3)
        fork = answer(saver.commit(commit_after(ids[0], line=LINE._replace(branch="b"), n=7, expected=None)))
        assert _loaded(saver).id == ids[2]
        assert _loaded(saver, branch="b").id == fork
        assert [one.id for one in answer(saver.history("thread", branch="b"))] == [fork, ids[0]]
        assert list(answer(saver.branches("thread"))) == ["b", "main"]

    def test_namespaces_are_lines_of_their_own_and_are_dropped_with_those_inside(self) -> None:
        saver = self.make_saver()
        (head,) = self.chain(saver, 1)
        for namespace in ("a:1", "a:1|b:2", "a:1:1", "a:10"):
            self.chain(saver, 1, LINE._replace(namespace=namespace))
        answer(saver.commit(commit_after(head, drops=("a:1",))))
        left = [one for one in ("a:1", "a:1|b:2", "a:1:1", "a:10") if answer(saver.load("thread", namespace=one))]
        assert left == ["a:10"]

    def test_a_copied_thread_goes_its_own_way(self) -> None:
        saver = self.make_saver()
        ids = self.chain(saver, 2)
        answer(saver.copy_thread("thread", "copy"))
        answer(saver.commit(commit_after(ids[1], n=5)))
        copied = answer(saver.load("copy"))
        assert copied is not None
        assert (copied.id, copied.line.thread_id) == (ids[1], "copy")
        _raises(CheckpointConflict, lambda: answer(saver.copy_thread("thread", "copy")))
        _raises(CheckpointNotFound, lambda: answer(saver.copy_thread("nobody", "other")))

    def test_a_deleted_thread_is_forgotten_and_another_one_is_not(self) -> None:
        saver = self.make_saver()
        self.chain(saver, 2)
        self.chain(saver, 1, Line("other"))
        answer(saver.delete_thread("thread"))
        answer(saver.delete_thread("nobody"))
        assert answer(saver.load("thread")) is None
        assert answer(saver.load("other")) is not None


def _loaded(saver: Checkpointer, branch: str = "main") -> SavedCheckpoint:
    saved = answer(saver.load("thread", branch=branch))
    assert saved is not None
    return saved


E = TypeVar("E", bound=Exception)


def _raises(kind: type[E], function: Callable[[], object]) -> E:
    """The exception that a call raises; fails if it raises none. So the suite needs no test framework."""
    try:
        function()
    except kind as error:
        return error
    raise AssertionError(f"{kind.__name__} was not raised")
