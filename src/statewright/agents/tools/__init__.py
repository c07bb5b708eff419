"""Tools: functions with a schema that models may ask to be called, and what they are told beside their arguments."""

from statewright.agents.tools.calling import as_json, call_tool
from statewright.agents.tools.content import content_parts
from statewright.agents.tools.credentials import NO_CREDENTIALS, Credentials
from statewright.agents.tools.function import ToolFunction, tool
from statewright.agents.tools.handler import HandlerTool, create_tool
from statewright.agents.tools.http_error import HttpError
from statewright.agents.tools.injected import InjectedState, InjectedStore, InjectedToolCallId
from statewright.agents.tools.langchain import LangChainTool, is_langchain_tool
from statewright.agents.tools.options import ToolOptions, check_name
from statewright.agents.tools.text import as_text
from statewright.agents.tools.tool import Tool, ToolContext
from statewright.agents.tools.wrong_call import WrongCall

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
