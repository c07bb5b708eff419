"""Each installation of the wheel runs the first program of its guide, and reports a missing extra in one line."""

from __future__ import annotations

import http.client
import re
import signal
import subprocess
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.install_sets import Installation, build_wheel, install
from tests.work import FULL

FLOW = """
name: Greeting
assistants: [{id: writer, system_prompt: Write one line.}]
states: [{id: greet, assistant_id: writer, task: Greet, next: {state_id: end}}]
"""
AGENT = 'from statewright.agents import Agent\n\nagent = Agent("writer", system="Write one line.")\n'
LONGEST = 600.0

Install = Callable[..., Installation]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Install:
    """Builds the wheel once, and installs it once for each extra."""
    wheel = build_wheel(tmp_path_factory.mktemp("wheel"))
    installations: dict[str, Installation] = {}

    def install_with(extra: str = "") -> Installation:
        if extra not in installations:
            installations[extra] = install(
                wheel, [extra] if extra else [], tmp_path_factory.mktemp(extra or "bare") / "venv"
            )
        return installations[extra]

    return install_with


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a workflow in YAML and an agent."""
    (tmp_path / "flow.yaml").write_text(FLOW, encoding="utf-8")
    (tmp_path / "agent.py").write_text(AGENT, encoding="utf-8")
    (tmp_path / "secret.key").write_bytes(bytes(32))
    return tmp_path


def test_the_bare_package_runs_graphs_and_their_threads(installed: Install, folder: Path) -> None:
    bare = installed()
    result = bare.run("statewright", "init", "hello", cwd=folder)
    assert result.returncode == 0, result.stderr
    further = (
        ("check", "hello/graph.py"),
        ("draw", "hello/graph.py"),
        ("db", "check"),
        ("db", "migrate"),
        ("schema", "states"),
    )
    more = further if FULL else ()
    for command in (("run", "hello/graph.py", "--input", "name=Ada"), ("threads", "ls"), *more):
        result = bare.run("statewright", *command, cwd=folder)
        assert (result.returncode, result.stderr) == (0, ""), command


MISSING_EXTRAS = [
    ("states", "run flow.yaml"),
    ("states", "check flow.yaml"),
    ("states", "draw flow.yaml"),
    ("states", "chat flow.yaml"),
    ("states", "test flow.yaml cases.json"),
    ("models", "run agent.py --input Hello --model openai:gpt-5"),
    ("models", "chat agent.py --model openai:gpt-5"),
    ("server", "dev agent.py"),
    ("server", "dev agent.py --no-reload"),
    ("server", "serve agent.py"),
    ("client", "runs ls"),
    ("client", "definitions ls"),
    ("crypto", "keys create mine --key-file secret.key"),
]
QUICK = {"run flow.yaml", "chat agent.py --model openai:gpt-5", "dev agent.py", "runs ls"}


@pytest.mark.parametrize(
    ("extra", "command"),
    [pytest.param(*case, marks=[] if case[1] in QUICK else pytest.mark.full) for case in MISSING_EXTRAS],
)
def test_the_error_for_a_missing_library_is_one_line_that_names_the_extra(
    installed: Install, folder: Path, extra: str, command: str
) -> None:
    result = installed().run("statewright", *command.split(), cwd=folder)
    assert result.returncode == 2, result.stderr
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) == 1, result.stderr
    assert f"pip install 'statewright[{extra}]'" in result.stderr


@pytest.mark.parametrize("file", ["hello/graph.py", pytest.param("flow.yaml", marks=pytest.mark.full)])
def test_the_extra_server_serves_a_project(installed: Install, folder: Path, file: str) -> None:
    server = installed("server")
    assert server.run("statewright", "init", "hello", cwd=folder).returncode == 0
    with serving(server, folder, file) as url:
        connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=LONGEST)
        connection.request("GET", "/health")
        assert connection.getresponse().status == 200
        connection.close()
        if file.endswith(".py"):
            started = server.run(
                "statewright", "runs", "start", "graph", "--input", "name=Ada", "--wait", "--url", url, cwd=folder
            )
            assert started.returncode == 0, started.stderr
            assert "That makes 2 greetings." in started.stdout


@pytest.mark.full
def test_the_extra_states_runs_workflows_in_yaml(installed: Install, folder: Path) -> None:
    states = installed("states")
    (folder / "script.json").write_text('{"greet": "Hello, Ada!"}', encoding="utf-8")
    result = states.run("statewright", "run", "flow.yaml", "--script", "script.json", cwd=folder)
    assert (result.returncode, result.stdout) == (0, "Hello, Ada!\n"), result.stderr
    assert states.run("statewright", "schema", "states", cwd=folder).returncode == 0


@pytest.mark.full
@pytest.mark.parametrize("name", ["openai:gpt-5", "anthropic:claude-opus-5", "google:gemini-3"])
def test_the_extra_models_connects_models(installed: Install, folder: Path, name: str) -> None:
    result = installed("models").run("statewright", "run", "agent.py", "-i", "Hello", "--model", name, cwd=folder)
    assert result.returncode == 2
    assert "needs an API key" in result.stderr


PROGRAMS = {
    "client": """
        from statewright.client import Client
        from statewright.errors import ServiceUnreachable
        try:
            Client("http://127.0.0.1:1").runs.list()
        except ServiceUnreachable:
            print("done")
    """,
    "crypto": """
        from statewright.storage.sqlite import SqliteSaver
        with SqliteSaver("sealed.db", key=bytes(32)):
            print("done")
    """,
    "langchain": """
        from langchain_core.language_models import FakeListChatModel
        from statewright import Message
        from statewright.agents import create_agent
        app = create_agent(FakeListChatModel(responses=["done"]), [])
        print(app.invoke({"messages": "Hello"})["messages"][-1].text)
        assert Message("x").to_langchain().content == "x"
    """,
    "mcp": """
        import sys
        from pathlib import Path
        from statewright.agents.mcp import McpServer, McpTools
        Path("server.py").write_text(
            "from mcp.server import MCPServer\\n"
            "server = MCPServer('words')\\n"
            "@server.tool()\\n"
            "def shout(text: str) -> str:\\n"
            "    return text.upper()\\n"
            "server.run()\\n"
        )
        from statewright import ToolCall
        from statewright.agents import create_agent
        from statewright.models import ScriptedModel
        tools = McpTools([McpServer.stdio("words", sys.executable, ["server.py"])]).load()
        app = create_agent(ScriptedModel([ToolCall("1", tools[0].name, {"text": "done"}), "over"]), tools)
        assert "DONE" in app.invoke({"messages": "Hello"})["messages"][-2].text
        print("done")
    """,
    "metrics": """
        from statewright.observe import Metrics
        assert Metrics().render() is not None
        print("done")
    """,
    "otel": """
        import os
        os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"] = "http://127.0.0.1:1"
        os.environ["OTEL_EXPORTER_OTLP_TIMEOUT"] = "1"
        from statewright.observe import tracing_from_environment
        with tracing_from_environment() as tracing:
            assert tracing is not None
        print("done")
    """,
}


@pytest.mark.full
@pytest.mark.parametrize("extra", PROGRAMS)
def test_each_library_extra_runs_the_first_program_of_its_guide(installed: Install, folder: Path, extra: str) -> None:
    result = installed(extra).run("python", "-W", "default", "-c", textwrap.dedent(PROGRAMS[extra]), cwd=folder)
    assert result.stdout.splitlines()[-1:] == ["done"], result.stderr


WALK = """
import importlib, pkgutil, sys
import statewright
from statewright.errors import MissingLibrary

packages = ["statewright", *(
    module.name for module in pkgutil.walk_packages(statewright.__path__, "statewright.") if module.ispkg
)]
for package in packages:
    if package.startswith(("statewright.cli", "statewright.server.", "statewright.workflow.states.")):
        continue  # internal packages of commands, and of packages that are imported themselves
    module = importlib.import_module(package)
    for name in getattr(module, "__all__", ()):
        try:
            getattr(module, name)
        except MissingLibrary as error:
            print(f"{package}.{name}: {error}")
"""


def test_every_public_name_can_be_imported_or_names_its_extra(installed: Install, folder: Path) -> None:
    result = installed().run("python", "-c", WALK, cwd=folder)
    assert result.returncode == 0, result.stderr
    missing = dict(line.split(": ", 1) for line in result.stdout.splitlines())
    of_langchain = {
        f"statewright.langchain.{name}" for name in ("InjectedState", "InjectedStore", "InjectedToolCallId")
    }
    of_langchain |= {"statewright.langchain.MessagesState", "statewright.langchain.ToolRuntime"}
    of_states = {"statewright.workflow.states.Workflow", "statewright.workflow.states.load_workflow"}
    of_postgres = {
        f"statewright.storage.postgres.Postgres{name}" for name in ("Cache", "Database", "Ledger", "Saver", "Store")
    }
    assert missing.keys() == of_langchain | of_states | of_postgres
    for name, message in missing.items():
        extra = "langchain" if name in of_langchain else "postgres" if name in of_postgres else "states"
        assert f"Run `pip install 'statewright[{extra}]'`." in message


@contextmanager
def serving(server: Installation, folder: Path, file: str) -> Iterator[str]:
    """Serve a file in another process, and yield the URL."""
    output = folder / "server.out"
    with output.open("wb") as out:
        process = subprocess.Popen(
            [server.statewright, "dev", file, "--port", "0", "--no-reload"],
            cwd=folder,
            stdout=out,
            stderr=subprocess.STDOUT,
            env=server.environment(),
        )
    try:
        until = time.monotonic() + LONGEST
        while (match := re.search(r"http://127\.0\.0\.1:\d+", output.read_text(encoding="utf-8"))) is None:
            assert process.poll() is None, output.read_text(encoding="utf-8")
            assert time.monotonic() < until
            time.sleep(0.02)
        yield match[0]
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(LONGEST) == 0, output.read_text(encoding="utf-8")
