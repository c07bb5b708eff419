"""The grammar of the language as tables: every key with its type, limits and description.

The checks and the JSON Schema of the language are both derived from these tables.
"""

from __future__ import annotations

from typing import Final

from statewright.workflow.states.language.diagnostics import Phase
from statewright.workflow.states.language.map_schema import ExclusiveKeys, Key, MapSchema
from statewright.workflow.states.language.transitions import note_flat_condition, split_condition, split_switch
from statewright.workflow.states.language.value_kinds import Anything, Choice, Flag, ListOf, Map, Number, Text

_NAME: Final = Text(empty=False)
_TARGET: Final = Text(empty=False, advice="Write one state, or state_ids: [...] for several that run concurrently.")
_TEXTS: Final = ListOf(Text())
_COUNT: Final = Number(1, whole=True)


RETRY_POLICY: Final = MapSchema(
    name="retry_policy",
    words="a map such as {max_attempts: 3, initial_interval: 1}",
    doc="How often a state is retried, and with which delays.",
    noun="The retry policy",
    keys=(
        Key("initial_interval", Number(0), "Seconds before the second attempt.", default=0.5),
        Key("backoff_factor", Number(1, 10), "The factor between consecutive delays.", default=2.0),
        Key("max_interval", Number(0), "The longest delay, in seconds.", default=128.0),
        Key("max_attempts", Number(1, 100, whole=True), "Attempts in total, including the first one.", default=10),
        Key(
            "initial_interval_seconds",
            Number(0),
            "Seconds before the second attempt.",
            stands_for="initial_interval",
            both_allowed=True,
        ),
        Key(
            "max_interval_seconds",
            Number(0),
            "The longest delay, in seconds.",
            stands_for="max_interval",
            both_allowed=True,
        ),
    ),
)

MCP_CONFIG: Final = MapSchema(
    name="mcp_config",
    words="a map with a command or a url",
    doc="How an MCP server is started or reached.",
    noun="The config of the MCP server",
    keys=(
        Key("command", Text(), "The program to start."),
        Key("url", Text(), "The URL of the server."),
        Key("args", ListOf(Anything()), "Arguments of the program.", default=[]),
        Key("env", Map(), "Variables of its environment.", default={}),
        Key("headers", Map(), "Headers of each request.", default={}),
        Key("type", Text(), "The transport: streamable-http; without it stdio, or SSE for a url."),
        Key("auth_token", Text(), "Sent with each request."),
        Key("single_usage", Flag(), "Whether to start a server for each call.", default=False),
    ),
)

MCP_SERVER: Final = MapSchema(
    name="mcp_server",
    words="a map with a name and a config",
    doc="A server of the Model Context Protocol.",
    noun="The MCP server",
    keys=(
        Key("name", _NAME, "The name of the server.", required=True),
        Key("description", Text(), "Its purpose."),
        Key("enabled", Flag(), "Whether its tools are offered.", default=True),
        Key("config", MCP_CONFIG, "How it is started or reached."),
        Key("command", Text(), "The program to start; better written in config."),
        Key("arguments", Anything(), "Arguments of the program; better written in config."),
        Key("mcp_connect_url", Text(), "A proxy through which the server is reached."),
        Key("mcp_config_id", Text(), "The id of a server of the project."),
        Key("tools_tokens_size_limit", _COUNT, "The maximum length of results, in tokens; longer ones are truncated."),
        Key("integration_alias", Text(), "The integration that holds its credentials."),
        Key(
            "resolve_dynamic_values_in_arguments",
            Flag(),
            "Whether its config may name keys of the context.",
            default=False,
        ),
        Key("tools", _TEXTS, "The tools that may be used; all of them if not given."),
    ),
)

ASSISTANT_TOOL: Final = MapSchema(
    name="assistant_tool",
    words="a map with a name",
    doc="A tool that an assistant may call.",
    noun="The tool",
    advice="Write '- name: the_tool'.",
    keys=(
        Key("name", _NAME, "The name of the tool.", required=True),
        Key("integration_alias", Text(), "The integration that holds its credentials."),
    ),
)

ASSISTANT: Final = MapSchema(
    name="assistant",
    words="a map with an id",
    doc="A model with instructions, defined in the file or in the project.",
    noun="Assistant",
    one_of=("assistant_id", "system_prompt"),
    keys=(
        Key("id", _NAME, "The name by which states refer to it.", required=True),
        Key("assistant_id", Text(), "The id of an assistant of the project."),
        Key("system_prompt", Text(), "Its instructions."),
        Key("name", Text(), "A display name."),
        Key("model", Text(), "The model that answers."),
        Key("temperature", Number(0, 2, range_phase=Phase.RULES), "The sampling temperature, from 0 to 2."),
        Key(
            "limit_tool_output_tokens",
            _COUNT,
            "The maximum length of tool results, in tokens; longer ones are truncated.",
            default=10_000,
        ),
        Key("tools", ListOf(ASSISTANT_TOOL), "The tools that it may call.", default=[]),
        Key("datasource_ids", _TEXTS, "Data sources that it may search.", default=[]),
        Key("skill_ids", _TEXTS, "Its skills.", default=[]),
        Key("exclude_extra_context_tools", Flag(), "Whether it has only the named tools.", default=False),
        Key("mcp_servers", ListOf(MCP_SERVER), "Servers whose tools it may call.", default=[]),
    ),
)

TOOL: Final = MapSchema(
    name="tool",
    words="a map with an id and a tool",
    doc="A tool that states call without a model.",
    noun="Tool",
    keys=(
        Key("id", _NAME, "The name by which states refer to it.", required=True),
        Key("tool", _NAME, "The name of the function.", required=True),
        Key("tool_args", Map(), "Its arguments, which a state may replace."),
        Key("integration_alias", Text(), "The integration that holds its credentials."),
        Key("tool_result_json_pointer", Text(), "A JSON pointer to a part of the result; empty for all of it."),
        Key("trace", Flag(), "Whether calls are logged in detail.", default=False),
        Key("resolve_dynamic_values_in_response", Flag(), "Whether {{...}} in a result is filled in.", default=False),
        Key("mcp_server", MCP_SERVER, "The server that has the tool."),
        Key("input_key", Text(), "A path into the context: missing arguments are read from the map there."),
        Key("tokens_size_limit", _COUNT, "The maximum length of results, in tokens; longer ones are truncated."),
        Key("toolset", Anything(), "A label.", ignored="a tool is found by its name alone."),
    ),
)

CUSTOM_NODE: Final = MapSchema(
    name="custom_node",
    words="a map with an id and a custom_node_id",
    doc="A node that is neither an assistant nor a tool.",
    noun="Custom node",
    keys=(
        Key("id", _NAME, "The name by which states refer to it.", required=True),
        Key("custom_node_id", _NAME, "Its kind; the id by default."),
        Key("name", Text(), "A display name."),
        Key("model", Text(), "The model that it calls."),
        Key("system_prompt", Text(), "Instructions for the model."),
        Key("config", Map(), "The settings of its kind.", default={}),
    ),
)

CONDITION: Final = MapSchema(
    name="condition",
    words="a map with the keys expression, then and otherwise",
    doc="A choice between two targets.",
    noun="The condition",
    keys=(
        Key(
            "expression",
            Text(empty=False),
            "A test of the result, such as \"status == 'ok'\".",
            required=True,
            also=("if", "condition", "when", "test"),
        ),
        Key("then", _NAME, "The state if it holds.", required=True, also=("true", "yes")),
        Key(
            "otherwise",
            _NAME,
            "The state if it does not hold, or cannot be evaluated.",
            required=True,
            also=("else", "default", "false", "no"),
        ),
    ),
)

CASE: Final = MapSchema(
    name="case",
    words="a map with the keys condition and state_id",
    doc="One case of a switch.",
    noun="The case",
    keys=(
        Key(
            "condition",
            Text(empty=False, advice="Write condition: the expression itself, as a text."),
            "A test of the result, such as 'score >= 90'.",
            required=True,
            also=("expression", "if", "when", "case"),
        ),
        Key("state_id", _NAME, "The state if it holds.", required=True, also=("then", "goto", "target")),
        Key("iter_key", Anything(), "Does nothing.", ignored="the target of a case runs once. Iterate from there."),
    ),
)

SWITCH: Final = MapSchema(
    name="switch",
    words="a map with the keys cases and default",
    doc="A choice between several targets: the first case that holds wins.",
    noun="The switch",
    advice="Write switch: {cases: [{condition: ..., state_id: ...}], default: ...}.",
    keys=(
        Key("cases", ListOf(CASE), "The cases, tested in order.", required=True),
        Key("default", _NAME, "The state if no case holds.", required=True, also=("otherwise", "else")),
    ),
)

_ONE_WAY: Final = "Keep one of them: a state has one transition."

NEXT: Final = MapSchema(
    name="next",
    words="a map that describes the transition",
    doc="The transition of a state, and its effects on context and history.",
    noun="'next'",
    advice="Write next: {state_id: the_state}.",
    one_of=("state_id", "state_ids", "condition", "switch"),
    misspelt=note_flat_condition,
    exclusive=(
        ExclusiveKeys("condition", "switch", _ONE_WAY),
        ExclusiveKeys("state_id", "state_ids", _ONE_WAY),
        ExclusiveKeys(
            "state_ids", "iter_key", "Iterate with state_id, and let the last state of the chain have state_ids."
        ),
        ExclusiveKeys("state_ids", "condition", _ONE_WAY),
        ExclusiveKeys("state_ids", "switch", _ONE_WAY),
        ExclusiveKeys("iter_key", "condition", split_condition),
        ExclusiveKeys("iter_key", "switch", split_switch),
    ),
    needs=(("iter_key", "state_id"),),
    keys=(
        Key("state_id", _TARGET, "The next state; end for none.", also=("goto", "state", "target", "to")),
        Key(
            "state_ids",
            ListOf(_NAME, at_least=1, distinct=True, advice="Write the next states, or state_id: end."),
            "The next states, which run concurrently.",
            also=("states",),
        ),
        Key("condition", CONDITION, "A choice between two targets.", also=("if",)),
        Key("switch", SWITCH, "A choice between several targets.", also=("cases",)),
        Key("iter_key", Text(), "The path of the items in the result: the target runs once for each."),
        Key("output_key", Text(), "Also store the result in the context under this key."),
        Key("store_in_context", Flag(), "Whether the result is stored in the context.", default=True),
        Key("include_in_llm_history", Flag(), "Whether the result is added to the history.", default=True),
        Key(
            "keep_history",
            Flag(),
            "Whether the result is added to the history.",
            stands_for="include_in_llm_history",
            both_allowed=True,
        ),
        Key("clear_prior_messages", Flag(), "Whether the earlier history is removed.", default=False),
        Key(
            "clear_context_store",
            Flag(("keep_current",)),
            "Whether the context is emptied; keep_current keeps what this state stored.",
            default=False,
        ),
        Key("reset_keys_in_context_store", _TEXTS, "Keys that are removed from the context."),
        Key("override_task", Flag(), "In an iteration: the result is the item of the next state.", default=False),
        Key("append_to_context", Flag(), "Whether values are appended to lists.", default=False),
        Key(
            "include_in_iterator_context",
            _TEXTS,
            "The keys of the context that the branches of an iteration see; * for all.",
            default=["*"],
        ),
        Key("use_flyweight_history", Anything(), "Does nothing.", ignored="histories are always shared."),
    ),
)

STATE: Final = MapSchema(
    name="state",
    words="a map with an id",
    doc="A state of a workflow.",
    noun="State",
    one_of=("assistant_id", "tool_id", "custom_node_id"),
    exclusive=(
        ExclusiveKeys("assistant_id", "tool_id", "Keep one of them, and make a state of the other."),
        ExclusiveKeys("assistant_id", "custom_node_id", "Keep one of them, and make a state of the other."),
        ExclusiveKeys("tool_id", "custom_node_id", "Keep one of them, and make a state of the other."),
    ),
    keys=(
        Key("id", _NAME, "The name of the state.", required=True),
        Key("assistant_id", _NAME, "The id of the assistant that runs the state.", also=("assistant", "agent")),
        Key("tool_id", _NAME, "The id of the tool that runs the state.", also=("tool",)),
        Key("custom_node_id", _NAME, "The id of the custom node that runs the state."),
        Key("task", Text(), "The task, as a template.", default="", also=("prompt",)),
        Key("next", NEXT, "The transition, such as {state_id: end}.", required=True),
        Key("tool_args", Map(), "Arguments that replace those of the tool."),
        Key(
            "output_schema",
            Text(advice="Write the JSON as a text, after 'output_schema: |'."),
            "The format of the answer: a JSON Schema, or an example.",
        ),
        Key("retry_policy", RETRY_POLICY, "Overrides the policy of the workflow, field by field."),
        Key("interrupt_before", Flag(), "Whether to pause for confirmation before it runs.", default=False),
        Key(
            "wait_for_user_confirmation",
            Flag(),
            "Whether to pause for confirmation before it runs.",
            stands_for="interrupt_before",
        ),
        Key(
            "finish_iteration",
            Flag(),
            "Whether it finishes its item, so that iter_key splits the result again.",
            default=False,
        ),
        Key(
            "resolve_dynamic_values_in_prompt",
            Flag(),
            "Whether {{...}} in the task is filled in.",
            default=True,
        ),
        Key(
            "result_as_human_message",
            Flag(),
            "Whether the result is added to the history as a user message.",
            default=False,
        ),
        Key("output_format", Anything(), "Does nothing.", ignored="say the form of the answer in output_schema."),
    ),
)

_ABOUT: Final = (
    Key("name", Text(), "A display name."),
    Key("description", Text(), "Its purpose."),
    Key("slug", Text(), "A name for URLs."),
    Key("icon_url", Text(), "An icon."),
    Key("start_hint", Anything(), "A hint for users who start it."),
    Key("supervisor_prompt", Text(), "Of the mode Autonomous, which is not supported."),
    Key("video_link", Text(), "A video about it."),
)
_MODE: Final = Key("mode", Choice(("Sequential",)), "How the next state is determined.", default="Sequential")

WORKFLOW: Final = MapSchema(
    name="workflow",
    words="a map with the key states",
    doc="A workflow of states.",
    noun="The workflow",
    keys=(
        *_ABOUT,
        _MODE,
        Key("assistants", ListOf(ASSISTANT), "Models with instructions.", default=[]),
        Key("tools", ListOf(TOOL), "Functions that are called without a model.", default=[]),
        Key("custom_nodes", ListOf(CUSTOM_NODE), "Nodes of other kinds.", default=[]),
        Key(
            "states",
            ListOf(STATE, at_least=1, advice="A workflow must have at least one valid state."),
            "The states; a run starts with the first one.",
            required=True,
            also=("steps", "nodes"),
        ),
        Key(
            "messages_limit_before_summarization",
            Number(1, 10_000, whole=True),
            "The maximum length of the history, in messages; a longer one is summarized.",
            default=25,
        ),
        Key(
            "tokens_limit_before_summarization",
            Number(1, 2**31 - 1, whole=True),
            "The maximum length of the history, in tokens; a longer one is summarized.",
            default=50_000,
        ),
        Key("enable_summarization_node", Flag(), "Whether the run ends with a summary.", default=True),
        Key("recursion_limit", Number(1, 5_000, whole=True), "The maximum number of supersteps of a run.", default=50),
        Key(
            "max_concurrency",
            Number(1, 100, whole=True),
            "The maximum number of states that run concurrently.",
            default=10,
        ),
        Key("retry_policy", RETRY_POLICY, "How often states are retried."),
        Key(
            "max_iteration_key_output_limit",
            Number(1, 10_000, whole=True),
            "Accepted for compatibility; has no effect.",
            default=200,
        ),
        Key("verbose", Flag(), "A label.", default=True),
        Key("type", Text(), "A label.", default="generic"),
        Key("limit_tool_output_tokens", Anything(), "Does nothing.", ignored="it belongs to an assistant."),
    ),
)

WRAPPER: Final = MapSchema(
    name="wrapper",
    words="a map with the key execution_config",
    doc="A workflow of states with its metadata.",
    noun="The file",
    keys=(*_ABOUT, _MODE, Key("execution_config", WORKFLOW, "The workflow itself.", required=True)),
)

SCHEMAS: Final = (
    WRAPPER,
    WORKFLOW,
    ASSISTANT,
    ASSISTANT_TOOL,
    TOOL,
    CUSTOM_NODE,
    MCP_SERVER,
    MCP_CONFIG,
    STATE,
    NEXT,
    CONDITION,
    SWITCH,
    CASE,
    RETRY_POLICY,
)
