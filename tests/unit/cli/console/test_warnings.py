"""Warnings of this library are printed on one line, or are events of the log of a server."""

from __future__ import annotations

import io
import json
import logging
import warnings
from typing import TypedDict

import pytest

from statewright import START, StateGraph
from statewright.cli.console.warnings import redirect_warnings
from statewright.errors import UnknownKeyWarning
from statewright.observe import configure_logging

pytestmark = pytest.mark.filterwarnings("default")


class State(TypedDict, total=False):
    x: int


def test_a_warning_of_a_run_is_an_event_with_the_fields_of_its_task() -> None:
    stream = io.StringIO()
    graph = StateGraph(State).add_node("n", lambda state: {"y": 1}).add_edge(START, "n")
    with configure_logging(stream=stream), redirect_warnings(logging.getLogger("statewright.tests").warning):
        graph.compile().invoke({"x": 1}, run_id="run")
    (event,) = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert (event["level"], event["logger"]) == ("warning", "statewright.tests")
    assert "'y'" in event["event"]


def test_other_warnings_are_shown_as_before_and_all_are_afterwards() -> None:
    written: list[str] = []
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        with redirect_warnings(written.append):
            warnings.warn(UnknownKeyWarning("own"), stacklevel=1)
            warnings.warn(UserWarning("other"), stacklevel=1)
        warnings.warn(UnknownKeyWarning("later"), stacklevel=1)
    assert written == ["own"]
    assert [str(warning.message) for warning in shown] == ["other", "later"]
