"""Tools: functions with a schema that models may call, and the context that a tool gets when it is called."""

from statewright.agents.tools.answers import as_text, content_parts
from statewright.agents.tools.calling import as_json, call_tool
from statewright.agents.tools.function import HandlerTool, ToolFunction, create_tool, tool
from statewright.agents.tools.injected import InjectedState, InjectedStore, InjectedToolCallId
from statewright.agents.tools.langchain.tool import LangChainTool, is_langchain_tool
from statewright.agents.tools.tool import (
    NO_CREDENTIALS,
    Credentials,
    HttpError,
    Tool,
    ToolContext,
    ToolOptions,
    WrongCall,
    check_name,
)

__all__ = [
    "NO_CREDENTIALS",
    "Credentials",
    "HandlerTool",
    "HttpError",
    "InjectedState",
    "InjectedStore",
    "InjectedToolCallId",
    "LangChainTool",
    "Tool",
    "ToolContext",
    "ToolFunction",
    "ToolOptions",
    "WrongCall",
    "as_json",
    "as_text",
    "call_tool",
    "check_name",
    "content_parts",
    "create_tool",
    "is_langchain_tool",
    "tool",
]
