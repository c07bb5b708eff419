"""Loading of a target, the argument FILE of a command, as a compiled graph.

A target is a workflow file, or `FILE.py[:NAME]` or `MODULE[:NAME]`, where NAME is a graph, an agent, a network, or a
function that returns one of these.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import json
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from statewright.checkpoint import InMemorySaver
from statewright.cli.console.failure import UsageError
from statewright.cli.console.printing import warn
from statewright.cli.workflow.inputs import read_file
from statewright.cli.workflow.models import NO_MODELS, Models, connect_assistant_models
from statewright.errors import Problem, suggestion
from statewright.models import ChatModel
from statewright.project import Project, load_project
from statewright.runtime import CompiledGraph, StateGraph

if TYPE_CHECKING:
    from statewright.agents import Agent, Network
    from statewright.workflow.states import Workflow

    GraphSource = CompiledGraph | StateGraph | Agent | Network[Any]
    """An object of a module from which a compiled graph is made."""

DEFAULT_NAMES: Final = ("graph", "app", "network", "agent")
"""Names for the main graph of a module that defines several. The first of these names that exists is chosen."""
_WORKFLOW_SUFFIXES: Final = (".yaml", ".yml", ".json")


class LoadedGraph(NamedTuple):
    """The compiled graph of a target."""

    app: CompiledGraph
    network: Network[Any] | None = None
    """The network from which the graph was compiled, if any."""


def load_graph(target: str) -> CompiledGraph:
    """Load the graph of a target for inspection, without connecting models.

    Raises InvalidGraph for an invalid graph, WorkflowError for an invalid workflow, and otherwise UsageError.
    """
    return _load_workflow(target) if is_workflow(target) else _compile(find_graph(target), None, target).app


def load_for_check(target: str) -> tuple[CompiledGraph, Sequence[Problem]]:
    """Load a graph like `load_graph`, and report the resources of a workflow that its project does not define."""
    if not is_workflow(target):
        return load_graph(target), ()
    workflow, project = _read_workflow(target)  # reports a missing library before the import below would fail
    from statewright.workflow.states.resources.missing import find_missing_resources

    return workflow.compile(project=project), find_missing_resources(workflow.definition, project)


def find_graph(target: str) -> GraphSource:
    """Return the object that a target names, without compiling a graph from it."""
    return _resolve(target, NO_MODELS)[0]


def load(target: str, models: Models, script: Path | None = None, max_items: int | None = None) -> LoadedGraph:
    """Load the graph of a target to run it, with the models of the command line.

    `script` and `max_items` only apply to workflow files. Raises InvalidGraph for an invalid graph, WorkflowError for
    an invalid workflow, and otherwise UsageError, e.g. for an invalid script or a model that cannot be connected.
    """
    if is_workflow(target):
        return LoadedGraph(_load_workflow(target, models, script, max_items))
    source, models_to_assign = _resolve(target, models)
    if models_to_assign != NO_MODELS and isinstance(source, CompiledGraph | StateGraph):
        raise UsageError(
            f"{target} is a graph whose models are chosen in its code. --model only applies to workflows in YAML, "
            f"agents, networks, and functions with a parameter `model` that return a graph."
        )
    return _compile(source, models_to_assign, target)


def list_targets(target: str) -> list[str]:
    """Return a target for each graph and network in a file, or for each agent if there are none.

    A target that already names an object is returned as it is, and so is the target of a file without any of these.
    Raises UsageError for a file that cannot be imported.
    """
    module = import_target(target.partition(":")[0])
    if ":" in target:
        return [target]
    names = _find_distinct(module, _is_graph) or _find_distinct(module, _is_agent)
    return [f"{target}:{name}" for name in names] or [target]


def load_served(target: str, module: ModuleType, models: Models) -> CompiledGraph:
    """Load the graph of a target from its module, which is already imported, to serve the graph.

    `models` are the models for agents that have none. Raises UsageError and InvalidGraph.
    """
    source, models_to_assign = _resolve_in(vars(module), target, models)
    return _compile(source, models_to_assign, module.__file__ or target).app


def choose_served_graphs(module: ModuleType) -> dict[str, str]:
    """Choose the graphs to serve from a module, as a mapping from their served names to their names in the module.

    These are the compiled graphs, the networks, and the graph builder with a default name. If there are none, all graph
    builders are served; if there are no graph builders either, all agents. If one of the chosen objects has a default
    name, or there is only one, it is served under the name of the module.
    """
    graphs = _find_distinct(module, _is_graph)
    default_name = next((name for name in DEFAULT_NAMES if name in graphs), None)
    preferred = [name for name, graph in graphs.items() if name == default_name or not isinstance(graph, StateGraph)]
    names = preferred or list(graphs) or list(_find_distinct(module, _is_agent))
    main_name = next((name for name in DEFAULT_NAMES if name in names), names[0] if len(names) == 1 else None)
    if module.__name__ in names:  # another object is already served under the name of the module
        main_name = None
    return {module.__name__ if name == main_name else name: name for name in names}


def _find_distinct(module: ModuleType, matches: Callable[[object], bool]) -> dict[str, Any]:
    """Return the values of a module that match, by name. A value that has several names is listed under the first."""
    by_id: dict[int, tuple[str, Any]] = {}
    for name, value in vars(module).items():
        if matches(value):
            by_id.setdefault(id(value), (name, value))
    return dict(by_id.values())


def _compile(source: GraphSource, models: Models | None, target: str) -> LoadedGraph:
    """Compile the object that a target names. Agents and networks get `models`; with None, no model is connected."""
    if not isinstance(source, CompiledGraph | StateGraph):
        from statewright.cli.workflow.agents import prepare_network

        network = prepare_network(source, models, Path(target.partition(":")[0]))
        return LoadedGraph(network.compile(), network)
    return LoadedGraph(source.compile() if isinstance(source, StateGraph) else source)


def has_durable_saver(app: CompiledGraph) -> bool:
    """Return True if the graph was compiled with a saver that outlives the process."""
    return app.checkpointer is not None and not isinstance(app.checkpointer, InMemorySaver)


def _resolve(target: str, models: Models) -> tuple[GraphSource, Models]:
    """Return the object that a target names, and the models that are still to be assigned to its agents.

    If the target names a function, the function is called, and may take the default model as an argument. If the target
    has no name, the only graph or network of the file is chosen, or the one with a default name; if the file has none,
    an agent is chosen in the same way.
    """
    return _resolve_in(vars(import_target(target.partition(":")[0])), target, models)


def _resolve_in(attributes: Mapping[str, Any], target: str, models: Models) -> tuple[GraphSource, Models]:
    file, _, name = target.partition(":")
    graphs: dict[str, Any] = {key: value for key, value in attributes.items() if _is_graph(value)}
    agents = {key: value for key, value in attributes.items() if _is_agent(value)}
    if not name:
        return _choose_graph(file, graphs or agents), models
    candidates = {**graphs, **agents}
    if name not in candidates and inspect.isfunction(attributes.get(name)):
        return _call_factory(target, attributes[name], models)
    if name not in candidates:
        raise UsageError(f"{file} has no graph {name!r}. {suggestion(name, candidates, noun='Graphs')}")
    return candidates[name], models


def _choose_graph(file: str, graphs: Mapping[str, Any]) -> GraphSource:
    if not graphs:
        raise UsageError(
            f"{file} defines no graph. Assign a StateGraph or a compiled graph to a module-level name, or name a "
            f"function that returns one: {file}:NAME."
        )
    defaults = [graphs[key] for key in DEFAULT_NAMES if key in graphs]
    if len(graphs) > 1 and not defaults:
        names = ", ".join(sorted(graphs))
        raise UsageError(f"{file} defines {len(graphs)} graphs: {names}. Choose one: {file}:NAME.")
    return defaults[0] if defaults else next(iter(graphs.values()))


def _is_graph(value: object) -> bool:
    return isinstance(value, CompiledGraph | StateGraph) or _is_agents_instance(value, "Network")


def _is_agent(value: object) -> bool:
    return _is_agents_instance(value, "Agent")


def _is_agents_instance(value: object, class_name: str) -> bool:
    """Return True for an instance of a class of `statewright.agents`, without the slow import of that package."""
    package = sys.modules.get("statewright.agents")  # if it is not imported, there are no instances
    return package is not None and isinstance(value, getattr(package, class_name))


def _call_factory(target: str, function: Any, models: Models) -> tuple[GraphSource, Models]:
    """Call a function that returns a graph, with the default model if the function has a parameter `model`."""
    signature, arguments = inspect.signature(function), dict[str, ChatModel]()
    if models.default is not None and "model" in signature.parameters:
        arguments["model"] = models.connect(models.default)
    try:
        signature.bind(**arguments)
    except TypeError as error:
        raise UsageError(
            f"The function {target} cannot be called: {error}. It may require no argument but `model`, which --model "
            f"provides."
        ) from None
    try:
        result = function(**arguments)
    except Exception as error:
        raise UsageError(f"The function {target} failed: {type(error).__name__}: {error}") from error
    if not (_is_graph(result) or _is_agent(result)):
        raise UsageError(f"The function {target} returned {result!r}. Return a graph, an agent or a network.")
    return result, NO_MODELS if arguments else models


# -- workflow files


def is_workflow(target: str) -> bool:
    """Return True for a workflow file, as opposed to Python code with a graph."""
    return Path(target).suffix.lower() in _WORKFLOW_SUFFIXES


def _load_workflow(
    target: str, models: Models = NO_MODELS, script: Path | None = None, max_items: int | None = None
) -> CompiledGraph:
    workflow, project = _read_workflow(target)
    outputs = read_script(script) if script is not None else None
    chat_models = connect_assistant_models(workflow.definition, project, models)
    return workflow.compile(models=chat_models, script=outputs, project=project, max_items=max_items)


def _read_workflow(target: str) -> tuple[Workflow, Project]:
    """Load a workflow file and its project, and print their warnings."""
    from statewright.workflow.states import load_workflow  # needs the extra `states`

    path = Path(target)
    if is_steps_file(path):
        raise UsageError(
            f"{target!r} is a step workflow, which only runs on a server. Check it with `statewright definitions "
            f"check {target}`, or serve it with `statewright dev {target}`."
        )
    workflow, project = load_workflow(path), load_project(path)
    for warning in (*workflow.problems, *project.warnings):
        warn(f"warning: {target}: {warning}")
    return workflow, project


def is_steps_file(path: Path, *, default: bool = False) -> bool:
    """Return True if a file contains a step workflow in JSON, and False if it contains a workflow of states.

    Return `default` if the file is not valid JSON, or if it has both of the keys `steps` and `states`, or neither. The
    default decides which of the two loaders reports the problem.
    """
    if path.suffix.lower() != ".json":
        return False
    try:
        document: object = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return default
    is_steps, is_states = (isinstance(document, dict) and key in document for key in ("steps", "states"))
    return default if is_steps == is_states else is_steps


def read_script(path: Path) -> dict[str, Any]:
    """Read the scripted outputs of states from a JSON file. Raises UsageError."""
    text = read_file(path, "script")
    try:
        script: object = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"The script {str(path)!r} is not valid JSON: {error}. Use {{STATE: OUTPUT}}.") from error
    if not isinstance(script, dict):
        raise UsageError(f"The script {str(path)!r} is not a JSON object. Use {{STATE: OUTPUT}}.")
    return script  # pyright: ignore[reportUnknownVariableType]


# -- importing files and modules


def import_target(name: str) -> ModuleType:
    """Import a file by its path, or a module by its name.

    A file can import other modules in its folder; a module is also searched for in the current folder. A file that has
    already been imported is not executed again. Raises UsageError, which names the line at which the import failed.
    """
    path = Path(name)
    if not path.exists() and path.suffix != ".py" and all(part.isidentifier() for part in name.split(".")):
        sys.path.insert(0, str(Path.cwd()))
        return _import(lambda: importlib.import_module(name), path)
    if not path.is_file():
        problem = f"{str(path)!r} is a folder" if path.is_dir() else f"File {str(path)!r} does not exist"
        raise UsageError(f"{problem}. Pass the path of a Python file that defines a graph.")
    if path.suffix != ".py":
        raise UsageError(f"{str(path)!r} is not a Python file. Pass a file that ends in .py.")
    sys.path.insert(0, str(path.resolve().parent))
    return _import(lambda: _import_file(path), path)


def import_from_folder(folder: Path, name: str) -> ModuleType:
    """Import a module of a project, by its name or as a `file.py` relative to the project folder. Raises UsageError."""
    if name.endswith(".py"):
        return import_target(str(folder / name))
    sys.path.insert(0, str(folder.resolve()))
    return _import(lambda: importlib.import_module(name), Path(name))


def _import_file(path: Path) -> ModuleType:
    loaded_module = sys.modules.get(path.stem)
    if loaded_module is not None and Path(getattr(loaded_module, "__file__", None) or "").resolve() == path.resolve():
        return loaded_module
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None  # because the file ends in .py
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(path.stem, None)  # a partly executed module is removed, as `import` does
        raise
    return module


def _import(load_module: Callable[[], ModuleType], path: Path) -> ModuleType:
    """Call a function that imports a module, and turn its errors into UsageError."""
    try:
        return load_module()
    except Exception as error:
        # True if the module itself or its package was not found, rather than a module that it imports.
        if isinstance(error, ModuleNotFoundError) and f"{path}.".startswith(f"{error.name}."):
            raise UsageError(
                f"{str(path)!r} is neither a file nor a module. Pass the path of a Python file."
            ) from error
        raise UsageError(
            f"{path} cannot be imported: {type(error).__name__}: {error}{_format_failed_line(error, path)}"
        ) from error


def _format_failed_line(error: Exception, path: Path) -> str:
    """Return ` (line N)` for the line of the file at which its import failed; empty if the line is unknown."""
    if isinstance(error, SyntaxError):  # its message names the line
        return ""
    full_path = path.resolve()
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename) == full_path]
    return f" (line {lines[-1]})" if lines else ""
