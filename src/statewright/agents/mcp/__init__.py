"""Tools of servers that implement the Model Context Protocol.

All connections of a process run on one separate thread, so tools may be called from any event loop. McpTools with equal
server descriptions share a connection. The MCP SDK is imported when a server is first used.
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
