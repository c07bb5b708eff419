"""`statewright init`, which creates an example project, and `statewright schema`, for editors of YAML workflows."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Literal

import typer

from statewright.cli.console.failure import UsageError, report_os_errors
from statewright.cli.console.printing import say
from statewright.cli.console.values import to_json

_GRAPH = '''"""A loop: greet twice, then stop."""

import operator
from typing import Annotated, Literal, TypedDict

from statewright import START, StateGraph


class State(TypedDict, total=False):
    name: str
    lines: Annotated[list[str], operator.add]


def greet(state: State) -> State:
    return {"lines": [f"Hello, {state.get('name', 'world')}!"]}


def enough(state: State) -> Literal["greet", "close"]:
    return "greet" if len(state["lines"]) < 2 else "close"


def close(state: State) -> State:
    return {"lines": [f"That makes {len(state['lines'])} greetings."]}


graph = StateGraph(State)
graph.add_node("greet", greet)
graph.add_node("close", close)
graph.add_edge(START, "greet")
graph.add_conditional_edges("greet", enough)
graph.set_finish_point("close")
'''

_TEST = """from graph import graph


def test_it_greets_twice() -> None:
    result = graph.compile().invoke({"name": "Ada"})
    assert result["lines"] == ["Hello, Ada!", "Hello, Ada!", "That makes 2 greetings."]
"""

_README = """# A graph

`graph.py` defines a graph that greets twice, and `test_graph.py` tests it. `statewright.toml` names the graph for
servers and workers.

    statewright run graph.py --input name=Ada
    statewright draw graph.py
    statewright check graph.py
    python -m pytest

`statewright dev` serves it, and reloads it on changes.
"""

_PROJECT = """[graphs]                        # those that servers and workers offer as durable runs
graph = "graph.py:graph"
"""

FILES = {"graph.py": _GRAPH, "test_graph.py": _TEST, "README.md": _README, "statewright.toml": _PROJECT}


def init(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="The folder of the project.")] = Path("."),
    force: Annotated[bool, typer.Option("--force", help="Replace existing files.")] = False,
) -> None:
    """Create a small example project: a graph, its test, and a project file with which it can be served."""
    existing_files = [name for name in FILES if (folder / name).exists()]
    if existing_files and not force:
        raise UsageError(
            f"{str(folder)!r} already contains {', '.join(existing_files)}. Pass --force to replace existing files."
        )
    with report_os_errors(f"The project cannot be written to {str(folder)!r}"):
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in FILES.items():
            (folder / name).write_text(content, encoding="utf-8")
    command = shlex.join(["statewright", "run", str(folder / "graph.py"), "--input", "name=Ada"])
    # The current folder, in which `dev` looks for the project file, may be another one.
    enter = "" if folder == Path(".") else f"{shlex.join(['cd', str(folder)])} && "
    say(f"Created {', '.join(FILES)}. Run the graph with:\n  {command}\nServe it with:\n  {enter}statewright dev")


# -- schema


def schema(
    language: Annotated[Literal["states"], typer.Argument(metavar="LANGUAGE", help="`states` for workflows in YAML.")],
) -> None:
    """Print the JSON Schema of a workflow language, for completion and validation in editors."""
    # Imported here, so that `init` works without the libraries of the extra `states`.
    from statewright.workflow.states.language.json_schema import language_schema

    say(to_json(language_schema()))
