"""Runs that go on from a checkpoint of another thread, with and without a change of its state."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, TypedDict

import pytest

from statewright import StateGraph, interrupt
from statewright.async_futures import aresolve
from statewright.checkpoint import Checkpointer
from statewright.errors import InvalidRequest, NotFound
from statewright.runs import Ledger, Run, RunStatus, where
from statewright.service import Catalog, Fork, Service, StartRun, StateEdit

WORKSPACE = "ws_default"


def append(one: list[str], other: list[str]) -> list[str]:
    return [*one, *other]


class State(TypedDict, total=False):
    text: str
    done: Annotated[list[str], append]


def graph() -> StateGraph:
    def work(name: str) -> Callable[[State], State]:
        return lambda state: {"done": [f"{name} {state.get('text', '')}"]}

    built = StateGraph(State).add_node("one", work("one")).add_node("two", work("two")).add_node("three", work("three"))
    return built.add_edge("__start__", "one").add_edge("one", "two").add_edge("two", "three")


def asking() -> StateGraph:
    def ask(state: State) -> State:
        return {"done": [interrupt("Which?")]}

    return StateGraph(State).add_node("ask", ask).add_edge("__start__", "ask")


def joining() -> StateGraph:
    built = StateGraph(State)
    for name in ("left", "right", "join"):
        built.add_node(name, lambda state, name=name: {"done": [f"{name} {state.get('text', '')}"]})
    return built.add_edge("__start__", "left").add_edge("__start__", "right").add_edge(["left", "right"], "join")


def checked(storage: tuple[Ledger, Checkpointer], test: Callable[[Service], Awaitable[None]]) -> None:
    async def run() -> None:
        catalog = Catalog()
        catalog.serve("g", graph())
        catalog.serve("asking", asking())
        catalog.serve("joining", joining())
        async with Service(catalog, ledger=storage[0], saver=storage[1]) as service:
            await test(service)

    asyncio.run(run())


async def completed(service: Service, fork: Fork | None = None, **options: Any) -> Run:
    request = StartRun(graph="g", input=None if fork else {"text": "a"}, fork=fork, **options)
    return (await service.start_and_wait(WORKSPACE, request, 60)).run


async def checkpoint_after(service: Service, thread_id: str, node: str) -> str:
    history = await service.threads.history(WORKSPACE, thread_id)
    (found,) = [each["checkpointId"] for each in history if each["metadata"].get("nodes") == [node]]
    return found


def test_a_run_goes_on_from_a_checkpoint_and_leaves_its_origin_alone(storage: tuple[Ledger, Checkpointer]) -> None:
    async def test(service: Service) -> None:
        origin = await completed(service)
        before = await service.threads.history(WORKSPACE, origin.id)
        fork = Fork(thread_id=origin.id, checkpoint_id=await checkpoint_after(service, origin.id, "one"))
        forked = await completed(service, fork)
        assert (forked.status, forked.output) == (RunStatus.COMPLETED, origin.output)
        steps = await service.steps(WORKSPACE, forked.id)
        assert [(step.name, step.superstep) for step in steps] == [("two", 2), ("three", 3)]
        states = await service.step_states(WORKSPACE, forked.id, steps[0].id)
        assert states.before == {"text": "a", "done": ["one a"]}
        assert await service.threads.history(WORKSPACE, origin.id) == before
        again = Fork(thread_id=forked.id, checkpoint_id=await checkpoint_after(service, forked.id, "two"))
        assert (await completed(service, again)).output == origin.output  # a fork of a fork

    checked(storage, test)


def test_an_edit_changes_the_state_before_the_run_goes_on(storage: tuple[Ledger, Checkpointer]) -> None:
    async def test(service: Service) -> None:
        origin = await completed(service)
        end = (await service.threads.history(WORKSPACE, origin.id, limit=1))[0]["checkpointId"]
        edit = StateEdit(values={"text": "b", "done": ["changed"]}, overwrite=["done"], as_node="one")
        forked = await completed(service, Fork(thread_id=origin.id, checkpoint_id=end, edit=edit))
        assert forked.output == {"text": "b", "done": ["changed", "two b", "three b"]}
        after_one = await checkpoint_after(service, origin.id, "one")
        outputs = {"one": ["one a", "two c", "three c"], "two": ["one a", "three c"]}  # `two` is due there
        for node, done in outputs.items():
            edit = StateEdit(values={"text": "c"}, as_node=node)
            forked = await completed(service, Fork(thread_id=origin.id, checkpoint_id=after_one, edit=edit))
            assert forked.output == {"text": "c", "done": done}
            numbers = [(step.name, step.superstep) for step in await service.steps(WORKSPACE, forked.id)]
            assert numbers == ([("two", 2), ("three", 3)] if node == "one" else [("three", 2)])
        assert (await service.run(WORKSPACE, origin.id)).output == {"text": "a", "done": ["one a", "two a", "three a"]}

    checked(storage, test)


def test_an_edit_without_a_node_leaves_what_is_due(storage: tuple[Ledger, Checkpointer]) -> None:
    async def test(service: Service) -> None:
        start = StartRun(graph="joining", input={"text": "a"})
        origin = (await service.start_and_wait(WORKSPACE, start, 60)).run
        assert origin.output == {"text": "a", "done": ["left a", "right a", "join a"]}
        edit, outputs = StateEdit(values={"text": "b"}), list[Any]()
        for checkpoint in await service.threads.history(WORKSPACE, origin.id):
            if checkpoint["next"]:
                fork = Fork(thread_id=origin.id, checkpoint_id=checkpoint["checkpointId"], edit=edit)
                run = (await service.start_and_wait(WORKSPACE, StartRun(graph="joining", fork=fork), 60)).run
                outputs.append(run.output)
        assert [output["done"] for output in outputs] == [
            ["left a", "right a", "join b"],
            ["left b", "right b", "join b"],
        ]
        only = (await service.start_and_wait(WORKSPACE, StartRun(graph="asking", input={"text": "a"}), 60)).run
        (checkpoint,) = await service.threads.history(WORKSPACE, only.id)
        fork = Fork(thread_id=only.id, checkpoint_id=checkpoint["checkpointId"], edit=edit)
        run = (await service.start_and_wait(WORKSPACE, StartRun(graph="asking", fork=fork), 60)).run
        assert run.status is RunStatus.WAITING
        assert (await service.state(WORKSPACE, run.id))["text"] == "b"

    checked(storage, test)


def test_a_thread_of_another_graph_is_refused(storage: tuple[Ledger, Checkpointer]) -> None:
    async def test(service: Service) -> None:
        origin = await completed(service)
        checkpoint = await checkpoint_after(service, origin.id, "one")
        fork = Fork(thread_id=origin.id, checkpoint_id=checkpoint)
        with pytest.raises(InvalidRequest, match="runs of another graph have used it"):
            await service.start(WORKSPACE, StartRun(graph="asking", fork=fork))

    checked(storage, test)


def test_a_run_that_waits_can_be_forked_and_the_fork_asks_for_itself(storage: tuple[Ledger, Checkpointer]) -> None:
    async def test(service: Service) -> None:
        request = StartRun(graph="asking", input={})
        origin = (await service.start_and_wait(WORKSPACE, request, 60)).run
        start = (await service.threads.history(WORKSPACE, origin.id))[-1]["checkpointId"]
        fork = Fork(thread_id=origin.id, checkpoint_id=start)
        forked = (await service.start_and_wait(WORKSPACE, StartRun(graph="asking", fork=fork), 60)).run
        assert (origin.status, forked.status) == (RunStatus.WAITING, RunStatus.WAITING)
        waits = {wait.run_id: wait.id for wait in (await service.waits(WORKSPACE)).items}
        await service.answer(WORKSPACE, forked.id, {waits[forked.id]: "this"})
        assert (await service.wait(WORKSPACE, forked.id, 60)).output == {"done": ["this"]}
        assert (await service.run(WORKSPACE, origin.id)).status is RunStatus.WAITING

    checked(storage, test)


def test_a_later_run_rolls_a_forked_run_back_to_nothing(storage: tuple[Ledger, Checkpointer]) -> None:
    async def test(service: Service) -> None:
        origin = (await service.start_and_wait(WORKSPACE, StartRun(graph="asking", input={"text": "a"}), 60)).run
        start = (await service.threads.history(WORKSPACE, origin.id))[-1]["checkpointId"]
        fork = Fork(thread_id=origin.id, checkpoint_id=start)
        forked = (await service.start_and_wait(WORKSPACE, StartRun(graph="asking", fork=fork), 60)).run
        request = StartRun(graph="asking", input={}, thread_id=forked.thread_id, on_busy="rollback")
        later = (await service.start_and_wait(WORKSPACE, request, 60)).run
        assert (later.status, later.error) == (RunStatus.WAITING, None)
        assert "text" not in await service.state(WORKSPACE, later.id)

    checked(storage, test)


def test_what_cannot_go_on_is_refused_and_leaves_nothing_behind(storage: tuple[Ledger, Checkpointer]) -> None:
    async def test(service: Service) -> None:
        origin = await completed(service)
        end = (await service.threads.history(WORKSPACE, origin.id, limit=1))[0]["checkpointId"]
        at_end = Fork(thread_id=origin.id, checkpoint_id=end)
        refused: list[tuple[type[Exception], StartRun]] = [
            (InvalidRequest, StartRun(graph="g", fork=at_end)),
            (InvalidRequest, StartRun(graph="g", fork=at_end, input={"text": "x"})),
            (InvalidRequest, StartRun(graph="g", fork=at_end, thread_id=origin.id)),
            (NotFound, StartRun(graph="g", fork=Fork(thread_id="none", checkpoint_id=end))),
            (NotFound, StartRun(graph="g", fork=Fork(thread_id=origin.id, checkpoint_id="none"))),
            (
                InvalidRequest,
                StartRun(
                    graph="g",
                    fork=Fork(
                        thread_id=origin.id, checkpoint_id=end, edit=StateEdit(values={"texd": "x"}, as_node="one")
                    ),
                ),
            ),
        ]
        for error, request in refused:
            with pytest.raises(error):
                await service.start(WORKSPACE, request)
        assert await aresolve(service.context.ledger.count(Run, where(workspace_id=WORKSPACE))) == 1
        threads = await aresolve(service.context.saver_of(WORKSPACE).threads())
        assert [entry.thread_id for entry in threads] == [origin.id]

    checked(storage, test)
