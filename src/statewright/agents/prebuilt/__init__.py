"""Small graphs that many need: an agent with tools, and groups of agents."""

from statewright.agents.prebuilt.react import AgentState, create_agent, create_react_agent
from statewright.agents.prebuilt.tool_node import ToolNode, tools_condition

__all__ = ["AgentState", "ToolNode", "create_agent", "create_react_agent", "tools_condition"]
