"""Tools of LangChain as tools of agents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from statewright.agents.tools.options import ToolOptions, check_name
from statewright.agents.tools.tool import ToolContext
from statewright.agents.tools.wrong_call import WrongCall


class LangChainTool:
    """Calls a tool of LangChain, which checks its arguments itself."""

    def __init__(self, tool: Any) -> None:
        self.name = check_name(tool.name)
        self.description: str = tool.description or ""
        self.parameters: Mapping[str, Any] = tool.tool_call_schema.model_json_schema()
        self.options = ToolOptions(return_direct=bool(getattr(tool, "return_direct", False)))
        self._tool = tool

    async def call(self, arguments: Mapping[str, Any], *, context: ToolContext) -> Any:
        """What the tool answers. Raises ToolError for arguments that it does not take, and what it raises."""
        from pydantic import ValidationError

        try:
            return await self._tool.ainvoke(dict(arguments))
        except ValidationError as error:
            wrong = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors())
            raise WrongCall(f"Tool {self.name!r} was called with other arguments than it takes: {wrong}.") from None

    def __repr__(self) -> str:
        return f"LangChainTool({self.name!r})"


def is_langchain_tool(value: object) -> bool:
    """Whether a value is a tool of LangChain, told by its classes so that the package need not be loaded."""
    kinds = type(value).__mro__
    return any(kind.__name__ == "BaseTool" and kind.__module__.startswith("langchain_core.") for kind in kinds)
