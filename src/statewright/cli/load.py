"""`FILE.py[:graph]` as a compiled graph."""

from __future__ import annotations

import importlib.util
import sys
import traceback
from copy import copy
from pathlib import Path
from types import ModuleType

from statewright.checkpoint import Checkpointer, InMemorySaver
from statewright.cli.failure import WrongUse
from statewright.cli.workflow import is_workflow, load_app
from statewright.errors import suggestion
from statewright.runtime import CompiledGraph, StateGraph

USUAL_NAMES = ("graph", "app")
Found = CompiledGraph | StateGraph


def load_graph(target: str) -> CompiledGraph:
    """The graph of a workflow file, or that `FILE.py` or `FILE.py:name` means.

    Raises WrongUse, InvalidGraph for a graph that is wrong, and WorkflowError for a workflow.
    """
    if is_workflow(target):
        return load_app(target)
    found = find_graph(target)
    return found.compile() if isinstance(found, StateGraph) else found


def keeps_threads(app: CompiledGraph) -> bool:
    """Whether a graph was compiled with a saver that outlives the process."""
    return app.checkpointer is not None and not isinstance(app.checkpointer, InMemorySaver)


def saved_in(app: CompiledGraph, saver: Checkpointer) -> CompiledGraph:
    """The same graph with its threads in another saver, which is told what the state holds."""
    same = copy(app)
    same.checkpointer = saver
    saver.allow(app.program.stored_types)
    return same


def find_graph(target: str) -> Found:
    """The same, as it stands in the file: a builder is not compiled."""
    file, _, name = target.partition(":")
    graphs = {key: one for key, one in vars(_module(Path(file))).items() if isinstance(one, CompiledGraph | StateGraph)}
    if name:
        if name not in graphs:
            raise WrongUse(f"{file} has no graph {name!r}. " + suggestion(name, graphs, noun="Graphs"))
        return graphs[name]
    if not graphs:
        raise WrongUse(f"{file} holds no graph. Assign a StateGraph, or what compile() gives, to a name in it.")
    usual = [graphs[key] for key in USUAL_NAMES if key in graphs]
    if len(graphs) > 1 and not usual:
        raise WrongUse(f"{file} holds {len(graphs)} graphs: {', '.join(sorted(graphs))}. Say which: {file}:NAME.")
    return usual[0] if usual else next(iter(graphs.values()))


def _module(path: Path) -> ModuleType:
    """The file, imported as a module that can import its neighbours."""
    if not path.is_file():
        raise WrongUse(f"There is no file {str(path)!r}. Give the path of a Python file that holds a graph.")
    if path.suffix != ".py":
        raise WrongUse(f"{str(path)!r} is no Python file. Give a file that ends in .py.")
    sys.path.insert(0, str(path.resolve().parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None  # it is a file that ends in .py
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise WrongUse(f"{path} cannot be imported: {type(error).__name__}: {error}{_where(error, path)}") from error
    return module


def _where(error: Exception, path: Path) -> str:
    """The line of the file at which importing it failed."""
    if isinstance(error, SyntaxError):
        return ""
    own = path.resolve()
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename) == own]
    return f" (line {lines[-1]})" if lines else ""
