"""Building the catalog of a project: its modules are imported, its files read, and all problems reported together."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any, Final, cast

from statewright.cli.console.failure import UsageError, format_error
from statewright.cli.console.printing import warn
from statewright.cli.serve.load_problems import FailedEntries, FailedEntry
from statewright.cli.workflow.load import choose_served_graphs, import_from_folder, is_steps_file, load_served
from statewright.cli.workflow.models import NO_MODELS, Models, PinnedModel
from statewright.errors import InvalidGraph, Problem, StatewrightError, WorkflowError, suggestion
from statewright.models import ChatModel
from statewright.project import Project, ServedGraph, load_project
from statewright.project.toml_positions import format_path
from statewright.service import Catalog
from statewright.workflow.states.resources.chat_models import ModelResolver
from statewright.workflow.steps import read_definition, registered
from statewright.workflow.steps.llm.resources import qualify_model_name

_SUFFIXES: Final = (".py", ".yaml", ".yml", ".json")


def select_project(target: str | None) -> Project:
    """Return the project of the current folder or, for a file, its project with only that file. Raises UsageError."""
    if target is None:
        project = load_project(Path.cwd())
        if project.file is None:
            raise UsageError(
                "There is no statewright.toml in this folder or above it. Create one that lists the graphs to serve, "
                "or pass a file: FILE.py, FILE.yaml or FILE.json."
            )
        return project
    file, _, name = target.partition(":")
    path = Path(file)
    if path.suffix.lower() not in _SUFFIXES or not path.is_file():
        problem = f"{file!r} does not end in .py, .yaml or .json" if path.is_file() else f"File {file!r} does not exist"
        raise UsageError(f"{problem}. Pass a file with a graph in Python, states in YAML, or steps in JSON.")
    return _restrict_to_file(load_project(path), path.resolve(), name)


def _restrict_to_file(project: Project, path: Path, name: str) -> Project:
    """Return the project as if it listed only one file, or with `name` only one graph of it."""
    if path.suffix != ".py":
        graphs = {path.stem: ServedGraph(name=path.stem, file=path)}
        return replace(project, graphs=graphs, workflows={})
    module = import_from_folder(path.parent, path.name)
    names = {path.stem: name} if name else choose_served_graphs(module)
    graphs = {served_name: ServedGraph(name=served_name, target=f"{path}:{key}") for served_name, key in names.items()}
    return replace(project, graphs=graphs, workflows={}, handler_modules=(*project.handler_modules, path.stem))


def build_catalog(project: Project, models: Models = NO_MODELS) -> Catalog:
    """Build the catalog of a project. Its modules are imported, with its folder on `sys.path`.

    A default model in `models` overrides the models named in files. Raises WorkflowError with all problems, and
    UsageError for a model that cannot be connected.
    """
    return _CatalogBuilder(project, models).build()


class _CatalogBuilder:
    """Fills a catalog, and collects the problems of its graphs and files."""

    def __init__(self, project: Project, models: Models) -> None:
        self._project = project
        self._models = models
        self._problems: list[Problem] = []
        self._failed: list[FailedEntry] = []
        self._modules: dict[str, ModuleType] = {}
        default = PinnedModel(models.connect(models.default, project)) if models.default is not None else None
        resolver = ModelResolver(project.models, project.defaults.provider)
        self._catalog = Catalog(
            handlers=registered.allowing(*project.handler_modules),
            models=lambda name: cast("ChatModel", default or _step_model(name, resolver)),
            tools=project.tool_registry().subset(project.functions),
            project=project,
            states_models={"default": default} if default is not None else None,
        )

    def build(self) -> Catalog:
        project = self._project
        for name in project.handler_modules:
            with self._collect_problems("handlers", "modules"):
                self._import_module(name)
        # Graphs in modules come first, because a module may register handlers that files refer to.
        for entry in sorted(project.graphs.values(), key=lambda graph: graph.file is not None):
            with self._collect_problems("graphs", entry.name, at=entry.at, file=self._file_of(entry)):
                self._serve(entry)
        for workflow in project.workflows.values():
            with self._collect_problems("workflows", workflow.name, file=workflow.file):
                self._serve(ServedGraph(name=workflow.name, file=workflow.file, description=workflow.description))
        for problem in self._find_unknown_graphs():
            self._record(UsageError(problem.message), [problem], None)
        if self._problems:
            source = str(project.file or project.folder)
            raise WorkflowError(self._problems, source=source) from FailedEntries(self._failed)
        return self._catalog

    @contextmanager
    def _collect_problems(self, *keys: str, at: tuple[int, int] = (0, 0), file: Path | None = None) -> Generator[None]:
        """Record errors as problems of a key in the project file, at its line and column if known."""
        try:
            yield
        except (StatewrightError, UsageError, OSError, UnicodeDecodeError) as error:
            problems = [Problem(format_path(keys), *at, message) for message in _error_messages(error)]
            self._record(error, problems, file)

    def _record(self, error: Exception, problems: Sequence[Problem], file: Path | None) -> None:
        self._problems += problems
        self._failed.append(FailedEntry(error, problems, file))

    def _file_of(self, entry: ServedGraph) -> Path | None:
        """Return the file of a graph; for one in Python, the file of its target if it names one."""
        name = (entry.target or "").rpartition(":")[0] or entry.target or ""
        path = entry.file or self._project.folder / (name if name.endswith(".py") else f"{name.replace('.', '/')}.py")
        return path if path.is_file() else None

    def _serve(self, entry: ServedGraph) -> None:
        if entry.file is not None:
            self._serve_file(entry, entry.file)
        elif entry.target is not None:
            module = self._import_module(entry.target.rpartition(":")[0] or entry.target)
            app = load_served(entry.target, module, self._models)
            self._catalog.serve(
                entry.name,
                app,
                description=entry.description or "",
                version=entry.version,
                on_failure=entry.on_failure,
                queue=entry.queue,
            )

    def _import_module(self, module_name: str) -> ModuleType:
        if module_name not in self._modules:
            self._modules[module_name] = import_from_folder(self._project.folder, module_name)
        return self._modules[module_name]

    def _serve_file(self, entry: ServedGraph, file: Path) -> None:
        if is_steps_file(file, default=True):
            if entry.description is not None:
                raise UsageError(f"{file.name} has its own description. Remove the one in the project file.")
            definition = read_definition(file.read_bytes(), source=str(file))
            self._catalog.serve_steps(definition, name=entry.name, on_failure=entry.on_failure, queue=entry.queue)
            return
        from statewright.workflow.states import load_workflow
        from statewright.workflow.states.resources.missing import find_missing_resources

        workflow = load_workflow(file)
        missing = () if self._catalog.states_models else find_missing_resources(workflow.definition, self._project)
        for warning in (*workflow.problems, *missing):
            warn(f"warning: {file}: {warning}")
        text = file.read_text(encoding="utf-8")
        description = entry.description or ""
        self._catalog.serve_states(
            text, name=entry.name, description=description, on_failure=entry.on_failure, queue=entry.queue
        )

    def _find_unknown_graphs(self) -> Iterator[Problem]:
        """Yield a problem for each `on_failure` that names an unknown graph."""
        names = [*self._project.graphs, *self._project.workflows]
        for entry in self._project.graphs.values():
            if entry.on_failure is not None and entry.on_failure not in names:
                advice = suggestion(entry.on_failure, names, noun="Graphs")
                path = format_path(("graphs", entry.name, "on_failure"))
                yield Problem(path, *entry.at, f"Graph {entry.on_failure!r} does not exist.", advice)


def _step_model(name: str, resolver: ModelResolver) -> Any:
    """Return the model named by an LLM step, connected on its first request; None for an unknown name."""
    return resolver.find(name if resolver.is_qualified(name) else qualify_model_name(name) or name)


def _error_messages(error: Exception) -> Sequence[str]:
    """Return the message of each problem of an error, or its only message."""
    if isinstance(error, WorkflowError):
        return [f"{error.source}: {problem}" for problem in error.problems]
    if isinstance(error, InvalidGraph):
        return [str(problem) for problem in error.problems]
    return [format_error(error) if isinstance(error, StatewrightError) else str(error)]
