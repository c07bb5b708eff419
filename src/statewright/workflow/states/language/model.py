"""The model of a workflow of states, which is also the grammar of workflow files.

Each key is declared once, as a field with its type, limits, default and description. The package `schema` reads files
by these declarations, and `json_schema` publishes them. Each object stores its position in the file, for messages.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Final, Literal

from statewright.workflow.states.language.diagnostics import Phase
from statewright.workflow.states.language.schema.keys import Ignored, Key, Renamed
from statewright.workflow.states.language.schema.maps import ExclusiveKeys, MapSchema
from statewright.workflow.states.language.schema.value_types import ListOf, Number, Text
from statewright.workflow.states.language.transition import END_STATE, RESERVED, Case, Condition, Next, Switch, Texts
from statewright.workflow.states.language.yaml.nodes import NOWHERE, Mark

Name = Annotated[str, Text(may_be_empty=False)]
Id = Annotated[Name, Key("The name by which states refer to it.")]
DisplayName = Annotated[str | None, Key("A display name.")]
IntegrationAlias = Annotated[str | None, Key("The integration with its credentials.")]
Count = Annotated[int, Number(1)]
ResultLimit = Annotated[Count | None, Key("The maximum length of results, in tokens; longer results are truncated.")]


@dataclass(frozen=True, slots=True)
class RetryRule:
    """The number of attempts at a state, and the delays between them.

    A field that is None is inherited from the workflow, or else has its default.
    """

    schema: ClassVar = MapSchema(
        "retry_policy", "a map such as {max_attempts: 3, initial_interval: 1}", noun="The retry policy"
    )
    initial_interval: Annotated[float | None, Number(0), Key("Seconds before the second attempt.", default=0.5)] = None
    backoff_factor: Annotated[
        float | None, Number(1, 10), Key("The factor between consecutive delays.", default=2.0)
    ] = None
    max_interval: Annotated[float | None, Number(0), Key("The longest delay, in seconds.", default=128.0)] = None
    max_attempts: Annotated[
        int | None, Number(1, 100), Key("Attempts in total, including the first one.", default=10)
    ] = None
    initial_interval_seconds: ClassVar = Renamed("initial_interval", both_allowed=True)
    max_interval_seconds: ClassVar = Renamed("max_interval", both_allowed=True)


@dataclass(frozen=True, slots=True)
class McpConfig:
    """The command or the URL of an MCP server.

    These declarations are used only for checks. `McpServer.config` contains the map as written.
    """

    schema: ClassVar = MapSchema("mcp_config", "a map with a command or a url", noun="The config of the MCP server")
    command: Annotated[str | None, Key("The program to start.")] = None
    url: Annotated[str | None, Key("The URL of the server.")] = None
    args: Annotated[tuple[Any, ...], Key("Arguments of the program.")] = ()
    env: Annotated[Mapping[str, Any], Key("Environment variables of the program.")] = field(
        default_factory=dict[str, Any]
    )
    headers: Annotated[Mapping[str, Any], Key("Headers of each request.")] = field(default_factory=dict[str, Any])
    type: Annotated[
        str | None, Key("The transport: streamable-http. By default stdio for a command, and SSE for a url.")
    ] = None
    auth_token: Annotated[str | None, Key("A token that is sent with each request.")] = None
    single_usage: Annotated[bool, Key("Whether to start a server for each call.")] = False


@dataclass(frozen=True, slots=True)
class McpServer:
    """A server of the Model Context Protocol."""

    schema: ClassVar = MapSchema("mcp_server", "a map with a name and a config", noun="The MCP server")
    name: Annotated[Name, Key("The name of the server.")]
    description: ClassVar[Annotated[str, Key("Its purpose.")]]
    enabled: Annotated[bool, Key("Whether its tools are offered.")] = True
    config: Annotated[Mapping[str, Any], McpConfig, Key("The command that starts it, or its URL.", default=None)] = (
        field(default_factory=dict[str, Any])
    )
    command: ClassVar[Annotated[str, Key("The program to start; preferably written in config.")]]
    arguments: ClassVar[Annotated[Any, Key("Arguments of the program; preferably written in config.")]]
    mcp_connect_url: ClassVar[Annotated[str, Key("A proxy through which the server is reached.")]]
    mcp_config_id: ClassVar[Annotated[str, Key("The id of a server of the project.")]]
    tools_tokens_size_limit: ClassVar[ResultLimit]
    integration_alias: ClassVar[IntegrationAlias]
    resolve_dynamic_values_in_arguments: ClassVar[
        Annotated[bool, Key("Whether its config may refer to keys of the context.", default=False)]
    ]
    tools: ClassVar[Annotated[Texts, Key("The tools that may be used; by default all of them.")]]
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """All other keys."""
    at: Mark = NOWHERE


@dataclass(frozen=True, slots=True)
class AssistantTool:
    """A tool that an assistant may call."""

    schema: ClassVar = MapSchema(
        "assistant_tool", "a map with a name", noun="The tool", advice="Write '- name: the_tool'."
    )
    name: Annotated[Name, Key("The name of the tool.")]
    integration_alias: IntegrationAlias = None
    at: Mark = NOWHERE


@dataclass(frozen=True, slots=True)
class Assistant:
    """A model with instructions, defined in the file or in the project."""

    schema: ClassVar = MapSchema(
        "assistant", "a map with an id", noun="Assistant", one_of=("assistant_id", "system_prompt")
    )
    id: Id
    assistant_id: Annotated[str | None, Key("The id of an assistant of the project.")] = None
    system_prompt: Annotated[str | None, Key("Its instructions.")] = None
    name: DisplayName = None
    model: Annotated[str | None, Key("The model that answers.")] = None
    temperature: Annotated[
        float | None, Number(0, 2, range_phase=Phase.RULES), Key("The sampling temperature, from 0 to 2.")
    ] = None
    limit_tool_output_tokens: Annotated[
        Count, Key("The maximum length of tool results, in tokens; longer results are truncated.")
    ] = 10_000
    tools: Annotated[tuple[AssistantTool, ...], Key("The tools that it may call.")] = ()
    datasource_ids: Annotated[Texts, Key("Data sources that it may search.")] = ()
    skill_ids: Annotated[Texts, Key("Its skills.")] = ()
    exclude_extra_context_tools: Annotated[bool, Key("Whether it has only the named tools.")] = False
    mcp_servers: Annotated[tuple[McpServer, ...], Key("Servers whose tools it may call.")] = ()
    at: Mark = NOWHERE


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool that states call without a model."""

    schema: ClassVar = MapSchema("tool", "a map with an id and a tool", noun="Tool")
    id: Id
    tool: Annotated[Name, Key("The name of the function.")]
    tool_args: Annotated[Mapping[str, Any] | None, Key("Its arguments, which a state may replace.")] = None
    integration_alias: IntegrationAlias = None
    tool_result_json_pointer: Annotated[
        str | None, Key("A JSON pointer to a part of the result; empty for all of it.")
    ] = None
    trace: Annotated[bool, Key("Whether calls are logged in detail.")] = False
    resolve_dynamic_values_in_response: Annotated[bool, Key("Whether {{...}} in a result is filled in.")] = False
    mcp_server: Annotated[McpServer | None, Key("The server that has the tool.")] = None
    input_key: Annotated[str | None, Key("A path into the context: missing arguments are read from the map there.")] = (
        None
    )
    tokens_size_limit: ResultLimit = None
    toolset: ClassVar = Ignored("tools are identified by name.")
    at: Mark = NOWHERE


@dataclass(frozen=True, slots=True)
class CustomNode:
    """A node that is neither an assistant nor a tool."""

    schema: ClassVar = MapSchema("custom_node", "a map with an id and a custom_node_id", noun="Custom node")
    id: Id
    kind: Annotated[Name, Key("Its kind; the id by default.", name="custom_node_id", default=None)] = ""
    name: DisplayName = None
    model: Annotated[str | None, Key("The model that it calls.")] = None
    system_prompt: Annotated[str | None, Key("Instructions for the model.")] = None
    config: Annotated[Mapping[str, Any], Key("The settings of its kind.")] = field(default_factory=dict[str, Any])
    at: Mark = NOWHERE

    def __post_init__(self) -> None:
        object.__setattr__(self, "kind", self.kind or self.id)


_ONE_HANDLER: Final = "Keep one of them, and move the other to a state of its own."


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """A state of a workflow.

    Exactly one of its assistant, tool and custom node ids is set.
    """

    schema: ClassVar = MapSchema(
        "state",
        "a map with an id",
        noun="State",
        one_of=("assistant_id", "tool_id", "custom_node_id"),
        exclusive=(
            ExclusiveKeys("assistant_id", "tool_id", _ONE_HANDLER),
            ExclusiveKeys("assistant_id", "custom_node_id", _ONE_HANDLER),
            ExclusiveKeys("tool_id", "custom_node_id", _ONE_HANDLER),
        ),
    )
    id: Annotated[
        str, Text(may_be_empty=False, rule={"not": {"enum": [END_STATE, *RESERVED]}}), Key("The name of the state.")
    ]
    assistant_id: Annotated[
        Name | None, Key("The id of the assistant that runs the state.", aliases=("assistant", "agent"))
    ] = None
    tool_id: Annotated[Name | None, Key("The id of the tool that runs the state.", aliases=("tool",))] = None
    custom_node_id: Annotated[Name | None, Key("The id of the custom node that runs the state.")] = None
    task: Annotated[str, Key("The task, as a template.", aliases=("prompt",))] = ""
    next: Annotated[Next, Key("The transition, such as {state_id: end}.")]
    tool_args: Annotated[Mapping[str, Any] | None, Key("Arguments that replace those of the tool.")] = None
    output_schema: Annotated[
        str | None,
        Text(advice="Write the JSON as text, after 'output_schema: |'."),
        Key("The format of the answer: a JSON Schema, or an example."),
    ] = None
    retry_policy: Annotated[RetryRule, Key("Overrides the policy of the workflow, field by field.", default=None)] = (
        RetryRule()
    )
    interrupt_before: Annotated[bool, Key("Whether to pause for confirmation before it runs.")] = False
    wait_for_user_confirmation: ClassVar = Renamed("interrupt_before")
    finish_iteration: Annotated[
        bool, Key("Whether it finishes its item, so that iter_key splits the result again.")
    ] = False
    resolve_dynamic_values_in_prompt: Annotated[bool, Key("Whether {{...}} in the task is filled in.")] = True
    result_as_human_message: Annotated[bool, Key("Whether the result is added to the history as a user message.")] = (
        False
    )
    output_format: ClassVar = Ignored("describe the format of the answer in output_schema.")
    at: Mark = NOWHERE


@dataclass(frozen=True, slots=True, kw_only=True)
class Metadata:
    """The keys that a workflow and its wrapper have in common."""

    name: DisplayName = None
    description: Annotated[str | None, Key("Its purpose.")] = None
    slug: ClassVar[Annotated[str, Key("A name for URLs.")]]
    icon_url: ClassVar[Annotated[str, Key("An icon.")]]
    start_hint: ClassVar[Annotated[Any, Key("A hint for users who start it.")]]
    supervisor_prompt: ClassVar[Annotated[str, Key("A key of the mode Autonomous, which is not supported.")]]
    video_link: ClassVar[Annotated[str, Key("A video about it.")]]
    mode: ClassVar[Annotated[Literal["Sequential"], Key("How the next state is determined.", default="Sequential")]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition(Metadata):
    """A workflow of states.

    A run starts at the first state.
    """

    schema: ClassVar = MapSchema("workflow", "a map with the key states", noun="The workflow")
    assistants: Annotated[tuple[Assistant, ...], Key("Models with instructions.")] = ()
    tools: Annotated[tuple[Tool, ...], Key("Functions that are called without a model.")] = ()
    custom_nodes: Annotated[tuple[CustomNode, ...], Key("Nodes of other kinds.")] = ()
    states: Annotated[
        tuple[State, ...],
        ListOf(min_items=1, advice="A workflow must have at least one valid state."),
        Key("The states; a run starts with the first one.", aliases=("steps", "nodes")),
    ]
    messages_limit_before_summarization: Annotated[
        int, Number(1, 10_000), Key("The maximum length of the history, in messages; a longer one is summarized.")
    ] = 25
    tokens_limit_before_summarization: Annotated[
        int, Number(1, 2**31 - 1), Key("The maximum length of the history, in tokens; a longer history is summarized.")
    ] = 50_000
    enable_summarization_node: Annotated[bool, Key("Whether the run ends with a summary.")] = True
    recursion_limit: Annotated[int, Number(1, 5_000), Key("The maximum number of supersteps of a run.")] = 50
    max_concurrency: Annotated[int, Number(1, 100), Key("The maximum number of states that run concurrently.")] = 10
    retry_policy: Annotated[RetryRule, Key("How often states are retried.", default=None)] = RetryRule()
    max_iteration_key_output_limit: ClassVar[
        Annotated[int, Number(1, 10_000), Key("Accepted for compatibility; has no effect.", default=200)]
    ]
    verbose: ClassVar[Annotated[bool, Key("A label without effect.", default=True)]]
    type: ClassVar[Annotated[str, Key("A label without effect.", default="generic")]]
    limit_tool_output_tokens: ClassVar = Ignored("it belongs to an assistant.")
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The values of keys without a field: mode, slug, icon_url, start_hint, type, verbose and others."""
    explicit_keys: frozenset[str] = field(default=frozenset(), compare=False)
    """The keys that the file sets. For all other keys, the project's defaults override those of the language."""
    states_by_id: Mapping[str, State] = field(init=False, repr=False, compare=False)
    assistants_by_id: Mapping[str, Assistant] = field(init=False, repr=False, compare=False)
    tools_by_id: Mapping[str, Tool] = field(init=False, repr=False, compare=False)
    custom_nodes_by_id: Mapping[str, CustomNode] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Compilation looks up objects for each state, so that linear searches would take quadratic time in total.
        for name in ("states", "assistants", "tools", "custom_nodes"):
            object.__setattr__(self, f"{name}_by_id", {part.id: part for part in getattr(self, name)})

    def state(self, state_id: str) -> State:
        """Return a state by its id. Raises KeyError."""
        return self.states_by_id[state_id]


@dataclass(frozen=True, slots=True, kw_only=True)
class WrappedDefinition(Metadata):
    """A workflow of states with its metadata."""

    schema: ClassVar = MapSchema("wrapper", "a map with the key execution_config", noun="The file")
    execution_config: Annotated[Definition, Key("The workflow itself.")]


_LOOKALIKES: Final = str.maketrans({":": "\N{MODIFIER LETTER COLON}", "|": "\N{DIVIDES}"})


def node_name(state_id: str) -> str:
    """Return the node name of a state: its id, with look-alikes for `:` and `|`, which separate namespaces."""
    return state_id.translate(_LOOKALIKES)


_MODELS: Final[tuple[type[Any], ...]] = (
    WrappedDefinition, Definition, Assistant, AssistantTool, Tool, CustomNode, McpServer, McpConfig,
    State, Next, Condition, Switch, Case, RetryRule,
)  # fmt: skip
SCHEMAS: Final[tuple[MapSchema, ...]] = tuple(model.schema for model in _MODELS)
"""The maps of the language, in the order of the definitions in the JSON Schema."""
