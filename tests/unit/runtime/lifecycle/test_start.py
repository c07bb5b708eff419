"""Where a run begins, driven by hand against a saver in memory."""

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
    """`a`, then `b`; `c` beside `a`."""
    return make.program(make.graph("a", "b", "c").add_edge(START, "a").add_edge(START, "c").add_edge("a", "b"))


@pytest.fixture
def saver() -> InMemorySaver:
    return InMemorySaver()


def asking(make: Any, *nodes: str, count: int = 1) -> Any:
    """Answers of tasks: some nodes ask instead of answering."""

    def answer(task: Any) -> Any:
        if task.node in nodes:
            return Pause(task, tuple(Interrupt(id=interrupt_id(task.id, place), value=place) for place in range(count)))
        return make.result(task, {"log": [task.node]}, ["b"] if task.node == "a" else [])

    return answer


def failing(make: Any, *nodes: str) -> Any:
    """Answers of tasks: some nodes fail."""
    along = asking(make)
    return lambda task: Failure(task, ValueError(task.node)) if task.node in nodes else along(task)


def head(saver: InMemorySaver) -> Any:
    return saver.load("thread")


# -- fresh input


def test_input_takes_the_way_of_an_answer_of_start(make: Any, program: Any) -> None:
    hand = make.call(make.run(program), {"x": 1, "log": ["in"]})
    rest = hand.finish()

    assert hand.nodes == [["a", "c"], ["b"]]
    assert rest.checkpoint.values == {"x": 1, "log": ["in", "a", "c", "b"]}


def test_fresh_input_is_a_commit_of_its_own_whose_frontier_is_the_entry(
    make: Any, program: Any, saver: InMemorySaver
) -> None:
    hand = make.call(make.run(program, saver=saver), {"x": 1})
    hand.finish()

    first = hand.of(Save)[0].commit
    assert [type(effect) for effect in hand.effects[:3]] == [Load, Save, RunTasks]
    assert (first.source, first.parent_id, first.checkpoint.step) == ("input", None, 0)
    assert [task.node for task in first.checkpoint.frontier] == ["a", "c"]
    assert (first.deltas, first.checkpoint.values) == (None, {"x": 1, "log": []})


def test_of_the_next_input_only_what_it_changes_is_stored(make: Any, program: Any, saver: InMemorySaver) -> None:
    make.rest_of(make.run(program, saver=saver), {"x": 1})
    hand = make.call(make.run(program, saver=saver), {"x": 2, "log": ["in"]})
    hand.finish()

    first = hand.of(Save)[0].commit
    assert (first.source, first.deltas) == ("input", {"x": 2, "log": Added(["in"])})


def test_start_values_of_reducers_are_there_before_the_first_node(make: Any, program: Any) -> None:
    effect = next(make.call(make.run(program), {"x": 1}).core)

    assert effect.checkpoint.values == {"x": 1, "log": []}


def test_an_input_of_the_wrong_shape_is_refused_before_anything_is_written(
    make: Any, program: Any, saver: InMemorySaver
) -> None:
    hand = make.call(make.run(program, saver=saver), 3)

    with pytest.raises(InvalidUpdateError, match="The input is 3 of type int"):
        hand.finish()
    assert [type(effect) for effect in hand.effects] == [Load]


def test_the_next_input_meets_the_state_that_the_thread_has(make: Any, program: Any, saver: InMemorySaver) -> None:
    make.rest_of(make.run(program, saver=saver), {"x": 1})
    rest = make.rest_of(make.run(program, saver=saver), {"y": 2})

    assert rest.checkpoint.values == {"x": 1, "y": 2, "log": ["a", "c", "b", "a", "c", "b"]}
    assert rest.checkpoint.step == 5


def test_fresh_input_after_a_failure_applies_what_landed_and_names_what_it_discards(
    make: Any, program: Any, saver: InMemorySaver
) -> None:
    make.rest_of(make.run(program, saver=saver), {"x": 1}, failing(make, "c"))
    hand = make.call(make.run(program, saver=saver), {"x": 2})
    hand.finish()

    first = hand.of(Save)[0].commit
    assert first.checkpoint.values == {"x": 2, "log": ["a"]}
    assert first.deltas == {"x": 2, "log": Added(["a"])}
    assert first.metadata["discarded"] == ["c"]
    assert [task.node for task in first.checkpoint.frontier] == ["a", "c"]


def test_fresh_input_with_questions_open_is_refused_and_lists_them(
    make: Any, program: Any, saver: InMemorySaver
) -> None:
    make.rest_of(make.run(program, saver=saver), {"x": 1}, asking(make, "c"))
    (question,) = head(saver).pending.open

    with pytest.raises(UnansweredInterrupts) as caught:
        make.rest_of(make.run(program, saver=saver), {"x": 2})
    assert caught.value.open_ids == (question.id,)
    assert head(saver).pending.open == (question,)


def test_fresh_input_may_discard_open_questions(make: Any, program: Any, saver: InMemorySaver) -> None:
    make.rest_of(make.run(program, saver=saver), {"x": 1}, asking(make, "c"))
    rest = make.rest_of(make.run(program, saver=saver, on_unfinished="discard"), {"x": 2})

    assert rest.status == "completed"
    assert rest.checkpoint.values["log"] == ["a", "a", "c", "b"]


@pytest.mark.parametrize("failed", [True, False])
def test_fresh_input_may_finish_what_was_begun(make: Any, program: Any, saver: InMemorySaver, failed: bool) -> None:
    make.rest_of(make.run(program, saver=saver), {"x": 1}, failing(make, "c") if failed else None)
    hand = make.call(make.run(program, saver=saver, on_unfinished="finish"), {"x": 2})
    rest = hand.finish()

    assert hand.nodes == ([["c"], ["b"]] if failed else []) + [["a", "c"], ["b"]]
    assert rest.checkpoint.values == {"x": 2, "log": ["a", "c", "b"] * 2}


def test_what_cannot_be_finished_keeps_the_input_out(make: Any, program: Any, saver: InMemorySaver) -> None:
    make.rest_of(make.run(program, saver=saver), {"x": 1}, asking(make, "c"))
    rest = make.rest_of(make.run(program, saver=saver, on_unfinished="finish"), {"x": 2})

    assert rest.status == "waiting"
    assert rest.checkpoint.values["x"] == 1


def test_fresh_input_drops_the_calls_of_the_tasks_that_it_discards(
    make: Any, program: Any, saver: InMemorySaver
) -> None:
    make.rest_of(make.run(program, saver=saver), {"x": 1}, failing(make, "c"))
    gone = sorted(f"{task.node}:{task.id}" for task in head(saver).checkpoint.frontier)
    hand = make.call(make.run(program, saver=saver), {"x": 2})
    hand.finish()

    assert list(hand.of(Save)[0].commit.dropped_namespaces) == gone


def test_finishing_first_takes_up_what_was_known_and_takes_the_thread(
    make: Any, program: Any, saver: InMemorySaver
) -> None:
    make.rest_of(make.run(program, saver=saver), {"x": 1}, asking(make, "c", count=2))
    saved = head(saver)
    first, second = saved.pending.open
    (task,) = (task for task in saved.checkpoint.frontier if task.node == "c")
    saver.save_results(saved.branch_key, saved.id, Pending(answers={first.id: 1}, attempts={task.id: 2}))
    run = make.run(program, saver=saver, owner="me", on_unfinished="finish")
    hand = make.call(run, {"x": 2})
    rest = hand.finish()

    assert (rest.status, rest.interrupts) == ("waiting", (second,))
    assert run.answers == {first.id: 1}
    assert run.attempts == {task.id: 2}
    assert [land.hold.claims for land in hand.of(SavePending)] == [True, False]


# -- going on


@pytest.mark.parametrize("saved", [True, False])
def test_without_input_there_must_be_something_to_go_on_with(
    make: Any, program: Any, saver: InMemorySaver, saved: bool
) -> None:
    with pytest.raises(EmptyInputError, match="nothing to continue" if saved else "compile with a checkpointer"):
        make.rest_of(make.run(program, saver=saver if saved else None), None)


def test_going_on_runs_what_had_not_landed(make: Any, program: Any, saver: InMemorySaver) -> None:
    make.rest_of(make.run(program, saver=saver), {"x": 1}, failing(make, "c"))
    hand = make.call(make.run(program, saver=saver), None)
    rest = hand.finish()

    assert hand.nodes == [["c"], ["b"]]
    assert rest.checkpoint.values["log"] == ["a", "c", "b"]


def test_going_on_takes_up_what_was_known_of_the_tasks(make: Any, program: Any, saver: InMemorySaver) -> None:
    make.rest_of(make.run(program, saver=saver), {"x": 1}, asking(make, "c", count=2))
    saved = head(saver)
    first, second = saved.pending.open
    (task,) = (task for task in saved.checkpoint.frontier if task.node == "c")
    journal = {(task.id, "charge", 0): JournalEntry("given", "charged")}
    saver.save_results(
        saved.branch_key, saved.id, Pending(answers={first.id: 1}, attempts={task.id: 2}, journal=journal)
    )
    run = make.run(program, saver=saver)
    make.rest_of(run, None)

    assert run.answers == {first.id: 1}
    assert (run.attempts, run.journal) == ({task.id: 2}, journal)
    assert run.known_interrupts == {first.id: first, second.id: second}


def test_durability_exit_saves_when_the_run_comes_to_rest(make: Any, program: Any, saver: InMemorySaver) -> None:
    hand = make.call(make.run(program, saver=saver, saves_on_exit=True), {"x": 1})
    hand.finish()

    assert [save.commit.source for save in hand.of(Save)] == ["input", "loop"]
    assert head(saver).checkpoint.values == {"x": 1, "log": ["a", "c", "b"]}


def test_going_on_at_rest_runs_nothing(make: Any, program: Any, saver: InMemorySaver) -> None:
    make.rest_of(make.run(program, saver=saver), {"x": 1})
    hand = make.call(make.run(program, saver=saver), None)

    assert hand.finish().status == "completed"
    assert hand.steps == []


def test_the_limit_counts_the_supersteps_of_one_call(make: Any, program: Any, saver: InMemorySaver) -> None:
    for _ in range(3):
        assert make.rest_of(make.run(program, saver=saver, recursion_limit=2), {"x": 1}).status == "completed"


def test_from_an_older_checkpoint_everything_after_it_runs_again_on_the_same_branch(
    make: Any, program: Any, saver: InMemorySaver
) -> None:
    make.rest_of(make.run(program, saver=saver), {"x": 1})
    newest, middle, oldest = saver.history("thread")
    hand = make.call(make.run(program, saver=saver, checkpoint_id=oldest.id), None)
    hand.finish()

    fork = hand.of(Save)[0].commit
    assert (fork.source, fork.parent_id, fork.expected) == ("fork", oldest.id, newest.id)
    assert [task.id for task in fork.checkpoint.frontier] == [task.id for task in oldest.checkpoint.frontier]
    assert hand.nodes == [["a", "c"], ["b"]]
    assert saver.load("thread", checkpoint_id=middle.id) is not None


def test_naming_the_head_is_no_fork(make: Any, program: Any, saver: InMemorySaver) -> None:
    make.rest_of(make.run(program, saver=saver), {"x": 1}, failing(make, "c"))
    hand = make.call(make.run(program, saver=saver, checkpoint_id=head(saver).id), None)
    hand.finish()

    assert [save.commit.source for save in hand.of(Save)] == ["loop", "loop"]


def test_a_checkpoint_that_is_not_there_is_not_found(make: Any, program: Any, saver: InMemorySaver) -> None:
    make.rest_of(make.run(program, saver=saver), {"x": 1})

    with pytest.raises(CheckpointNotFound, match="'nowhere'"):
        make.rest_of(make.run(program, saver=saver, checkpoint_id="nowhere"), None)


def test_a_renamed_checkpoint_is_the_same_place_with_the_same_tasks(make: Any) -> None:
    held = (object(),)
    before = make.checkpoint({"x": 1}, make.tasks("a"), held, joins={"j": frozenset("a")}, reported=(("log", 1),))
    after = copy_with_id(before, "other")

    assert (after.id, after.step) == ("other", before.step + 1)
    for part in ("values", "frontier", "deferred", "joins", "reported"):
        assert getattr(after, part) == getattr(before, part)
    assert before.id == "before"


# -- a Command as input


def test_a_command_that_says_nothing_is_no_input(make: Any, program: Any, saver: InMemorySaver) -> None:
    with pytest.raises(EmptyInputError, match="is empty"):
        make.rest_of(make.run(program, saver=saver), Command())


@pytest.mark.parametrize(("saved", "reason"), [(True, "no saved run to resume"), (False, "needs a checkpointer")])
def test_an_answer_needs_a_thread(make: Any, program: Any, saver: InMemorySaver, saved: bool, reason: str) -> None:
    with pytest.raises(InvalidResume, match=reason):
        make.rest_of(make.run(program, saver=saver if saved else None), Command(resume=1))


def test_an_answered_task_runs_again_with_its_answer_and_landed_ones_do_not(
    make: Any, program: Any, saver: InMemorySaver
) -> None:
    make.rest_of(make.run(program, saver=saver), {"x": 1}, asking(make, "c"))
    (question,) = head(saver).pending.open
    run = make.run(program, saver=saver)
    hand = make.call(run, Command(resume="yes"))
    rest = hand.finish()

    assert run.answers == {question.id: "yes"}
    assert hand.nodes == [["c"], ["b"]]
    assert rest.checkpoint.values["log"] == ["a", "c", "b"]


def test_answers_are_kept_until_all_questions_of_the_task_are_answered(
    make: Any, program: Any, saver: InMemorySaver
) -> None:
    make.rest_of(make.run(program, saver=saver), {"x": 1}, asking(make, "c", count=2))
    first, second = head(saver).pending.open
    hand = make.call(make.run(program, saver=saver), Command(resume={first.id: 1}))
    rest = hand.finish()

    assert hand.nodes == [[]]
    assert (rest.status, rest.interrupts) == ("waiting", (second,))
    run = make.run(program, saver=saver)
    assert make.rest_of(run, Command(resume=2)).status == "completed"
    assert run.answers == {first.id: 1, second.id: 2}


def test_an_answer_that_does_not_fit_writes_nothing(make: Any, program: Any, saver: InMemorySaver) -> None:
    make.rest_of(make.run(program, saver=saver), {"x": 1}, asking(make, "a", "c"))
    hand = make.call(make.run(program, saver=saver), Command(resume="which?"))

    with pytest.raises(InvalidResume, match="2 questions are open"):
        hand.finish()
    assert [type(effect) for effect in hand.effects] == [Load]


def test_a_command_updates_the_state_and_leads_on_beside_what_was_due(
    make: Any, program: Any, saver: InMemorySaver
) -> None:
    make.rest_of(make.run(program, saver=saver), {"x": 1}, failing(make, "a", "c"))
    hand = make.call(make.run(program, saver=saver), Command(update={"x": 2}, goto=["b", Send("b", {"log": []})]))
    hand.finish()

    first = hand.of(Save)[0].commit
    assert (first.source, first.deltas) == ("update", {"x": 2})
    assert hand.nodes[0] == ["a", "b", "c", "b"]


@pytest.mark.parametrize("command", [Command(update={"x": 1}), Command(goto="b"), Command(update={"x": 1}, goto="b")])
def test_a_command_may_begin_a_thread_and_leads_where_it_says(
    make: Any, program: Any, saver: InMemorySaver, command: Command[Any]
) -> None:
    hand = make.call(make.run(program, saver=saver), command)
    rest = hand.finish()

    assert hand.nodes == ([["b"]] if command.goto else [])
    assert rest.status == "completed"
    assert rest.checkpoint.values.get("x") == (1 if command.update else None)


@pytest.mark.parametrize(("goto", "first"), [("b", ["a", "b", "c"]), (["b", END], ["a", "b", "c"]), (END, ["a", "c"])])
def test_a_command_that_leads_to_the_end_leads_nowhere(
    make: Any, program: Any, saver: InMemorySaver, goto: Any, first: list[str]
) -> None:
    make.rest_of(make.run(program, saver=saver), {"x": 1}, failing(make, "a", "c"))
    hand = make.call(make.run(program, saver=saver), Command(goto=goto))
    hand.finish()

    assert hand.nodes[0] == first


@pytest.mark.parametrize(("given", "ran"), [(Command(resume="yes"), ["c"]), (None, ["a", "c"])])
def test_an_older_checkpoint_keeps_what_had_landed_for_an_answer_and_not_for_a_replay(
    make: Any, program: Any, saver: InMemorySaver, given: Any, ran: list[str]
) -> None:
    make.rest_of(make.run(program, saver=saver), {"x": 1}, asking(make, "c"))
    asked = head(saver)
    make.rest_of(make.run(program, saver=saver), Command(resume="no"))
    hand = make.call(make.run(program, saver=saver, checkpoint_id=asked.id), given)
    hand.finish()

    assert hand.nodes[0] == ran


def test_an_answer_and_an_update_may_come_together(make: Any, program: Any, saver: InMemorySaver) -> None:
    make.rest_of(make.run(program, saver=saver), {"x": 1}, asking(make, "c"))
    run = make.run(program, saver=saver)
    rest = make.rest_of(run, Command(resume="yes", update={"x": 2}))

    assert list(run.answers.values()) == ["yes"]
    assert rest.checkpoint.values == {"x": 2, "log": ["a", "c", "b"]}


def test_a_command_to_nowhere_is_refused(make: Any, program: Any, saver: InMemorySaver) -> None:
    with pytest.raises(UnknownTarget, match="'nowhere'"):
        make.rest_of(make.run(program, saver=saver), Command(goto="nowhere"))


# -- a subgraph that is called again


@pytest.mark.parametrize("same_task", [True, False])
def test_a_call_goes_on_where_it_was_left_only_for_the_task_that_made_it(
    make: Any, program: Any, saver: InMemorySaver, same_task: bool
) -> None:
    def run(task: str) -> Any:
        return make.run(program, saver=saver, call=make.subgraph_call(program, origin=task))

    make.rest_of(run("one"), {"x": 1}, failing(make, "c"))
    hand = make.call(run("one" if same_task else "two"), {"x": 2})
    rest = hand.finish()

    assert hand.nodes == [["c"] if same_task else ["a", "c"], ["b"]]
    assert rest.checkpoint.values["x"] == (1 if same_task else 2)


def test_a_call_goes_on_with_answers_that_its_caller_was_given(make: Any, program: Any, saver: InMemorySaver) -> None:
    def run(**options: Any) -> Any:
        return make.run(program, saver=saver, call=make.subgraph_call(program, "a:1"), **options)

    make.rest_of(run(), {"x": 1}, asking(make, "c"))
    (question,) = saver.load("thread", namespace="a:1").pending.open
    hand = make.call(run(answers={question.id: "yes", "of another": 1}), {"x": 1})

    assert hand.finish().status == "completed"
    assert hand.nodes == [["c"], ["b"]]


# -- holding the thread


def test_a_run_that_writes_nothing_else_takes_its_thread_and_lets_it_go(
    make: Any, program: Any, saver: InMemorySaver
) -> None:
    make.rest_of(make.run(program, saver=saver), {"x": 1})
    run = make.run(program, saver=saver, owner="me")
    core = make.call(run, None)
    core.finish()

    holds = [effect.hold for effect in core.effects if type(effect) is not Load]
    assert [(hold.claims, hold.until is None) for hold in holds] == [(True, False), (False, True)]
    assert saver.lease("thread") is None


def test_those_who_watch_are_told_of_the_whole_run(make: Any, program: Any, saver: InMemorySaver) -> None:
    seen: list[Any] = []
    watched = ("run_started", "input_applied", "run_finished")
    rest = make.rest_of(make.run(program, saver=saver, watched=watched, seen=seen), {"x": 1})

    assert [event.kind for event in seen] == list(watched)
    assert seen[0].data == {"x": 1}
    assert [task.node for task in seen[1].data.frontier] == ["a", "c"]
    assert seen[2].data is rest


# -- reading answers


ID1, ID2, ID3 = (InterruptId(sign * 32) for sign in "123")
QUESTION1 = Interrupt(id=ID1, value="1?")
QUESTION2 = Interrupt(id=ID2, value="2?")
NUMBER = Interrupt(id=ID2, value="how many?", schema=int)
TIMER = Interrupt(id=ID3, value=None, kind="timer", due_at=datetime(2026, 1, 1, tzinfo=UTC))
EVENT = Interrupt(id=ID3, value="paid", kind="event", event="paid")


@pytest.mark.parametrize(
    ("resume", "asked", "answers"),
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
def test_what_an_answer_answers(resume: Any, asked: Any, answers: Any) -> None:
    assert read_answers(resume, asked) == answers


@pytest.mark.parametrize(
    ("resume", "asked", "reason", "listed"),
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
def test_what_answers_nothing(resume: Any, asked: Any, reason: str, listed: Any) -> None:
    with pytest.raises(InvalidResume, match=reason) as caught:
        read_answers(resume, asked)
    assert caught.value.open_ids == listed
