"""Effects of refused commands, rollbacks, updates next to other tasks, and runs that have lost their thread."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest

from statewright import END, START, Command, RunControl, Runtime, Send, StateGraph, append, interrupt
from statewright.checkpoint import PrunePolicy
from statewright.errors import (
    CheckpointNotFound,
    GraphDrained,
    InvalidConfig,
    InvalidResume,
    InvalidUpdateError,
    LeaseLost,
    RunCancelled,
    UnknownTarget,
)
from statewright.runtime.lifecycle import thread_lease as thread_queue
from statewright.storage.sqlite import SqliteDatabase, SqliteSaver

LONG = 600
THREAD = {"configurable": {"thread_id": "t"}}


class State(TypedDict, total=False):
    n: int
    log: Annotated[list[Any], append]


def log_name(name: str) -> Any:
    return lambda state: {"log": [name]}


def ask_name(name: str) -> Any:
    return lambda state: {"log": [interrupt(f"{name}?")]}


def log_of(app: Any) -> list[Any]:
    return app.get_state(THREAD).values.get("log", [])


# -- refused commands


def asking_app(saver: Any) -> Any:
    graph = StateGraph(State).add_node("ask", ask_name("a")).add_edge(START, "ask")
    return graph.compile(saver, unknown_keys="error")


@pytest.mark.parametrize(
    ("extra", "error"),
    [({"update": {"nope": 1}}, InvalidUpdateError), ({"goto": "nowhere"}, UnknownTarget)],
    ids=["update", "goto"],
)
def test_an_answer_with_an_invalid_update_is_not_saved(driver: Any, saver: Any, extra: Any, error: Any) -> None:
    app = asking_app(saver)
    driver.invoke(app, {"log": []}, THREAD)
    with pytest.raises(error):
        driver.invoke(app, Command(resume="wrong", **extra), THREAD)
    assert [question.value for question in app.get_state(THREAD).interrupts] == ["a?"]
    assert driver.invoke(app, Command(resume="right", update={"n": 1}), THREAD) == {"n": 1, "log": ["right"]}


@pytest.mark.parametrize(
    "command",
    [Command(resume={"0" * 32: "x"}), Command(update={"nope": 1}), Command(goto="nowhere")],
    ids=["answer", "update", "goto"],
)
def test_a_refused_command_to_an_old_checkpoint_leaves_the_head(driver: Any, saver: Any, command: Any) -> None:
    app = asking_app(saver)
    driver.invoke(app, {"log": []}, THREAD)
    config = app.get_state(THREAD).config
    driver.invoke(app, Command(resume="done"), THREAD)
    before = app.get_state(THREAD)
    with pytest.raises((InvalidResume, InvalidUpdateError, UnknownTarget)):
        driver.invoke(app, command, config)
    assert app.get_state(THREAD).config == before.config
    assert (app.get_state(THREAD).values, app.get_state(THREAD).next) == ({"log": ["done"]}, ())


# -- rollbacks


class HeldNode:
    """A node that waits until the test lets it continue."""

    def __init__(self) -> None:
        self.entered, self.go_on = threading.Event(), threading.Event()

    def __call__(self, state: State) -> State:
        self.entered.set()
        assert self.go_on.wait(LONG)
        return {"log": ["held"]}


BEGINNINGS = ["command", "after an update", "an old checkpoint", "input at an old checkpoint", "input"]


@pytest.mark.parametrize("beginning", BEGINNINGS)
def test_a_rollback_undoes_only_the_run_that_holds_the_thread(saver: Any, beginning: str) -> None:
    held_node = HeldNode()
    graph = StateGraph(State).add_node("a", log_name("a")).add_node("b", log_name("b")).add_node("held", held_node)
    graph.add_edge(START, "a").add_edge("a", "b")
    graph.add_conditional_edges("b", lambda state: "held" if "hold" in state["log"] else END, ["held", END])
    app = graph.compile(saver)
    app.invoke({"log": ["one"]}, THREAD)
    old = next(state for state in app.get_state_history(THREAD) if state.next == ("b",)).config
    value: Any = {"log": ["hold"]}
    config: Any = THREAD
    if beginning == "command":
        value = Command(goto="held")
    elif beginning == "after an update":
        app.update_state(THREAD, {"log": ["edit", "hold"]}, as_node="a")
        value = None
    elif beginning == "an old checkpoint":
        value, config = Command(update={"log": ["hold"]}), old
    elif beginning == "input at an old checkpoint":
        config = old
    before = log_of(app)

    def hold() -> None:
        with pytest.raises(RunCancelled):
            app.invoke(value, config)

    holder = threading.Thread(target=hold)
    holder.start()
    assert held_node.entered.wait(LONG)
    done: list[Any] = []
    newcomer = threading.Thread(
        target=lambda: done.append(app.invoke({"log": ["new"]}, THREAD, on_busy="rollback", on_unfinished="discard"))
    )
    newcomer.start()
    while (lease := saver.lease("t")) is None or lease.wanted is None:
        time.sleep(0.001)
    held_node.go_on.set()
    holder.join()
    newcomer.join()
    added = ["new", "a", "b", "held"] if "hold" in before else ["new", "a", "b"]
    assert done[0]["log"] == [*before, *added]


@pytest.mark.parametrize("keep", [1, 2, 3])
def test_a_rollback_to_a_pruned_checkpoint_is_refused(saver: Any, keep: int) -> None:
    graph = StateGraph(State).add_node("a", log_name("a")).add_node("b", log_name("b"))
    app = graph.add_edge(START, "a").add_edge("a", "b").compile(saver)
    app.invoke({"log": ["one"]}, THREAD)
    app.invoke({"log": ["two"]}, THREAD)
    app.prune(PrunePolicy(keep_last=keep), thread_id="t")
    with pytest.raises(CheckpointNotFound, match="pruned"):
        app.roll_back(THREAD)
    assert log_of(app) == ["one", "a", "b", "two", "a", "b"]
    assert app.invoke({"log": ["three"]}, THREAD)["log"][-3:] == ["three", "a", "b"]
    assert saver.lease("t") is None


def test_the_first_input_can_be_rolled_back_but_updates_cannot(saver: Any) -> None:
    app = StateGraph(State).add_node("a", log_name("a")).add_edge(START, "a").compile(saver)
    app.invoke({"log": ["one"]}, THREAD)
    app.roll_back(THREAD)
    assert log_of(app) == []
    for number in range(3):
        app.update_state({"configurable": {"thread_id": "u"}}, {"log": [number]}, as_node=END)
    with pytest.raises(InvalidUpdateError, match="no input"):
        app.roll_back(thread_id="u")
    assert app.get_state(thread_id="u").values["log"] == [0, 1, 2]


@pytest.mark.parametrize("command", [Command(update={"log": ["hold"]}, goto="held"), Command(goto="held")])
def test_rolling_back_the_first_run_leaves_an_empty_thread(saver: Any, command: Any) -> None:
    held_node = HeldNode()
    graph = StateGraph(State).add_node("a", log_name("a")).add_node("held", held_node).add_edge(START, "a")
    app = graph.compile(saver)

    def hold() -> None:
        with pytest.raises(RunCancelled):
            app.invoke(command, THREAD)

    holder = threading.Thread(target=hold)
    holder.start()
    assert held_node.entered.wait(LONG)
    done: list[Any] = []
    newcomer = threading.Thread(target=lambda: done.append(app.invoke({"log": ["new"]}, THREAD, on_busy="rollback")))
    newcomer.start()
    while (lease := saver.lease("t")) is None or lease.wanted is None:
        time.sleep(0.001)
    held_node.go_on.set()
    holder.join()
    newcomer.join()
    assert done[0]["log"] == ["new", "a"]
    app.roll_back(THREAD)
    assert log_of(app) == []
    with pytest.raises(InvalidUpdateError, match="no input"):
        app.roll_back(THREAD)


# -- updates as the result of one task


def fan_out_app(saver: Any, node: Any) -> Any:
    graph = StateGraph(State).add_node("split", lambda state: {}).add_node("work", node).add_edge(START, "split")
    graph.add_conditional_edges("split", lambda state: [Send("work", number) for number in range(4)], ["work"])
    return graph.compile(saver)


@pytest.mark.parametrize("failing", range(4))
def test_an_update_for_a_failed_task_keeps_the_results_of_its_siblings(driver: Any, saver: Any, failing: int) -> None:
    ran: list[int] = []

    def work(number: int) -> State:
        ran.append(number)
        if number == failing:
            raise ConnectionError("boom")
        return {"log": [number]}

    app = fan_out_app(saver, work)
    with pytest.raises(ConnectionError):
        driver.invoke(app, {"log": []}, THREAD)
    has_result = [task.result is not None for task in app.get_state(THREAD).tasks]
    updates: Any = [({"log": ["by hand"]}, "work")] * has_result.count(False)  # some siblings may not have begun
    app.bulk_update_state(THREAD, updates)
    assert app.get_state(THREAD).next == ()
    assert log_of(app) == [number if has_result[number] else "by hand" for number in range(4)]
    assert len(ran) == has_result.count(True) + 1


def test_one_update_cannot_replace_several_tasks_of_its_node(driver: Any, saver: Any) -> None:
    app = fan_out_app(saver, lambda number: {"log": [interrupt(f"{number}?")]})
    driver.invoke(app, {"log": []}, THREAD)
    before = app.get_state(THREAD).config
    with pytest.raises(InvalidUpdateError, match="4 tasks of node 'work' are due"):
        app.update_state(THREAD, {"log": ["by hand"]}, as_node="work")
    assert app.get_state(THREAD).config == before
    app.bulk_update_state(THREAD, [({"log": [f"by hand {number}"]}, "work") for number in range(4)])
    assert (app.get_state(THREAD).next, log_of(app)) == ((), [f"by hand {number}" for number in range(4)])


def test_an_update_with_cancel_pending_drops_all_tasks_of_its_node(driver: Any, saver: Any) -> None:
    app = fan_out_app(saver, lambda number: {"log": [interrupt(f"{number}?")]})
    driver.invoke(app, {"log": []}, THREAD)
    app.update_state(THREAD, {"log": ["by hand"]}, as_node="work", cancel_pending=True)
    assert (app.get_state(THREAD).interrupts, log_of(app)) == ((), ["by hand"])


def test_an_update_for_the_last_open_task_applies_finished_results(driver: Any, saver: Any) -> None:
    graph = StateGraph(State).add_node("a", log_name("a")).add_node("b", ask_name("b")).add_node("c", log_name("c"))
    graph.add_edge(START, "a").add_edge(START, "b").add_edge(["a", "b"], "c")
    app = graph.compile(saver)
    driver.invoke(app, {"log": []}, THREAD)
    app.update_state(THREAD, {"log": ["B"]}, as_node="b")
    assert (app.get_state(THREAD).next, log_of(app)) == (("c",), ["a", "B"])
    assert driver.invoke(app, None, THREAD)["log"] == ["a", "B", "c"]


def test_finished_results_are_kept_while_a_sibling_is_open(driver: Any, saver: Any) -> None:
    ran: list[int] = []
    graph = StateGraph(State).add_node("a", lambda state: ran.append(1) or {"log": ["a"]})
    graph.add_node("b", ask_name("b")).add_node("c", ask_name("c"))
    app = graph.add_edge(START, "a").add_edge(START, "b").add_edge(START, "c").compile(saver)
    driver.invoke(app, {"log": []}, THREAD)
    app.update_state(THREAD, {"log": ["B"]}, as_node="b")
    assert ([question.value for question in app.get_state(THREAD).interrupts], log_of(app)) == (["c?"], ["B"])
    assert driver.invoke(app, Command(resume="C"), THREAD)["log"] == ["B", "a", "C"]
    assert ran == [1]


def test_an_update_of_an_old_checkpoint_asks_the_other_questions_again(driver: Any, saver: Any) -> None:
    graph = StateGraph(State).add_node("a", ask_name("a")).add_node("b", ask_name("b"))
    app = graph.add_edge(START, "a").add_edge(START, "b").compile(saver)
    result = driver.invoke(app, {"log": []}, THREAD)
    config = app.get_state(THREAD).config
    driver.invoke(
        app, Command(resume={question.id: f"old {question.value}" for question in result["__interrupt__"]}), THREAD
    )
    app.update_state(config, {"log": ["by hand"]}, as_node="a")
    assert [question.value for question in app.get_state(THREAD).interrupts] == ["b?"]
    assert driver.invoke(app, Command(resume="new"), THREAD)["log"] == ["by hand", "new"]


class QueuedUpdate:
    """A run that holds its thread, and an awaited update that waits in the queue."""

    def __init__(self, saver: Any) -> None:
        self._go_on, self._entered = asyncio.Event(), asyncio.Event()
        self.app = StateGraph(State).add_node("slow", self._slow).add_edge(START, "slow").compile(saver)

    async def _slow(self, state: State) -> State:
        self._entered.set()
        await self._go_on.wait()
        return {"log": ["slow"]}

    async def begin(self, **options: Any) -> asyncio.Task[Any]:
        self._run = asyncio.create_task(self.app.ainvoke({"log": []}, THREAD))
        await self._entered.wait()
        edit = self.app.aupdate_state(THREAD, {"log": ["edit"]}, as_node="slow", on_busy="enqueue", **options)
        waiting = asyncio.create_task(edit)
        while not thread_queue._queues:
            await asyncio.sleep(0.001)
        return waiting

    async def check_undisturbed(self) -> None:
        """Check that the update has left the queue, and wrote nothing."""
        while thread_queue._queues:
            await asyncio.sleep(0.001)
        self._go_on.set()
        assert (await self._run)["log"] == ["slow"]
        assert await self.app.aget_state(THREAD) == self.app.get_state(THREAD)
        assert log_of(self.app) == ["slow"]


@pytest.mark.anyio
@pytest.mark.parametrize("control", [None, RunControl()], ids=["alone", "control"])
async def test_a_queued_update_that_is_cancelled_is_not_written(saver: Any, control: Any) -> None:
    waiting = QueuedUpdate(saver)
    edit = await waiting.begin(control=control)
    edit.cancel()
    with pytest.raises(asyncio.CancelledError):
        await edit
    await waiting.check_undisturbed()
    assert control is None or not control.cancel_requested  # the control may be shared with other calls


@pytest.mark.anyio
@pytest.mark.parametrize(("method", "error"), [("request_cancel", RunCancelled), ("request_drain", GraphDrained)])
async def test_a_queued_update_is_stopped_by_its_control(saver: Any, method: Any, error: Any) -> None:
    waiting, control = QueuedUpdate(saver), RunControl()
    edit = await waiting.begin(control=control)
    getattr(control, method)("enough")
    with pytest.raises(error, match="enough"):
        await edit
    await waiting.check_undisturbed()


def test_an_update_with_a_cancelled_control_is_not_written(saver: Any) -> None:
    held_node, control = HeldNode(), RunControl()
    app = StateGraph(State).add_node("held", held_node).add_edge(START, "held").compile(saver)
    run = threading.Thread(target=lambda: app.invoke({"log": []}, THREAD))
    run.start()
    assert held_node.entered.wait(LONG)
    control.request_cancel("enough")
    with pytest.raises(RunCancelled, match="enough"):
        app.update_state(THREAD, {"log": ["edit"]}, as_node="held", on_busy="enqueue", control=control)
    held_node.go_on.set()
    run.join()
    assert log_of(app) == ["held"]


def test_an_empty_list_of_updates_or_branch_name_is_refused(saver: Any) -> None:
    app = StateGraph(State).add_node("a", log_name("a")).add_edge(START, "a").compile(saver)
    with pytest.raises(InvalidUpdateError, match="no updates"):
        app.bulk_update_state(THREAD, [])
    assert saver.load("t") is None
    app.invoke({}, THREAD)
    with pytest.raises(InvalidConfig, match="branch"):
        app.fork(THREAD, branch="")


@pytest.mark.parametrize("keep", [1.5, "2", True])
def test_keep_last_must_be_an_integer(keep: Any) -> None:
    with pytest.raises(InvalidConfig, match="integer of at least 1"):
        PrunePolicy(keep_last=keep)


# -- input at an old checkpoint


def test_input_at_an_old_checkpoint_restores_memories(driver: Any, saver: Any) -> None:
    counting = (
        StateGraph(State).add_node("n", lambda state: {"n": state.get("n", 0) + 1}).add_edge(START, "n").compile()
    )
    graph = StateGraph(State).add_node("call", lambda s: {"log": [counting.invoke({}, memory="thread")["n"]]})
    app = graph.add_edge(START, "call").compile(saver)
    for _ in range(3):
        app.invoke({}, THREAD)
    old = [state for state in app.get_state_history(THREAD) if not state.next][1].config
    elsewhere = {"configurable": {**old["configurable"], "branch": "other"}}
    assert driver.invoke(app, {"n": 1}, elsewhere)["log"] == [1, 2, 3]
    assert driver.invoke(app, {"n": 1}, old)["log"] == [1, 2, 3]
    assert driver.invoke(app, {"n": 1}, THREAD)["log"] == [1, 2, 3, 4]


def test_an_old_checkpoint_can_be_finished_before_its_input(driver: Any, saver: Any) -> None:
    ran: list[str] = []
    graph = StateGraph(State).add_node("a", log_name("a")).add_node("b", lambda s: ran.append("b") or {"log": ["b"]})
    app = graph.add_edge(START, "a").add_edge("a", "b").compile(saver)
    app.invoke({"log": []}, THREAD)
    old = next(state for state in app.get_state_history(THREAD) if state.next == ("b",)).config
    ran.clear()
    assert driver.invoke(app, {"log": ["in"]}, old, on_unfinished="finish")["log"] == ["a", "b", "in", "a", "b"]
    assert ran == ["b", "b"]


# -- a run that has lost its thread


@pytest.mark.parametrize("beginning", ["released", "released and taken over", "deleted"])
def test_a_run_that_has_lost_its_lease_begins_no_step(driver: Any, saver: Any, beginning: str) -> None:
    entered, go_on = threading.Event(), threading.Event()
    attempts: list[int] = []
    charges: list[int] = []

    def pay(state: State, runtime: Runtime) -> State:
        attempts.append(1)
        number = len(attempts)
        if number == 1:
            entered.set()
            assert go_on.wait(LONG)
        runtime.step("charge", lambda: charges.append(number))
        return {"log": [number]}

    app = StateGraph(State).add_node("pay", pay).add_edge(START, "pay").compile(saver)

    def first() -> None:
        with pytest.raises((LeaseLost, RunCancelled)):
            driver.invoke(app, {"log": []}, THREAD)

    run = threading.Thread(target=first)
    run.start()
    assert entered.wait(LONG)
    if beginning == "deleted":
        app.delete_thread("t")
    else:
        app.release("t")
        if beginning == "released and taken over":
            assert driver.invoke(app, None, THREAD)["log"] == [2]
    go_on.set()
    run.join()
    assert charges == ([2] if beginning == "released and taken over" else [])


# -- a fork of the process


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_a_process_forked_during_a_write_can_write(tmp_path: Path) -> None:
    database = SqliteDatabase(tmp_path / "a.db")
    graph = StateGraph(State).add_node("a", log_name("a")).add_edge(START, "a")
    app = graph.compile(SqliteSaver(database))
    app.invoke({}, THREAD)
    inside = threading.Event()
    # The fork should begin during the write; if it begins later, the test passes without testing anything.
    writes = threading.Thread(target=lambda: database.write(lambda connection: (inside.set(), time.sleep(0.3))))
    writes.start()
    assert inside.wait(LONG)
    child = os.fork()
    if child == 0:
        code = 3
        try:
            app.invoke({}, THREAD)
            with SqliteSaver(tmp_path / "a.db") as another:
                graph.compile(another).invoke({}, THREAD)
            code = 0
        finally:
            os._exit(code)
    writes.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert app.invoke({}, THREAD)["log"] == ["a"] * 4
    database.close()
