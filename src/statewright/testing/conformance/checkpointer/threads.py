"""Tests of event logs, histories, branches, namespaces, and operations on whole threads."""

from __future__ import annotations

from dataclasses import replace

from statewright.checkpoint import BranchKey, Checkpoint, Pending
from statewright.errors import CheckpointConflict, CheckpointNotFound
from statewright.futures import resolve
from statewright.ids import CheckpointId
from statewright.testing.conformance.assertions import raises
from statewright.testing.conformance.checkpointer.samples import (
    MAIN,
    CheckpointerSuite,
    commit_after,
    history_ids,
    load_head,
    make_log,
    write_commit,
)


class ThreadTests(CheckpointerSuite):
    """Lists are complete and in order, and branches, namespaces and threads do not affect each other."""

    def test_events_are_numbered_by_run_and_written_with_their_commit(self) -> None:
        saver = self.make_saver()
        head = write_commit(saver, None, log=make_log("first", "a", "b"))
        refused = commit_after("unknown", log=make_log("first"))
        raises(CheckpointConflict, lambda: resolve(saver.commit(refused)))
        resolve(saver.save_results(MAIN, head, Pending(), log=make_log("second")))
        resolve(saver.save_results(MAIN, head, Pending(), log=make_log("first")))
        log = resolve(saver.events("thread"))
        assert [(event.run_id, event.seq) for event in log] == [
            ("first", 1),
            ("first", 2),
            ("first", 3),
            ("second", 1),
        ]
        assert [event.seq for event in resolve(saver.events("thread", run_id="first", after=1))] == [2, 3]
        assert [event.seq for event in resolve(saver.events("thread", run_id="first", limit=1))] == [1]
        assert list(resolve(saver.events("unknown"))) == []

    def test_history_is_newest_first_and_can_be_limited(self) -> None:
        saver = self.make_saver()
        ids = self.write_chain(saver, 4)
        assert history_ids(saver) == ids[::-1]
        assert history_ids(saver, before=ids[2]) == [ids[1], ids[0]]
        assert history_ids(saver, limit=2) == [ids[3], ids[2]]
        unknown = CheckpointId("unknown")
        raises(CheckpointNotFound, lambda: list(resolve(saver.history("thread", before=unknown))))

    def test_a_limit_of_zero_or_less_selects_nothing(self) -> None:
        saver = self.make_saver()
        write_commit(saver, None, log=make_log("run"))
        assert len(resolve(saver.events("thread"))) == 1
        for limit in (0, -1, -7):
            assert list(resolve(saver.history("thread", limit=limit))) == []
            assert list(resolve(saver.threads(limit=limit))) == []
            assert list(resolve(saver.events("thread", limit=limit))) == []

    def test_ids_are_compared_exactly(self) -> None:
        saver = self.make_saver()
        # `bytes.fromhex` converts all three ids to the same bytes. A saver that stores ids as bytes must not confuse
        # them.
        lower, upper = CheckpointId("ab" * 16), CheckpointId("AB" * 16)
        spaced = CheckpointId(" ".join(["ab"] * 16))
        for n, checkpoint_id in enumerate((lower, spaced)):
            commit = commit_after(lower if n else None, n=n)
            resolve(saver.commit(replace(commit, checkpoint=Checkpoint(checkpoint_id, n, {"n": n}, ()))))
        assert resolve(saver.load("thread", checkpoint_id=upper)) is None
        raises(CheckpointNotFound, lambda: list(resolve(saver.history("thread", before=upper))))
        assert history_ids(saver) == [spaced, lower]
        commit = commit_after(spaced, n=2)
        resolve(saver.commit(replace(commit, checkpoint=Checkpoint(upper, 2, {"n": 2}, ()))))
        for n, checkpoint_id in enumerate((lower, spaced, upper)):
            saved = load_head(saver, checkpoint_id=checkpoint_id)
            assert (saved.id, saved.checkpoint.values) == (checkpoint_id, {"n": n})

    def test_threads_are_listed_by_a_prefix_of_their_ids(self) -> None:
        saver = self.make_saver()
        names = ["a", "ab", "a%", "a_b", "A", "ä", "äb", "🦉", "🦉b"]
        for name in names:
            write_commit(saver, None, branch_key=BranchKey(name))
        for prefix in ("", *names, "abc", "%", "_"):  # `%` and `_` are wildcards of LIKE
            matches = [entry.thread_id for entry in resolve(saver.threads(prefix=prefix))]
            assert sorted(matches) == sorted(name for name in names if name.startswith(prefix))

    def test_a_branch_has_its_own_head_and_the_history_of_its_ancestors(self) -> None:
        saver = self.make_saver()
        ids = self.write_chain(saver, 3)
        fork = write_commit(saver, ids[0], branch_key=MAIN._replace(branch="b"), n=7, expected=None)
        assert load_head(saver).id == ids[2]
        assert load_head(saver, branch="b").id == fork
        assert history_ids(saver, branch="b") == [fork, ids[0]]
        assert list(resolve(saver.branches("thread"))) == ["b", "main"]

    def test_namespaces_have_their_own_history_and_are_deleted_with_nested_ones(self) -> None:
        saver = self.make_saver()
        (head,) = self.write_chain(saver, 1)
        for namespace in ("a:1", "a:1|b:2", "a:1:1", "a:10"):
            self.write_chain(saver, 1, MAIN._replace(namespace=namespace))
        self.write_chain(saver, 1, MAIN._replace(namespace="a:10", branch="other"))
        assert list(resolve(saver.namespaces("thread"))) == ["", "a:1", "a:10", "a:1:1", "a:1|b:2"]
        write_commit(saver, head, dropped_namespaces=("a:1",))
        assert all(resolve(saver.load("thread", namespace=name)) is None for name in ("a:1", "a:1|b:2", "a:1:1"))
        assert load_head(saver, namespace="a:10")
        assert list(resolve(saver.namespaces("thread"))) == ["", "a:10"]

    def test_the_events_of_deleted_namespaces_are_kept(self) -> None:
        saver = self.make_saver()
        (head,) = self.write_chain(saver, 1)
        for count in (1, 40):  # so many that some savers combine the checkpoints
            parent: CheckpointId | None = None
            for number in range(count):
                log = make_log("run", f"{count}.{number}", "b")
                own = {"run_id": "run", "created_at": log.at} if number % 2 else {}  # the time and the run of the log
                parent = write_commit(saver, parent, branch_key=MAIN._replace(namespace="a:1"), log=log, **own)
            before = list(resolve(saver.events("thread", run_id="run")))
            assert [event.node for event in before[-1:]] == ["b"]
            head = write_commit(saver, head, dropped_namespaces=("a:1",), run_id="run", log=make_log("run", "root"))
            after = list(resolve(saver.events("thread", run_id="run")))
            assert after[:-1] == before
            assert [event.seq for event in after] == list(range(1, len(before) + 2))
        assert resolve(saver.load("thread", namespace="a:1")) is None

    def test_a_namespace_is_deleted_on_one_branch_and_its_forks_stay_complete(self) -> None:
        saver = self.make_saver()
        (head,) = self.write_chain(saver, 1)
        call = MAIN._replace(namespace="a:1")
        ids = self.write_chain(saver, 3, call)
        fork = write_commit(saver, ids[1], branch_key=call._replace(branch="b"), n=7, expected=None)
        write_commit(saver, head, dropped_namespaces=("a:1",))
        assert resolve(saver.load("thread", namespace="a:1")) is None
        remaining = load_head(saver, namespace="a:1", branch="b")
        assert (remaining.id, remaining.checkpoint.values) == (fork, {"n": 7})
        assert resolve(saver.history("thread", namespace="a:1", branch="b"))[0].id == fork

    def test_commits_in_one_transaction_are_saved_together_or_not_at_all(self) -> None:
        saver = self.make_saver()
        (head,) = self.write_chain(saver, 1)
        call = MAIN._replace(namespace="a:1", branch="b")
        siblings = (commit_after(None, branch_key=call, n=5),)
        refused = commit_after("unknown", branch_key=MAIN._replace(branch="b"), siblings=siblings)
        raises(CheckpointConflict, lambda: resolve(saver.commit(refused)))
        assert list(resolve(saver.namespaces("thread"))) == [""]
        fork = write_commit(saver, head, branch_key=MAIN._replace(branch="b"), expected=None, siblings=siblings)
        assert load_head(saver, branch="b").id == fork
        assert load_head(saver, namespace="a:1", branch="b").checkpoint.values == {"n": 5}

    def test_a_copied_thread_is_independent(self) -> None:
        saver = self.make_saver()
        ids = self.write_chain(saver, 2)
        resolve(saver.copy_thread("thread", "copy"))
        write_commit(saver, ids[1], n=5)
        copied = load_head(saver, "copy")
        assert (copied.id, copied.branch_key.thread_id) == (ids[1], "copy")
        raises(CheckpointConflict, lambda: resolve(saver.copy_thread("thread", "copy")))
        raises(CheckpointNotFound, lambda: resolve(saver.copy_thread("unknown", "other")))

    def test_deleting_a_thread_leaves_other_threads(self) -> None:
        saver = self.make_saver()
        self.write_chain(saver, 2)
        self.write_chain(saver, 1, BranchKey("other"))
        resolve(saver.delete_thread("thread"))
        resolve(saver.delete_thread("unknown"))
        assert resolve(saver.load("thread")) is None
        assert resolve(saver.load("other")) is not None
