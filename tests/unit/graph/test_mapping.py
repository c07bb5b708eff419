"""The two nodes of `add_map`: what they send, and what they accept from threads of earlier versions."""

from __future__ import annotations

import gc
import weakref
from dataclasses import dataclass, field
from typing import Any, TypedDict

import pytest

from statewright import START, Command, Send, StateGraph
from statewright.graph.mapping import Indexed, plain_item, send_and_collect
from statewright.runtime.tasks.inputs import pass_items


class Mapped(TypedDict, total=False):
    items: list[Any]
    results: list[Any]


@dataclass
class Instance:
    items: list[Any] = field(default_factory=list[Any])
    results: list[Any] = field(default_factory=list[Any])


class Probe:
    """An object whose end can be observed."""


def no_state(values: Any, arg: Any, /) -> Any:
    raise AssertionError("an item is not read as a state")


def test_items_are_sent_and_results_written_as_they_are() -> None:
    call = send_and_collect("each", "items", "results")
    command: Command[Any] = call({"items": ["a", {"b": 1}]})
    assert command.goto == [Send("each.item", "a"), Send("each.item", {"b": 1})]
    assert call([1, None]) == {"results": [1, None]}


def test_items_and_results_of_threads_that_earlier_versions_have_saved_are_accepted() -> None:
    assert send_and_collect("each", "items", "results")([Indexed(0, "a"), "b"]) == {"results": ["a", "b"]}
    assert pass_items(no_state)({}, Indexed(0, [1])) == [1]
    assert plain_item((0, "a")) == (0, "a")


@pytest.mark.parametrize("schema", [Mapped, Instance])
def test_an_item_that_looks_like_a_state_reaches_the_function_as_a_copy(schema: Any) -> None:
    items: list[Any] = [{"items": [1]}, [2]]
    seen: list[Any] = []
    graph: Any = StateGraph(schema).add_map("each", seen.append, over="items", into="results")
    graph.add_edge(START, "each").compile().invoke({"items": items})
    assert sorted(seen, key=str) == sorted(items, key=str)
    assert not {id(item) for item in seen} & {id(item) for item in items}


def ignore(probe: Probe) -> None:
    pass


async def wait(probe: Probe) -> None:
    pass


@pytest.mark.parametrize("function", [ignore, wait], ids=["plain", "coroutine"])
def test_finished_items_are_freed_without_the_garbage_collector(function: Any) -> None:
    graph = StateGraph(Mapped).add_map("each", function, over="items", into="results").add_edge(START, "each")
    app = graph.compile()
    gc.collect()
    gc.disable()
    try:
        probes = [Probe() for _ in range(3)]
        ends = [weakref.ref(probe) for probe in probes]
        app.invoke({"items": probes})
        del probes
        assert [end() for end in ends] == [None, None, None]
    finally:
        gc.enable()
