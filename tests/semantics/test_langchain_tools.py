"""LangChain tools, and functions with LangChain annotations, in agents: arguments are injected as in LangGraph."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Optional, cast

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig  # read from annotations
from langchain_core.tools import BaseTool, InjectedToolArg, InjectedToolCallId, StructuredTool, ToolException
from langchain_core.tools import tool as langchain_tool
from pydantic import BaseModel, Field
from pydantic.v1 import BaseModel as BaseModelV1

from statewright import START, Command, InMemorySaver, InMemoryStore, MessagesState, StateGraph, interrupt
from statewright.agents import (
    Agent,
    Network,
    State,
    ToolContext,
    ToolNode,
    create_agent,
)
from statewright.agents import InjectedState as OurState
from statewright.agents import InjectedToolCallId as OurCallId
from statewright.errors import InvalidConfig
from statewright.langchain import InjectedState, InjectedStore, ToolRuntime
from statewright.langchain import MessagesState as LangChainState
from statewright.messages import Message, ToolCall, as_message
from statewright.models import ScriptedModel

CONFIG = {"configurable": {"thread_id": "t1", "user_id": "u1"}, "tags": ["a"], "metadata": {"team": "x"}}


class Shop(MessagesState):
    basket: list[str]


class LangChainShop(LangChainState):
    basket: list[str]


def compile_tool(tool: Any, *, state: Any = Shop, **options: Any) -> Any:
    graph = StateGraph(state)
    graph.add_node("tools", ToolNode([tool]))
    graph.add_edge(START, "tools")
    return graph.compile(InMemorySaver(), **options)


def call_tool(tool: Any, arguments: dict[str, Any] | None = None, **options: Any) -> Message:
    """Call a tool with both drivers, which must agree; return the message."""
    name = getattr(tool, "name", None) or tool.__name__
    call = ToolCall("c1", name, arguments if arguments is not None else {"city": "Rome"})
    state_input = {"messages": [Message("", "assistant", tool_calls=(call,))], "basket": ["tea"]}
    results = [
        compile_tool(tool, **options).invoke(state_input, CONFIG),
        asyncio.run(compile_tool(tool, **options).ainvoke(state_input, CONFIG)),
    ]
    first, second = (cast("Message", as_message(result["messages"][-1])) for result in results)
    assert (first.content, first.metadata) == (second.content, second.metadata)
    return first


def visible_parameters(tool: Any) -> list[str]:
    """Return the parameters that the model sees."""
    (adapted,) = ToolNode([tool]).tools_by_name.values()
    assert set(adapted.parameters.get("required", ())) <= set(adapted.parameters["properties"])
    return list(adapted.parameters["properties"])


def every_form(function: Any, coroutine: Any = None) -> list[Any]:
    """Return a function as itself, as a decorated tool and as a StructuredTool."""
    forms = [function, langchain_tool(function), StructuredTool.from_function(function)]
    return [*forms, StructuredTool.from_function(coroutine=coroutine)] if coroutine else forms


def with_injected(
    city: str,
    state: Annotated[dict[str, Any], InjectedState],
    basket: Annotated[list[str], InjectedState("basket")],
    call_id: Annotated[str, InjectedToolCallId],
    store: Annotated[Any, InjectedStore()],
    config: RunnableConfig,
    runtime: ToolRuntime,
) -> str:
    """Say what is there."""
    return " ".join(
        [
            city,
            ",".join(sorted(state)),
            ",".join(basket),
            call_id,
            type(store).__name__,
            config["configurable"]["user_id"],
            f"{runtime.tool_call_id}/{runtime.state['basket'][0]}/{runtime.config['configurable']['thread_id']}",
        ]
    )


async def with_injected_async(
    city: str,
    state: Annotated[dict[str, Any], InjectedState],
    basket: Annotated[list[str], InjectedState("basket")],
    call_id: Annotated[str, InjectedToolCallId],
    store: Annotated[Any, InjectedStore()],
    config: RunnableConfig,
    runtime: ToolRuntime,
) -> str:
    """Say what is there."""
    return with_injected(city, state, basket, call_id, store, config, runtime)


class InjectedArguments(BaseModel):
    city: str
    state: Annotated[dict[str, Any], InjectedState]
    basket: Annotated[list[str], InjectedState("basket")]
    call_id: Annotated[str, InjectedToolCallId]
    store: Annotated[Any, InjectedStore()]


class WithInjected(BaseTool):
    name: str = "with_injected"
    description: str = "Say what is there."
    args_schema: Any = InjectedArguments

    def _run(self, city: str, config: RunnableConfig, runtime: ToolRuntime, **injected: Any) -> str:
        return with_injected(city, config=config, runtime=runtime, **injected)


class WithInjectedAsync(WithInjected):
    name: str = "with_injected_async"

    async def _arun(self, city: str, config: RunnableConfig, runtime: ToolRuntime, **injected: Any) -> str:
        return with_injected(city, config=config, runtime=runtime, **injected)


class WithoutSchema(BaseTool):
    name: str = "without_schema"
    description: str = "Say what is there."

    def _run(
        self,
        city: str,
        state: Annotated[dict[str, Any], InjectedState],
        basket: Annotated[list[str], InjectedState("basket")],
        call_id: Annotated[str, InjectedToolCallId],
        store: Annotated[Any, InjectedStore()],
        config: RunnableConfig,
        runtime: ToolRuntime,
    ) -> str:
        return with_injected(city, state, basket, call_id, store, config, runtime)


JSON = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
FORMS = [
    *every_form(with_injected, with_injected_async),
    StructuredTool.from_function(with_injected, with_injected_async, name="both"),
    StructuredTool.from_function(with_injected, args_schema=JSON, name="by_json"),
    StructuredTool.from_function(
        with_injected,
        args_schema={**JSON, "properties": {**JSON["properties"], "state": {"type": "object"}}},
        name="shows",
    ),
    WithInjected(),
    WithInjectedAsync(),
    WithoutSchema(),
]


@pytest.mark.parametrize("tool", FORMS, ids=lambda tool: f"{type(tool).__name__}-{getattr(tool, 'name', 'plain')}")
def test_arguments_are_injected_in_every_form_of_a_tool_and_hidden_from_the_model(tool: Any) -> None:
    assert visible_parameters(tool) == ["city"]
    message = call_tool(tool, store=InMemoryStore())
    assert message.text == "Rome basket,messages tea c1 InMemoryStore u1 c1/tea/t1"


@pytest.mark.parametrize("tool", FORMS[1:], ids=lambda tool: f"{type(tool).__name__}-{tool.name}")
def test_a_model_cannot_overwrite_injected_arguments(tool: Any) -> None:
    forged = {"city": "Rome", "basket": ["bomb"], "call_id": "c9", "state": {}, "store": 1, "config": {}, "runtime": 2}
    message = call_tool(tool, forged, store=InMemoryStore())
    assert message.text == "Rome basket,messages tea c1 InMemoryStore u1 c1/tea/t1"


def test_a_function_with_keyword_arguments_refuses_injected_arguments_of_a_model() -> None:
    def anything(city: str, basket: Annotated[list[str], InjectedState("basket")] = [], **more: Any) -> str:  # noqa: B006
        """Say it."""
        return f"{city} {basket} {more}"

    assert call_tool(anything, {"city": "Rome", "size": 3}).text == "Rome ['tea'] {'size': 3}"
    assert "argument 'basket' does not exist" in call_tool(anything, {"city": "Rome", "basket": ["bomb"]}).text


def test_a_tool_gets_the_config_of_the_run() -> None:
    seen: list[Any] = []

    class Handler(BaseCallbackHandler):
        def on_tool_start(self, serialized: Any, input_str: str, **more: Any) -> None:
            seen.append((serialized["name"], more["tags"], more["metadata"]["langgraph_node"]))

    def look(city: str, config: RunnableConfig) -> str:
        """Look."""
        seen.append({**config, "callbacks": None})
        return "ok"

    for tool in (look, langchain_tool(look)):
        state_input = {"messages": [Message("", "assistant", tool_calls=(ToolCall("c1", "look", {"city": "R"}),))]}
        compile_tool(tool).invoke(state_input, {**CONFIG, "callbacks": [Handler()]})
    plain, started, config = seen
    assert started == ("look", ["a"], "tools")
    for run_config in (plain, config):
        assert run_config["configurable"] == {"thread_id": "t1", "user_id": "u1"}
        assert run_config["tags"] == ["a"]
        metadata = {
            name: run_config["metadata"][name] for name in ("team", "thread_id", "langgraph_node", "langgraph_step")
        }
        assert metadata == {"team": "x", "thread_id": "t1", "langgraph_node": "tools", "langgraph_step": 1}


def optional_config(city: str, config: Optional[RunnableConfig] = None) -> str:  # noqa: UP045
    """Look."""
    return str(config and config["configurable"]["user_id"])


def optional_marker(city: str, call_id: Annotated[str | None, InjectedToolCallId] = None) -> str:
    """Look."""
    return str(call_id)


def named_runtime(city: str, runtime) -> str:  # type: ignore[no-untyped-def]
    """Look."""
    return str(runtime.tool_call_id)


def our_markers(
    city: str,
    state: Annotated[Any, OurState],
    call_id: Annotated[str, OurCallId()],
    context: ToolContext,
) -> str:
    """Look."""
    return f"{sorted(state)} {call_id} {context.tool_call_id}"


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (optional_config, "u1"),
        (optional_marker, "c1"),
        (our_markers, "['basket', 'messages'] c1 c1"),
    ],
)
def test_the_same_annotations_mean_the_same_in_functions_and_tools(function: Any, text: str) -> None:
    for tool in every_form(function):
        assert visible_parameters(tool) == ["city"]
        assert call_tool(tool).text == text


def test_a_parameter_named_runtime_is_injected_in_a_langchain_tool() -> None:
    tool = langchain_tool(named_runtime)
    assert visible_parameters(tool) == ["city"]
    assert call_tool(tool).text == "c1"


class Old(BaseModelV1):
    city: str
    call_id: Annotated[str, InjectedToolCallId]


class Aliased(BaseModel):
    city: str
    basket: Annotated[list[str], InjectedState("basket")] = Field(alias="things")


def old_style(city: str, call_id: str) -> str:
    return f"{city} {call_id}"


def aliased(city: str, basket: list[str]) -> str:
    return f"{city} {basket}"


def test_schemas_may_use_pydantic_1_or_aliases() -> None:
    old = StructuredTool.from_function(old_style, args_schema=Old, description="Old.")
    assert visible_parameters(old) == ["city"]
    assert call_tool(old).text == "Rome c1"
    renamed = StructuredTool.from_function(aliased, args_schema=Aliased, description="Aliased.")
    assert visible_parameters(renamed) == ["city"]
    assert call_tool(renamed, {"city": "Rome", "things": ["bomb"]}).text == "Rome ['tea']"


# -- arguments that cannot be injected


def needs_store(city: str, memory: Annotated[Any, InjectedStore()]) -> str:
    """Look."""
    return "never"


def needs_field(city: str, owner: Annotated[str, InjectedState("owner")]) -> str:
    """Look."""
    return "never"


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (needs_store, "'needs_store' cannot be called: its injected argument 'memory' needs the store.*with store="),
        (needs_field, "'needs_field' cannot be called: its injected argument 'owner' needs the field 'owner'"),
    ],
)
def test_an_argument_that_cannot_be_injected_fails_the_run_with_a_remedy(function: Any, message: str) -> None:
    for tool in every_form(function):
        with pytest.raises(InvalidConfig, match=message):
            call_tool(tool)


def test_an_injected_field_that_is_missing_keeps_its_default() -> None:
    def owned(city: str, owner: Annotated[str, InjectedState("owner")] = "nobody") -> str:
        """Look."""
        return owner

    for tool in every_form(owned):
        assert call_tool(tool).text == "nobody"


def test_a_parameter_marked_only_as_injected_needs_a_default() -> None:
    def secret(city: str, key: Annotated[str, InjectedToolArg]) -> str:
        """Look."""
        return key

    def with_default(city: str, key: Annotated[str, InjectedToolArg] = "k") -> str:
        """Look."""
        return key

    for tool in every_form(secret):
        with pytest.raises(InvalidConfig, match="Tool 'secret': the parameter 'key' is marked with InjectedToolArg"):
            ToolNode([tool])
    for tool in every_form(with_default):
        assert visible_parameters(tool) == ["city"]
        assert call_tool(tool).text == "k"
    assert call_tool(every_form(with_default)[1], {"city": "Rome", "key": "forged"}).text == "k"


def test_an_annotation_that_cannot_be_resolved_is_refused() -> None:
    class Hidden(BaseTool):
        name: str = "hidden"
        description: str = "Look."
        args_schema: Any = JSON

        def _run(self, city: str, state: Annotated[Nowhere, InjectedState]) -> str:  # noqa: F821  # type: ignore
            return city

    with pytest.raises(InvalidConfig, match="of parameter 'state' of tool 'hidden' cannot be resolved: name 'Nowhere'"):
        ToolNode([Hidden()])


def test_a_state_that_does_not_fit_its_annotation_fails_the_run() -> None:
    @langchain_tool
    def counts(city: str, basket: Annotated[dict[str, int], InjectedState("basket")]) -> str:
        """Look."""
        return "never"

    with pytest.raises(InvalidConfig, match="injected argument 'basket' does not fit the annotation"):
        call_tool(counts)
    with pytest.raises(InvalidConfig, match="injected argument 'basket' does not fit the annotation"):
        call_tool(counts, {"cities": 1, "city": "Rome"})


# -- the state


def test_langchain_tools_get_langchain_messages_and_functions_those_of_the_state() -> None:
    def look(city: str, state: Annotated[dict[str, Any], InjectedState]) -> str:
        """Look."""
        return type(state["messages"][-1]).__name__

    assert [call_tool(tool).text for tool in every_form(look)] == ["Message", "AIMessage", "AIMessage"]
    assert [call_tool(tool, state=LangChainShop).text for tool in every_form(look)] == ["AIMessage"] * 3


def test_the_injected_state_is_an_instance_of_the_annotated_class() -> None:
    class Cart(BaseModel):
        basket: list[str]

    def look(city: str, state: Annotated[Any, InjectedState]) -> str:
        """Look."""
        return f"{type(state).__name__} {state.basket}"

    look.__annotations__["state"] = Annotated[Cart, InjectedState]
    assert [call_tool(tool).text for tool in every_form(look)] == ["Cart ['tea']"] * 3


def test_an_agent_of_a_network_injects_its_data_as_the_state() -> None:
    @langchain_tool
    def look(city: str, state: Annotated[dict[str, Any], InjectedState]) -> str:
        """Look."""
        return f"{state['user']} {type(state['messages'][-1]).__name__}"

    model = ScriptedModel([ToolCall("c1", "look", {"city": "Rome"}), "end"])
    agent = Agent("a", model=model, tools=[look], max_iter=3)
    network = Network("n", agents=[agent], router=lambda call_count: None if call_count else agent)
    run = network.run("go", state=State({"user": "eve"}))
    results = [message for result in run.results for message in result.messages if message.role == "tool"]
    assert [message.text for message in results] == ["eve HumanMessage"]


# -- answers


def test_content_and_artifact_of_a_tool_are_kept() -> None:
    @langchain_tool(response_format="content_and_artifact")
    def look(city: str) -> tuple[str, dict[str, int]]:
        """Look."""
        return f"{city} is big", {"people": 3}

    message = call_tool(look)
    assert (message.text, message.metadata) == ("Rome is big", {"artifact": {"people": 3}})
    result = compile_tool(look, state=LangChainState).invoke(
        {"messages": [Message("", "assistant", tool_calls=(ToolCall("c1", "look", {"city": "Rome"}),))]}, CONFIG
    )
    last = result["messages"][-1]
    assert isinstance(last, ToolMessage)
    assert (last.content, last.artifact, last.status, last.name) == ("Rome is big", {"people": 3}, "success", "look")


def test_a_tool_may_return_a_message_with_a_status() -> None:
    @langchain_tool
    def langchain_message(city: str, call_id: Annotated[str, InjectedToolCallId]) -> ToolMessage:
        """Look."""
        return ToolMessage([{"type": "text", "text": city}], tool_call_id=call_id, status="error")

    @langchain_tool
    def statewright_message(city: str) -> Message:
        """Look."""
        return Message(city, "tool", metadata={"status": "error"})

    for tool in (langchain_message, statewright_message):
        message = call_tool(tool)
        assert (message.text, message.name, message.tool_call_id) == ("Rome", tool.name, "c1")
        assert (message.metadata or {})["status"] == "error"


def test_a_tool_may_return_a_command() -> None:
    @langchain_tool
    def buy(city: str, call_id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
        """Buy."""
        done = ToolMessage("bought", tool_call_id=call_id)
        return Command(update={"basket": ["milk"], "messages": [done]})

    call = ToolCall("c1", "buy", {"city": "Rome"})
    result = compile_tool(buy).invoke({"messages": [Message("", "assistant", tool_calls=(call,))]}, CONFIG)
    assert result["basket"] == ["milk"]
    assert [message.text for message in result["messages"]] == ["", "bought"]


def test_a_tool_keeps_its_fields_between_calls() -> None:
    class Counter(BaseTool):
        name: str = "counter"
        description: str = "Count."
        count: int = 0

        def _run(self, city: str) -> str:
            self.count += 1
            return str(self.count)

    counter = Counter()
    call = ToolCall("c1", "counter", {"city": "Rome"})
    state_input = {"messages": [Message("", "assistant", tool_calls=(call,))]}
    compiled = compile_tool(counter)
    assert [compiled.invoke(state_input, CONFIG)["messages"][-1].text for _ in range(2)] == ["1", "2"]
    assert counter.count == 2


@pytest.mark.parametrize(
    ("handling", "text"),
    [(True, "closed"), ("Try later.", "Try later."), (lambda error: f"no: {error}", "no: closed")],
)
def test_a_tool_exception_is_handled_by_the_setting_of_the_tool(handling: Any, text: str) -> None:
    def look(city: str) -> str:
        """Look."""
        raise ToolException("closed")

    message = call_tool(StructuredTool.from_function(look, handle_tool_error=handling))
    assert (message.text, message.metadata) == (text, {"status": "error"})
    unhandled = call_tool(langchain_tool(look))
    assert (unhandled.text, unhandled.metadata) == ("Error: ToolException: closed", {"status": "error"})


def test_wrong_arguments_are_reported_to_the_model_without_injected_values() -> None:
    @langchain_tool
    def count(number: int, state: Annotated[dict[str, Any], InjectedState]) -> str:
        """Count."""
        return str(number)

    message = call_tool(count, {"number": "x"})
    assert "'count' was called with wrong arguments: number: " in message.text
    assert "state" not in message.text


def test_a_validation_error_inside_a_tool_is_reported_as_its_error() -> None:
    class Inner(BaseModel):
        size: int

    @langchain_tool
    def look(city: str) -> str:
        """Look."""
        return str(Inner.model_validate({"size": city}))

    assert "ValidationError" in call_tool(look).text


def test_a_langchain_tool_can_ask_a_question() -> None:
    @langchain_tool
    def sell(city: str) -> str:
        """Sell."""
        return f"{city}: {interrupt('Really?')}"

    state_input = {"messages": [Message("", "assistant", tool_calls=(ToolCall("c1", "sell", {"city": "Rome"}),))]}
    compiled = compile_tool(sell)
    assert [question.value for question in compiled.invoke(state_input, CONFIG)["__interrupt__"]] == ["Really?"]
    assert compiled.invoke(Command(resume="yes"), CONFIG)["messages"][-1].text == "Rome: yes"


def test_an_agent_runs_on_a_state_with_langchain_messages() -> None:
    model = ScriptedModel([ToolCall("c1", "with_injected", {"city": "Rome"}), "end"])

    compiled = create_agent(model, [langchain_tool(with_injected)], state_schema=LangChainShop, store=InMemoryStore())
    result = compiled.invoke({"messages": [HumanMessage("go")], "basket": ["tea"]}, CONFIG)
    assert [message.type for message in result["messages"]] == ["human", "ai", "tool", "ai"]
    assert result["messages"][2].content == "Rome basket,messages tea c1 InMemoryStore u1 c1/tea/t1"
    assert [message.role for message in model.requests[1].messages] == ["user", "assistant", "tool"]


def test_langgraph_markers_and_runtime_are_supported() -> None:
    langgraph = pytest.importorskip("langgraph.prebuilt", reason="langgraph is not installed")
    types = pytest.importorskip("langgraph.types")

    def look(city: str, state: Any, basket: Any, runtime: Any, store: Any) -> Any:
        """Look."""
        text = f"{sorted(state)} {basket} {runtime.tool_call_id} {type(store).__name__}"
        message = ToolMessage(text, tool_call_id=runtime.tool_call_id)
        return types.Command(update={"messages": [message], "basket": ["milk"]})

    look.__annotations__ |= {
        "state": Annotated[dict[str, Any], langgraph.InjectedState],
        "basket": Annotated[list[str], langgraph.InjectedState("basket")],
        "runtime": langgraph.ToolRuntime,
        "store": Annotated[Any, langgraph.InjectedStore()],
    }
    tool = langchain_tool(look)
    assert visible_parameters(tool) == ["city"]
    assert call_tool(tool, store=InMemoryStore()).text == "['basket', 'messages'] ['tea'] c1 InMemoryStore"
