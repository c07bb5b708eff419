"""Loading the graph that `FILE.py[:GRAPH]` names."""

from __future__ import annotations

from pathlib import Path

import pytest

from statewright import CompiledGraph, StateGraph
from statewright.cli.console.failure import UsageError
from statewright.cli.workflow.load import choose_served_graphs, find_graph, import_target, load, load_graph, load_served
from statewright.cli.workflow.models import NO_MODELS, Models
from statewright.errors import InvalidGraph

HEAD = "from statewright import START, StateGraph\n"
NAMED = "{name} = StateGraph({{}}, name={name!r}).add_node('a', print).add_edge(START, 'a')\n"


def write_graphs(folder: Path, *names: str, file: str = "graphs.py") -> str:
    path = folder / file
    path.write_text(HEAD + "".join(NAMED.format(name=name) for name in names), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(
    ("names", "name", "expected"),
    [
        (["mine"], "", "mine"),
        (["graph", "other"], "", "graph"),
        (["other", "app"], "", "app"),
        (["app", "graph"], "", "graph"),
        (["graph", "other"], ":other", "other"),
        (["mine"], ":mine", "mine"),
    ],
)
def test_the_choice_of_a_graph(folder: Path, names: list[str], name: str, expected: str) -> None:
    assert load_graph(write_graphs(folder, *names) + name).name == expected


def test_a_builder_is_compiled_by_load_but_not_by_find(folder: Path) -> None:
    target = write_graphs(folder, "graph")
    assert isinstance(find_graph(target), StateGraph)
    assert isinstance(load_graph(target), CompiledGraph)


def test_a_compiled_graph_is_loaded_unchanged(flow: Path) -> None:
    graph = find_graph(f"{flow}:asking")
    assert isinstance(graph, CompiledGraph)
    assert graph.checkpointer is not None


def test_an_invalid_builder_is_found_but_not_loaded(flow: Path) -> None:
    assert isinstance(find_graph(f"{flow}:wrong"), StateGraph)
    with pytest.raises(InvalidGraph, match="'bb'"):
        load_graph(f"{flow}:wrong")


def test_a_path_can_be_relative(folder: Path) -> None:
    (folder / "sub").mkdir()
    write_graphs(folder, "graph", file="sub/graphs.py")
    assert load_graph("sub/graphs.py").name == "graph"


def test_a_file_can_import_its_neighbours(folder: Path) -> None:
    (folder / "neighbour_of_graphs.py").write_text("NAME = 'next door'\n", encoding="utf-8")
    text = f"{HEAD}from neighbour_of_graphs import NAME\ngraph = StateGraph({{}}, name=NAME)\n"
    (folder / "graphs.py").write_text(text, encoding="utf-8")
    graph = find_graph("graphs.py")
    assert graph.name == "next door"


def test_a_graph_of_a_module_with_dataclasses_and_future_annotations_is_loaded(folder: Path) -> None:
    text = (
        "from __future__ import annotations\nfrom dataclasses import dataclass\n"
        "from statewright import START, StateGraph\n"
        "@dataclass\nclass State:\n    n: int = 0\n"
        "def up(state: State) -> dict:\n    return {'n': state.n + 1}\n"
        "graph = StateGraph(State).add_node(up).add_edge(START, 'up')\n"
    )
    (folder / "typed.py").write_text(text, encoding="utf-8")
    assert load_graph("typed.py").invoke({"n": 1}) == {"n": 2}


@pytest.mark.parametrize(
    ("content", "name", "message"),
    [
        ("", "", "defines no graph"),
        ("graph = 3\n", "", "defines no graph"),
        ("from statewright import StateGraph\n", "", "defines no graph"),
        ("graph = 3\n", ":graph", "has no graph 'graph'"),
        (HEAD + "graph = StateGraph({})\n", ":grap", "Did you mean 'graph'"),
        (HEAD + "one = StateGraph({})\ntwo = StateGraph({})\n", "", r"defines 2 graphs: one, two.*graphs\.py:NAME"),
        ("def (", "", "cannot be imported: SyntaxError"),
        ("\n\n1 / 0\n", "", "cannot be imported: ZeroDivisionError: division by zero"),
        ("import there_is_no_such_module\n", "", "cannot be imported: ModuleNotFoundError"),
    ],
)
def test_files_without_a_graph_are_refused(folder: Path, content: str, name: str, message: str) -> None:
    (folder / "graphs.py").write_text(content, encoding="utf-8")
    with pytest.raises(UsageError, match=message):
        load_graph("graphs.py" + name)


@pytest.mark.parametrize(
    ("file", "message"), [("none.py", "File 'none.py' does not exist"), ("notes.txt", "not a Python file")]
)
def test_only_existing_python_files_are_loaded(folder: Path, file: str, message: str) -> None:
    (folder / "notes.txt").write_text("", encoding="utf-8")
    with pytest.raises(UsageError, match=message):
        load_graph(file)


def test_a_folder_is_refused(folder: Path) -> None:
    (folder / "graphs.py").mkdir()
    with pytest.raises(UsageError, match=r"'graphs\.py' is a folder"):
        load_graph("graphs.py")


def failing(folder: Path) -> Path:
    (folder / "neighbour_that_fails.py").write_text("def fail():\n    raise ValueError('no luck')\n", encoding="utf-8")
    (folder / "graphs.py").write_text("from neighbour_that_fails import fail\n\n\n\nfail()\n", encoding="utf-8")
    return folder / "graphs.py"


def test_the_failed_line_is_that_of_the_file(folder: Path) -> None:
    with pytest.raises(UsageError, match=r"no luck \(line 5\)"):
        load_graph(str(failing(folder)))


def test_the_failed_line_is_named_for_a_relative_path(folder: Path) -> None:
    with pytest.raises(UsageError, match=r"no luck \(line 5\)"):
        load_graph(failing(folder).name)


AGENTS = """
from statewright.agents import Agent, Network, create_agent
from statewright.models import ScriptedModel

first = Agent("first", model=ScriptedModel(["one"]))
second = Agent("second", model=ScriptedModel(["two"]))
team = Network("team", agents=[first, second], router=lambda: None)

def build(model):
    return create_agent(model, [])

def odd():
    return 3

def failing():
    raise RuntimeError("no luck")
"""


@pytest.fixture
def agents(folder: Path) -> str:
    (folder / "crew.py").write_text(AGENTS, encoding="utf-8")
    return "crew.py"


@pytest.mark.parametrize(("name", "expected"), [("", "team"), (":team", "team"), (":first", "first")])
def test_agents_and_networks_are_loaded(agents: str, name: str, expected: str) -> None:
    loaded = load(agents + name, NO_MODELS)
    assert loaded.network is not None
    assert (loaded.app.name, loaded.network.name) == (expected, expected)
    assert load_graph(agents + name).name == expected


def test_a_module_can_be_named(agents: str) -> None:
    assert load_graph("crew:second").name == "second"


def test_a_function_can_take_a_model_and_return_a_graph(agents: str) -> None:
    loaded = load(f"{agents}:build", Models("openai-chat:x", base_url="http://127.0.0.1:9/v1"))
    assert (loaded.app.name, loaded.network) == ("agent", None)


@pytest.mark.parametrize(
    ("name", "models", "message"),
    [
        ("build", NO_MODELS, "missing a required argument: 'model'"),
        ("odd", NO_MODELS, "returned 3"),
        ("failing", NO_MODELS, "failed: RuntimeError: no luck"),
        ("ode", NO_MODELS, "has no graph 'ode'"),
    ],
)
def test_a_function_that_returns_no_graph_is_refused(agents: str, name: str, models: Models, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        load(f"{agents}:{name}", models)


def test_a_graph_takes_no_model(flow: Path) -> None:
    with pytest.raises(UsageError, match="are chosen in its code"):
        load(f"{flow}:graph", Models("openai-chat:x", base_url="http://127.0.0.1:9/v1"))


MANY = "from statewright import StateGraph\nfrom statewright.agents import Agent\n" + (
    "def made():\n    graph = StateGraph(dict)\n    graph.add_node('a', lambda state: {})\n"
    "    graph.add_edge('__start__', 'a')\n    return graph\n"
)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("one = made()", {"many": "one"}),
        ("builder = made()\none = builder.compile()", {"many": "one"}),
        ("graph = made()\nother = made().compile()", {"many": "graph", "other": "other"}),
        ("one = made()\ntwo = made()", {"one": "one", "two": "two"}),
        ("one = made().compile()\nsame = one", {"many": "one"}),
        ("many = made().compile()\ngraph = made().compile()", {"many": "many", "graph": "graph"}),
        (
            "ann = Agent(name='ann')\nbob = Agent(name='bob')",
            {"ann": "ann", "bob": "bob"},
        ),
        ("ann = Agent(name='ann')\none = made()", {"many": "one"}),
        ("", {}),
    ],
)
def test_the_served_names_of_a_module(folder: Path, text: str, names: dict[str, str]) -> None:
    (folder / "many.py").write_text(f"{MANY}{text}\n", encoding="utf-8")
    assert choose_served_graphs(import_target("many.py")) == names


def test_a_graph_is_served_without_the_default_model(flow: Path) -> None:
    app = load_served("flow.py:graph", import_target("flow.py"), Models(default="openai:gpt-5"))
    assert app.invoke({"n": 2}) == {"n": 4}
