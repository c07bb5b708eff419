"""Part I sections 6.1 and 6.2: questions, timers and events are one mechanism."""

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, TypedDict

import pytest

from statewright import (
    START,
    Command,
    InMemorySaver,
    Send,
    StateGraph,
    append,
    interrupt,
    sleep,
    wait_for_event,
)
from statewright.errors import InvalidResume, InvalidUpdateError, ThreadBusy
from statewright.testing import FakeClock

THREAD = {"thread_id": "1"}


class State(TypedDict, total=False):
    x: int
    log: Annotated[list[Any], append]


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


def app_of(*nodes: Any, clock: FakeClock, saver: Any = None) -> Any:
    graph = StateGraph(State)
    for node in nodes:
        graph.add_node(node).add_edge(START, node.__name__)
    return graph.compile(saver or InMemorySaver(), clock=clock)


def resume_due(driver: Any, app: Any, **options: Any) -> Any:
    import asyncio

    return asyncio.run(app.aresume_due(**options)) if driver.name == "async" else app.resume_due(**options)


def send_event(driver: Any, app: Any, name: str, payload: Any = None, **options: Any) -> Any:
    import asyncio

    if driver.name == "async":
        return asyncio.run(app.asend_event(name, payload, **options))
    return app.send_event(name, payload, **options)


# -- timers


def test_6_1_a_sleeping_node_continues_when_its_timer_is_due(driver: Any, paint: Any, clock: FakeClock) -> None:
    def node(state: State) -> dict[str, Any]:
        sleep(timedelta(minutes=5))
        return {"log": ["awake"]}

    app = app_of(paint(node), clock=clock)
    (timer,) = driver.invoke(app, {"x": 1}, THREAD)["__interrupt__"]
    assert (timer.kind, timer.due_at) == ("timer", clock.now() + timedelta(minutes=5))

    clock.advance(299)
    assert resume_due(driver, app, **THREAD) is None
    clock.advance(1)
    assert resume_due(driver, app, **THREAD)["log"] == ["awake"]
    assert resume_due(driver, app, **THREAD) is None


def test_6_1_a_node_can_sleep_until_an_instant_and_the_caller_can_pass_the_time(driver: Any, clock: FakeClock) -> None:
    new_year = datetime(2027, 1, 1, tzinfo=UTC)

    def node(state: State) -> dict[str, Any]:
        sleep(until=new_year)
        return {"log": ["cheers"]}

    app = app_of(node, clock=clock)
    driver.invoke(app, {"x": 1}, THREAD)

    assert resume_due(driver, app, now=new_year, **THREAD)["log"] == ["cheers"]


def test_6_1_executing_a_node_again_does_not_postpone_its_timer(driver: Any, clock: FakeClock) -> None:
    def node(state: State) -> dict[str, Any]:
        first = interrupt("first?")
        sleep(100)
        return {"log": [first]}

    app = app_of(node, clock=clock)
    driver.invoke(app, {"x": 1}, THREAD)
    (timer,) = driver.invoke(app, Command(resume=1), THREAD)["__interrupt__"]
    clock.advance(60)
    (again,) = driver.invoke(app, None, THREAD)["__interrupt__"]

    assert again == timer


# -- events


def test_6_1_an_event_wakes_every_task_that_waits_for_it(driver: Any, paint: Any, clock: FakeClock) -> None:
    def a(state: State) -> dict[str, Any]:
        return {"log": [("a", wait_for_event("paid"))]}

    def b(state: State) -> dict[str, Any]:
        return {"log": [("b", wait_for_event("paid"))]}

    app = app_of(paint(a), paint(b), clock=clock)
    waits = driver.invoke(app, {"x": 1}, THREAD)["__interrupt__"]
    assert [(wait.kind, wait.event) for wait in waits] == [("event", "paid")] * 2

    result = send_event(driver, app, "paid", {"amount": 3}, **THREAD)
    assert result["log"] == [("a", {"amount": 3}), ("b", {"amount": 3})]


def test_6_1_waiting_for_an_event_returns_none_after_its_timeout(driver: Any, clock: FakeClock) -> None:
    def node(state: State) -> dict[str, Any]:
        return {"log": [wait_for_event("paid", timeout=60)]}

    app = app_of(node, clock=clock)
    driver.invoke(app, {"x": 1}, THREAD)
    clock.advance(60)

    assert resume_due(driver, app, **THREAD)["log"] == [None]
    with pytest.raises(InvalidResume):
        send_event(driver, app, "paid", **THREAD)


def test_6_1_an_unexpected_event_is_an_error_and_changes_nothing(driver: Any, clock: FakeClock) -> None:
    def node(state: State) -> dict[str, Any]:
        return {"log": [wait_for_event("paid")]}

    app = app_of(node, clock=clock)
    driver.invoke(app, {"x": 1}, THREAD)

    with pytest.raises(InvalidResume, match=r"'payed'.*Did you mean 'paid'"):
        send_event(driver, app, "payed", 1, **THREAD)
    assert send_event(driver, app, "paid", 2, **THREAD)["log"] == [2]


def test_6_1_a_payload_must_match_the_schema_of_the_wait(driver: Any, clock: FakeClock) -> None:
    def node(state: State) -> dict[str, Any]:
        return {"log": [wait_for_event("paid", schema=int)]}

    app = app_of(node, clock=clock)
    driver.invoke(app, {"x": 1}, THREAD)

    with pytest.raises(InvalidResume, match="does not fit"):
        send_event(driver, app, "paid", "much", **THREAD)
    assert send_event(driver, app, "paid", 5, **THREAD)["log"] == [5]


# -- questions


def test_6_1_a_question_returns_none_after_its_timeout(driver: Any, clock: FakeClock) -> None:
    def node(state: State) -> dict[str, Any]:
        return {"log": [interrupt("sure?", schema=str, timeout=30)]}

    app = app_of(node, clock=clock)
    driver.invoke(app, {"x": 1}, THREAD)
    clock.advance(31)

    assert resume_due(driver, app, **THREAD)["log"] == [None]


def test_6_1_an_answered_question_no_longer_times_out(driver: Any, clock: FakeClock) -> None:
    def node(state: State) -> dict[str, Any]:
        return {"log": [interrupt("sure?", timeout=30), interrupt("really?")]}

    app = app_of(node, clock=clock)
    driver.invoke(app, {"x": 1}, THREAD)
    driver.invoke(app, Command(resume="yes"), THREAD)
    clock.advance(31)

    assert resume_due(driver, app, **THREAD) is None
    assert driver.invoke(app, Command(resume="yes!"), THREAD)["log"] == ["yes", "yes!"]


def test_6_1_an_answer_without_an_id_goes_to_the_only_open_question(driver: Any, clock: FakeClock) -> None:
    def asks(state: State) -> dict[str, Any]:
        return {"log": [("asks", interrupt("?"))]}

    def waits(state: State) -> dict[str, Any]:
        sleep(10)
        return {"log": [("waits", wait_for_event("go"))]}

    app = app_of(asks, waits, clock=clock)
    driver.invoke(app, {"x": 1}, THREAD)
    remaining = driver.invoke(app, Command(resume="yes"), THREAD)["__interrupt__"]
    assert [wait.kind for wait in remaining] == ["timer"]
    with pytest.raises(InvalidResume, match="resume_due"):
        driver.invoke(app, Command(resume="no"), THREAD)

    clock.advance(10)
    resume_due(driver, app, **THREAD)
    assert send_event(driver, app, "go", "now", **THREAD)["log"] == [("asks", "yes"), ("waits", "now")]


def test_6_1_siblings_finish_and_all_open_waits_are_reported_together(driver: Any, clock: FakeClock) -> None:
    ran: list[str] = []

    def quick(state: State) -> dict[str, Any]:
        ran.append("quick")
        return {"log": ["quick"]}

    def sleeps(state: State) -> None:
        sleep(1)

    def asks(state: State) -> None:
        interrupt("?")

    def listens(state: State) -> None:
        wait_for_event("e")

    app = app_of(quick, sleeps, asks, listens, clock=clock)
    waits = driver.invoke(app, {"x": 1}, THREAD)["__interrupt__"]

    assert [wait.kind for wait in waits] == ["timer", "question", "event"]
    clock.advance(1)
    driver.invoke(app, Command(resume=1), THREAD)
    resume_due(driver, app, **THREAD)
    assert send_event(driver, app, "e", **THREAD)["log"] == ["quick"]
    assert ran == ["quick"]


def test_6_1_waits_in_subgraphs_are_reported_and_resumed_by_the_parent(driver: Any, clock: FakeClock) -> None:
    def inner(state: State) -> dict[str, Any]:
        sleep(5)
        return {"log": [wait_for_event("go", key="go")]}

    child = StateGraph(State).add_node(inner).add_edge(START, "inner").compile()
    graph = (
        StateGraph(State)
        .add_node("child", child)
        .add_node("spread", lambda s: [Send("child", s)] * 2, destinations=["child"])
    )
    app = graph.add_edge(START, "spread").compile(InMemorySaver(), clock=clock)

    driver.invoke(app, {"x": 1}, THREAD)
    clock.advance(5)
    waits = resume_due(driver, app, **THREAD)["__interrupt__"]
    assert len({wait.id for wait in waits}) == 2
    assert send_event(driver, app, "go", 7, **THREAD)["log"] == [7, 7]


def test_6_1_the_first_of_answer_and_timeout_wins(driver: Any, clock: FakeClock) -> None:
    def node(state: State) -> dict[str, Any]:
        answer = interrupt("?", timeout=10)
        return {"log": [answer]}

    app = app_of(node, clock=clock)
    (question,) = driver.invoke(app, {"x": 1}, THREAD)["__interrupt__"]
    clock.advance(11)
    assert driver.invoke(app, Command(resume="late but first"), THREAD)["log"] == ["late but first"]

    assert resume_due(driver, app, **THREAD) is None
    with pytest.raises((InvalidResume, ThreadBusy)):
        driver.invoke(app, Command(resume={question.id: "again"}), THREAD)


@pytest.mark.parametrize(
    ("wait", "expected"),
    [
        (lambda: sleep(), "Pass exactly one of them"),
        (lambda: sleep(1, until=datetime(2027, 1, 1, tzinfo=UTC)), "Pass exactly one of them"),
        (lambda: sleep(until=datetime(2027, 1, 1)), "no time zone"),
        (lambda: sleep(-1), "must not be negative"),
        (lambda: interrupt("?", timeout=-1), "must not be negative"),
        (lambda: wait_for_event(""), "Pass the name of the event"),
    ],
)
def test_6_1_invalid_waits_are_refused(driver: Any, clock: FakeClock, wait: Any, expected: str) -> None:
    def node(state: State) -> None:
        wait()

    with pytest.raises(InvalidUpdateError, match=expected):
        driver.invoke(app_of(node, clock=clock), {"x": 1}, THREAD)


@pytest.mark.parametrize("wait", [lambda: sleep(1), lambda: wait_for_event("e"), lambda: interrupt("?")])
def test_6_1_waiting_outside_a_node_is_refused(wait: Any) -> None:
    with pytest.raises(InvalidUpdateError, match="outside a node"):
        wait()
