"""The MCP servers of workflows: their configuration, permissions, connections and tools.

A workflow file cannot start programs or reach hosts that its project does not allow.
"""

from statewright.workflow.states.mcp.permission import command_snippet, host_snippet, is_path, server_snippet
from statewright.workflow.states.mcp.servers import McpServers, ServerTool

__all__ = ["McpServers", "ServerTool", "command_snippet", "host_snippet", "is_path", "server_snippet"]
