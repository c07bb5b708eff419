"""When a service is at rest, and the error if it never is."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, TypedDict

import pytest
from tests.work import longer_and_longer

from statewright import START, StateGraph, sleep
from statewright.runs import RunStatus
from statewright.testing import TestService

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


class State(TypedDict, total=False):
    log: list[str]


def graph(function: Callable[..., Any]) -> StateGraph:
    return StateGraph(State).add_node("node", function).add_edge(START, "node")


def test_the_error_names_a_node_that_never_ends() -> None:
    async def hang(state: State) -> State:
        await asyncio.Event().wait()
        raise AssertionError("nobody sets it")

    message = ""
    for seconds in longer_and_longer():
        with TestService({"hang": graph(hang)}, patience=seconds) as service, pytest.raises(TimeoutError) as caught:
            service.start("hang")
        message = str(caught.value)
        if "Running" in message:
            break
        assert f"within {seconds:g} seconds" in message
    assert re.search(r"within [\d.]+ seconds\. Running: 'node' of run_.*Replace nodes", message)


def test_skipping_stops_at_the_first_timer() -> None:
    def nap(state: dict[str, Any]) -> State:
        sleep(float(state["log"][0]))
        return {}

    with TestService({"nap": graph(nap)}) as service:
        runs = [service.start("nap", {"log": [str(seconds)]}) for seconds in (300, 100, 200)]
        reached = [service.skip_to_next_timer() for _ in runs]
        assert reached == [BEGIN + timedelta(seconds=seconds) for seconds in (100, 200, 300)]
        assert service.skip_to_next_timer() is None
        assert [service.run(run).completed_at for run in runs] == [reached[2], reached[0], reached[1]]


def test_many_concurrent_runs_all_complete() -> None:
    def step(state: State) -> State:
        time.sleep(0.001)
        return {"log": ["done"]}

    with TestService({"step": graph(step)}) as service:
        for _ in range(50):
            service.client.runs.start("step")
        assert {run.status for run in service.client.runs.iterate()} == {RunStatus.COMPLETED}
