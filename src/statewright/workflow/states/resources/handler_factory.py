"""Creation of the handlers of states from models, tools, a script and a project.

A missing model or tool is an error only when it is called, so that a workflow can be drawn, checked and run from a
script without its models and tools.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from statewright.errors import ModelError, suggestion
from statewright.models import ChatModel, ModelRequest, ModelResponse
from statewright.workflow.states.engine.state_node import make_retry_policy
from statewright.workflow.states.handlers import StateHandler
from statewright.workflow.states.handlers.assistant import AssistantStateHandler
from statewright.workflow.states.handlers.assistant_tools import AssistantTools
from statewright.workflow.states.handlers.scripted import (
    FINAL_SUMMARY,
    SUMMARY,
    Script,
    ScriptedStateHandler,
    WorkflowScriptModel,
    check_script,
)
from statewright.workflow.states.handlers.summaries import HistorySummarizer
from statewright.workflow.states.handlers.tool import ToolStateHandler
from statewright.workflow.states.language.model import Assistant, Definition, State
from statewright.workflow.states.language.output_schema import OutputSchema
from statewright.workflow.states.mcp import McpServers
from statewright.workflow.states.mcp.resolve import ServerResolver
from statewright.workflow.states.nodes import DataSource, NodeKinds, NodeResources
from statewright.workflow.states.resources.chat_models import ModelResolver, Models, NamedModel, WorkflowModels
from statewright.workflow.states.resources.missing import Project
from statewright.workflow.states.tools import Integrations, ToolRegistry

Tools = ToolRegistry | Mapping[str, Callable[..., Any] | str]
"""A registry, or functions by tool names, which override the tools of the project."""


class HandlerFactory:
    """Creates the handlers of the states of one workflow."""

    def __init__(
        self,
        definition: Definition,
        *,
        models: Models | None = None,
        tools: Tools | None = None,
        script: Script | None = None,
        project: Project | None = None,
        node_kinds: NodeKinds | None = None,
    ) -> None:
        self._definition = definition
        resolver = ModelResolver(project.models, project.defaults.provider) if project is not None else ModelResolver()
        self._models = WorkflowModels(models, resolver, project.defaults.model if project is not None else None)
        self._required_models: list[NamedModel] = []
        """The models of assistants that files name and that are not connected yet."""
        self._tools = _make_registry(tools, project)
        self._integrations = project.integrations if project is not None else Integrations()
        project_servers: Mapping[str, Mapping[str, Any]] = project.mcp if project is not None else {}
        self._servers = McpServers(ServerResolver(self._tools.settings, self._integrations, project_servers))
        self._script: Script = script or {}
        self._project = project
        self._node_kinds = node_kinds or NodeKinds()
        check_script(self._script, [state.id for state in definition.states])
        self._script_model = WorkflowScriptModel(self._script)

    def make_handler(self, state: State) -> StateHandler:
        """Return the handler of a state."""
        if state.assistant_id is not None:
            return self._make_assistant(state, state.assistant_id)
        if state.id in self._script:
            return ScriptedStateHandler(state.id, self._script[state.id])
        if state.tool_id is not None:
            tool = self._definition.tools_by_id[state.tool_id]
            return ToolStateHandler(tool, self._tools, self._integrations, self._servers)
        return self._make_custom_node_handler(state)

    def _make_assistant(self, state: State, assistant_id: str) -> StateHandler:
        assistant = self._complete_assistant(self._definition.assistants_by_id[assistant_id])
        schema = OutputSchema(state.output_schema) if state.output_schema else None
        if state.id in self._script:
            return AssistantStateHandler(assistant, self._script_model, self._make_summarizer(None), schema)
        model = self.find_model(state.id, assistant)
        if isinstance(model, NamedModel):
            self._required_models.append(model)
        return AssistantStateHandler(
            assistant,
            model,
            self._make_summarizer(model),
            schema,
            AssistantTools(assistant, self._tools, self._integrations, self._servers) or None,
            make_retry_policy(state.retry_policy, self._definition.retry_policy),
        )

    def connect_models(self) -> None:
        """Connect the models that files name, so that a missing API key is reported before the run starts.

        Raises MissingApiKey, or ModelError for a model that cannot be connected.
        """
        while self._required_models:
            _ = self._required_models[-1].model  # connects it
            self._required_models.pop()  # only after connecting, so that the next run reports the error again

    def _complete_assistant(self, assistant: Assistant) -> Assistant:
        """Fill in missing settings from the project: from the assistant with the same id, then from the defaults."""
        if self._project is None:
            return assistant
        default_model = self._project.defaults.model
        base = self._project.assistants.get(assistant.assistant_id or "")
        if base is None:
            return replace(assistant, model=assistant.model or default_model)
        return replace(
            assistant,
            system_prompt=assistant.system_prompt if assistant.system_prompt is not None else base.system_prompt,
            model=assistant.model or base.model or default_model,
            temperature=assistant.temperature if assistant.temperature is not None else base.temperature,
            tools=assistant.tools or base.tools,
        )

    def _make_summarizer(self, model: ChatModel | None) -> HistorySummarizer:
        definition = self._definition
        return HistorySummarizer(
            self._script_model if SUMMARY in self._script else model,
            max_messages=definition.messages_limit_before_summarization,
            max_tokens=definition.tokens_limit_before_summarization,
        )

    def find_model(self, state_id: str, assistant: Assistant | None) -> ChatModel:
        """Return the model of an assistant. If there is none, return a model that raises an error when it is called."""
        name, owner = (assistant.model, assistant.id) if assistant is not None else (None, None)
        model = self._models.find(name, owner=owner)
        return model if model is not None else _MissingModel(state_id, self._models.passed_names)

    @property
    def summarizer(self) -> ChatModel | None:
        """The model that summarizes the run at its end; None if the run has no final summary."""
        if not self._definition.enable_summarization_node:
            return None
        if FINAL_SUMMARY in self._script:
            return self._script_model
        if self._script:
            return None
        assistants = self._definition.assistants
        first_assistant = self._complete_assistant(assistants[0]) if assistants else None
        model = self.find_model(FINAL_SUMMARY, first_assistant)
        return None if isinstance(model, _MissingModel) else model

    def _make_custom_node_handler(self, state: State) -> StateHandler:
        assert state.custom_node_id is not None
        node = self._definition.custom_nodes_by_id[state.custom_node_id]
        sources: Mapping[str, DataSource] = self._project.datasources if self._project is not None else {}
        return self._node_kinds.make_handler(
            node, NodeResources(state_id=state.id, find_model=self._models.find, datasources=sources)
        )


def _make_registry(tools: Tools | None, project: Project | None) -> ToolRegistry:
    if isinstance(tools, ToolRegistry):
        return tools
    registry = project.tool_registry() if project is not None else ToolRegistry()
    for name, function in (tools or {}).items():
        registry.register(function, name=name)
    return registry


class _MissingModel:
    """Stands in for a missing model. When it is called, it raises an error that names the state."""

    def __init__(self, state_id: str, names: tuple[str, ...] = ()) -> None:
        self._state_id = state_id
        self._names = names

    async def complete(self, request: ModelRequest) -> ModelResponse:
        hint = f" {suggestion(request.model or '', self._names, noun='Models')}" if self._names else ""
        raise ModelError(
            f"State {self._state_id!r} needs a model, but none is configured for it.{hint} Compile with models=, name "
            f"a model with its provider, as in 'openai:gpt-5', or add the output of the state to a script."
        )
