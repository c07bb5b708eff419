"""The source of a graph: the text in which it was written, and the lines of its nodes.

The text of a workflow in YAML is stored with its version. That of a workflow in JSON is written again from its
definition. That of a graph in Python is the file of its functions, if this process has it, and if they are not spread
over several files: then it is the file with most of them.
"""

from __future__ import annotations

import inspect
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, cast

from statewright.runs import StoredDefinition
from statewright.runtime import CompiledGraph
from statewright.workflow.steps.json_positions import find_positions

MAX_SOURCE: Final = 1_000_000
"""Characters of a source that is returned."""


@dataclass(frozen=True, slots=True)
class Source:
    """The source of a graph."""

    language: Literal["yaml", "json", "python"]
    text: str
    file: str | None
    """The name of the file, without its folder; None for a stored definition."""
    lines: Mapping[str, int]
    """The line of each node, from 1, as far as it is known."""


def source_of(definition: StoredDefinition, app: CompiledGraph) -> Source | None:
    """Return the source of a version of a graph; None if it is not known."""
    match definition.kind:
        case "states":
            text = str(definition.body["yaml"])
            return _cut(Source("yaml", text, None, _lines_of_states(text)))
        case "steps":
            text = json.dumps(definition.body, indent=2, ensure_ascii=False)
            return _cut(Source("json", text, None, _lines_of_steps(text)))
        case _:
            return _python_source(app)


def _cut(source: Source) -> Source | None:
    return source if len(source.text) <= MAX_SOURCE else None


def _lines_of_states(text: str) -> dict[str, int]:
    """Return the lines of the states of a workflow in YAML."""
    from statewright.workflow.states import load_workflow

    return {state.id: state.at.line for state in load_workflow(text).definition.states}


def _lines_of_steps(text: str) -> dict[str, int]:
    """Return the lines of the names of the steps of a workflow in JSON."""
    positions = find_positions(text)
    steps = json.loads(text)["steps"]
    return {step["name"]: positions[f"steps[{index}].name"][0] for index, step in enumerate(steps)}


def _python_source(app: CompiledGraph) -> Source | None:
    places = dict(_places_of_functions(app))
    if not places:
        return None
    (file, _), *_ = Counter(path for path, _ in places.values()).most_common(1)
    try:
        text = Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None
    lines = {name: line for name, (path, line) in places.items() if path == file}
    return _cut(Source("python", text, Path(file).name, lines))


def _places_of_functions(app: CompiledGraph) -> Iterator[tuple[str, tuple[str, int]]]:
    """Yield each node whose function has a file, with the file and the line.

    Functions of Statewright itself, such as those of agents, are left out.
    """
    own = str(Path(__file__).parents[2])
    for name, node in app.graph.nodes.items():
        function = inspect.unwrap(cast("Any", getattr(node.action, "function", node.action)))
        try:
            file = inspect.getsourcefile(function)
            _, line = inspect.findsource(function)
        except (TypeError, OSError):
            continue
        if file is not None and not file.startswith(own):
            yield name, (file, line + 1)
