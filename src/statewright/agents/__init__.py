"""Agents: models with tools, networks of agents with a router, and prebuilt graphs."""

from statewright.agents.agent import Agent, Lifecycle, Prompt
from statewright.agents.loop.model_call import ask, is_worth_another_attempt, retry_policy
from statewright.agents.loop.request import MemoryNotes
from statewright.agents.loop.run import NetworkRun
from statewright.agents.network.network import Network
from statewright.agents.network.router import Router, RoutingAgent, default_router
from statewright.agents.prebuilt import (
    AgentState,
    HandoffTool,
    PlannerState,
    ReflectionState,
    SwarmState,
    ToolNode,
    create_agent,
    create_handoff_tool,
    create_planner,
    create_react_agent,
    create_reflection,
    create_supervisor,
    create_swarm,
    tools_condition,
)
from statewright.agents.state.result import AgentResult, StopReason, UsageLimits
from statewright.agents.state.state import State
from statewright.agents.thread_history import ThreadHistory
from statewright.agents.tools import (
    NO_CREDENTIALS,
    Credentials,
    HandlerTool,
    HttpError,
    InjectedState,
    InjectedStore,
    InjectedToolCallId,
    Tool,
    ToolContext,
    ToolFunction,
    ToolOptions,
    as_json,
    as_text,
    call_tool,
    check_name,
    create_tool,
    tool,
)
from statewright.agents.tools.calling import ModelRetry, answer_call
from statewright.agents.tools.tool import status_of

__all__ = [
    "NO_CREDENTIALS",
    "Agent",
    "AgentResult",
    "AgentState",
    "Credentials",
    "HandlerTool",
    "HandoffTool",
    "HttpError",
    "InjectedState",
    "InjectedStore",
    "InjectedToolCallId",
    "Lifecycle",
    "MemoryNotes",
    "ModelRetry",
    "Network",
    "NetworkRun",
    "PlannerState",
    "Prompt",
    "ReflectionState",
    "Router",
    "RoutingAgent",
    "State",
    "StopReason",
    "SwarmState",
    "ThreadHistory",
    "Tool",
    "ToolContext",
    "ToolFunction",
    "ToolNode",
    "ToolOptions",
    "UsageLimits",
    "answer_call",
    "as_json",
    "as_text",
    "ask",
    "call_tool",
    "check_name",
    "create_agent",
    "create_handoff_tool",
    "create_planner",
    "create_react_agent",
    "create_reflection",
    "create_supervisor",
    "create_swarm",
    "create_tool",
    "default_router",
    "is_worth_another_attempt",
    "retry_policy",
    "status_of",
    "tool",
    "tools_condition",
]
