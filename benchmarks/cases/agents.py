"""An agent that calls a tool in every turn: the cost of a turn without its model and its tools.

The model answers from the length of the conversation, so that one app serves many runs. Each engine has it in
its own form: a ChatModel, and a chat model of LangChain. A turn is a call of the model and one of a tool.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from benchmarks.figure import Figure, Rival
from benchmarks.requirement import AtLeast
from benchmarks.timing import per_await, per_call

TURNS = 50
WIDTH = 1000
"""Tool calls per response of the model."""


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def add_async(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def our_agent(tool: Callable[..., Any], turns: int, width: int = 1) -> Any:
    from statewright.agents import create_agent
    from statewright.messages import Message, ToolCall
    from statewright.models import ModelRequest, ModelResponse

    name = tool.__name__

    class Model:
        """A model that calls tools in every turn but the last."""

        async def complete(self, request: ModelRequest) -> ModelResponse:
            length = len(request.messages)
            if length > turns * (1 + width):
                return ModelResponse(Message("done", role="assistant"))
            calls = tuple(ToolCall(f"{length}-{index}", name, {"a": 1, "b": 2}) for index in range(width))
            return ModelResponse(Message("", role="assistant", tool_calls=calls))

    return create_agent(Model(), [tool])


def their_agent(tool: Callable[..., Any], turns: int, width: int = 1) -> Any:
    import warnings

    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessage
    from langchain_core.outputs import ChatGeneration, ChatResult
    from langgraph.prebuilt import create_react_agent

    name = tool.__name__

    class Model(BaseChatModel):
        """The same as a chat model of LangChain."""

        @property
        def _llm_type(self) -> str:
            return "scripted"

        def bind_tools(self, tools: Any, **options: Any) -> Any:
            return self

        def _answer(self, messages: Any) -> Any:
            length = len(messages)
            if length > turns * (1 + width):
                return AIMessage("done")
            calls = [{"id": f"{length}-{index}", "name": name, "args": {"a": 1, "b": 2}} for index in range(width)]
            return AIMessage("", tool_calls=calls)

        def _generate(self, messages: Any, *args: Any, **options: Any) -> Any:
            return ChatResult(generations=[ChatGeneration(message=self._answer(messages))])

        async def _agenerate(self, messages: Any, *args: Any, **options: Any) -> Any:
            return ChatResult(generations=[ChatGeneration(message=self._answer(messages))])

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return create_react_agent(Model(), [tool])


Build = Callable[[Callable[..., Any], int, int], Any]
START = {"messages": [("user", "go")]}


def runs(build: Build, turns: int = TURNS, width: int = 1) -> Callable[[], Callable[[], object]]:
    def make() -> Callable[[], object]:
        app = build(add, turns, width)
        return lambda: app.invoke(START, {"recursion_limit": 10_000})

    return make


def async_runs(build: Build, turns: int = TURNS, width: int = 1) -> Callable[[], Callable[[], Awaitable[object]]]:
    def make() -> Callable[[], Awaitable[object]]:
        app = build(add_async, turns, width)
        return lambda: app.ainvoke(START, {"recursion_limit": 10_000})

    return make


FIGURES = (
    Figure(
        name=f"agent, {TURNS} turns with a coroutine tool, async",
        unit="us a turn",
        ours=per_await(async_runs(our_agent), TURNS),
        rivals=(Rival(name="langgraph", take=per_await(async_runs(their_agent), TURNS), requirement=AtLeast(15)),),
    ),
    Figure(
        name=f"agent, {TURNS} turns with a plain tool, sync",
        unit="us a turn",
        ours=per_call(runs(our_agent), TURNS),
        rivals=(Rival(name="langgraph", take=per_call(runs(their_agent), TURNS), requirement=AtLeast(15)),),
    ),
    Figure(
        name=f"agent, {WIDTH} calls of a tool in one answer, async",
        unit="us a call",
        ours=per_await(async_runs(our_agent, 1, WIDTH), WIDTH),
        rivals=(
            Rival(name="langgraph", take=per_await(async_runs(their_agent, 1, WIDTH), WIDTH), requirement=AtLeast(15)),
        ),
    ),
)
