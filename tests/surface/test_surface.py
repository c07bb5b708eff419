"""The public names and the direction of imports do not change unnoticed."""

from __future__ import annotations

import ast
import importlib
import inspect
import subprocess
import sys
from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import TypeGuard

import pytest
from tests.surface.http_surface import http_surface

import statewright
from statewright import CompiledGraph, StateGraph

SOURCE = Path(statewright.__file__).parent
PUBLIC_NAMES = [
    "get_stream_writer",
    "get_store",
    "get_runtime",
    "get_config",
    "wait_for_event",
    "sleep",
    "task",
    "entrypoint",
    "InMemoryCache",
    "TimeoutPolicy",
    "RetryPolicy",
    "RateLimit",
    "CircuitBreaker",
    "CachePolicy",
    "Budget",
    "AnyValue",
    "AppendReducer",
    "Command",
    "CompiledGraph",
    "END",
    "Ephemeral",
    "EphemeralReducer",
    "GraphBuilder",
    "InMemorySaver",
    "InMemoryStore",
    "Instrument",
    "Interrupt",
    "IsLastStep",
    "Message",
    "MessagesState",
    "MessagesStateGraph",
    "NodeError",
    "Overwrite",
    "OverwriteReducer",
    "REMOVE_ALL_MESSAGES",
    "RemainingSteps",
    "RemoveMessage",
    "RunControl",
    "Runtime",
    "START",
    "STOP",
    "Send",
    "StateGraph",
    "StateSchema",
    "StatewrightError",
    "ToolCall",
    "ToolResult",
    "Topic",
    "Untracked",
    "add_messages",
    "append",
    "interrupt",
    "overwrite",
    "request_approval",
]
LAYERS = [
    {
        *(
            "errors",
            "extras",
            "ids",
            "clock",
            "data",
            "text",
            "terminal_text",
            "messages",
            "langchain_forms",
        ),
        *("events", "futures", "async_futures", "redaction", "http"),
    },
    {"channels"},
    {"langchain"},
    {"serde"},
    {"checkpoint", "store", "cache", "runs"},
    {"state"},
    {"graph", "executors"},
    {"runtime"},
    {"storage", "models"},
    {"agents"},
    {"workflow"},
    {"project"},
    {"service", "observe", "api"},
    {"client"},
    {"server"},
    {"cli"},
]
LAYER = {name: level for level, names in enumerate(LAYERS) for name in names}


def test_the_package_exports_exactly_the_public_names() -> None:
    assert sorted(statewright.__all__) == sorted(PUBLIC_NAMES)
    assert all(hasattr(statewright, name) for name in PUBLIC_NAMES)


def test_type_checkers_and_programs_see_the_same_exports() -> None:
    """The literal `__all__`, the imports under TYPE_CHECKING and what is loaded lazily name the same objects."""
    tree = ast.parse((SOURCE / "__init__.py").read_text(encoding="utf-8"))
    exported = next(ast.literal_eval(node.value) for node in tree.body if _assigns(node, "__all__"))
    guard = next(node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    imports = [node for node in guard.body if isinstance(node, ast.ImportFrom)]
    homes = {alias.asname or alias.name: node.module for node in imports for alias in node.names}
    assert set(homes) == set(exported) == set(dir(statewright)) - {"__version__"}
    for name, home in homes.items():
        assert getattr(importlib.import_module(str(home)), name) is getattr(statewright, name)


def _assigns(node: ast.stmt, name: str) -> TypeGuard[ast.Assign]:
    return isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == [name]


@pytest.mark.parametrize(
    "package",
    [
        "channels",
        "langchain",
        "checkpoint",
        "store",
        "cache",
        "state",
        "graph",
        "graph.draw",
        "executors",
        "runtime",
        "storage.sqlite",
        "models",
        "models.providers",
        "agents",
        "agents.mcp",
        "agents.memory",
        "agents.prebuilt",
        "testing",
        "runs",
        "runs.records",
        "service",
        "service.webhooks",
        "service.schedules",
        "service.access",
        "observe",
        "redaction",
        "http",
        "client",
        "server",
        "workflow.states",
        "workflow.steps",
    ],
)
def test_every_name_in_all_of_a_package_exists(package: str) -> None:
    module = importlib.import_module(f"statewright.{package}")
    assert all(hasattr(module, name) for name in module.__all__)


def test_compile_and_invoke_keep_their_signatures() -> None:
    assert list(inspect.signature(StateGraph.compile).parameters)[1:] == [
        "checkpointer", "cache", "store", "interrupt_before", "interrupt_after", "debug", "name", "strict",
        "unknown_keys", "validate", "budget", "keep_calls", "changed_questions", "sibling_grace", "instruments",
        "clock", "lease", "executors",
    ]  # fmt: skip
    for method in (CompiledGraph.invoke, CompiledGraph.ainvoke):
        parameters = ["input", "config", "stream_mode", "version", "options"]
        assert list(inspect.signature(method).parameters)[1:] == parameters


def test_the_http_api_changes_only_on_purpose() -> None:
    assert http_surface() == (Path(__file__).parent / "http_surface.txt").read_text(encoding="utf-8")


def test_importing_the_package_loads_few_modules() -> None:
    code = "import sys, statewright; print(len(sys.modules), *sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True)
    count, *names = done.stdout.split()
    assert int(count) <= 120
    assert not {"asyncio", "pydantic", "typer", "rich"} & set(names)


SLOW = {"asyncio", "hashlib", "pydantic", "ssl", "subprocess", "tempfile", "typing_extensions"}
LOADED = """
import sys
before = set(sys.modules)
from typing import TypedDict

class Count(TypedDict):
    n: int

{program}
print(*sys.modules.keys() - before)
"""
RUN = "assert graph.add_node('a', lambda _: {'n': 1}).add_edge('__start__', 'a').compile().invoke({'n': 0}) == {'n': 1}"


@pytest.mark.parametrize(
    ("program", "unwanted"),
    [
        ("from statewright import StateGraph", SLOW | {"pathlib", "socket", "statewright.store"}),
        (f"from statewright import StateGraph; graph = StateGraph(Count); {RUN}", SLOW | {"statewright.store"}),
        ("from statewright.storage.sqlite import SqliteSaver", SLOW | {"importlib.resources", "socket"}),
        ("from statewright.client import Client", {"asyncio", "httpx", "pydantic", "ssl", "statewright.runtime"}),
        ("from statewright.agents import Agent", {"httpx", "mcp", "pydantic_ai", "statewright.storage", "yaml"}),
    ],
)
def test_a_program_loads_only_what_it_needs(program: str, unwanted: set[str]) -> None:
    code = LOADED.format(program=program)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = unwanted & set(done.stdout.split())
    assert not loaded


def _modules_by_name() -> dict[str, list[Path]]:
    """Return the modules that have a layer, by their top-level package or module."""
    modules: dict[str, list[Path]] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        name = path.relative_to(SOURCE).with_suffix("").parts[0]
        if name in LAYER:
            modules.setdefault(name, []).append(path)
    return modules


MODULES = _modules_by_name()


def test_every_name_of_a_layer_exists() -> None:
    assert MODULES.keys() == LAYER.keys()


@pytest.mark.parametrize("name", MODULES)
def test_imports_lead_to_lower_layers(name: str) -> None:
    for path in MODULES[name]:
        for imported in _imported(path):
            target = (imported.split(".")[1:2] or [name])[0]
            if path.name != "__init__.py":
                assert imported != f"statewright.{name}", f"{path} imports the package that contains it"
            assert LAYER.get(target, 0) <= LAYER[name], f"{path} imports {imported} of a higher layer"
            is_in_same_layer = target != name and LAYER.get(target) == LAYER[name] > 0
            assert not is_in_same_layer, f"{path} imports {imported} of the same layer"


def _imported(path: Path) -> list[str]:
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    modules = [node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module is not None]
    return [name for name in modules if name.startswith("statewright")]


def test_no_modules_import_each_other_not_even_for_types() -> None:
    modules = {_module_name(path): path for path in SOURCE.rglob("*.py")}
    try:
        TopologicalSorter({name: _imported_modules(name, modules) for name in modules}).prepare()
    except CycleError as error:
        pytest.fail(" imports ".join(reversed(error.args[1])))


def _module_name(path: Path) -> str:
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts).removesuffix(".__init__")


def _imported_modules(name: str, modules: Mapping[str, Path]) -> set[str]:
    """Return the modules that a module imports: at its top, in its functions, and for types."""
    imports = [
        node
        for node in ast.walk(ast.parse(modules[name].read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and node.module is not None
    ]
    pairs = {(node.module, f"{node.module}.{alias.name}") for node in imports for alias in node.names}
    return {full if full in modules else module for module, full in pairs} & modules.keys() - {name}
