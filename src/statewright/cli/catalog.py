"""What a project serves, collected: its modules imported, its files read, and everything that is wrong told at once."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any, Final, cast

from statewright.cli.failure import WrongUse, told
from statewright.cli.importing import module_in
from statewright.cli.load import load_served, served_names
from statewright.cli.models import NO_MODELS, Models, PinnedModel
from statewright.cli.printing import warn
from statewright.errors import InvalidGraph, Problem, StatewrightError, WorkflowError, suggestion
from statewright.models import ChatModel
from statewright.project import Project, ServedGraph, load_project
from statewright.project.lines import Keys, written_path
from statewright.service import Catalog
from statewright.workflow.states.resources.chat_models import ModelNames
from statewright.workflow.steps import read_definition, registered
from statewright.workflow.steps.llm.models import qualify_model_name

_KINDS: Final = (".py", ".yaml", ".yml", ".json")


def project_of(target: str | None) -> Project:
    """The project of the current folder; with a file, the same serving nothing but that. Raises WrongUse for none."""
    if target is None:
        project = load_project(Path.cwd())
        if project.file is None:
            raise WrongUse(
                "There is no statewright.toml in this folder or above it. Write one that lists what is served, "
                "or name a file: FILE.py, FILE.yaml or FILE.json."
            )
        return project
    file, _, name = target.partition(":")
    path = Path(file)
    if path.suffix.lower() not in _KINDS or not path.is_file():
        problem = f"{file!r} does not end in .py, .yaml or .json" if path.is_file() else f"There is no file {file!r}"
        raise WrongUse(f"{problem}. Give a file with a graph in Python, states in YAML, or steps in JSON.")
    return _narrowed(load_project(path), path.resolve(), name)


def _narrowed(project: Project, path: Path, name: str) -> Project:
    """The project as if it listed one file."""
    if path.suffix != ".py":
        graphs = {path.stem: ServedGraph(name=path.stem, file=path)}
        return replace(project, graphs=graphs, workflows={})
    module = module_in(path.parent, path.name)
    names = {path.stem: name} if name else served_names(module)
    graphs = {one: ServedGraph(name=one, target=f"{path}:{key}") for one, key in names.items()}
    return replace(project, graphs=graphs, workflows={}, handler_modules=(*project.handler_modules, path.stem))


def catalog_of(project: Project, models: Models = NO_MODELS) -> Catalog:
    """What a project serves. Its modules are imported, with its folder on `sys.path`.

    `models` may name one for everybody, which counts before all that files say. Raises WorkflowError with everything
    that is wrong, and WrongUse for a model that cannot be connected.
    """
    return _Collector(project, models).collected()


def everybody_of(models: Models, project: Project) -> ChatModel | None:
    """The model that the command line names for everybody. Raises WrongUse if it cannot be connected."""
    return PinnedModel(models.connect(models.everybody, project)) if models.everybody is not None else None


class _Collector:
    """Fills a catalog, and notes what is wrong on the way."""

    def __init__(self, project: Project, models: Models) -> None:
        self._project = project
        self._models = models
        self._problems: list[Problem] = []
        self._modules: dict[str, ModuleType] = {}
        everybody = everybody_of(models, project)
        names = ModelNames(project.models, project.defaults.provider)
        self._catalog = Catalog(
            handlers=registered.allowing(*project.handler_modules),
            models=lambda name: cast("ChatModel", everybody or _step_model(name, names)),
            tools=project.tool_registry().some(project.functions),
            project=project,
            states_models={"default": everybody} if everybody is not None else None,
        )

    def collected(self) -> Catalog:
        project = self._project
        for name in project.handler_modules:
            self._noting(("handlers", "modules"), lambda name=name: self._module(name))
        # Modules first: they may register the handlers that files name.
        for entry in sorted(project.graphs.values(), key=lambda one: one.file is not None):
            self._noting(("graphs", entry.name), lambda entry=entry: self._serve(entry))
        for one in project.workflows.values():
            entry = ServedGraph(name=one.name, file=one.file, description=one.description)
            self._noting(("workflows", one.name), lambda entry=entry: self._serve(entry))
        self._problems += self._unknown_graphs()
        if self._problems:
            raise WorkflowError(self._problems, source=str(project.file or project.folder))
        return self._catalog

    def _noting(self, keys: Keys, work: Callable[[], object]) -> None:
        """Do something, and note under which key of the project it went wrong."""
        entry = self._project.graphs.get(keys[1])
        line, column = entry.at if entry is not None and keys[0] == "graphs" else (0, 0)
        try:
            work()
        except (StatewrightError, WrongUse, OSError, UnicodeDecodeError) as error:
            self._problems += [Problem(written_path(keys), line, column, said) for said in _sentences(error)]

    def _serve(self, entry: ServedGraph) -> None:
        if entry.file is not None:
            self._serve_file(entry, entry.file)
        elif entry.target is not None:
            module = self._module(entry.target.rpartition(":")[0] or entry.target)
            app = load_served(entry.target, module, self._models)
            self._catalog.serve(
                entry.name,
                app,
                description=entry.description or "",
                version=entry.version,
                on_failure=entry.on_failure,
            )

    def _module(self, named: str) -> ModuleType:
        if named not in self._modules:
            self._modules[named] = module_in(self._project.folder, named)
        return self._modules[named]

    def _serve_file(self, entry: ServedGraph, file: Path) -> None:
        if is_of_steps(file):
            if entry.description is not None:
                raise WrongUse(f"{file.name} has its description itself. Leave the one of the project away.")
            definition = read_definition(file.read_bytes(), source=str(file))
            self._catalog.serve_steps(definition, name=entry.name, on_failure=entry.on_failure)
            return
        from statewright.workflow.states import load_workflow
        from statewright.workflow.states.resources.missing import missing_resources

        workflow = load_workflow(file)
        missing = () if self._catalog.states_models else missing_resources(workflow.definition, self._project)
        for warning in (*workflow.problems, *missing):
            warn(f"warning: {file}: {warning}")
        text = file.read_text(encoding="utf-8")
        description = entry.description or ""
        self._catalog.serve_states(text, name=entry.name, description=description, on_failure=entry.on_failure)

    def _unknown_graphs(self) -> Iterator[Problem]:
        """Graphs that are to be started on failure, and that there are not."""
        known = [*self._project.graphs, *self._project.workflows]
        for entry in self._project.graphs.values():
            if entry.on_failure is not None and entry.on_failure not in known:
                advice = suggestion(entry.on_failure, known, noun="Graphs")
                path = written_path(("graphs", entry.name, "on_failure"))
                yield Problem(path, *entry.at, f"There is no graph {entry.on_failure!r}.", advice)


def is_of_steps(file: Path) -> bool:
    """Whether a file is a workflow of steps: JSON with a list of them. States may be written in JSON too."""
    if file.suffix.lower() != ".json":
        return False
    try:
        value = json.loads(file.read_bytes())
    except (ValueError, RecursionError):
        return True
    return not (isinstance(value, dict) and "states" in value and "steps" not in value)


def _step_model(name: str, names: ModelNames) -> Any:
    """The model that an llm step names, connected when it is asked first; None if nobody knows it."""
    return names.find(name if names.is_whole(name) else qualify_model_name(name) or name)


def _sentences(error: Exception) -> Sequence[str]:
    """What an error says; each of its problems, if it has several."""
    if isinstance(error, WorkflowError):
        return [f"{error.source}: {problem}" for problem in error.problems]
    if isinstance(error, InvalidGraph):
        return [str(problem) for problem in error.problems]
    return [told(error) if isinstance(error, StatewrightError) else str(error)]
