"""The start of a run: inputs, commands, answers and replays, on an in-memory saver."""

from datetime import UTC, datetime
from typing import Any

import pytest

from statewright import END, START, Command, InMemorySaver, Send
from statewright.channels import Added
from statewright.checkpoint import Interrupt, JournalEntry, Pending
from statewright.errors import (
    CheckpointNotFound,
    EmptyInputError,
    InvalidResume,
    InvalidUpdateError,
    UnansweredInterrupts,
    UnknownTarget,
)
from statewright.ids import InterruptId, interrupt_id
from statewright.runtime.core.effects import Load, RunTasks, Save, SavePending
from statewright.runtime.invocation.outcome import Failure, Pause
from statewright.runtime.lifecycle.start import TIMED_OUT, read_answers
from statewright.runtime.lifecycle.subgraph_forks import copy_with_id


@pytest.fixture
def program(make: Any) -> Any:
    """Return a program that runs `a` and `c`, then `b` after `a`."""
    return make.program(make.graph("a", "b", "c").add_edge(START, "a").add_edge(START, "c").add_edge("a", "b"))


@pytest.fixture
def saver() -> InMemorySaver:
    return InMemorySaver()


def outcomes_with_questions(make: Any, *nodes: str, count: int = 1) -> Any:
    """Return a function from tasks to outcomes, in which some nodes ask questions."""

    def outcome_of_task(task: Any) -> Any:
        if task.node in nodes:
            return Pause(task, tuple(Interrupt(id=interrupt_id(task.id, index), value=index) for index in range(count)))
        return make.result(task, {"log": [task.node]}, ["b"] if task.node == "a" else [])

    return outcome_of_task


def outcomes_with_failures(make: Any, *nodes: str) -> Any:
    """Return a function from tasks to outcomes, in which some nodes fail."""
    successful = outcomes_with_questions(make)
    return lambda task: Failure(task, ValueError(task.node)) if task.node in nodes else successful(task)


def head(saver: InMemorySaver) -> Any:
    return saver.load("thread")


# -- fresh input


def test_input_is_applied_and_the_entry_nodes_run(make: Any, program: Any) -> None:
    driver = make.call(make.run(program), {"x": 1, "log": ["in"]})
    outcome = driver.finish()

    assert driver.nodes == [["a", "c"], ["b"]]
    assert outcome.checkpoint.values == {"x": 1, "log": ["in", "a", "c", "b"]}


def test_the_commit_of_an_input_has_the_entry_nodes_as_frontier(make: Any, program: Any, saver: InMemorySaver) -> None:
    driver = make.call(make.run(program, saver=saver), {"x": 1})
    driver.finish()

    first = driver.effects_of(Save)[0].commit
    assert [type(effect) for effect in driver.effects[:3]] == [Load, Save, RunTasks]
    assert (first.source, first.parent_id, first.checkpoint.step) == ("input", None, 0)
    assert [task.node for task in first.checkpoint.frontier] == ["a", "c"]
    assert (first.deltas, first.checkpoint.values) == (None, {"x": 1, "log": []})


def test_the_commit_of_a_later_input_has_only_its_deltas(make: Any, program: Any, saver: InMemorySaver) -> None:
    make.outcome_of(make.run(program, saver=saver), {"x": 1})
    driver = make.call(make.run(program, saver=saver), {"x": 2, "log": ["in"]})
    driver.finish()

    first = driver.effects_of(Save)[0].commit
    assert (first.source, first.deltas) == ("input", {"x": 2, "log": Added(["in"])})


def test_the_first_node_sees_the_start_values_of_reducers(make: Any, program: Any) -> None:
    effect = next(make.call(make.run(program), {"x": 1}).core)

    assert effect.checkpoint.values == {"x": 1, "log": []}


def test_an_input_of_the_wrong_type_is_refused_and_writes_nothing(
    make: Any, program: Any, saver: InMemorySaver
) -> None:
    driver = make.call(make.run(program, saver=saver), 3)

    with pytest.raises(InvalidUpdateError, match="The input is 3 of type int"):
        driver.finish()
    assert [type(effect) for effect in driver.effects] == [Load]


def test_a_later_input_is_applied_to_the_state_of_the_thread(make: Any, program: Any, saver: InMemorySaver) -> None:
    make.outcome_of(make.run(program, saver=saver), {"x": 1})
    outcome = make.outcome_of(make.run(program, saver=saver), {"y": 2})

    assert outcome.checkpoint.values == {"x": 1, "y": 2, "log": ["a", "c", "b", "a", "c", "b"]}
    assert outcome.checkpoint.step == 5


def test_input_after_a_failure_applies_saved_results_and_discards_failed_tasks(
    make: Any, program: Any, saver: InMemorySaver
) -> None:
    make.outcome_of(make.run(program, saver=saver), {"x": 1}, outcomes_with_failures(make, "c"))
    driver = make.call(make.run(program, saver=saver), {"x": 2})
    driver.finish()

    first = driver.effects_of(Save)[0].commit
    assert first.checkpoint.values == {"x": 2, "log": ["a"]}
    assert first.deltas == {"x": 2, "log": Added(["a"])}
    assert first.metadata["discarded"] == ["c"]
    assert [task.node for task in first.checkpoint.frontier] == ["a", "c"]


def test_input_with_open_questions_is_refused_with_their_ids(make: Any, program: Any, saver: InMemorySaver) -> None:
    make.outcome_of(make.run(program, saver=saver), {"x": 1}, outcomes_with_questions(make, "c"))
    (question,) = head(saver).pending.open

    with pytest.raises(UnansweredInterrupts) as caught:
        make.outcome_of(make.run(program, saver=saver), {"x": 2})
    assert caught.value.open_ids == (question.id,)
    assert head(saver).pending.open == (question,)


def test_on_unfinished_discard_discards_open_questions(make: Any, program: Any, saver: InMemorySaver) -> None:
    make.outcome_of(make.run(program, saver=saver), {"x": 1}, outcomes_with_questions(make, "c"))
    outcome = make.outcome_of(make.run(program, saver=saver, on_unfinished="discard"), {"x": 2})

    assert outcome.status == "completed"
    assert outcome.checkpoint.values["log"] == ["a", "a", "c", "b"]


@pytest.mark.parametrize("failed", [True, False])
def test_on_unfinished_finish_first_finishes_the_previous_run(
    make: Any, program: Any, saver: InMemorySaver, failed: bool
) -> None:
    make.outcome_of(make.run(program, saver=saver), {"x": 1}, outcomes_with_failures(make, "c") if failed else None)
    driver = make.call(make.run(program, saver=saver, on_unfinished="finish"), {"x": 2})
    outcome = driver.finish()

    assert driver.nodes == ([["c"], ["b"]] if failed else []) + [["a", "c"], ["b"]]
    assert outcome.checkpoint.values == {"x": 2, "log": ["a", "c", "b"] * 2}


def test_on_unfinished_finish_does_not_apply_the_input_if_questions_are_open(
    make: Any, program: Any, saver: InMemorySaver
) -> None:
    make.outcome_of(make.run(program, saver=saver), {"x": 1}, outcomes_with_questions(make, "c"))
    outcome = make.outcome_of(make.run(program, saver=saver, on_unfinished="finish"), {"x": 2})

    assert outcome.status == "waiting"
    assert outcome.checkpoint.values["x"] == 1


def test_input_drops_the_namespaces_of_the_tasks_that_it_discards(
    make: Any, program: Any, saver: InMemorySaver
) -> None:
    make.outcome_of(make.run(program, saver=saver), {"x": 1}, outcomes_with_failures(make, "c"))
    dropped = sorted(f"{task.node}:{task.id}" for task in head(saver).checkpoint.frontier)
    driver = make.call(make.run(program, saver=saver), {"x": 2})
    driver.finish()

    assert list(driver.effects_of(Save)[0].commit.dropped_namespaces) == dropped


def test_on_unfinished_finish_restores_answers_and_attempts_and_claims_the_thread(
    make: Any, program: Any, saver: InMemorySaver
) -> None:
    make.outcome_of(make.run(program, saver=saver), {"x": 1}, outcomes_with_questions(make, "c", count=2))
    saved = head(saver)
    first, second = saved.pending.open
    (task,) = (task for task in saved.checkpoint.frontier if task.node == "c")
    saver.save_results(saved.branch_key, saved.id, Pending(answers={first.id: 1}, attempts={task.id: 2}))
    run = make.run(program, saver=saver, owner="me", on_unfinished="finish")
    driver = make.call(run, {"x": 2})
    outcome = driver.finish()

    assert (outcome.status, outcome.interrupts) == ("waiting", (second,))
    assert run.answers == {first.id: 1}
    assert run.attempts == {task.id: 2}
    assert [save.hold.claims for save in driver.effects_of(SavePending)] == [True, False]


# -- continuing


@pytest.mark.parametrize("saved", [True, False])
def test_a_run_without_input_needs_a_saved_thread(make: Any, program: Any, saver: InMemorySaver, saved: bool) -> None:
    with pytest.raises(EmptyInputError, match="nothing to continue" if saved else "compile with a checkpointer"):
        make.outcome_of(make.run(program, saver=saver if saved else None), None)


def test_continuing_runs_only_tasks_without_saved_results(make: Any, program: Any, saver: InMemorySaver) -> None:
    make.outcome_of(make.run(program, saver=saver), {"x": 1}, outcomes_with_failures(make, "c"))
    driver = make.call(make.run(program, saver=saver), None)
    outcome = driver.finish()

    assert driver.nodes == [["c"], ["b"]]
    assert outcome.checkpoint.values["log"] == ["a", "c", "b"]


def test_continuing_restores_answers_attempts_journal_and_questions(
    make: Any, program: Any, saver: InMemorySaver
) -> None:
    make.outcome_of(make.run(program, saver=saver), {"x": 1}, outcomes_with_questions(make, "c", count=2))
    saved = head(saver)
    first, second = saved.pending.open
    (task,) = (task for task in saved.checkpoint.frontier if task.node == "c")
    journal = {(task.id, "charge", 0): JournalEntry("digest", "charged")}
    saver.save_results(
        saved.branch_key, saved.id, Pending(answers={first.id: 1}, attempts={task.id: 2}, journal=journal)
    )
    run = make.run(program, saver=saver)
    make.outcome_of(run, None)

    assert run.answers == {first.id: 1}
    assert (run.attempts, run.journal) == ({task.id: 2}, journal)
    assert run.known_interrupts == {first.id: first, second.id: second}


def test_durability_exit_saves_when_the_run_ends(make: Any, program: Any, saver: InMemorySaver) -> None:
    driver = make.call(make.run(program, saver=saver, saves_on_exit=True), {"x": 1})
    driver.finish()

    assert [save.commit.source for save in driver.effects_of(Save)] == ["input", "loop"]
    assert head(saver).checkpoint.values == {"x": 1, "log": ["a", "c", "b"]}


def test_continuing_a_complete_thread_runs_nothing(make: Any, program: Any, saver: InMemorySaver) -> None:
    make.outcome_of(make.run(program, saver=saver), {"x": 1})
    driver = make.call(make.run(program, saver=saver), None)

    assert driver.finish().status == "completed"
    assert driver.steps == []


def test_the_recursion_limit_counts_the_supersteps_of_one_call(make: Any, program: Any, saver: InMemorySaver) -> None:
    for _ in range(3):
        assert make.outcome_of(make.run(program, saver=saver, recursion_limit=2), {"x": 1}).status == "completed"


def test_replaying_an_older_checkpoint_forks_it_on_the_same_branch(
    make: Any, program: Any, saver: InMemorySaver
) -> None:
    make.outcome_of(make.run(program, saver=saver), {"x": 1})
    newest, middle, oldest = saver.history("thread")
    driver = make.call(make.run(program, saver=saver, checkpoint_id=oldest.id), None)
    driver.finish()

    fork = driver.effects_of(Save)[0].commit
    assert (fork.source, fork.parent_id, fork.expected) == ("fork", oldest.id, newest.id)
    assert [task.id for task in fork.checkpoint.frontier] == [task.id for task in oldest.checkpoint.frontier]
    assert driver.nodes == [["a", "c"], ["b"]]
    assert saver.load("thread", checkpoint_id=middle.id) is not None


def test_continuing_from_the_head_by_id_does_not_fork(make: Any, program: Any, saver: InMemorySaver) -> None:
    make.outcome_of(make.run(program, saver=saver), {"x": 1}, outcomes_with_failures(make, "c"))
    driver = make.call(make.run(program, saver=saver, checkpoint_id=head(saver).id), None)
    driver.finish()

    assert [save.commit.source for save in driver.effects_of(Save)] == ["loop", "loop"]


def test_continuing_from_a_missing_checkpoint_is_refused(make: Any, program: Any, saver: InMemorySaver) -> None:
    make.outcome_of(make.run(program, saver=saver), {"x": 1})

    with pytest.raises(CheckpointNotFound, match="'missing'"):
        make.outcome_of(make.run(program, saver=saver, checkpoint_id="missing"), None)


def test_copy_with_id_keeps_everything_but_the_id_and_step(make: Any) -> None:
    deferred = (object(),)
    before = make.checkpoint({"x": 1}, make.tasks("a"), deferred, joins={"j": frozenset("a")}, reported=(("log", 1),))
    after = copy_with_id(before, "other")

    assert (after.id, after.step) == ("other", before.step + 1)
    for part in ("values", "frontier", "deferred", "joins", "reported"):
        assert getattr(after, part) == getattr(before, part)
    assert before.id == "before"


# -- a Command as input


def test_an_empty_command_is_refused(make: Any, program: Any, saver: InMemorySaver) -> None:
    with pytest.raises(EmptyInputError, match="is empty"):
        make.outcome_of(make.run(program, saver=saver), Command())


@pytest.mark.parametrize(("saved", "reason"), [(True, "no saved run to resume"), (False, "needs a checkpointer")])
def test_an_answer_needs_a_saved_run(make: Any, program: Any, saver: InMemorySaver, saved: bool, reason: str) -> None:
    with pytest.raises(InvalidResume, match=reason):
        make.outcome_of(make.run(program, saver=saver if saved else None), Command(resume=1))


def test_an_answer_runs_only_the_task_that_asked(make: Any, program: Any, saver: InMemorySaver) -> None:
    make.outcome_of(make.run(program, saver=saver), {"x": 1}, outcomes_with_questions(make, "c"))
    (question,) = head(saver).pending.open
    run = make.run(program, saver=saver)
    driver = make.call(run, Command(resume="yes"))
    outcome = driver.finish()

    assert run.answers == {question.id: "yes"}
    assert driver.nodes == [["c"], ["b"]]
    assert outcome.checkpoint.values["log"] == ["a", "c", "b"]


def test_answers_are_kept_until_all_questions_of_the_task_are_answered(
    make: Any, program: Any, saver: InMemorySaver
) -> None:
    make.outcome_of(make.run(program, saver=saver), {"x": 1}, outcomes_with_questions(make, "c", count=2))
    first, second = head(saver).pending.open
    driver = make.call(make.run(program, saver=saver), Command(resume={first.id: 1}))
    outcome = driver.finish()

    assert driver.nodes == [[]]
    assert (outcome.status, outcome.interrupts) == ("waiting", (second,))
    run = make.run(program, saver=saver)
    assert make.outcome_of(run, Command(resume=2)).status == "completed"
    assert run.answers == {first.id: 1, second.id: 2}


def test_an_ambiguous_answer_is_refused_and_writes_nothing(make: Any, program: Any, saver: InMemorySaver) -> None:
    make.outcome_of(make.run(program, saver=saver), {"x": 1}, outcomes_with_questions(make, "a", "c"))
    driver = make.call(make.run(program, saver=saver), Command(resume="which?"))

    with pytest.raises(InvalidResume, match="2 questions are open"):
        driver.finish()
    assert [type(effect) for effect in driver.effects] == [Load]


def test_a_command_updates_the_state_and_adds_tasks_to_the_due_ones(
    make: Any, program: Any, saver: InMemorySaver
) -> None:
    make.outcome_of(make.run(program, saver=saver), {"x": 1}, outcomes_with_failures(make, "a", "c"))
    driver = make.call(make.run(program, saver=saver), Command(update={"x": 2}, goto=["b", Send("b", {"log": []})]))
    driver.finish()

    first = driver.effects_of(Save)[0].commit
    assert (first.source, first.deltas) == ("update", {"x": 2})
    assert driver.nodes[0] == ["a", "b", "c", "b"]


@pytest.mark.parametrize("command", [Command(update={"x": 1}), Command(goto="b"), Command(update={"x": 1}, goto="b")])
def test_a_command_can_start_a_thread_at_its_goto(
    make: Any, program: Any, saver: InMemorySaver, command: Command[Any]
) -> None:
    driver = make.call(make.run(program, saver=saver), command)
    outcome = driver.finish()

    assert driver.nodes == ([["b"]] if command.goto else [])
    assert outcome.status == "completed"
    assert outcome.checkpoint.values.get("x") == (1 if command.update else None)


@pytest.mark.parametrize(("goto", "first"), [("b", ["a", "b", "c"]), (["b", END], ["a", "b", "c"]), (END, ["a", "c"])])
def test_a_goto_end_adds_no_task(make: Any, program: Any, saver: InMemorySaver, goto: Any, first: list[str]) -> None:
    make.outcome_of(make.run(program, saver=saver), {"x": 1}, outcomes_with_failures(make, "a", "c"))
    driver = make.call(make.run(program, saver=saver), Command(goto=goto))
    driver.finish()

    assert driver.nodes[0] == first


@pytest.mark.parametrize(("value", "nodes"), [(Command(resume="yes"), ["c"]), (None, ["a", "c"])])
def test_an_older_checkpoint_keeps_results_for_an_answer_but_not_for_a_replay(
    make: Any, program: Any, saver: InMemorySaver, value: Any, nodes: list[str]
) -> None:
    make.outcome_of(make.run(program, saver=saver), {"x": 1}, outcomes_with_questions(make, "c"))
    waiting = head(saver)
    make.outcome_of(make.run(program, saver=saver), Command(resume="no"))
    driver = make.call(make.run(program, saver=saver, checkpoint_id=waiting.id), value)
    driver.finish()

    assert driver.nodes[0] == nodes


def test_a_command_can_have_an_answer_and_an_update(make: Any, program: Any, saver: InMemorySaver) -> None:
    make.outcome_of(make.run(program, saver=saver), {"x": 1}, outcomes_with_questions(make, "c"))
    run = make.run(program, saver=saver)
    outcome = make.outcome_of(run, Command(resume="yes", update={"x": 2}))

    assert list(run.answers.values()) == ["yes"]
    assert outcome.checkpoint.values == {"x": 2, "log": ["a", "c", "b"]}


def test_a_command_to_an_unknown_node_is_refused(make: Any, program: Any, saver: InMemorySaver) -> None:
    with pytest.raises(UnknownTarget, match="'missing'"):
        make.outcome_of(make.run(program, saver=saver), Command(goto="missing"))


# -- calling a subgraph again


@pytest.mark.parametrize("same_task", [True, False])
def test_a_call_continues_only_for_the_task_that_made_it(
    make: Any, program: Any, saver: InMemorySaver, same_task: bool
) -> None:
    def run(task: str) -> Any:
        return make.run(program, saver=saver, call=make.subgraph_call(program, origin=task))

    make.outcome_of(run("one"), {"x": 1}, outcomes_with_failures(make, "c"))
    driver = make.call(run("one" if same_task else "two"), {"x": 2})
    outcome = driver.finish()

    assert driver.nodes == [["c"] if same_task else ["a", "c"], ["b"]]
    assert outcome.checkpoint.values["x"] == (1 if same_task else 2)


def test_a_call_continues_with_the_answers_of_its_caller(make: Any, program: Any, saver: InMemorySaver) -> None:
    def run(**options: Any) -> Any:
        return make.run(program, saver=saver, call=make.subgraph_call(program, "a:1"), **options)

    make.outcome_of(run(), {"x": 1}, outcomes_with_questions(make, "c"))
    (question,) = saver.load("thread", namespace="a:1").pending.open
    driver = make.call(run(answers={question.id: "yes", "of another": 1}), {"x": 1})

    assert driver.finish().status == "completed"
    assert driver.nodes == [["c"], ["b"]]


# -- the lease


def test_a_run_without_commits_claims_and_releases_its_thread(make: Any, program: Any, saver: InMemorySaver) -> None:
    make.outcome_of(make.run(program, saver=saver), {"x": 1})
    run = make.run(program, saver=saver, owner="me")
    core = make.call(run, None)
    core.finish()

    holds = [effect.hold for effect in core.effects if type(effect) is not Load]
    assert [(hold.claims, hold.until is None) for hold in holds] == [(True, False), (False, True)]
    assert saver.lease("thread") is None


def test_listeners_receive_the_events_of_a_whole_run(make: Any, program: Any, saver: InMemorySaver) -> None:
    seen: list[Any] = []
    watched = ("run_started", "input_applied", "run_finished")
    outcome = make.outcome_of(make.run(program, saver=saver, watched=watched, seen=seen), {"x": 1})

    assert [event.kind for event in seen] == list(watched)
    assert seen[0].data == {"x": 1}
    assert [task.node for task in seen[1].data.frontier] == ["a", "c"]
    assert seen[2].data is outcome


# -- reading answers


ID1, ID2, ID3 = (InterruptId(digit * 32) for digit in "123")
QUESTION1 = Interrupt(id=ID1, value="1?")
QUESTION2 = Interrupt(id=ID2, value="2?")
NUMBER = Interrupt(id=ID2, value="how many?", schema=int)
TIMER = Interrupt(id=ID3, value=None, kind="timer", due_at=datetime(2026, 1, 1, tzinfo=UTC))
EVENT = Interrupt(id=ID3, value="paid", kind="event", event="paid")


@pytest.mark.parametrize(
    ("resume", "questions", "answers"),
    [
        ("yes", [QUESTION1], {ID1: "yes"}),
        (None, [QUESTION1], {ID1: None}),
        ({}, [QUESTION1], {ID1: {}}),
        ({"plan": "b"}, [QUESTION1], {ID1: {"plan": "b"}}),
        ({ID1: "yes", "plan": "b"}, [QUESTION1], {ID1: {ID1: "yes", "plan": "b"}}),
        ({ID1: "yes"}, [QUESTION1], {ID1: "yes"}),
        ({ID2: "two"}, [QUESTION1, QUESTION2], {ID2: "two"}),
        ({ID2: None, ID1: 1}, [QUESTION1, QUESTION2], {ID2: None, ID1: 1}),
        ("yes", [QUESTION1, TIMER], {ID1: "yes"}),
        ("yes", [EVENT, QUESTION1], {ID1: "yes"}),
        ({ID3: "payload"}, [EVENT, QUESTION1], {ID3: "payload"}),
        ({ID3: TIMED_OUT}, [TIMER], {ID3: None}),
        ({ID2: TIMED_OUT}, [NUMBER], {ID2: None}),
        (3, [NUMBER], {ID2: 3}),
    ],
)
def test_read_answers_assigns_answers_to_questions(resume: Any, questions: Any, answers: Any) -> None:
    assert read_answers(resume, questions) == answers


@pytest.mark.parametrize(
    ("resume", "questions", "reason", "open_ids"),
    [
        ("yes", [], "No question is open", ()),
        ("yes", [QUESTION1, QUESTION2], "2 questions are open", (ID1, ID2)),
        ({}, [QUESTION1, QUESTION2], "2 questions are open", (ID1, ID2)),
        ({ID3: 1}, [QUESTION1, QUESTION2], f"No open question has the id '{ID3}'", (ID1, ID2)),
        ({ID3: 1}, [QUESTION1], f"No open question has the id '{ID3}'", (ID1,)),
        ({ID1: 1, ID3: 1}, [QUESTION1], f"No open question has the id '{ID3}'", (ID1,)),
        ("yes", [TIMER], "a timer until 2026", (ID3,)),
        ("yes", [EVENT], "waits for paid", (ID3,)),
        ("many", [NUMBER], "does not fit the question", (ID2,)),
        ({ID1: 1, ID2: "many"}, [QUESTION1, NUMBER], "does not fit the question", (ID2,)),
    ],
)
def test_read_answers_refuses_answers_without_a_question(
    resume: Any, questions: Any, reason: str, open_ids: Any
) -> None:
    with pytest.raises(InvalidResume, match=reason) as caught:
        read_answers(resume, questions)
    assert caught.value.open_ids == open_ids
