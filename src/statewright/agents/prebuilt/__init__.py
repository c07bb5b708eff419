"""Prebuilt graphs: an agent with tools, groups of agents, a planner, and a reflection loop."""

from statewright.agents.prebuilt.handoff import HandoffTool, create_handoff_tool
from statewright.agents.prebuilt.planner import PlannerState, create_planner
from statewright.agents.prebuilt.react import AgentState, create_agent, create_react_agent
from statewright.agents.prebuilt.reflection import ReflectionState, create_reflection
from statewright.agents.prebuilt.supervisor import create_supervisor
from statewright.agents.prebuilt.swarm import SwarmState, create_swarm
from statewright.agents.prebuilt.tool_node import ToolNode, tools_condition

__all__ = [
    "AgentState",
    "HandoffTool",
    "PlannerState",
    "ReflectionState",
    "SwarmState",
    "ToolNode",
    "create_agent",
    "create_handoff_tool",
    "create_planner",
    "create_react_agent",
    "create_reflection",
    "create_supervisor",
    "create_swarm",
    "tools_condition",
]
