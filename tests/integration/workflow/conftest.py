"""Workflows of a project, with servers of MCP and of models."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.mcp_servers import FOLDER, HttpServer
from tests.provider_server import ProviderServer

from statewright.messages import Message, ToolCall
from statewright.project import Project, load_project
from statewright.runtime import CompiledGraph
from statewright.workflow.states import load_workflow

PROGRAM = "statewright-test-server"

Compile = Callable[..., CompiledGraph]


def tool_calls(*calls: tuple[str, dict[str, Any]]) -> Message:
    """Return an answer of a model that calls tools."""
    calls_with_ids = tuple(ToolCall(str(number), name, arguments) for number, (name, arguments) in enumerate(calls))
    return Message("", role="assistant", tool_calls=calls_with_ids)


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the name of a program on the path of this process that is the MCP server of the tests."""
    folder = tmp_path / "bin"
    folder.mkdir()
    script = folder / PROGRAM
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{FOLDER / "everything.py"}" "$@"\n', encoding="utf-8")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=":")
    return PROGRAM


@pytest.fixture
def project(tmp_path: Path) -> Callable[[str], Project]:
    """Return a function that writes a project file and loads it."""

    def write_and_load(text: str) -> Project:
        file = tmp_path / "statewright.toml"
        file.write_text(text, encoding="utf-8")
        return load_project(file)

    return write_and_load


@pytest.fixture
def flow(project: Callable[[str], Project]) -> Compile:
    """Return a function that compiles a workflow with a project."""

    def compile_workflow(text: str, toml: str = "", **options: Any) -> CompiledGraph:
        text = f"enable_summarization_node: false\n{text}"
        return load_workflow(text).compile(project=project(toml), **options)

    return compile_workflow


@pytest.fixture(params=["streamable-http", "sse"])
def web(request: pytest.FixtureRequest) -> Iterator[HttpServer]:
    server = HttpServer(request.param)
    yield server
    server.stop()


@pytest.fixture
def provider() -> Iterator[ProviderServer]:
    with ProviderServer() as server:
        yield server
