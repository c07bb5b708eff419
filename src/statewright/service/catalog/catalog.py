"""The catalog: the graphs that the project serves, and the compiled versions of workflows stored through the API.

Each graph has a version, and a run keeps the version that it started with. The content of a workflow in JSON or YAML is
stored for each version. The code of a Python graph exists only in its current version. A run of an older version
continues with the current code if its checkpoints are compatible, and fails with a clear error otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal

from statewright.agents import Agent, Network
from statewright.errors import InvalidConfig, NotFound, StatewrightError, suggestion
from statewright.ids import digest
from statewright.models import ChatModel
from statewright.runs import DEFAULT_QUEUE, Json, StoredDefinition
from statewright.runtime import CompiledGraph, StateGraph
from statewright.workflow.steps import Definition, Handlers, StepTools, compile_steps, read_definition

Kind = Literal["graph", "states", "steps"]
"""The source of a graph: Python code, a workflow in YAML (of states), or a workflow in JSON (of steps)."""
PROJECT: Final = ""
"""The workspace id of the definitions of the project, which all workspaces see."""
Models = Callable[[str], ChatModel] | Mapping[str, ChatModel]
"""Chat models by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A graph that the project serves under a name."""

    name: str
    kind: Kind
    app: CompiledGraph
    version: str
    description: str = ""
    body: Json = None
    """The source of a workflow in JSON or YAML; None for a graph defined in Python."""
    queue: str = DEFAULT_QUEUE
    """The queue of its runs, unless the request for a run names another one."""
    on_failure: str | None = None
    """The name of the graph that is started as the failure handler when a run of this graph fails."""

    @property
    def definition_id(self) -> str:
        return definition_id(PROJECT, self.name, self.version)


def definition_id(workspace_id: str, name: str, version: str) -> str:
    """Return the id of a version of a workflow, which is derived from its workspace, name and version."""
    return f"def_{digest('definition', workspace_id, name, version)}"


@dataclass
class Catalog:
    """The served graphs by name, and a cache of compiled definitions by id."""

    handlers: Handlers | None = None
    """Handlers for the task steps of JSON workflows; by default those registered with `@task_handler`."""
    models: Models | None = None
    """Models for the llm steps of JSON workflows."""
    tools: StepTools = None
    """Tools for the models of llm steps, in addition to handlers."""
    states_models: Any = None
    """Models for YAML workflows, which take precedence over those named in the files; see `Workflow.compile`."""
    project: Any = None
    """The `statewright.project.Project` for YAML workflows, if there is one."""
    _served: dict[str, Served] = field(default_factory=dict[str, Served])
    _compiled: dict[str, CompiledGraph] = field(default_factory=dict[str, CompiledGraph])

    def serve(
        self,
        name: str,
        graph: CompiledGraph | StateGraph | Network[Any] | Agent,
        *,
        description: str = "",
        version: str | None = None,
        on_failure: str | None = None,
        queue: str | None = None,
    ) -> Served:
        """Serve a graph, an agent or a network under a name. Raises InvalidConfig for a name that is already in use.

        The version is derived from the topology of the graph if neither `version` nor the graph names one. `queue` is
        the queue of its runs, unless a request or a tag names another one.
        """
        app = _compile(graph)
        version = version or app.graph.version or digest("topology", app.get_graph().draw_mermaid())[:12]
        return self._add(
            Served(
                name=name,
                kind="graph",
                app=app,
                version=version,
                description=description,
                on_failure=on_failure,
                queue=queue or DEFAULT_QUEUE,
            )
        )

    def serve_steps(
        self, document: Any, *, name: str | None = None, on_failure: str | None = None, queue: str | None = None
    ) -> Served:
        """Serve a workflow in JSON. Raises WorkflowError with all its problems."""
        definition = document if isinstance(document, Definition) else read_definition(document)
        app = self.compile_steps(definition)
        return self._add(
            Served(
                name=name or definition.name,
                kind="steps",
                app=app,
                version=f"{definition.version}+{definition.digest[:12]}",
                description=definition.description,
                body=definition.to_json(),
                on_failure=on_failure,
                queue=queue or DEFAULT_QUEUE,
            )
        )

    def serve_states(
        self, text: str, *, name: str, description: str = "", on_failure: str | None = None, queue: str | None = None
    ) -> Served:
        """Serve a workflow in YAML, given as text. Raises WorkflowError with all its problems."""
        return self._add(
            Served(
                name=name,
                kind="states",
                app=self._compile_states(text),
                version=digest("states", text)[:12],
                description=description,
                body={"yaml": text},
                on_failure=on_failure,
                queue=queue or DEFAULT_QUEUE,
            )
        )

    def _add(self, served: Served) -> Served:
        if served.name in self._served:
            raise InvalidConfig(f"Two graphs are served under the name {served.name!r}. Rename one of them.")
        self._served[served.name] = served
        self._compiled[served.definition_id] = served.app
        return served

    # -- lookup

    @property
    def served(self) -> tuple[Served, ...]:
        """The served graphs, sorted by name."""
        return tuple(self._served[name] for name in sorted(self._served))

    def get(self, name: str) -> Served | None:
        """Return the graph served under a name; None if there is none."""
        return self._served.get(name)

    def require(self, name: str) -> Served:
        """Return the graph served under a name. Raises NotFound, with a suggestion, if there is none."""
        served = self._served.get(name)
        if served is None:
            raise NotFound(f"Graph {name!r} does not exist. " + suggestion(name, self._served, noun="Graphs"))
        return served

    def to_records(self, now: datetime) -> list[StoredDefinition]:
        """Return the served versions as records of the ledger."""
        return [
            StoredDefinition(
                id=served.definition_id,
                workspace_id=PROJECT,
                name=served.name,
                version=served.version,
                kind=served.kind,
                description=served.description,
                digest=served.version,
                body=served.body,
                created_at=now,
            )
            for served in self.served
        ]

    # -- compiling

    def load(self, definition: StoredDefinition) -> CompiledGraph:
        """Return the compiled graph of a stored version. Raises NotFound for a Python graph that is no longer served.

        Raises WorkflowError for a workflow that no longer compiles.
        """
        app = self._compiled.get(definition.id)
        if app is None:
            app = self._compiled[definition.id] = self._load(definition)
        return app

    def find(self, definition: StoredDefinition) -> CompiledGraph | None:
        """Return the compiled graph of a stored version; None if this process does not have exactly this version.

        A Python graph exists only in its current version, and a workflow may not compile here.
        """
        if definition.kind == "graph":
            served = self._served.get(definition.name)
            return served.app if served is not None and served.definition_id == definition.id else None
        try:
            return self.load(definition)
        except StatewrightError:
            return None

    def _load(self, definition: StoredDefinition) -> CompiledGraph:
        if definition.kind == "steps":
            return self.compile_steps(read_definition(definition.body))
        if definition.kind == "states":
            return self._compile_states(definition.body["yaml"])
        return self.require(definition.name).app

    def compile_steps(self, definition: Definition) -> CompiledGraph:
        """Compile a workflow in JSON. Raises WorkflowError for unknown handlers, tools and models."""
        return compile_steps(definition, handlers=self.handlers, models=self.models, tools=self.tools)

    def _compile_states(self, text: str) -> CompiledGraph:
        from statewright.workflow.states import load_workflow

        return load_workflow(text).compile(models=self.states_models, project=self.project)


def _compile(graph: CompiledGraph | StateGraph | Network[Any] | Agent) -> CompiledGraph:
    if isinstance(graph, Agent):
        return graph.alone().compile()
    return graph if isinstance(graph, CompiledGraph) else graph.compile()
