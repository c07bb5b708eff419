"""The startup message of a server."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import TypedDict

import pytest

from statewright import START, StateGraph
from statewright.cli.serve.announce import announce, announce_reload, curl_command, example_input, start_command
from statewright.service import Catalog


class State(TypedDict):
    topic: str
    n: int


def catalog() -> Catalog:
    graph = StateGraph(State)
    graph.add_node("a", lambda state: {})
    graph.add_edge(START, "a")
    served = Catalog()
    served.serve("it's", graph, description="Does [it]\nand more")
    return served


def test_the_message_has_the_url_the_graphs_and_commands_that_start_a_run(capsys: pytest.CaptureFixture[str]) -> None:
    announce("http://127.0.0.1:9", catalog(), Path("runs.db"), "none")
    lines = capsys.readouterr().out.splitlines()
    assert lines[:4] == [
        "Statewright is listening on http://127.0.0.1:9",
        "Page: http://127.0.0.1:9/ui/",
        "Serving:",
        "  it's  Python  Does [it]",
    ]
    assert lines[-1] == "Runs are stored in runs.db"
    words = shlex.split(next(line for line in lines if "runs start" in line))
    assert words[:4] == ["statewright", "runs", "start", "it's"]
    assert words[-2:] == ["--url", "http://127.0.0.1:9"]
    data = shlex.split(next(line for line in lines if "curl" in line))[-1]
    assert json.loads(data)["graph"] == "it's"
    assert "\x1b" not in "".join(lines)


def test_a_server_without_graphs_shows_how_to_add_one(capsys: pytest.CaptureFixture[str]) -> None:
    announce("http://127.0.0.1:9", Catalog(), Path("runs.db"), "none")
    assert "statewright definitions add FILE.json" in capsys.readouterr().out
    announce("http://127.0.0.1:9", Catalog(), Path("runs.db"), "none", has_page=False)
    assert "Page:" not in capsys.readouterr().out
    announce_reload(Catalog())
    assert capsys.readouterr().out == "Serving: no graphs\n"


def test_the_default_url_is_omitted_from_the_command() -> None:
    assert start_command("http://127.0.0.1:8123", "a", "{}") == "statewright runs start a --input '{}' --wait"


def test_the_curl_command_reads_the_key_from_the_environment() -> None:
    assert "$STATEWRIGHT_API_KEY" in curl_command("http://127.0.0.1:8123", "a", "{}", "keys")
    assert "API_KEY" not in curl_command("http://127.0.0.1:8123", "a", "{}", "none")


def test_an_example_has_the_required_fields_or_the_first_optional_one() -> None:
    properties = {"a": {"type": "string"}, "b": {"type": "integer"}, "c": {"anyOf": []}}
    assert example_input({"properties": properties, "required": ["b", "c"]}) == {"b": 0, "c": None}
    assert example_input({"properties": properties}) == {"a": "..."}
    assert example_input({}) == {}
