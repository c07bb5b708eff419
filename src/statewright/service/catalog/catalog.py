"""The catalog: graphs of the project, and definitions that were stored over the API.

All of them have a version, a digest of their content, and a run keeps the version that it began with. The content of a
workflow in JSON or YAML is stored for each version. The code of a Python graph exists only in its current version: a
run of an older version continues with it if its checkpoints are compatible, and fails with a clear error otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from statewright.agents import Agent, Network
from statewright.errors import InvalidConfig, NotFound, suggestion
from statewright.ids import digest
from statewright.models import ChatModel
from statewright.runs import Json, StoredDefinition
from statewright.runtime import CompiledGraph, StateGraph
from statewright.workflow.steps import Definition, Handlers, ToolsGiven, compile_steps, read_definition

Kind = Literal["graph", "states", "steps"]
PROJECT: str = ""
"""The workspace id of the definitions of the project, which all workspaces see."""
Models = Callable[[str], ChatModel] | Mapping[str, ChatModel]


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A graph that the project serves under a name."""

    name: str
    kind: Kind
    app: CompiledGraph
    version: str
    description: str = ""
    body: Json = None
    """Its source; None for a graph of a Python module."""
    on_failure: str | None = None
    """The graph that is started when a run of this one has failed."""

    @property
    def definition_id(self) -> str:
        return definition_id(PROJECT, self.name, self.version)


def definition_id(workspace_id: str, name: str, version: str) -> str:
    """Return the id of a version of a workflow, which is the same wherever it is stored."""
    return f"def_{digest('definition', workspace_id, name, version)}"


@dataclass
class Catalog:
    """The graphs that can be run, by name, and compiled definitions by id."""

    handlers: Handlers | None = None
    """Handlers for the task steps of definitions; by default those registered with `@task_handler`."""
    models: Models | None = None
    """Models for the llm steps of definitions."""
    tools: ToolsGiven = None
    """Tools for the models of llm steps, besides handlers."""
    states_models: Any = None
    """Models of YAML workflows, which take precedence over their files: see `Workflow.compile`."""
    project: Any = None
    """The `statewright.project.Project` of YAML workflows, if there is one."""
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
    ) -> Served:
        """Serve a graph, an agent or a network under a name. Raises InvalidConfig for a name in use."""
        app = _as_graph(graph)
        drawing = app.get_graph().draw_mermaid()
        graph_version = version or app.graph.version or digest("topology", drawing)[:12]
        served = Served(
            name=name, kind="graph", app=app, version=graph_version, description=description, on_failure=on_failure
        )
        return self._add(served)

    def serve_steps(self, document: Any, *, name: str | None = None, on_failure: str | None = None) -> Served:
        """Serve a workflow in JSON. Raises WorkflowError with all problems."""
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
            )
        )

    def serve_states(self, text: str, *, name: str, description: str = "", on_failure: str | None = None) -> Served:
        """Serve a workflow in YAML, given as text. Raises WorkflowError with all problems."""
        app = self._compile_states(text)
        version = digest("states", text)[:12]
        return self._add(
            Served(
                name=name,
                kind="states",
                app=app,
                version=version,
                description=description,
                body={"yaml": text},
                on_failure=on_failure,
            )
        )

    def _add(self, served: Served) -> Served:
        if served.name in self._served:
            raise InvalidConfig(f"Two graphs are served as {served.name!r}. Rename one of them.")
        self._served[served.name] = served
        self._compiled[served.definition_id] = served.app
        return served

    # -- lookup

    def __iter__(self) -> Iterable[Served]:
        return iter(self._served.values())

    @property
    def served(self) -> tuple[Served, ...]:
        """The graphs of the project, sorted by name."""
        return tuple(self._served[name] for name in sorted(self._served))

    def get(self, name: str) -> Served | None:
        """Return the graph served under a name; None if there is none."""
        return self._served.get(name)

    def named(self, name: str) -> Served:
        """Return the graph served under a name. Raises NotFound, which suggests similar names."""
        served = self._served.get(name)
        if served is None:
            raise NotFound(f"Graph {name!r} does not exist. " + suggestion(name, self._served, noun="Graphs"))
        return served

    def stored(self, now: datetime) -> list[StoredDefinition]:
        """Return the versions that are served, as records."""
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

    def app_of(self, definition: StoredDefinition) -> CompiledGraph:
        """Return the graph of a stored version. Raises NotFound for code that is not served any more."""
        app = self._compiled.get(definition.id)
        if app is None:
            app = self._compiled[definition.id] = self._load(definition)
        return app

    def _load(self, definition: StoredDefinition) -> CompiledGraph:
        body = definition.body
        if definition.kind == "steps":
            return self.compile_steps(read_definition(body))
        if definition.kind == "states":
            return self._compile_states(body["yaml"])
        return self.named(definition.name).app

    def compile_steps(self, definition: Definition) -> CompiledGraph:
        """Compile a workflow in JSON. Raises WorkflowError for unknown handlers, tools and models."""
        return compile_steps(definition, handlers=self.handlers, models=self.models, tools=self.tools)

    def _compile_states(self, text: str) -> CompiledGraph:
        from statewright.workflow.states import load_workflow

        return load_workflow(text).compile(models=self.states_models, project=self.project)


def _as_graph(graph: CompiledGraph | StateGraph | Network[Any] | Agent) -> CompiledGraph:
    if isinstance(graph, Agent):
        return graph.alone().compile()
    return graph if isinstance(graph, CompiledGraph) else graph.compile()
