"""Tools of servers that speak the Model Context Protocol.

A connection lives on a thread of its own and is shared by all owners with the same server description, so tools may be
called from every event loop. The SDK is loaded on first use of a server.
"""

from statewright.agents.mcp.read import read_server, read_servers
from statewright.agents.mcp.server import McpServer, Sse, Stdio, StreamableHttp
from statewright.agents.mcp.tools import McpTool, McpTools, McpUnavailableWarning

__all__ = [
    "McpServer",
    "McpTool",
    "McpTools",
    "McpUnavailableWarning",
    "Sse",
    "Stdio",
    "StreamableHttp",
    "read_server",
    "read_servers",
]
