"""The loop of a run, driven by hand: what it asks for, and how it comes to rest."""

from typing import Annotated, Any, TypedDict

import pytest

from statewright import START, Budget, InMemorySaver, RunControl, Send, append
from statewright.channels import Added, Untracked
from statewright.checkpoint import Commit, Interrupt, JournalEntry, Pending
from statewright.errors import BudgetExceeded, ConflictingWrites, GraphDrained, GraphRecursionError, RunCancelled
from statewright.ids import InterruptId, TaskId
from statewright.runtime.core.commit import saved_form_of_result
from statewright.runtime.core.effects import Emit, RunTasks, Save, SavePending
from statewright.runtime.core.loop import all_succeeded, budget_exit
from statewright.runtime.core.saving import call_namespaces, release_thread, save_pending
from statewright.runtime.invocation.outcome import Failure, Pause, RunOutcome


@pytest.fixture
def program(make: Any) -> Any:
    """`a`, then `b` and `c` together, then `d`."""
    graph = make.graph("a", "b", "c", "d").add_edge(START, "a").add_edge("a", "b").add_edge("a", "c")
    return make.program(graph.add_edge(["b", "c"], "d"))


@pytest.fixture
def cycle(make: Any) -> Any:
    return make.program(make.graph("a", "b").add_edge(START, "a").add_edge("a", "b").add_edge("b", "a"))


def question(name: str, value: Any = "?") -> Interrupt:
    return Interrupt(id=InterruptId(name), value=value)


def begun(make: Any, saver: InMemorySaver, *nodes: str) -> Any:
    """A saved checkpoint at which nodes are due."""
    checkpoint = make.checkpoint({"log": []}, make.tasks(*nodes))
    saved = make.saved(checkpoint)
    saver.commit(
        Commit(
            branch_key=saved.branch_key,
            expected=None,
            parent_id=None,
            checkpoint=checkpoint,
            deltas=None,
            source="input",
            run_id="run",
            created_at=saved.created_at,
        )
    )
    return checkpoint


# -- plan, run, apply


def test_a_run_goes_on_until_nothing_is_due(make: Any, program: Any) -> None:
    hand = make.loop(make.run(program), make.checkpoint({"log": []}, make.tasks("a"), step=0))
    rest = hand.finish()

    assert hand.nodes == [["a"], ["b", "c"], ["d"]]
    assert (rest.status, rest.error, rest.interrupts) == ("completed", None, ())
    assert rest.checkpoint.values == {"log": ["a", "b", "c", "d"]}
    assert rest.checkpoint.step == 3
    assert rest.checkpoint.is_complete


def test_a_checkpoint_at_rest_asks_for_nothing(make: Any, program: Any) -> None:
    checkpoint = make.checkpoint({"log": ["old"]})
    hand = make.loop(make.run(program), checkpoint)

    assert hand.finish().checkpoint is checkpoint
    assert hand.effects == []


def test_without_saver_and_watchers_a_run_asks_for_supersteps_only(make: Any, program: Any) -> None:
    hand = make.loop(make.run(program), make.checkpoint({}, make.tasks("a")))
    hand.finish()

    assert {type(effect) for effect in hand.effects} == {RunTasks}


def test_every_task_of_a_superstep_reads_the_checkpoint_before_it(make: Any, program: Any) -> None:
    core = make.loop(make.run(program), make.checkpoint({"log": []}, make.tasks("a"))).core

    first = next(core)
    assert first.checkpoint.values == {"log": []}
    second = core.send(([make.result(first.tasks[0], {"log": ["a"]}, ["b", "c"])], None, None))
    assert second.checkpoint.values == {"log": ["a"]}
    assert [task.node for task in second.tasks] == ["b", "c"]


def test_two_runs_with_the_same_results_end_the_same(make: Any, program: Any) -> None:
    def final() -> Any:
        return make.loop(make.run(program), make.checkpoint({"log": []}, make.tasks("a"))).finish().checkpoint

    assert final() == final()


# -- results that are known already


def test_a_task_that_has_landed_is_not_run_again_and_its_writes_are_applied_in_its_place(
    make: Any, program: Any
) -> None:
    first, second = make.tasks("b", "c")
    pending = Pending(completed={first.id: make.result(first, {"log": ["landed b"]})})
    hand = make.loop(make.run(program), make.checkpoint({"log": []}, (first, second)), pending)

    assert hand.finish().checkpoint.values == {"log": ["landed b", "c", "d"]}
    assert hand.nodes == [["c"], ["d"]]


def test_a_superstep_whose_tasks_have_all_landed_is_applied_without_running_any(make: Any, program: Any) -> None:
    (task,) = make.tasks("d")
    pending = Pending(completed={task.id: make.result(task, {"log": ["landed"]})})
    hand = make.loop(make.run(program), make.checkpoint({"log": []}, (task,)), pending)

    assert hand.finish().checkpoint.values == {"log": ["landed"]}
    assert hand.steps == [()]


def test_a_task_that_waits_for_an_answer_keeps_its_run_waiting(make: Any, program: Any) -> None:
    first, second = make.tasks("b", "c")
    pending = Pending(interrupts={first.id: (question("q"),)})
    hand = make.loop(make.run(program), make.checkpoint({}, (first, second)), pending)
    rest = hand.finish()

    assert hand.nodes == [["c"]]
    assert (rest.status, rest.interrupts) == ("waiting", (question("q"),))


# -- how a run comes to rest


def test_questions_of_a_superstep_are_reported_together_in_task_order(make: Any, program: Any) -> None:
    def ask(task: Any) -> Any:
        return Pause(task, (question(f"{task.node}1"), question(f"{task.node}2")))

    rest = make.loop(make.run(program), make.checkpoint({}, make.tasks("b", "c"))).finish(ask)

    assert rest.status == "waiting"
    assert [one.id for one in rest.interrupts] == ["b1", "b2", "c1", "c2"]


def test_questions_that_were_answered_are_not_open(make: Any, program: Any) -> None:
    run = make.run(program, answers={"b": "yes"})
    rest = make.loop(run, make.checkpoint({}, make.tasks("b", "c"))).finish(
        lambda task: Pause(task, (question(task.node),))
    )

    assert [one.id for one in rest.interrupts] == ["c"]


def test_a_failure_comes_before_questions_and_the_first_in_task_order_is_told(make: Any, program: Any) -> None:
    errors = {"c": ValueError("c"), "d": ValueError("d")}

    def answer(task: Any) -> Any:
        return Failure(task, errors[task.node]) if task.node in errors else Pause(task, (question("q"),))

    rest = make.loop(make.run(program), make.checkpoint({}, make.tasks("b", "c", "d"))).finish(answer)

    assert (rest.status, rest.error, rest.node) == ("failed", errors["c"], "c")


def test_a_run_cancelled_within_a_task_is_cancelled(make: Any, program: Any) -> None:
    rest = make.loop(make.run(program), make.checkpoint({}, make.tasks("b"))).finish(
        lambda task: Failure(task, RunCancelled("enough"))
    )

    assert (rest.status, str(rest.error).partition(".")[0]) == ("cancelled", "The run was cancelled: enough")


@pytest.mark.parametrize("asked", [True, False])
def test_tasks_that_were_stopped_mean_that_the_run_is_cancelled(make: Any, program: Any, asked: bool) -> None:
    control = RunControl()
    run = make.run(program, control=control)

    def stop(task: Any) -> None:
        if asked:
            control.request_cancel("enough")

    rest = make.loop(run, make.checkpoint({}, make.tasks("b", "c"))).finish(stop)

    assert rest.status == "cancelled"
    assert isinstance(rest.error, RunCancelled) is asked


def test_writes_that_conflict_fail_the_run_where_it_was(make: Any, program: Any) -> None:
    checkpoint = make.checkpoint({"x": 0}, make.tasks("b", "c"))
    rest = make.loop(make.run(program), checkpoint).finish(lambda task: make.result(task, {"x": task.node}))

    assert rest.status == "failed"
    assert isinstance(rest.error, ConflictingWrites)
    assert rest.checkpoint is checkpoint


@pytest.mark.parametrize("limit", [1, 2, 7, 12])
def test_a_run_takes_as_many_supersteps_as_its_limit(make: Any, cycle: Any, limit: int) -> None:
    hand = make.loop(make.run(cycle, recursion_limit=limit), make.checkpoint({}, make.tasks("a"), step=40))
    rest = hand.finish()

    assert len(hand.steps) == limit
    assert isinstance(rest.error, GraphRecursionError)
    assert rest.error.limit == limit
    expected = [nodes for _, nodes in zip(range(limit), [["a"], ["b"]] * limit, strict=False)][-5:]
    assert rest.error.last_steps == tuple(map(tuple, expected))


def test_the_limit_lets_a_run_end_in_its_last_superstep(make: Any, program: Any) -> None:
    rest = make.loop(make.run(program, recursion_limit=3), make.checkpoint({}, make.tasks("a"))).finish()

    assert rest.status == "completed"


def test_a_drained_run_stops_before_its_next_superstep(make: Any, program: Any) -> None:
    control = RunControl()
    hand = make.loop(make.run(program, control=control), make.checkpoint({"log": []}, make.tasks("a")))

    def answer(task: Any) -> Any:
        control.request_drain("deploy")
        return hand.along_edges(task)

    rest = hand.finish(answer)

    assert hand.nodes == [["a"]]
    assert isinstance(rest.error, GraphDrained)
    assert rest.checkpoint.values == {"log": ["a"]}
    assert [task.node for task in rest.checkpoint.frontier] == ["b", "c"]


def test_cancelling_comes_before_draining(make: Any, program: Any) -> None:
    control = RunControl()
    control.request_drain()
    control.request_cancel()
    hand = make.loop(make.run(program, control=control), make.checkpoint({}, make.tasks("a")))

    assert hand.finish().status == "cancelled"
    assert hand.steps == []


# -- breakpoints


@pytest.mark.parametrize(
    ("breaks", "ran", "due"),
    [
        ({"breaks_before": {"a"}}, [], ["a"]),
        ({"breaks_before": {"c"}}, [["a"]], ["b", "c"]),
        ({"breaks_before": {"*"}}, [], ["a"]),
        ({"breaks_after": {"a"}}, [["a"]], ["b", "c"]),
        ({"breaks_after": {"b"}}, [["a"], ["b", "c"]], ["d"]),
        ({"breaks_after": {"*"}}, [["a"]], ["b", "c"]),
        ({"breaks_after": {"d"}}, [["a"], ["b", "c"], ["d"]], []),
        ({"breaks_before": {"elsewhere"}}, [["a"], ["b", "c"], ["d"]], []),
    ],
)
def test_where_a_run_stops_at_a_breakpoint(make: Any, program: Any, breaks: Any, ran: Any, due: list[str]) -> None:
    run = make.run(program, **{name: frozenset(nodes) for name, nodes in breaks.items()})
    hand = make.loop(run, make.checkpoint({}, make.tasks("a")))
    rest = hand.finish()

    assert hand.nodes == ran
    assert [task.node for task in rest.checkpoint.frontier] == due
    assert rest.status == ("paused" if due else "completed")


def test_a_run_that_was_stopped_at_a_breakpoint_passes_it_and_meets_the_next(make: Any, cycle: Any) -> None:
    run = make.run(cycle, breaks_before=frozenset({"a"}))
    hand = make.loop(run, make.checkpoint({}, make.tasks("a")), Pending(paused=True))
    rest = hand.finish()

    assert hand.nodes == [["a"], ["b"]]
    assert rest.status == "paused"


def test_a_breakpoint_is_noted_for_the_next_run(make: Any, program: Any) -> None:
    saver = InMemorySaver()
    checkpoint = begun(make, saver, "a")
    hand = make.loop(make.run(program, saver=saver, breaks_before=frozenset({"a"})), checkpoint)
    hand.finish()

    (land,) = hand.of(SavePending)
    assert (land.checkpoint_id, land.pending.paused) == (checkpoint.id, True)


# -- budgets


@pytest.mark.parametrize(
    ("budget", "ran", "what"),
    [
        (Budget(max_steps=3), 3, "supersteps"),
        (Budget(max_visits=2), 4, "visits of 'a'"),
        (Budget(max_visits={"b": 1}), 3, "visits of 'b'"),
    ],
)
def test_a_budget_stops_a_run_before_the_superstep_that_it_does_not_allow(
    make: Any, cycle: Any, budget: Budget, ran: int, what: str
) -> None:
    hand = make.loop(make.run(cycle, budget=budget), make.checkpoint({}, make.tasks("a")))
    rest = hand.finish()

    assert len(hand.steps) == ran
    assert rest.status == "failed"
    assert isinstance(rest.error, BudgetExceeded)
    assert rest.error.what == what


@pytest.fixture
def with_way_out(make: Any) -> Any:
    graph = make.graph("a", "b", "out", "more").add_edge(START, "a").add_edge("a", "b").add_edge("b", "a")
    return make.program(graph.add_edge(START, "out").add_edge("out", "more"))


def test_a_budget_may_lead_to_a_node_that_ends_the_run_beyond_it(make: Any, with_way_out: Any) -> None:
    run = make.run(with_way_out, budget=Budget(max_steps=3, on_budget="out"))
    hand = make.loop(run, make.checkpoint({"log": []}, make.tasks("a")))
    rest = hand.finish()

    assert hand.nodes == [["a"], ["b"], ["a"], ["out"], ["more"]]
    assert rest.status == "completed"
    assert rest.checkpoint.values["log"] == ["a", "b", "a", "out", "more"]


def test_a_task_that_exceeds_the_budget_itself_is_left_for_the_way_out(make: Any, with_way_out: Any) -> None:
    run = make.run(with_way_out, budget=Budget(max_steps=50, on_budget="out"))
    hand = make.loop(run, make.checkpoint({"log": []}, make.tasks("a")))

    def answer(task: Any) -> Any:
        return Failure(task, BudgetExceeded("tokens", 5, 6)) if task.node == "b" else hand.along_edges(task)

    assert hand.finish(answer).status == "completed"
    assert hand.nodes == [["a"], ["b"], ["out"], ["more"]]


def test_leaving_for_the_way_out_is_saved_with_what_it_discards(make: Any, with_way_out: Any) -> None:
    saver = InMemorySaver()
    run = make.run(with_way_out, saver=saver, budget=Budget(max_steps=1, on_budget="out"))
    hand = make.loop(run, begun(make, saver, "a"))
    hand.finish()

    discarding = [save.commit for save in hand.of(Save) if "discarded" in save.commit.metadata]
    assert [commit.metadata["discarded"] for commit in discarding] == [["b"]]
    assert [task.node for task in discarding[0].checkpoint.frontier] == ["out"]
    (task,) = hand.of(Save)[0].commit.checkpoint.frontier
    assert discarding[0].dropped_namespaces == (f"b:{task.id}",)


def test_leaving_for_the_way_out_is_saved_after_what_was_held_back(make: Any, with_way_out: Any) -> None:
    saver = InMemorySaver()
    run = make.run(with_way_out, saver=saver, saves_on_exit=True, budget=Budget(max_steps=2, on_budget="out"))
    hand = make.loop(run, begun(make, saver, "a"))
    hand.finish()

    held_back, leaving = (save.commit for save in hand.of(Save))
    assert held_back.checkpoint.values["log"] == ["a", "b"]
    assert leaving.parent_id == held_back.checkpoint.id


@pytest.mark.parametrize(
    ("nested", "on_budget", "error", "node"),
    [
        (False, "out", BudgetExceeded("tokens", 1, 2), "out"),
        (False, None, BudgetExceeded("tokens", 1, 2), None),
        (False, "out", ValueError(), None),
        (True, "out", BudgetExceeded("tokens", 1, 2), None),
    ],
)
def test_who_leaves_for_the_way_out(
    make: Any, program: Any, nested: bool, on_budget: Any, error: Exception, node: Any
) -> None:
    call = make.subgraph_call(program) if nested else None
    run = make.run(program, call=call, budget=Budget(max_steps=1, on_budget=on_budget))

    assert budget_exit(run, error) == node


# -- saving


def test_every_superstep_is_one_commit_that_follows_the_one_before(make: Any, program: Any) -> None:
    saver = InMemorySaver()
    hand = make.loop(make.run(program, saver=saver), begun(make, saver, "a"))
    hand.finish()

    commits = [save.commit for save in hand.of(Save)]
    assert [type(effect) for effect in hand.effects] == [RunTasks, Save] * 3
    assert [commit.checkpoint.id for commit in commits] == ["commit-1", "commit-2", "commit-3"]
    assert [commit.parent_id for commit in commits] == ["before", "commit-1", "commit-2"]
    assert [commit.expected for commit in commits] == [commit.parent_id for commit in commits]
    assert [commit.metadata["nodes"] for commit in commits] == [["a"], ["b", "c"], ["d"]]
    assert [commit.deltas for commit in commits] == [{"log": Added(log)} for log in (["a"], ["b", "c"], ["d"])]


def test_durability_exit_saves_once_at_rest_what_all_supersteps_have_changed(make: Any, program: Any) -> None:
    saver = InMemorySaver()
    run = make.run(program, saver=saver, saves_on_exit=True)
    hand = make.loop(run, begun(make, saver, "a"))
    hand.finish(lambda task: Failure(task, ValueError()) if task.node == "d" else hand.along_edges(task))

    assert [type(effect) for effect in hand.effects] == [RunTasks] * 3 + [Save, SavePending]
    (save,) = hand.of(Save)
    assert (save.commit.parent_id, save.commit.deltas) == ("before", {"log": Added(["a", "b", "c"])})
    assert save.commit.checkpoint.values == {"log": ["a", "b", "c"]}


def test_durability_exit_saves_before_a_breakpoint_is_noted(make: Any, program: Any) -> None:
    saver = InMemorySaver()
    run = make.run(program, saver=saver, saves_on_exit=True, breaks_before=frozenset({"d"}))
    hand = make.loop(run, begun(make, saver, "a"))
    hand.finish()

    assert [type(effect) for effect in hand.effects] == [RunTasks, RunTasks, Save, SavePending]
    assert hand.of(SavePending)[0].checkpoint_id == hand.of(Save)[0].commit.checkpoint.id


def test_what_came_of_a_superstep_that_cannot_be_completed_lands(make: Any, program: Any) -> None:
    saver = InMemorySaver()
    checkpoint = begun(make, saver, "a", "b", "c", "d")
    first, second, third, _ = checkpoint.frontier

    def answer(task: Any) -> Any:
        outcomes = {
            "a": make.result(task, {"log": ["a"]}),
            "b": Pause(task, (question("q"),)),
            "c": Failure(task, ValueError("no")),
        }
        return outcomes.get(task.node)

    hand = make.loop(make.run(program, saver=saver), checkpoint)
    hand.finish(answer)

    (land,) = hand.of(SavePending)
    assert land.checkpoint_id == checkpoint.id
    assert land.pending.completed.keys() == {first.id}
    assert land.pending.interrupts == {second.id: (question("q"),)}
    assert land.pending.errors == {third.id: "ValueError: no"}
    assert hand.of(Save) == []


def test_results_of_a_superstep_whose_writes_conflict_land_too(make: Any, program: Any) -> None:
    saver = InMemorySaver()
    hand = make.loop(make.run(program, saver=saver), begun(make, saver, "b", "c"))
    hand.finish(lambda task: make.result(task, {"x": task.node}))

    (land,) = hand.of(SavePending)
    assert len(land.pending.completed) == 2


def test_nothing_lands_where_nothing_is_saved(make: Any, program: Any) -> None:
    hand = make.loop(make.run(program), make.checkpoint({}, make.tasks("b")))
    hand.finish(lambda task: Failure(task, ValueError()))

    assert {type(effect) for effect in hand.effects} == {RunTasks}


def test_a_commit_drops_the_calls_of_tasks_that_an_earlier_run_had_begun(make: Any, program: Any) -> None:
    saver = InMemorySaver()
    checkpoint = begun(make, saver, "b", "c")
    first, second = checkpoint.frontier
    pending = Pending(completed={first.id: make.result(first)})
    hand = make.loop(make.run(program, saver=saver), checkpoint, pending)
    hand.finish()

    dropped = [save.commit.dropped_namespaces for save in hand.of(Save)]
    assert dropped == [tuple(sorted([f"b:{first.id}", f"c:{second.id}"])), ()]


def test_the_steps_that_tasks_have_done_go_with_their_superstep(make: Any, program: Any) -> None:
    run = make.run(program)
    run.journal = {(TaskId("task"), "step", 0): JournalEntry("given", 1)}
    make.loop(run, make.checkpoint({}, make.tasks("d"))).finish()

    assert run.journal == {}


@pytest.mark.parametrize("namespace", ["", "outer:1"])
def test_calls_of_tasks_are_named_by_the_path_of_tasks_that_leads_to_them(
    make: Any, program: Any, namespace: str
) -> None:
    task = make.task("b")
    prefix = "outer:1|" if namespace else ""

    assert call_namespaces(make.run(program, namespace=namespace), [task]) == {f"{prefix}b:{task.id}"}


def test_the_id_of_a_task_that_a_subgraph_makes_due_does_not_depend_on_the_commit(make: Any, program: Any) -> None:
    def ids(name: str, nested: bool) -> list[str]:
        run = make.run(program, run_id=name, call=make.subgraph_call(program) if nested else None)
        hand = make.loop(run, make.checkpoint({}, make.tasks("a")))
        hand.finish()
        return [task.id for tasks in hand.steps[1:] for task in tasks]

    assert ids("one", nested=True) == ids("two", nested=True)
    assert not set(ids("one", nested=False)) & set(ids("two", nested=False))


def test_a_subgraph_reports_what_was_written_to_fields_that_merge(make: Any, program: Any) -> None:
    run = make.run(program, call=make.subgraph_call(program))

    rest = make.loop(run, make.checkpoint({"log": []}, make.tasks("a"))).finish()

    assert rest.checkpoint.reported == tuple(("log", [name]) for name in "abcd")


# -- the log, and those who watch


def test_a_log_begins_and_ends_with_the_run_and_names_its_tasks(make: Any, program: Any) -> None:
    saver = InMemorySaver()
    hand = make.loop(make.run(program, saver=saver, owner="me"), begun(make, saver, "b"))
    hand.finish(lambda task: make.result(task, {"log": [1]}))

    told = [(event.kind, event.node) for event in saver.events("thread")]
    assert told == [
        ("run_started", None),
        ("task_finished", "b"),
        ("superstep_finished", None),
        ("run_finished", None),
    ]


def test_the_hold_is_taken_with_the_first_write_and_let_go_with_the_last(make: Any, program: Any) -> None:
    saver = InMemorySaver()
    hand = make.loop(make.run(program, saver=saver, owner="me"), begun(make, saver, "a"))
    hand.finish()

    holds = [save.commit.hold for save in hand.of(Save)]
    assert [hold.claims for hold in holds] == [True, False, False]
    assert [hold.until is None for hold in holds] == [False, False, True]
    assert saver.lease("thread") is None


@pytest.mark.parametrize(
    ("failing", "claims", "told"),
    [
        ("a", True, ["run_started", "run_finished"]),
        ("d", False, ["run_started", *["task_finished", "superstep_finished"], *["task_finished"] * 2]),
    ],
)
def test_a_run_that_fails_lets_go_of_its_thread_with_what_landed(
    make: Any, program: Any, failing: str, claims: bool, told: list[str]
) -> None:
    saver = InMemorySaver()
    hand = make.loop(make.run(program, saver=saver, owner="me"), begun(make, saver, "a"))
    hand.finish(lambda task: Failure(task, ValueError("no")) if task.node == failing else hand.along_edges(task))

    (land,) = hand.of(SavePending)
    assert (land.hold.claims, land.hold.until) == (claims, None)
    assert saver.lease("thread") is None
    log = saver.events("thread")
    assert [event.kind for event in log][: len(told)] == told
    assert [event.kind for event in log].count("run_started") == 1
    assert (log[-1].kind, log[-1].data) == ("run_finished", {"status": "failed", "error": "ValueError: no"})


def test_questions_are_told_in_the_log_before_its_end(make: Any, program: Any) -> None:
    saver = InMemorySaver()
    hand = make.loop(make.run(program, saver=saver, owner="me"), begun(make, saver, "a"))
    hand.finish(lambda task: Pause(task, (question("q"),)))

    assert [(event.kind, event.data) for event in saver.events("thread")][1:] == [
        ("interrupted", [{"id": "q", "kind": "question"}]),
        ("run_finished", {"status": "waiting"}),
    ]


@pytest.mark.parametrize(
    ("nested", "claimed", "lets_go"), [(False, True, True), (True, True, False), (False, False, False)]
)
def test_only_a_run_that_holds_its_thread_lets_go_of_it(
    make: Any, program: Any, nested: bool, claimed: bool, lets_go: bool
) -> None:
    saver = InMemorySaver()
    checkpoint = begun(make, saver, "a")
    run = make.run(program, saver=saver, owner="me")
    make.hand(run, save_pending(run, checkpoint, Pending())).finish()
    run.nested, run.claimed = nested, claimed
    hand = make.hand(run, release_thread(run, RunOutcome("completed", checkpoint)))
    hand.finish()

    assert (saver.lease("thread") is None) is lets_go
    assert len(hand.effects) == lets_go


def test_a_write_in_the_middle_of_a_run_keeps_the_thread(make: Any, program: Any) -> None:
    saver = InMemorySaver()
    checkpoint = begun(make, saver, "a")
    run = make.run(program, saver=saver, owner="me")
    for _ in range(2):
        make.hand(run, save_pending(run, checkpoint, Pending())).finish()

    assert saver.lease("thread").owner == "me"
    assert [event.kind for event in saver.events("thread")] == ["run_started"]


def test_watchers_are_told_in_order_what_they_want_to_hear(make: Any, program: Any) -> None:
    saver, seen = InMemorySaver(), list[Any]()
    watched = ("superstep_started", "superstep_finished", "committed", "interrupted")
    hand = make.loop(make.run(program, saver=saver, watched=watched, seen=seen), begun(make, saver, "a"))
    hand.finish(lambda task: Pause(task, (question("q"),)) if task.node == "c" else hand.along_edges(task))

    assert [(event.kind, event.step) for event in seen] == [
        ("superstep_started", 4),
        ("committed", 4),
        ("superstep_finished", 4),
        ("superstep_started", 5),
        ("interrupted", 5),
    ]
    assert [task.node for task in seen[3].data] == ["b", "c"]
    assert seen[4].data == (question("q"),)


def test_nobody_is_told_what_they_did_not_ask_for(make: Any, program: Any) -> None:
    seen: list[Any] = []
    hand = make.loop(make.run(program, watched=("committed",), seen=seen), make.checkpoint({}, make.tasks("a")))
    hand.finish()

    assert hand.of(Emit) == seen == []


# -- results as they land


class WithHandle(TypedDict, total=False):
    log: Annotated[list[Any], append]
    handle: Annotated[Any, Untracked()]


def test_a_result_lands_without_what_only_its_superstep_needs(make: Any, program: Any) -> None:
    result = make.result("a", {"log": ["a"]}, [Send("b", 1), "b"], goto=True)
    result.folded = {"log": ["a"]}

    saved = saved_form_of_result(program, result)

    assert (saved.task, saved.writes, saved.targets, saved.goto) == (
        result.task,
        {"log": ["a"]},
        [Send("b", 1), "b"],
        True,
    )
    assert saved.folded is None


@pytest.mark.parametrize(
    ("writes", "targets"),
    [({"handle": object(), "log": ["a"]}, []), ({"log": ["a"]}, [Send("b", {"handle": object(), "log": []})])],
    ids=["written", "sent"],
)
def test_a_result_lands_without_untracked_values(make: Any, writes: Any, targets: Any) -> None:
    graph = make.graph("a", "b", schema=WithHandle).add_edge(START, "a").add_edge(START, "b")
    saver = InMemorySaver()
    hand = make.loop(make.run(make.program(graph), saver=saver), begun(make, saver, "a", "b"))

    def answer(task: Any) -> Any:
        failed = task.node == "b"
        return Failure(task, ValueError()) if failed else make.result(task, writes, targets, goto=bool(targets))

    hand.finish(answer)

    (land,) = hand.of(SavePending)
    (result,) = land.pending.completed.values()
    assert result.writes == {"log": ["a"]}
    assert [send.arg for send in result.targets] == [{"log": []} for _ in targets]


@pytest.mark.parametrize(
    ("outcomes", "landed"), [("", True), ("r", True), ("rr", True), ("rf", False), ("pr", False), ("n", False)]
)
def test_whether_every_task_brought_a_result(make: Any, outcomes: str, landed: bool) -> None:
    task = make.task("a")
    kinds = {"r": make.result("a"), "f": Failure(task, ValueError()), "p": Pause(task, ()), "n": None}

    assert all_succeeded([kinds[kind] for kind in outcomes]) is landed
