"""An in-memory saver that checks values accepts what SQLite accepts: each value, wherever a run saves one."""

from __future__ import annotations

import datetime
import decimal
import re
import threading
import uuid
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, TypedDict

import pytest
from pydantic import BaseModel

from statewright import (
    END,
    START,
    Command,
    InMemorySaver,
    Message,
    Overwrite,
    Runtime,
    Send,
    StateGraph,
    append,
    interrupt,
    task,
)
from statewright.errors import SerdeError
from statewright.storage.sqlite import SqliteSaver
from statewright.testing import TestService


@dataclass
class Known:
    """A class that an annotation of the state names."""

    size: int


@dataclass
class Unknown:
    """A class that no annotation names."""

    size: int


class UnknownModel(BaseModel):
    size: int = 1


class Plain:
    """An ordinary class, which the serializer does not know."""


class Number(int):
    """A subclass, which would be loaded as a plain int if it was not refused."""


class State(TypedDict, total=False):
    value: Any
    known: Known
    values: Annotated[list[Any], append]


def _nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


VALUES: Final[Mapping[str, Any]] = {
    "text": "ä",
    "lone surrogate": "\ud800",
    "bytes": b"\x00",
    "bytearray": bytearray(b"1"),
    "large integer": 2**80,
    "nan": float("nan"),
    "complex": 1j,
    "date": datetime.date(2026, 1, 2),
    "time with a zone": datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC),
    "decimal": decimal.Decimal("1.10"),
    "uuid": uuid.UUID(int=1),
    "path": Path("a/b"),
    "set": {1, 2},
    "frozenset": frozenset({1}),
    "tuple": (1, (2,)),
    "deque": deque([1], maxlen=3),
    "range": range(3),
    "message": Message("hi", id="1"),
    "exception": ValueError("no"),
    "known dataclass": Known(1),
    "unknown dataclass": Unknown(1),
    "unknown model": UnknownModel(),
    "object": Plain(),
    "class": Plain,
    "function": len,
    "lambda": lambda: None,
    "generator": (item for item in ()),
    "lock": threading.Lock(),
    "subclass of int": Number(1),
    "keys that are numbers": {1: "a"},
    "keys that are tuples": {(1, 2): "a"},
    "keys that are objects": {Plain(): 1},
    "deep": _nested(150),
    "too deep": _nested(250),
    "nested deep in a list": {"any": {"deep": [1, Unknown(2)]}},
}

Save = Callable[[Any, Any], Any]
"""Runs a graph with a saver so that a value is saved in a certain part of its thread."""


def _graph(node: Callable[..., Any], *, then: bool = True) -> StateGraph[Any]:
    graph = StateGraph(State).add_node("node", node).add_edge(START, "node")
    return graph.add_node("after", lambda state: {}).add_edge("node", "after") if then else graph


def _as_input(saver: Any, value: Any) -> Any:
    return _graph(lambda state: {}).compile(saver).invoke({"value": value}, thread_id="1")


def _as_update(saver: Any, value: Any) -> Any:
    return _graph(lambda state: {"value": value}).compile(saver).invoke({}, thread_id="1")


def _as_update_saved_at_exit(saver: Any, value: Any) -> Any:
    return _graph(lambda state: {"value": value}).compile(saver).invoke({}, thread_id="1", durability="exit")


def _as_appended_item(saver: Any, value: Any) -> Any:
    return _graph(lambda state: {"values": [value]}).compile(saver).invoke({"values": [1]}, thread_id="1")


def _as_overwrite(saver: Any, value: Any) -> Any:
    return _graph(lambda state: {"values": Overwrite([value])}).compile(saver).invoke({"values": [1]}, thread_id="1")


def _as_input_of_a_send(saver: Any, value: Any) -> Any:
    graph = StateGraph(State).add_node("split", lambda state: Command(goto=[Send("work", {"value": value})]))
    graph.add_node("work", lambda state: {}).add_edge(START, "split").add_edge("work", END)
    return graph.compile(saver).invoke({}, thread_id="1")


def _as_question(saver: Any, value: Any) -> Any:
    return _graph(lambda state: {"values": [interrupt(value)]}).compile(saver).invoke({}, thread_id="1")


def _as_answer(saver: Any, value: Any) -> Any:
    def node(state: State) -> State:
        interrupt("?")
        interrupt("and?")
        return {}

    app = _graph(node).compile(saver)
    app.invoke({}, thread_id="1")
    return app.invoke(Command(resume=value), thread_id="1")


def _as_step_result(saver: Any, value: Any) -> Any:
    def node(state: State, runtime: Runtime[None]) -> State:
        runtime.step("get", lambda: value)
        interrupt("?")
        return {}

    return _graph(node).compile(saver).invoke({}, thread_id="1")


def _as_task_result(saver: Any, value: Any) -> Any:
    @task
    def get() -> Any:
        return value

    def node(state: State) -> State:
        get().result()
        interrupt("?")
        return {}

    return _graph(node).compile(saver).invoke({}, thread_id="1")


def _as_update_next_to_a_question(saver: Any, value: Any) -> Any:
    graph = StateGraph(State).add_node("node", lambda state: {"value": value})
    graph.add_node("ask", lambda state: {"values": [interrupt("?")]})
    return graph.add_edge(START, "node").add_edge(START, "ask").compile(saver).invoke({}, thread_id="1")


def _as_update_of_the_thread(saver: Any, value: Any) -> Any:
    app = _graph(lambda state: {}).compile(saver)
    app.invoke({}, thread_id="1")
    return app.update_state({"configurable": {"thread_id": "1"}}, {"value": value})


def _as_update_in_a_subgraph(saver: Any, value: Any) -> Any:
    inner = _graph(lambda state: {"value": value}).compile()
    return StateGraph(State).add_node("inner", inner).add_edge(START, "inner").compile(saver).invoke({}, thread_id="1")


def _as_event(saver: Any, value: Any) -> Any:
    def node(state: State, runtime: Runtime[None]) -> State:
        runtime.check_saveable(value)
        return {}

    return _graph(node).compile(saver).invoke({}, thread_id="1")


LOCATIONS: Final[Mapping[Save, str]] = {
    _as_input: r"values\.value\.any\.deep\[1\] cannot",
    _as_update: r"values\.value\.any\.deep\[1\] cannot",
    _as_update_saved_at_exit: r"values\.value\.any\.deep\[1\] cannot",
    _as_appended_item: r"values\.values.*\.any\.deep\[1\] cannot",
    _as_overwrite: r"values\.values.*\.any\.deep\[1\] cannot",
    _as_input_of_a_send: r"checkpoint.*\.value\.any\.deep\[1\] cannot",
    _as_question: r"the value of a question\.any\.deep\[1\] cannot",
    _as_answer: r"the answer to question ID\.any\.deep\[1\] cannot",
    _as_step_result: r"the result of step 'get'\.any\.deep\[1\] cannot",
    _as_task_result: r"the result of step 'get'\.any\.deep\[1\] cannot",
    _as_update_next_to_a_question: r"the update of 'node': value\.any\.deep\[1\] cannot",
    _as_update_of_the_thread: r"values\.value\.any\.deep\[1\] cannot",
    _as_update_in_a_subgraph: r"values\.value\.any\.deep\[1\] cannot",
    _as_event: r"value\.any\.deep\[1\] cannot",
}
"""The functions that save a value, each with a pattern of the error that locates a refused value."""


def _outcome(save: Save, saver: Any, value: Any) -> str:
    """Return "saved", or the error without ids, which differ from run to run."""
    try:
        save(saver, value)
    except Exception as error:
        return re.sub("[0-9a-f]{32}", "ID", f"{type(error).__name__}: {error}")
    return "saved"


@pytest.mark.parametrize("save", list(LOCATIONS), ids=lambda save: save.__name__.strip("_"))
@pytest.mark.sampled(4)
def test_a_checking_memory_saver_refuses_what_sqlite_refuses(save: Save, tmp_path: Path) -> None:
    outcomes: dict[str, str] = {}
    for number, (name, value) in enumerate(VALUES.items()):
        with SqliteSaver(tmp_path / f"{number}.db") as saver:
            expected = _outcome(save, saver, value)
        assert (name, _outcome(save, InMemorySaver(checks_values=True), value)) == (name, expected)
        outcomes[name] = expected
    assert outcomes["text"] == outcomes["known dataclass"] == "saved"
    assert outcomes["object"].startswith("SerdeError: "), outcomes["object"]
    assert re.match(LOCATIONS[save], outcomes["nested deep in a list"].removeprefix("SerdeError: "))


def test_a_memory_saver_accepts_any_value_unless_checks_are_enabled() -> None:
    value = Plain()
    app = _graph(lambda state: {"value": value}).compile(InMemorySaver())
    assert app.invoke({}, thread_id="1")["value"] is value


def test_debug_mode_checks_values() -> None:
    saver = InMemorySaver()
    app = _graph(lambda state: {"value": {"any": [Plain()]}}).compile(saver, debug=True)
    with pytest.raises(SerdeError, match=r"values\.value\.any\[0\]"):
        app.invoke({}, thread_id="1")
    with pytest.raises(SerdeError, match=r"values\.value\.any\[0\]"):
        app.invoke({}, thread_id="2", durability="async")
    # The threads are in the given saver.
    assert saver.load("1") is not None
    # Another graph with the same saver is not checked, and a registered type is accepted.
    unchecked = _graph(lambda state: {"value": Plain()}).compile(saver)
    assert isinstance(unchecked.invoke({}, thread_id="3")["value"], Plain)
    saver.serde.register(Plain, encode=lambda value: None, decode=lambda _: Plain())
    assert "value" in app.invoke({}, thread_id="4")


def test_a_saver_knows_the_types_of_all_graphs_compiled_with_it() -> None:
    class Other(TypedDict, total=False):
        unknown: Unknown
        plain: Plain

    saver = InMemorySaver()
    StateGraph(Other).add_node("node", lambda state: {}).add_edge(START, "node").compile(saver)
    app = _graph(lambda state: {"value": Unknown(1)}).compile(saver, debug=True)
    assert app.invoke({}, thread_id="1")["value"] == Unknown(1)


def test_a_class_that_cannot_be_stored_is_refused_at_compile_time(tmp_path: Path) -> None:
    class Bad(TypedDict, total=False):
        plain: Plain

    graph = StateGraph(Bad).add_node("node", lambda state: {}).add_edge(START, "node")
    with SqliteSaver(tmp_path / "threads.db") as saver, pytest.raises(SerdeError) as expected:
        graph.compile(saver)
    with pytest.raises(SerdeError) as raised:
        graph.compile(InMemorySaver(checks_values=True))
    assert str(raised.value) == str(expected.value)


def test_the_test_service_checks_values() -> None:
    app = _graph(lambda state: {"value": Plain()}).compile()
    with TestService({"graph": app}) as service:
        run = service.start("graph", {})
        assert run.status == "failed"
        assert "values.value cannot be stored" in str(run.error)
