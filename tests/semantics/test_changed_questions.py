"""An answer is never given to another question: questions are compared when a task runs again."""

from __future__ import annotations

import contextlib
import os
import random
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal, NamedTuple, TypedDict

import pytest
from pydantic import BaseModel, Field

from statewright import (
    END,
    START,
    Command,
    InMemorySaver,
    RetryPolicy,
    StateGraph,
    append,
    entrypoint,
    interrupt,
    request_approval,
    sleep,
    task,
    wait_for_event,
)
from statewright.checkpoint import canonical_schema
from statewright.errors import InvalidGraph, InvalidResume, InvalidUpdateError, QuestionChanged, QuestionMismatch
from statewright.runtime.tasks.changed_questions import are_equal


class State(TypedDict, total=False):
    log: Annotated[list[Any], append]


THREAD = {"configurable": {"thread_id": "1"}}


def asking_graph(ask: Callable[[], Any], saver: Any, **options: Any) -> Any:
    """Compile a graph of one node that logs the result of `ask`."""

    def node(state: State) -> dict[str, Any]:
        return {"log": [ask()]}

    return StateGraph(State).add_node("node", node).add_edge(START, "node").compile(saver, **options)


@dataclass
class Node:
    """The node's question; tests replace it between asking and answering."""

    ask: Callable[[], Any]

    def __call__(self) -> Any:
        return self.ask()


def send_answer(driver: Any, app: Any, answer: Any = "yes") -> Any:
    return driver.invoke(app, Command(resume=answer), THREAD)


# -- other questions


class Answer(BaseModel):
    text: str


CHANGED: dict[str, tuple[Callable[[], Any], Callable[[], Any], Any]] = {
    "kind": (lambda: interrupt("Ship?"), lambda: wait_for_event("Ship?"), "yes"),
    "schema": (lambda: interrupt("Ship?", schema=str), lambda: interrupt("Ship?", schema=bool), "yes"),
    "schema removed": (lambda: interrupt("Ship?", schema=str), lambda: interrupt("Ship?"), "yes"),
    "schema added": (lambda: interrupt("Ship?"), lambda: interrupt("Ship?", schema=str), "yes"),
    "constraint": (
        lambda: interrupt("How many?", schema=Annotated[int, Field(gt=0)]),
        lambda: interrupt("How many?", schema=Annotated[int, Field(gt=10)]),
        5,
    ),
    "JSON Schema": (
        lambda: interrupt("Ship?", schema={"type": "string"}),
        lambda: interrupt("Ship?", schema={"type": ["string", "null"]}),
        "yes",
    ),
    "key": (lambda: interrupt("Ship?", key="a"), lambda: interrupt("Ship?", key="b"), "yes"),
    "key added": (lambda: interrupt("Ship?"), lambda: interrupt("Ship?", key="b"), "yes"),
    "key removed": (lambda: interrupt("Ship?", key="a"), lambda: interrupt("Ship?"), "yes"),
}


@pytest.mark.parametrize(("before", "now", "answer"), CHANGED.values(), ids=CHANGED)
def test_an_answer_to_another_question_is_refused(driver: Any, saver: Any, before: Any, now: Any, answer: Any) -> None:
    node = Node(before)
    app = asking_graph(node, saver)
    (asked,) = driver.invoke(app, {}, THREAD)["__interrupt__"]
    node.ask = now
    with pytest.raises(QuestionMismatch, match="'node'") as caught:
        send_answer(driver, app, answer)
    assert caught.value.before.id == asked.id
    assert (caught.value.now.key, caught.value.now.kind) != (asked.key, asked.kind) or "schema" in str(caught.value)
    node.ask = before
    assert driver.invoke(app, None, THREAD) == {"log": [answer]}  # the answer is kept


def test_an_event_with_another_name_is_another_question(driver: Any, saver: Any) -> None:
    node = Node(lambda: wait_for_event("paid"))
    app = asking_graph(node, saver)
    driver.invoke(app, {}, THREAD)
    node.ask = lambda: wait_for_event("refunded")
    (wait,) = app.get_state(THREAD).interrupts
    with pytest.raises(QuestionMismatch, match=r"\(event\).*'paid'.*'refunded'"):
        send_answer(driver, app, {wait.id: 1})


def test_reordered_questions_are_detected_although_only_one_was_answered(driver: Any, saver: Any) -> None:
    order = ["Name?", "Age?"]
    node = Node(lambda: [interrupt(question) for question in order])
    app = asking_graph(node, saver)
    driver.invoke(app, {}, THREAD)
    send_answer(driver, app, "Ada")
    order.reverse()
    with pytest.raises(QuestionMismatch, match=r"\(place\).*'Name\?'.*'Age\?'"):
        send_answer(driver, app, 36)
    order.reverse()
    assert driver.invoke(app, None, THREAD) == {"log": [["Ada", 36]]}


def test_a_new_question_before_the_answered_one_is_detected(driver: Any, saver: Any) -> None:
    questions = ["Ship?"]
    node = Node(lambda: [interrupt(question) for question in questions])
    app = asking_graph(node, saver)
    driver.invoke(app, {}, THREAD)
    questions.insert(0, "Bill?")
    with pytest.warns(QuestionChanged), pytest.raises(QuestionMismatch, match=r"\(place\)"):
        send_answer(driver, app, "yes")


def test_keys_distinguish_questions_whatever_their_order(driver: Any, saver: Any) -> None:
    order = ["name", "age"]
    node = Node(lambda: {key: interrupt(f"{key}?", key=key) for key in order})
    app = asking_graph(node, saver)
    driver.invoke(app, {}, THREAD)
    send_answer(driver, app, "Ada")
    order[:] = ["city", "age", "name"]
    (city,) = send_answer(driver, app, 36)["__interrupt__"]
    assert (city.value, city.key) == ("city?", "city")
    assert send_answer(driver, app, "London") == {"log": [{"city": "London", "age": 36, "name": "Ada"}]}


# -- other values


def test_a_reworded_question_gets_the_answer_with_a_warning_and_an_event(driver: Any, saver: Any) -> None:
    drafts = iter(["Dear Ada", "Hello Ada", "Hi Ada"])
    app = asking_graph(lambda: interrupt(next(drafts)), saver)
    driver.invoke(app, {}, THREAD)
    with pytest.warns(QuestionChanged, match="'Hello Ada' now, 'Dear Ada' when") as caught:
        assert send_answer(driver, app) == {"log": ["yes"]}
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert [part in str(caught[0].message) for part in ("runtime.step", "earlier node")] == [True, True]
    (event,) = [event for event in app.get_events(THREAD) if event.kind == "question_changed"]
    assert (event.data["before"], event.data["now"], event.node) == ("Dear Ada", "Hello Ada", "node")


def test_a_reworded_question_can_be_an_error(driver: Any, saver: Any) -> None:
    drafts = iter(["Dear Ada", "Hello Ada"])
    app = asking_graph(lambda: interrupt(next(drafts)), saver, changed_questions="error")
    driver.invoke(app, {}, THREAD)
    with pytest.raises(QuestionMismatch, match=r"\(value\).*'Dear Ada'.*'Hello Ada'"):
        send_answer(driver, app)


def test_an_unknown_value_of_changed_questions_is_a_problem_of_the_graph() -> None:
    with pytest.raises(InvalidGraph, match="changed_questions= is 'never'"):
        asking_graph(lambda: 1, None, changed_questions="never")


class Odd:
    """A value that can be neither compared nor pickled."""

    def __init__(self, name: str = "odd") -> None:
        self.name = name

    def __eq__(self, other: object) -> bool:
        raise ArithmeticError("no")

    __hash__ = None  # pyright: ignore

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError("no")


def test_comparing_values_never_fails() -> None:
    import numpy

    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    own: list[Any] = []
    own.append(own)
    nan = float("nan")
    assert are_equal({"a": [nan, 1]}, {"a": [float("nan"), 1]}) is True
    assert are_equal({"a": nan}, {"a": 1.0}) is False
    assert are_equal(numpy.array([1, 2]), numpy.array([1, 2])) is True
    assert are_equal(numpy.array([1, 2]), numpy.array([1, 3])) is False
    assert are_equal(Odd(), Odd("other")) is None
    assert are_equal(own, [1]) is None
    assert are_equal(deep, [deep]) is None
    with contextlib.suppress(RecursionError):
        deep.clear()


@pytest.mark.parametrize("value", [float("nan"), {"parts": [float("nan")]}, (1, 2), {3, 4}, b"x", None, 10**30])
def test_a_stored_value_equals_the_original(driver: Any, saver: Any, value: Any) -> None:
    app = asking_graph(lambda: interrupt(value), saver, changed_questions="error")
    driver.invoke(app, {}, THREAD)
    assert send_answer(driver, app) == {"log": ["yes"]}


def test_values_that_cannot_be_compared_count_as_unchanged(driver: Any) -> None:
    app = asking_graph(lambda: interrupt(Odd()), InMemorySaver(), changed_questions="error")
    driver.invoke(app, {}, THREAD)
    assert send_answer(driver, app) == {"log": ["yes"]}


def test_a_changed_question_need_not_be_storable(driver: Any, saver: Any) -> None:
    values = iter(["a draft", object()])
    app = asking_graph(lambda: interrupt(next(values)), saver)
    driver.invoke(app, {}, THREAD)
    with pytest.warns(QuestionChanged):
        assert send_answer(driver, app) == {"log": ["yes"]}


# -- time


def test_a_sleep_with_another_end_is_the_same_question(driver: Any, saver: Any) -> None:
    delays = iter([60, 120, 180])
    app = asking_graph(lambda: sleep(next(delays)), saver, changed_questions="error")
    (timer,) = driver.invoke(app, {}, THREAD)["__interrupt__"]
    assert app.resume_due(THREAD, now=timer.due_at) == {"log": [None]}


def test_instants_and_timeouts_may_change(driver: Any, saver: Any) -> None:
    instants = iter(datetime(2030, 1, day, tzinfo=UTC) for day in (1, 2, 3, 4))
    limits = iter([60, 120, 180, 240])

    def ask() -> Any:
        sleep(until=next(instants))
        return interrupt("?", timeout=timedelta(seconds=next(limits)))

    app = asking_graph(ask, saver, changed_questions="error")
    driver.invoke(app, {}, THREAD)
    app.resume_due(THREAD, now=datetime(2030, 1, 1, tzinfo=UTC))
    assert send_answer(driver, app) == {"log": ["yes"]}


# -- types


@pytest.mark.parametrize(
    ("first", "second", "is_same"),
    [
        (Answer, Answer, True),
        (int | None, Literal[1] | None, False),
        (Annotated[int, Field(gt=0)], Annotated[int, Field(gt=0)], True),
        (Annotated[int, Field(gt=0)], Annotated[int, Field(gt=1)], False),
        (Annotated[int, Field(gt=0)], int, False),
        ({"type": "object", "title": "a"}, {"title": "a", "type": "object"}, True),
        ({"type": "object", "title": "a"}, {"type": "object"}, False),
        (list[Answer], list[Answer], True),
        (list[Answer], list[str], False),
        (None, None, True),
        (None, type(None), False),
    ],
)
def test_types_are_compared_by_their_schema(first: Any, second: Any, is_same: bool) -> None:
    assert (canonical_schema(first) == canonical_schema(second)) is is_same


def test_a_local_class_is_the_same_type_in_each_execution(driver: Any, saver: Any) -> None:
    def ask() -> Any:
        class Local(BaseModel):
            text: str

        return interrupt("?", schema=Local | None).text

    app = asking_graph(ask, saver, changed_questions="error")
    driver.invoke(app, {}, THREAD)
    assert send_answer(driver, app, {"text": "x"}) == {"log": ["x"]}


def test_an_answer_is_checked_against_the_constraints_of_its_type(driver: Any, saver: Any) -> None:
    app = asking_graph(lambda: interrupt("?", schema=Annotated[int, Field(gt=0)]), saver)
    driver.invoke(app, {}, THREAD)
    with pytest.raises((InvalidResume, InvalidUpdateError)):
        send_answer(driver, app, -1)


@pytest.mark.parametrize("schema", [5, {"type": 5}, {"$ref": "http://localhost/x"}, {"$ref": "file:///x.json"}])
def test_an_invalid_schema_is_refused_when_the_question_is_asked(driver: Any, saver: Any, schema: Any) -> None:
    app = asking_graph(lambda: interrupt("?", schema=schema), saver)
    with pytest.raises(InvalidUpdateError, match="schema"):
        driver.invoke(app, {}, THREAD)


def test_an_answer_is_checked_against_a_json_schema(driver: Any, saver: Any) -> None:
    schema = {"$defs": {"n": {"type": "integer", "minimum": 1}}, "properties": {"n": {"$ref": "#/$defs/n"}}}
    app = asking_graph(lambda: interrupt("?", schema=schema), saver, changed_questions="error")
    driver.invoke(app, {}, THREAD)
    assert app.get_state(THREAD).interrupts[0].schema == schema
    for wrong in ({"n": 0}, {"n": "one"}, {"n": object()}):
        with pytest.raises(InvalidResume):
            send_answer(driver, app, wrong)
    assert send_answer(driver, app, {"n": 2}) == {"log": [{"n": 2}]}


# -- questions of called tasks, entrypoints and subgraphs


def test_called_tasks_compare_their_questions(driver: Any, saver: Any) -> None:
    names = ["Ada", "Bob"]

    @task
    def ask(name: str) -> Any:
        return interrupt(f"{name}?")

    @entrypoint(saver, name="flow")
    def flow(_: Any) -> Any:
        return [ask(name).result() for name in names]

    driver.invoke(flow, 1, THREAD)
    send_answer(driver, flow, "A")
    names[1] = "Bert"
    with pytest.warns(QuestionChanged):
        assert send_answer(driver, flow, "B") == ["A", "B"]


ASKING: dict[str, Callable[[], Any]] = {
    "question": lambda: interrupt("Continue?"),
    "timer": lambda: sleep(10),
    "event": lambda: wait_for_event("go"),
}


@pytest.mark.parametrize("kind", ASKING)
@pytest.mark.parametrize("memory", ["task", "call", "thread", "none"])
@pytest.mark.sampled(4)
def test_a_task_and_its_calls_may_ask_equal_questions(driver: Any, saver: Any, memory: Any, kind: str) -> None:
    ask = ASKING[kind]
    inner = StateGraph(State)
    for name, times in (("one", 1), ("two", 2)):
        inner.add_node(name, lambda state, times=times: {"log": [ask() for _ in range(times)]}).add_edge(START, name)
    called = inner.compile()

    @task
    def do() -> list[Any]:
        return [ask()]

    def node(state: State, config: Any) -> dict[str, Any]:
        log: list[Any] = []
        for who in config["configurable"]["thread_id"].split(", "):
            if who == "own":
                log.append(ask())
            else:
                log += do().result() if memory == "task" else called.invoke({}, memory=memory)["log"]
        return {"log": log}

    app = StateGraph(State).add_node(node).add_edge(START, "node").compile(saver)
    for order in ("own, call", "call, own", "call, own, own", "call, call", "own, call, own, call"):
        result, asked = driver.invoke(app, {}, thread_id=order), 0
        while "__interrupt__" in result:
            answers = {question.id: asked + number for number, question in enumerate(result["__interrupt__"])}
            asked += len(answers)
            result = driver.invoke(app, Command(resume=answers), thread_id=order)
        assert (
            len(result["log"])
            == asked
            == sum(1 if who == "own" or memory == "task" else 3 for who in order.split(", "))
        )
        if kind != "timer":  # each question got its own answer
            assert sorted(result["log"]) == list(range(asked))


def test_an_entrypoint_can_refuse_reworded_questions(driver: Any, saver: Any) -> None:
    drafts = iter("ab")

    @entrypoint(saver, changed_questions="error")
    def flow(_: Any) -> Any:
        return interrupt(next(drafts))

    driver.invoke(flow, 1, THREAD)
    with pytest.raises(QuestionMismatch):
        send_answer(driver, flow)


@pytest.mark.parametrize("memory", ["call", "thread", "none"])
@pytest.mark.parametrize("depth", [1, 2])
def test_questions_in_subgraphs_are_compared(driver: Any, saver: Any, memory: Any, depth: int) -> None:
    node = Node(lambda: [interrupt("Name?"), interrupt("Age?")])
    app: Any = asking_graph(node, None)
    for level in range(depth):
        outer = StateGraph(State).add_node("inner", app, memory=memory).add_edge(START, "inner")
        app = outer.compile(saver if level == depth - 1 else None)
    driver.invoke(app, {}, THREAD)
    node.ask = lambda: [interrupt("Name?"), interrupt("Age?", schema=int)]
    (age,) = send_answer(driver, app, "Ada")["__interrupt__"]
    node.ask = lambda: [interrupt("Age?"), interrupt("Name?")]
    with pytest.raises(QuestionMismatch, match=r"'Name\?'.*'Age\?'"):
        send_answer(driver, app, {age.id: 36})
    node.ask = lambda: [interrupt("Name?"), interrupt("Age?", schema=int)]
    assert driver.invoke(app, None, THREAD) == {"log": [["Ada", 36]]}


def test_a_graph_that_refuses_reworded_questions_refuses_them_in_subgraphs(driver: Any, saver: Any) -> None:
    drafts = iter("ab")
    inner = asking_graph(lambda: interrupt(next(drafts)), None)
    app = StateGraph(State).add_node("inner", inner).add_edge(START, "inner").compile(saver, changed_questions="error")
    driver.invoke(app, {}, THREAD)
    with pytest.raises(QuestionMismatch):
        send_answer(driver, app)


def test_a_retried_task_may_ask_the_same_question_with_another_key(driver: Any, saver: Any) -> None:
    tries: list[int] = []

    def node(state: State, runtime: Any) -> dict[str, Any]:
        answer = interrupt("Code?", key=f"try {runtime.execution_info.attempt}")
        tries.append(answer)
        if answer == 1:
            raise ConnectionError("wrong code")
        return {"log": [answer]}

    graph = StateGraph(State).add_node("node", node, retry_policy=RetryPolicy(max_attempts=3, initial_interval=0))
    app = graph.add_edge(START, "node").compile(saver)
    driver.invoke(app, {}, THREAD)
    (second,) = send_answer(driver, app, 1)["__interrupt__"]
    assert second.key == "try 2"
    assert send_answer(driver, app, {second.id: 2})["log"] == [2]


def test_a_repeated_approval_request_is_a_new_question(driver: Any, saver: Any) -> None:
    app = asking_graph(lambda: request_approval("text").verdict, saver, changed_questions="error")
    driver.invoke(app, {}, THREAD)
    (again,) = send_answer(driver, app, "no decision")["__interrupt__"]
    assert again.value["content"] == "text"
    assert send_answer(driver, app, {"decision": "approved"}) == {"log": ["approved"]}


# -- random sequences


class Question(NamedTuple):
    """One question of a script."""

    value: str
    key: str | None = None
    kind: str = "question"


def ask_all(script: list[Question], seen: dict[str, Any]) -> None:
    """Ask the questions of a script, and store the answer of each by its value."""
    for question in script:
        if question.kind == "event":
            seen[question.value] = wait_for_event(question.value, key=question.key)
        else:
            seen[question.value] = interrupt(question.value, key=question.key)


CHANGES = ["same", "value", "swap", "key", "kind", "remove", "insert"]


def changed_script(
    script: list[Question], change: str, rng: random.Random, fresh_names: Iterator[str]
) -> list[Question]:
    new, at = list(script), rng.randrange(len(script))
    if change == "value":
        new[at] = new[at]._replace(value=next(fresh_names))
    elif change == "swap":
        other = rng.randrange(len(script))
        new[at], new[other] = new[other], new[at]
    elif change == "key":
        new[at] = new[at]._replace(key=None if new[at].key else next(fresh_names))
    elif change == "kind":
        new[at] = new[at]._replace(kind="event" if new[at].kind == "question" else "question")
    elif change == "remove":
        del new[at]
    elif change == "insert":
        new.insert(at, Question(next(fresh_names), next(fresh_names) if rng.random() < 0.5 else None))
    return new


def identity_of(script: list[Question], index: int) -> Any:
    """Return the identity of a question: its key, or its number among those without a key."""
    key = script[index].key
    return key if key is not None else sum(1 for question in script[:index] if question.key is None)


class Model:
    """The rule, written without the engine: the answer of each question of a script."""

    def __init__(self, answered: dict[Any, tuple[Question, Any]]) -> None:
        self.answered = answered

    def outcome(self, script: list[Question]) -> tuple[str, dict[str, Any], int]:
        """Return `done`, `asks` or `mismatch`, the answers, and the number of warnings."""
        seen: dict[str, Any] = {}
        taken: set[Any] = set()
        warning_count = 0
        for index, question in enumerate(script):
            identity = identity_of(script, index)
            known = self.answered.get(identity)
            others = [(key, other) for key, (other, _) in self.answered.items() if key != identity]
            if known is None:
                if any(self._same(other, question) and key not in taken for key, other in others):
                    return "mismatch", seen, warning_count
                return "asks", seen, warning_count
            before, answer = known
            if before.kind != question.kind or (question.kind == "event" and before.value != question.value):
                return "mismatch", seen, warning_count
            if before.value == question.value:
                taken.add(identity)
            elif any(self._same(other, question) for _, other in others):
                return "mismatch", seen, warning_count
            else:
                warning_count += 1
            seen[question.value] = answer
        return "done", seen, warning_count

    @staticmethod
    def _same(first: Question, second: Question) -> bool:
        return (first.value, first.kind) == (second.value, second.kind)


SEEDS = 400 if os.environ.get("STATEWRIGHT_FULL") else 12


@pytest.mark.parametrize("seed", range(SEEDS))
def test_random_questions_never_get_another_questions_answer(driver: Any, saver: Any, seed: int) -> None:
    rng = random.Random(seed)
    fresh_names = (f"f{number}" for number in range(1000))
    script = [
        Question(f"q{n}", f"k{n}" if rng.random() < 0.4 else None, "event" if rng.random() < 0.2 else "question")
        for n in range(rng.randint(1, 4))
    ]
    seen: dict[str, Any] = {}

    def node(state: State) -> dict[str, Any]:
        seen.clear()
        ask_all(script, seen)
        return {"log": [dict(seen)]}

    inner = StateGraph(State).add_node("node", node).add_edge(START, "node").add_edge("node", END)
    app: Any = inner.compile(saver)
    if rng.random() < 0.5:
        app = StateGraph(State).add_node("inner", inner.compile()).add_edge(START, "inner").compile(saver)
    answered: dict[Any, tuple[Question, Any]] = {}
    result = driver.invoke(app, {}, THREAD)
    for _ in range(12):
        (asked,) = result["__interrupt__"]
        answer = f"to {asked.value}"
        identity = next(identity_of(script, n) for n in range(len(script)) if identity_of(script, n) not in answered)
        answered[identity] = (
            next(question for n, question in enumerate(script) if identity_of(script, n) == identity),
            answer,
        )
        script = changed_script(script, rng.choice(CHANGES), rng, fresh_names) if len(script) else script
        expected, answers, warning_count = Model(answered).outcome(script)
        refused = pytest.raises(QuestionMismatch) if expected == "mismatch" else contextlib.nullcontext()
        with warnings.catch_warnings(record=True) as caught, refused:
            warnings.simplefilter("always")
            result = driver.invoke(app, Command(resume={asked.id: answer}), THREAD)
        assert (seen, len(caught)) == (answers, warning_count)
        if expected != "asks":
            assert expected == "mismatch" or "__interrupt__" not in result
            return
