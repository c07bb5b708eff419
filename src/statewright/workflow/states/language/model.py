"""The model of a workflow of states: the file as data, validated, with defaults filled in.

Names are those of the language. Every part stores its position in the file, for later error messages.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

from statewright.workflow.states.expressions import Expression

END_STATE: Final = "end"
"""Target that ends the run or the branch, valid in place of the id of a state."""


class Mark(NamedTuple):
    """A position in a file, counted from 1."""

    line: int
    column: int


NOWHERE: Final = Mark(0, 0)
"""The position of parts that are not written in a file."""


@dataclass(frozen=True, slots=True)
class RetryRule:
    """Retry settings of a state. A field that is None is inherited from the workflow, then from the defaults."""

    initial_interval: float | None = None
    """Seconds before the second attempt."""
    backoff_factor: float | None = None
    max_interval: float | None = None
    """Seconds."""
    max_attempts: int | None = None
    """Attempts in total, including the first one."""


@dataclass(frozen=True, slots=True)
class McpServer:
    """A server of the Model Context Protocol that provides tools."""

    name: str
    enabled: bool = True
    config: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """`command` or `url`, `args`, `env`, `headers`, `type`, `auth_token`, `single_usage`."""
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """All other keys."""
    at: Mark = NOWHERE


@dataclass(frozen=True, slots=True)
class AssistantTool:
    """A tool that an assistant may call."""

    name: str
    integration_alias: str | None = None
    at: Mark = NOWHERE


@dataclass(frozen=True, slots=True)
class Assistant:
    """A model with instructions, defined in the file or in the project under `assistant_id`."""

    id: str
    assistant_id: str | None = None
    system_prompt: str | None = None
    name: str | None = None
    model: str | None = None
    temperature: float | None = None
    limit_tool_output_tokens: int = 10_000
    tools: tuple[AssistantTool, ...] = ()
    datasource_ids: tuple[str, ...] = ()
    skill_ids: tuple[str, ...] = ()
    exclude_extra_context_tools: bool = False
    mcp_servers: tuple[McpServer, ...] = ()
    at: Mark = NOWHERE


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool that states call without a model."""

    id: str
    tool: str
    """The name of the function."""
    tool_args: Mapping[str, Any] | None = None
    integration_alias: str | None = None
    tool_result_json_pointer: str | None = None
    """Selects a part of the result; None, as an empty text in the file, for all of it."""
    trace: bool = False
    resolve_dynamic_values_in_response: bool = False
    mcp_server: McpServer | None = None
    input_key: str | None = None
    tokens_size_limit: int | None = None
    at: Mark = NOWHERE


@dataclass(frozen=True, slots=True)
class CustomNode:
    """A node that is neither an assistant nor a tool."""

    id: str
    kind: str
    """`custom_node_id`, or the id if that is absent."""
    name: str | None = None
    model: str | None = None
    system_prompt: str | None = None
    config: Mapping[str, Any] = field(default_factory=dict[str, Any])
    at: Mark = NOWHERE


@dataclass(frozen=True, slots=True)
class Case:
    """A case of a switch."""

    condition: Expression
    state_id: str
    at: Mark = NOWHERE


@dataclass(frozen=True, slots=True)
class Condition:
    """A choice between two targets."""

    expression: Expression
    then: str
    otherwise: str
    at: Mark = NOWHERE


@dataclass(frozen=True, slots=True)
class Switch:
    """A choice between several targets: the first case that holds wins."""

    cases: tuple[Case, ...]
    default: str
    at: Mark = NOWHERE


@dataclass(frozen=True, slots=True)
class Next:
    """The transition of a state and its effects on context and history. Exactly one kind of transition is set."""

    state_id: str | None = None
    state_ids: tuple[str, ...] | None = None
    condition: Condition | None = None
    switch: Switch | None = None
    iter_key: str | None = None
    """With `state_id`: splits the result, and runs the target for each item."""
    output_key: str | None = None
    store_in_context: bool = True
    include_in_llm_history: bool = True
    clear_prior_messages: bool = False
    clear_context_store: bool | Literal["keep_current"] = False
    reset_keys_in_context_store: tuple[str, ...] = ()
    override_task: bool = False
    append_to_context: bool = False
    include_in_iterator_context: tuple[str, ...] = ("*",)
    at: Mark = NOWHERE

    @property
    def targets(self) -> tuple[str, ...]:
        """All possible targets, in the order of the file."""
        if self.condition is not None:
            return (self.condition.then, self.condition.otherwise)
        if self.switch is not None:
            return (*(case.state_id for case in self.switch.cases), self.switch.default)
        if self.state_ids is not None:
            return self.state_ids
        return (self.state_id,) if self.state_id is not None else ()


@dataclass(frozen=True, slots=True)
class State:
    """A state of a workflow. Exactly one of its assistant, tool and custom node ids is set."""

    id: str
    next: Next
    assistant_id: str | None = None
    tool_id: str | None = None
    custom_node_id: str | None = None
    task: str = ""
    tool_args: Mapping[str, Any] | None = None
    """Replaces the arguments of the tool."""
    output_schema: str | None = None
    retry_policy: RetryRule = RetryRule()
    interrupt_before: bool = False
    finish_iteration: bool = False
    resolve_dynamic_values_in_prompt: bool = True
    result_as_human_message: bool = False
    at: Mark = NOWHERE


@dataclass(frozen=True, slots=True)
class Definition:
    """A complete workflow, which starts at its first state."""

    states: tuple[State, ...]
    assistants: tuple[Assistant, ...] = ()
    tools: tuple[Tool, ...] = ()
    custom_nodes: tuple[CustomNode, ...] = ()
    name: str | None = None
    description: str | None = None
    messages_limit_before_summarization: int = 25
    tokens_limit_before_summarization: int = 50_000
    enable_summarization_node: bool = True
    recursion_limit: int = 50
    max_concurrency: int = 10
    retry_policy: RetryRule = RetryRule()
    leaves_open: frozenset[str] = field(default=frozenset(), compare=False)
    """The limits that the file does not set: a project's defaults apply before the language's."""
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Other metadata of the file: mode, slug, icon_url, start_hint, type, verbose ..."""
    states_by_id: Mapping[str, State] = field(init=False, repr=False, compare=False)
    assistants_by_id: Mapping[str, Assistant] = field(init=False, repr=False, compare=False)
    tools_by_id: Mapping[str, Tool] = field(init=False, repr=False, compare=False)
    custom_nodes_by_id: Mapping[str, CustomNode] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Compilation looks these up for each state: linear searches would make it quadratic.
        for name in ("states", "assistants", "tools", "custom_nodes"):
            object.__setattr__(self, f"{name}_by_id", {part.id: part for part in getattr(self, name)})

    def state(self, state_id: str) -> State:
        """Return a state by its id. Raises KeyError."""
        return self.states_by_id[state_id]


def node_of(state_id: str) -> str:
    """Return the node name of a state: its id, with look-alikes for the two characters that separate namespaces."""
    return state_id.translate(_ALIKE)


_ALIKE: Final = str.maketrans({":": "\N{MODIFIER LETTER COLON}", "|": "\N{DIVIDES}"})
