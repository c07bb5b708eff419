"""The loop of a run: its effects, its outcomes and its saving."""

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
    """Return a program that runs `a`, then `b` and `c`, then `d`."""
    graph = make.graph("a", "b", "c", "d").add_edge(START, "a").add_edge("a", "b").add_edge("a", "c")
    return make.program(graph.add_edge(["b", "c"], "d"))


@pytest.fixture
def cycle(make: Any) -> Any:
    return make.program(make.graph("a", "b").add_edge(START, "a").add_edge("a", "b").add_edge("b", "a"))


def question(interrupt_id: str, value: Any = "?") -> Interrupt:
    return Interrupt(id=InterruptId(interrupt_id), value=value)


def save_start(make: Any, saver: InMemorySaver, *nodes: str) -> Any:
    """Save and return a checkpoint at which nodes are due."""
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


def test_a_run_continues_until_nothing_is_due(make: Any, program: Any) -> None:
    driver = make.loop(make.run(program), make.checkpoint({"log": []}, make.tasks("a"), step=0))
    outcome = driver.finish()

    assert driver.nodes == [["a"], ["b", "c"], ["d"]]
    assert (outcome.status, outcome.error, outcome.interrupts) == ("completed", None, ())
    assert outcome.checkpoint.values == {"log": ["a", "b", "c", "d"]}
    assert outcome.checkpoint.step == 3
    assert outcome.checkpoint.is_complete


def test_a_complete_checkpoint_requests_no_effects(make: Any, program: Any) -> None:
    checkpoint = make.checkpoint({"log": ["old"]})
    driver = make.loop(make.run(program), checkpoint)

    assert driver.finish().checkpoint is checkpoint
    assert driver.effects == []


def test_a_run_without_saver_and_listeners_only_runs_tasks(make: Any, program: Any) -> None:
    driver = make.loop(make.run(program), make.checkpoint({}, make.tasks("a")))
    driver.finish()

    assert {type(effect) for effect in driver.effects} == {RunTasks}


def test_tasks_of_a_superstep_read_the_checkpoint_before_it(make: Any, program: Any) -> None:
    core = make.loop(make.run(program), make.checkpoint({"log": []}, make.tasks("a"))).core

    first = next(core)
    assert first.checkpoint.values == {"log": []}
    second = core.send(([make.result(first.tasks[0], {"log": ["a"]}, ["b", "c"])], None, None))
    assert second.checkpoint.values == {"log": ["a"]}
    assert [task.node for task in second.tasks] == ["b", "c"]


def test_runs_with_the_same_results_end_at_the_same_checkpoint(make: Any, program: Any) -> None:
    def final() -> Any:
        return make.loop(make.run(program), make.checkpoint({"log": []}, make.tasks("a"))).finish().checkpoint

    assert final() == final()


# -- saved results


def test_a_task_with_a_saved_result_is_not_run_and_its_writes_are_applied_in_order(make: Any, program: Any) -> None:
    first, second = make.tasks("b", "c")
    pending = Pending(completed={first.id: make.result(first, {"log": ["saved b"]})})
    driver = make.loop(make.run(program), make.checkpoint({"log": []}, (first, second)), pending)

    assert driver.finish().checkpoint.values == {"log": ["saved b", "c", "d"]}
    assert driver.nodes == [["c"], ["d"]]


def test_a_superstep_with_all_results_saved_runs_no_task(make: Any, program: Any) -> None:
    (task,) = make.tasks("d")
    pending = Pending(completed={task.id: make.result(task, {"log": ["saved"]})})
    driver = make.loop(make.run(program), make.checkpoint({"log": []}, (task,)), pending)

    assert driver.finish().checkpoint.values == {"log": ["saved"]}
    assert driver.steps == [()]


def test_a_task_with_an_open_question_is_not_run_and_the_run_waits(make: Any, program: Any) -> None:
    first, second = make.tasks("b", "c")
    pending = Pending(interrupts={first.id: (question("q"),)})
    driver = make.loop(make.run(program), make.checkpoint({}, (first, second)), pending)
    outcome = driver.finish()

    assert driver.nodes == [["c"]]
    assert (outcome.status, outcome.interrupts) == ("waiting", (question("q"),))


# -- outcomes


def test_an_outcome_has_all_questions_of_a_superstep_in_task_order(make: Any, program: Any) -> None:
    def ask(task: Any) -> Any:
        return Pause(task, (question(f"{task.node}1"), question(f"{task.node}2")))

    outcome = make.loop(make.run(program), make.checkpoint({}, make.tasks("b", "c"))).finish(ask)

    assert outcome.status == "waiting"
    assert [interrupt.id for interrupt in outcome.interrupts] == ["b1", "b2", "c1", "c2"]


def test_an_outcome_has_no_answered_questions(make: Any, program: Any) -> None:
    run = make.run(program, answers={"b": "yes"})
    outcome = make.loop(run, make.checkpoint({}, make.tasks("b", "c"))).finish(
        lambda task: Pause(task, (question(task.node),))
    )

    assert [interrupt.id for interrupt in outcome.interrupts] == ["c"]


def test_the_first_failure_in_task_order_wins_over_questions(make: Any, program: Any) -> None:
    errors = {"c": ValueError("c"), "d": ValueError("d")}

    def answer(task: Any) -> Any:
        return Failure(task, errors[task.node]) if task.node in errors else Pause(task, (question("q"),))

    outcome = make.loop(make.run(program), make.checkpoint({}, make.tasks("b", "c", "d"))).finish(answer)

    assert (outcome.status, outcome.error, outcome.node) == ("failed", errors["c"], "c")


def test_a_run_cancelled_in_a_task_is_cancelled(make: Any, program: Any) -> None:
    outcome = make.loop(make.run(program), make.checkpoint({}, make.tasks("b"))).finish(
        lambda task: Failure(task, RunCancelled("enough"))
    )

    assert (outcome.status, str(outcome.error).partition(".")[0]) == ("cancelled", "The run was cancelled: enough")


@pytest.mark.parametrize("is_requested", [True, False])
def test_a_run_whose_tasks_were_stopped_is_cancelled(make: Any, program: Any, is_requested: bool) -> None:
    control = RunControl()
    run = make.run(program, control=control)

    def stop(task: Any) -> None:
        if is_requested:
            control.request_cancel("enough")

    outcome = make.loop(run, make.checkpoint({}, make.tasks("b", "c"))).finish(stop)

    assert outcome.status == "cancelled"
    assert isinstance(outcome.error, RunCancelled) is is_requested


def test_conflicting_writes_fail_the_run_at_its_checkpoint(make: Any, program: Any) -> None:
    checkpoint = make.checkpoint({"x": 0}, make.tasks("b", "c"))
    outcome = make.loop(make.run(program), checkpoint).finish(lambda task: make.result(task, {"x": task.node}))

    assert outcome.status == "failed"
    assert isinstance(outcome.error, ConflictingWrites)
    assert outcome.checkpoint is checkpoint


@pytest.mark.parametrize("limit", [1, 2, 7, 12])
def test_the_recursion_limit_is_the_number_of_supersteps(make: Any, cycle: Any, limit: int) -> None:
    driver = make.loop(make.run(cycle, recursion_limit=limit), make.checkpoint({}, make.tasks("a"), step=40))
    outcome = driver.finish()

    assert len(driver.steps) == limit
    assert isinstance(outcome.error, GraphRecursionError)
    assert outcome.error.limit == limit
    expected = [nodes for _, nodes in zip(range(limit), [["a"], ["b"]] * limit, strict=False)][-5:]
    assert outcome.error.last_steps == tuple(map(tuple, expected))


def test_a_run_can_complete_in_the_last_superstep_of_its_limit(make: Any, program: Any) -> None:
    outcome = make.loop(make.run(program, recursion_limit=3), make.checkpoint({}, make.tasks("a"))).finish()

    assert outcome.status == "completed"


def test_a_drained_run_stops_before_its_next_superstep(make: Any, program: Any) -> None:
    control = RunControl()
    driver = make.loop(make.run(program, control=control), make.checkpoint({"log": []}, make.tasks("a")))

    def answer(task: Any) -> Any:
        control.request_drain("deploy")
        return driver.along_edges(task)

    outcome = driver.finish(answer)

    assert driver.nodes == [["a"]]
    assert isinstance(outcome.error, GraphDrained)
    assert outcome.checkpoint.values == {"log": ["a"]}
    assert [task.node for task in outcome.checkpoint.frontier] == ["b", "c"]


def test_cancelling_wins_over_draining(make: Any, program: Any) -> None:
    control = RunControl()
    control.request_drain()
    control.request_cancel()
    driver = make.loop(make.run(program, control=control), make.checkpoint({}, make.tasks("a")))

    assert driver.finish().status == "cancelled"
    assert driver.steps == []


# -- breakpoints


@pytest.mark.parametrize(
    ("breakpoints", "nodes", "due"),
    [
        ({"breaks_before": {"a"}}, [], ["a"]),
        ({"breaks_before": {"c"}}, [["a"]], ["b", "c"]),
        ({"breaks_before": {"*"}}, [], ["a"]),
        ({"breaks_after": {"a"}}, [["a"]], ["b", "c"]),
        ({"breaks_after": {"b"}}, [["a"], ["b", "c"]], ["d"]),
        ({"breaks_after": {"*"}}, [["a"]], ["b", "c"]),
        ({"breaks_after": {"d"}}, [["a"], ["b", "c"], ["d"]], []),
        ({"breaks_before": {"unknown"}}, [["a"], ["b", "c"], ["d"]], []),
    ],
)
def test_a_run_stops_at_its_breakpoints(make: Any, program: Any, breakpoints: Any, nodes: Any, due: list[str]) -> None:
    run = make.run(program, **{name: frozenset(names) for name, names in breakpoints.items()})
    driver = make.loop(run, make.checkpoint({}, make.tasks("a")))
    outcome = driver.finish()

    assert driver.nodes == nodes
    assert [task.node for task in outcome.checkpoint.frontier] == due
    assert outcome.status == ("paused" if due else "completed")


def test_a_run_paused_at_a_breakpoint_continues_to_the_next(make: Any, cycle: Any) -> None:
    run = make.run(cycle, breaks_before=frozenset({"a"}))
    driver = make.loop(run, make.checkpoint({}, make.tasks("a")), Pending(paused=True))
    outcome = driver.finish()

    assert driver.nodes == [["a"], ["b"]]
    assert outcome.status == "paused"


def test_a_pause_at_a_breakpoint_is_saved(make: Any, program: Any) -> None:
    saver = InMemorySaver()
    checkpoint = save_start(make, saver, "a")
    driver = make.loop(make.run(program, saver=saver, breaks_before=frozenset({"a"})), checkpoint)
    driver.finish()

    (save,) = driver.effects_of(SavePending)
    assert (save.checkpoint_id, save.pending.paused) == (checkpoint.id, True)


# -- budgets


@pytest.mark.parametrize(
    ("budget", "supersteps", "what"),
    [
        (Budget(max_steps=3), 3, "supersteps"),
        (Budget(max_visits=2), 4, "visits of 'a'"),
        (Budget(max_visits={"b": 1}), 3, "visits of 'b'"),
    ],
)
def test_a_budget_fails_a_run_before_the_superstep_that_exceeds_it(
    make: Any, cycle: Any, budget: Budget, supersteps: int, what: str
) -> None:
    driver = make.loop(make.run(cycle, budget=budget), make.checkpoint({}, make.tasks("a")))
    outcome = driver.finish()

    assert len(driver.steps) == supersteps
    assert outcome.status == "failed"
    assert isinstance(outcome.error, BudgetExceeded)
    assert outcome.error.what == what


@pytest.fixture
def program_with_exit(make: Any) -> Any:
    graph = make.graph("a", "b", "exit", "more").add_edge(START, "a").add_edge("a", "b").add_edge("b", "a")
    return make.program(graph.add_edge(START, "exit").add_edge("exit", "more"))


def test_an_exceeded_budget_continues_at_its_exit_node(make: Any, program_with_exit: Any) -> None:
    run = make.run(program_with_exit, budget=Budget(max_steps=3, on_budget="exit"))
    driver = make.loop(run, make.checkpoint({"log": []}, make.tasks("a")))
    outcome = driver.finish()

    assert driver.nodes == [["a"], ["b"], ["a"], ["exit"], ["more"]]
    assert outcome.status == "completed"
    assert outcome.checkpoint.values["log"] == ["a", "b", "a", "exit", "more"]


def test_a_task_that_exceeds_the_budget_is_left_for_the_exit_node(make: Any, program_with_exit: Any) -> None:
    run = make.run(program_with_exit, budget=Budget(max_steps=50, on_budget="exit"))
    driver = make.loop(run, make.checkpoint({"log": []}, make.tasks("a")))

    def answer(task: Any) -> Any:
        return Failure(task, BudgetExceeded("tokens", 5, 6)) if task.node == "b" else driver.along_edges(task)

    assert driver.finish(answer).status == "completed"
    assert driver.nodes == [["a"], ["b"], ["exit"], ["more"]]


def test_the_commit_of_a_budget_exit_has_the_discarded_tasks(make: Any, program_with_exit: Any) -> None:
    saver = InMemorySaver()
    run = make.run(program_with_exit, saver=saver, budget=Budget(max_steps=1, on_budget="exit"))
    driver = make.loop(run, save_start(make, saver, "a"))
    driver.finish()

    exits = [save.commit for save in driver.effects_of(Save) if "discarded" in save.commit.metadata]
    assert [commit.metadata["discarded"] for commit in exits] == [["b"]]
    assert [task.node for task in exits[0].checkpoint.frontier] == ["exit"]
    (task,) = driver.effects_of(Save)[0].commit.checkpoint.frontier
    assert exits[0].dropped_namespaces == (f"b:{task.id}",)


def test_durability_exit_saves_the_supersteps_before_a_budget_exit(make: Any, program_with_exit: Any) -> None:
    saver = InMemorySaver()
    run = make.run(program_with_exit, saver=saver, saves_on_exit=True, budget=Budget(max_steps=2, on_budget="exit"))
    driver = make.loop(run, save_start(make, saver, "a"))
    driver.finish()

    supersteps, budget_exit_commit = (save.commit for save in driver.effects_of(Save))
    assert supersteps.checkpoint.values["log"] == ["a", "b"]
    assert budget_exit_commit.parent_id == supersteps.checkpoint.id


@pytest.mark.parametrize(
    ("nested", "on_budget", "error", "node"),
    [
        (False, "exit", BudgetExceeded("tokens", 1, 2), "exit"),
        (False, None, BudgetExceeded("tokens", 1, 2), None),
        (False, "exit", ValueError(), None),
        (True, "exit", BudgetExceeded("tokens", 1, 2), None),
    ],
)
def test_only_a_budget_error_of_a_root_run_leads_to_the_exit_node(
    make: Any, program: Any, nested: bool, on_budget: Any, error: Exception, node: Any
) -> None:
    call = make.subgraph_call(program) if nested else None
    run = make.run(program, call=call, budget=Budget(max_steps=1, on_budget=on_budget))

    assert budget_exit(run, error) == node


# -- saving


def test_every_superstep_is_one_commit(make: Any, program: Any) -> None:
    saver = InMemorySaver()
    driver = make.loop(make.run(program, saver=saver), save_start(make, saver, "a"))
    driver.finish()

    commits = [save.commit for save in driver.effects_of(Save)]
    assert [type(effect) for effect in driver.effects] == [RunTasks, Save] * 3
    assert [commit.checkpoint.id for commit in commits] == ["commit-1", "commit-2", "commit-3"]
    assert [commit.parent_id for commit in commits] == ["before", "commit-1", "commit-2"]
    assert [commit.expected for commit in commits] == [commit.parent_id for commit in commits]
    assert [commit.metadata["nodes"] for commit in commits] == [["a"], ["b", "c"], ["d"]]
    assert [commit.deltas for commit in commits] == [{"log": Added(items)} for items in (["a"], ["b", "c"], ["d"])]


def test_durability_exit_saves_the_changes_of_all_supersteps_in_one_commit(make: Any, program: Any) -> None:
    saver = InMemorySaver()
    run = make.run(program, saver=saver, saves_on_exit=True)
    driver = make.loop(run, save_start(make, saver, "a"))
    driver.finish(lambda task: Failure(task, ValueError()) if task.node == "d" else driver.along_edges(task))

    assert [type(effect) for effect in driver.effects] == [RunTasks] * 3 + [Save, SavePending]
    (save,) = driver.effects_of(Save)
    assert (save.commit.parent_id, save.commit.deltas) == ("before", {"log": Added(["a", "b", "c"])})
    assert save.commit.checkpoint.values == {"log": ["a", "b", "c"]}


def test_durability_exit_saves_before_the_pause_at_a_breakpoint(make: Any, program: Any) -> None:
    saver = InMemorySaver()
    run = make.run(program, saver=saver, saves_on_exit=True, breaks_before=frozenset({"d"}))
    driver = make.loop(run, save_start(make, saver, "a"))
    driver.finish()

    assert [type(effect) for effect in driver.effects] == [RunTasks, RunTasks, Save, SavePending]
    assert driver.effects_of(SavePending)[0].checkpoint_id == driver.effects_of(Save)[0].commit.checkpoint.id


def test_results_questions_and_errors_of_an_unfinished_superstep_are_saved(make: Any, program: Any) -> None:
    saver = InMemorySaver()
    checkpoint = save_start(make, saver, "a", "b", "c", "d")
    first, second, third, _ = checkpoint.frontier

    def answer(task: Any) -> Any:
        outcomes = {
            "a": make.result(task, {"log": ["a"]}),
            "b": Pause(task, (question("q"),)),
            "c": Failure(task, ValueError("no")),
        }
        return outcomes.get(task.node)

    driver = make.loop(make.run(program, saver=saver), checkpoint)
    driver.finish(answer)

    (save,) = driver.effects_of(SavePending)
    assert save.checkpoint_id == checkpoint.id
    assert save.pending.completed.keys() == {first.id}
    assert save.pending.interrupts == {second.id: (question("q"),)}
    assert save.pending.errors == {third.id: "ValueError: no"}
    assert driver.effects_of(Save) == []


def test_results_with_conflicting_writes_are_saved(make: Any, program: Any) -> None:
    saver = InMemorySaver()
    driver = make.loop(make.run(program, saver=saver), save_start(make, saver, "b", "c"))
    driver.finish(lambda task: make.result(task, {"x": task.node}))

    (save,) = driver.effects_of(SavePending)
    assert len(save.pending.completed) == 2


def test_a_run_without_a_saver_saves_no_results(make: Any, program: Any) -> None:
    driver = make.loop(make.run(program), make.checkpoint({}, make.tasks("b")))
    driver.finish(lambda task: Failure(task, ValueError()))

    assert {type(effect) for effect in driver.effects} == {RunTasks}


def test_a_commit_drops_the_namespaces_of_tasks_of_an_earlier_run(make: Any, program: Any) -> None:
    saver = InMemorySaver()
    checkpoint = save_start(make, saver, "b", "c")
    first, second = checkpoint.frontier
    pending = Pending(completed={first.id: make.result(first)})
    driver = make.loop(make.run(program, saver=saver), checkpoint, pending)
    driver.finish()

    dropped = [save.commit.dropped_namespaces for save in driver.effects_of(Save)]
    assert dropped == [tuple(sorted([f"b:{first.id}", f"c:{second.id}"])), ()]


def test_the_journal_is_cleared_after_the_superstep(make: Any, program: Any) -> None:
    run = make.run(program)
    run.journal = {(TaskId("task"), "step", 0): JournalEntry("digest", 1)}
    make.loop(run, make.checkpoint({}, make.tasks("d"))).finish()

    assert run.journal == {}


@pytest.mark.parametrize("namespace", ["", "outer:1"])
def test_the_namespace_of_a_call_is_the_path_of_its_tasks(make: Any, program: Any, namespace: str) -> None:
    task = make.task("b")
    prefix = "outer:1|" if namespace else ""

    assert call_namespaces(make.run(program, namespace=namespace), [task]) == {f"{prefix}b:{task.id}"}


def test_the_ids_of_tasks_of_a_subgraph_do_not_depend_on_the_commit(make: Any, program: Any) -> None:
    def ids(name: str, nested: bool) -> list[str]:
        run = make.run(program, run_id=name, call=make.subgraph_call(program) if nested else None)
        driver = make.loop(run, make.checkpoint({}, make.tasks("a")))
        driver.finish()
        return [task.id for tasks in driver.steps[1:] for task in tasks]

    assert ids("one", nested=True) == ids("two", nested=True)
    assert not set(ids("one", nested=False)) & set(ids("two", nested=False))


def test_a_subgraph_reports_the_updates_of_fields_with_reducers(make: Any, program: Any) -> None:
    run = make.run(program, call=make.subgraph_call(program))

    outcome = make.loop(run, make.checkpoint({"log": []}, make.tasks("a"))).finish()

    assert outcome.checkpoint.reported == tuple(("log", [name]) for name in "abcd")


# -- the event log, the lease and listeners


def test_the_event_log_has_the_start_the_tasks_and_the_end_of_a_run(make: Any, program: Any) -> None:
    saver = InMemorySaver()
    driver = make.loop(make.run(program, saver=saver, owner="me"), save_start(make, saver, "b"))
    driver.finish(lambda task: make.result(task, {"log": [1]}))

    events = [(event.kind, event.node) for event in saver.events("thread")]
    assert events == [
        ("run_started", None),
        ("task_finished", "b"),
        ("superstep_finished", None),
        ("run_finished", None),
    ]


def test_the_first_commit_claims_the_thread_and_the_last_releases_it(make: Any, program: Any) -> None:
    saver = InMemorySaver()
    driver = make.loop(make.run(program, saver=saver, owner="me"), save_start(make, saver, "a"))
    driver.finish()

    holds = [save.commit.hold for save in driver.effects_of(Save)]
    assert [hold.claims for hold in holds] == [True, False, False]
    assert [hold.until is None for hold in holds] == [False, False, True]
    assert saver.lease("thread") is None


@pytest.mark.parametrize(
    ("failing", "claims", "kinds"),
    [
        ("a", True, ["run_started", "run_finished"]),
        ("d", False, ["run_started", *["task_finished", "superstep_finished"], *["task_finished"] * 2]),
    ],
)
def test_a_failed_run_saves_its_results_and_releases_its_thread(
    make: Any, program: Any, failing: str, claims: bool, kinds: list[str]
) -> None:
    saver = InMemorySaver()
    driver = make.loop(make.run(program, saver=saver, owner="me"), save_start(make, saver, "a"))
    driver.finish(lambda task: Failure(task, ValueError("no")) if task.node == failing else driver.along_edges(task))

    (save,) = driver.effects_of(SavePending)
    assert (save.hold.claims, save.hold.until) == (claims, None)
    assert saver.lease("thread") is None
    log = saver.events("thread")
    assert [event.kind for event in log][: len(kinds)] == kinds
    assert [event.kind for event in log].count("run_started") == 1
    assert (log[-1].kind, log[-1].data) == ("run_finished", {"status": "failed", "error": "ValueError: no"})


def test_the_event_log_has_the_questions_before_the_end_of_the_run(make: Any, program: Any) -> None:
    saver = InMemorySaver()
    driver = make.loop(make.run(program, saver=saver, owner="me"), save_start(make, saver, "a"))
    driver.finish(lambda task: Pause(task, (question("q"),)))

    assert [(event.kind, event.data) for event in saver.events("thread")][1:] == [
        ("interrupted", [{"id": "q", "kind": "question"}]),
        ("run_finished", {"status": "waiting"}),
    ]


@pytest.mark.parametrize(
    ("nested", "claimed", "is_released"), [(False, True, True), (True, True, False), (False, False, False)]
)
def test_only_a_root_run_with_a_lease_releases_its_thread(
    make: Any, program: Any, nested: bool, claimed: bool, is_released: bool
) -> None:
    saver = InMemorySaver()
    checkpoint = save_start(make, saver, "a")
    run = make.run(program, saver=saver, owner="me")
    make.driver(run, save_pending(run, checkpoint, Pending())).finish()
    run.nested, run.holds_thread = nested, claimed
    driver = make.driver(run, release_thread(run, RunOutcome("completed", checkpoint)))
    driver.finish()

    assert (saver.lease("thread") is None) is is_released
    assert len(driver.effects) == is_released


def test_a_write_during_a_run_keeps_the_lease(make: Any, program: Any) -> None:
    saver = InMemorySaver()
    checkpoint = save_start(make, saver, "a")
    run = make.run(program, saver=saver, owner="me")
    for _ in range(2):
        make.driver(run, save_pending(run, checkpoint, Pending())).finish()

    assert saver.lease("thread").owner == "me"
    assert [event.kind for event in saver.events("thread")] == ["run_started"]


def test_listeners_receive_events_of_their_kinds_in_order(make: Any, program: Any) -> None:
    saver, seen = InMemorySaver(), list[Any]()
    watched = ("superstep_started", "superstep_finished", "committed", "interrupted")
    driver = make.loop(make.run(program, saver=saver, watched=watched, seen=seen), save_start(make, saver, "a"))
    driver.finish(lambda task: Pause(task, (question("q"),)) if task.node == "c" else driver.along_edges(task))

    assert [(event.kind, event.step) for event in seen] == [
        ("superstep_started", 4),
        ("committed", 4),
        ("superstep_finished", 4),
        ("superstep_started", 5),
        ("interrupted", 5),
    ]
    assert [task.node for task in seen[3].data] == ["b", "c"]
    assert seen[4].data == (question("q"),)


def test_listeners_receive_no_events_of_other_kinds(make: Any, program: Any) -> None:
    seen: list[Any] = []
    driver = make.loop(make.run(program, watched=("committed",), seen=seen), make.checkpoint({}, make.tasks("a")))
    driver.finish()

    assert driver.effects_of(Emit) == seen == []


# -- the saved form of results


class WithHandle(TypedDict, total=False):
    log: Annotated[list[Any], append]
    handle: Annotated[Any, Untracked()]


def test_a_result_is_saved_without_its_folded_state(make: Any, program: Any) -> None:
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
def test_a_result_is_saved_without_untracked_values(make: Any, writes: Any, targets: Any) -> None:
    graph = make.graph("a", "b", schema=WithHandle).add_edge(START, "a").add_edge(START, "b")
    saver = InMemorySaver()
    driver = make.loop(make.run(make.program(graph), saver=saver), save_start(make, saver, "a", "b"))

    def answer(task: Any) -> Any:
        failed = task.node == "b"
        return Failure(task, ValueError()) if failed else make.result(task, writes, targets, goto=bool(targets))

    driver.finish(answer)

    (save,) = driver.effects_of(SavePending)
    (result,) = save.pending.completed.values()
    assert result.writes == {"log": ["a"]}
    assert [send.arg for send in result.targets] == [{"log": []} for _ in targets]


@pytest.mark.parametrize(
    ("outcomes", "expected"), [("", True), ("r", True), ("rr", True), ("rf", False), ("pr", False), ("n", False)]
)
def test_all_succeeded_requires_a_result_of_every_task(make: Any, outcomes: str, expected: bool) -> None:
    task = make.task("a")
    kinds = {"r": make.result("a"), "f": Failure(task, ValueError()), "p": Pause(task, ()), "n": None}

    assert all_succeeded([kinds[kind] for kind in outcomes]) is expected
