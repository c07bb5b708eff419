"""Definitions of agents, and agents that run alone."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from statewright import Command, InMemorySaver, interrupt
from statewright.agents import Agent, AgentResult, Lifecycle, ThreadHistory, tool
from statewright.agents.agent import as_tool
from statewright.errors import InvalidConfig, ModelAnswerInvalid, ModelError, StatewrightError
from statewright.messages import Message, ToolCall
from statewright.models import ModelResponse, ScriptedModel

Runner = Callable[..., AgentResult]


@pytest.fixture(params=["run", "arun"])
def run(request: pytest.FixtureRequest) -> Runner:
    def by_run(agent: Agent, *args: Any, **options: Any) -> AgentResult:
        return agent.run(*args, **options)

    def by_arun(agent: Agent, *args: Any, **options: Any) -> AgentResult:
        return asyncio.run(agent.arun(*args, **options))

    return by_run if request.param == "run" else by_arun


def work(number: int) -> int:
    """Do it."""
    return number * 10


def work_call(number: int) -> ToolCall:
    return ToolCall(f"c{number}", "work", {"number": number})


# -- definition


@pytest.mark.parametrize("name", ["", "  ", None, 3])
def test_an_agent_without_a_name_is_refused(name: Any) -> None:
    with pytest.raises(InvalidConfig, match="it has no name"):
        Agent(name)


def test_duplicate_tool_names_are_refused() -> None:
    with pytest.raises(InvalidConfig, match="two of its tools are named 'work'"):
        Agent("a", tools=[work, tool(name="work")(lambda: None)])


@pytest.mark.parametrize("tools", [[3], ["work"], [None], "work", [lambda x: x]])
def test_only_tools_and_functions_are_accepted(tools: Any) -> None:
    with pytest.raises(InvalidConfig):
        Agent("a", tools=tools)


@pytest.mark.parametrize("choice", ["auto", "any", "none", "work"])
def test_tool_choice_can_be_a_known_choice_or_a_tool_name(choice: str, run: Runner) -> None:
    model = ScriptedModel(["x"])
    run(Agent("a", model=model, tools=[work], tool_choice=choice), "go")
    assert model.requests[0].tool_choice == choice


@pytest.mark.parametrize("choice", ["wrok", "", "required"])
def test_another_tool_choice_is_refused(choice: str) -> None:
    with pytest.raises(InvalidConfig, match=r"tool_choice is .*Choices: any, auto, none, work\."):
        Agent("a", tools=[work], tool_choice=choice)


@pytest.mark.parametrize("name", ["temprature", "messages", "system", "tools", "model", "tool_choice"])
def test_unknown_settings_are_refused(name: str) -> None:
    with pytest.raises(InvalidConfig, match=f"settings has an unknown key '{name}'.*Settings: .*temperature"):
        Agent("a", settings={name: 1})


def test_all_problems_are_reported_together() -> None:
    with pytest.raises(InvalidConfig, match=r"no name.*tool_choice.*settings"):
        Agent("", tool_choice="x", settings={"y": 1})


def test_settings_reach_the_model(run: Runner) -> None:
    model = ScriptedModel(["x"])
    run(Agent("a", model=model, settings={"temperature": 0.5, "max_tokens": 9, "seed": 1}), "go")
    (request,) = model.requests
    assert (request.temperature, request.max_tokens, request.seed) == (0.5, 9, 1)


def test_with_model_keeps_everything_else() -> None:
    agent = Agent(
        "a",
        description="d",
        system="s",
        assistant="{",
        tools=[work],
        tool_choice="work",
        lifecycle=Lifecycle(enabled=lambda: True),
        model=ScriptedModel([]),
        history=ThreadHistory(),
        max_iter=3,
        retries=1,
        settings={"seed": 1},
        stop_when=lambda: True,
    )
    other = ScriptedModel(["x"])
    changed = agent.with_model(other)
    assert changed.model is other
    assert agent.model is not other
    names = [name for name in vars(agent) if name != "model"]
    assert [getattr(changed, name) for name in names] == [getattr(agent, name) for name in names]


def test_functions_become_tools_and_tools_are_unchanged() -> None:
    work_tool = tool(work)
    assert as_tool(work_tool) is work_tool
    assert as_tool(work).name == "work"
    assert [tool.name for tool in Agent("a", tools=[work]).tools] == ["work"]


# -- prompts


@pytest.mark.parametrize(
    ("system", "expected"),
    [
        ("Help.", "Help."),
        ("", ""),
        (lambda: "Help.", "Help."),
        (lambda network: f"Help {network.input}.", "Help go."),
        (lambda state, agent: f"{agent.name} {len(state.results)}", "a 0"),
        (lambda: None, ""),
    ],
)
def test_the_system_prompt_can_be_text_or_a_function(system: Any, expected: str, run: Runner) -> None:
    model = ScriptedModel(["x"])
    run(Agent("a", model=model, system=system), "go")
    assert model.requests[0].system == expected


def test_the_system_prompt_can_be_a_coroutine_function(run: Runner) -> None:
    async def system(network: Any) -> str:
        await asyncio.sleep(0)
        return network.name

    model = ScriptedModel(["x"])
    run(Agent("a", model=model, system=system), "go")
    assert model.requests[0].system == "a"


def test_the_system_prompt_function_is_called_before_each_model_call(run: Runner) -> None:
    numbers = iter(range(9))
    model = ScriptedModel([work_call(1), work_call(2), "end"])
    run(Agent("a", model=model, tools=[work], max_iter=5, system=lambda: f"call {next(numbers)}"), "go")
    assert [request.system for request in model.requests] == ["call 0", "call 1", "call 2"]


def test_an_exception_of_the_system_prompt_function_is_raised(run: Runner) -> None:
    with pytest.raises(ZeroDivisionError):
        run(Agent("a", model=ScriptedModel(["x"]), system=lambda: str(1 / 0)), "go")


def test_the_assistant_prefill_is_the_last_message(run: Runner) -> None:
    model = ScriptedModel(["x"])
    run(Agent("a", model=model, assistant="{"), "go")
    assert [(message.role, message.text) for message in model.requests[0].messages] == [
        ("user", "go"),
        ("assistant", "{"),
    ]


# -- loop


def test_without_max_iter_the_model_is_called_once_and_then_its_tools(run: Runner) -> None:
    model = ScriptedModel([work_call(1), "never"])
    result = run(Agent("a", model=model, tools=[work]), "go")
    assert [call.text for call in result.tool_calls] == ["10"]
    assert (len(model.requests), result.requests, result.stop_reason) == (1, 1, None)


def test_the_loop_ends_when_the_model_calls_no_tool(run: Runner) -> None:
    model = ScriptedModel([work_call(1), [work_call(2), work_call(3)], "end", "never"])
    result = run(Agent("a", model=model, tools=[work], max_iter=9), "go")
    assert [message.text for message in result.messages] == ["", "10", "", "20", "30", "end"]
    assert (result.requests, result.stop_reason, result.text) == (3, None, "end")
    assert [message.text for message in model.requests[2].messages] == ["go", "", "10", "", "20", "30"]


def test_max_iter_ends_the_loop_with_its_stop_reason(run: Runner) -> None:
    model = ScriptedModel([work_call(1)], repeat_last=True)
    result = run(Agent("a", model=model, tools=[work], max_iter=3), "go")
    assert (len(model.requests), len(result.tool_calls), result.stop_reason) == (3, 3, "max_iter")


def test_max_iter_of_a_run_replaces_the_agents_own(run: Runner) -> None:
    model = ScriptedModel([work_call(1)], repeat_last=True)
    result = run(Agent("a", model=model, tools=[work]), "go", max_iter=2)
    assert (len(model.requests), result.stop_reason) == (2, "max_iter")


def test_stop_when_ends_the_loop(run: Runner) -> None:
    seen: list[Any] = []

    def stop_when(result: AgentResult, state: Any, network: Any) -> bool:
        seen.append((len(result.messages), network.state is state))
        return result.called("work") is not None

    model = ScriptedModel([work_call(1)], repeat_last=True)
    result = run(Agent("a", model=model, tools=[work], max_iter=9, stop_when=stop_when), "go")
    assert (result.requests, result.stop_reason) == (1, "stop_when")
    assert [call.text for call in result.tool_calls] == ["10"]
    assert seen == [(1, True)]


def test_a_tool_with_return_direct_ends_the_loop(run: Runner) -> None:
    @tool(return_direct=True)
    def final(number: int) -> int:
        """End."""
        return number

    model = ScriptedModel([[ToolCall("1", "final", {"number": 7})], "never"])
    result = run(Agent("a", model=model, tools=[final], max_iter=9), "go")
    assert (len(model.requests), [call.text for call in result.tool_calls]) == (1, ["7"])


def test_unknown_tools_and_invalid_arguments_are_reported_to_the_model(run: Runner) -> None:
    calls = [
        ToolCall("1", "wrok"),
        ToolCall("2", "work", invalid="{"),
        ToolCall("3", "work", {"number": "x"}),
        work_call(4),
    ]
    model = ScriptedModel([calls, "I see"])
    result = run(Agent("a", model=model, tools=[work], max_iter=2), "go")
    assert [bool(call.metadata) for call in result.tool_calls] == [True, True, True, False]
    assert "Did you mean 'work'?" in result.tool_calls[0].text
    assert [message.role for message in model.requests[1].messages] == ["user", "assistant", *["tool"] * 4]


def test_a_tool_call_of_an_agent_without_tools_is_reported_to_the_model(run: Runner) -> None:
    model = ScriptedModel([work_call(1), "I see"])
    result = run(Agent("a", model=model, max_iter=2), "go")
    assert result.tool_calls[0].text == "Error: Tool 'work' does not exist. Tools: none."
    assert result.text == "I see"


def test_calls_without_ids_are_all_executed(run: Runner) -> None:
    calls = [ToolCall("", "work", {"number": number}) for number in (1, 2)]
    result = run(Agent("a", model=ScriptedModel([calls]), tools=[work]), "go")
    assert [call.text for call in result.tool_calls] == ["10", "20"]


@pytest.mark.parametrize("form", ["plain", "coroutine"])
def test_a_tool_that_times_out_does_not_affect_the_others(form: str, run: Runner) -> None:
    over = threading.Event()

    @tool(timeout=0.05)
    def plain() -> None:
        """Hang."""
        over.wait(600)

    @tool(timeout=0.05)
    async def coroutine() -> None:
        """Hang."""
        await asyncio.Event().wait()

    hangs = plain if form == "plain" else coroutine
    model = ScriptedModel([[ToolCall("1", form), work_call(2)], "I see"])
    result = run(Agent("a", model=model, tools=[hangs, work], max_iter=2), "go")
    assert not over.is_set()
    over.set()
    assert [bool(call.metadata) for call in result.tool_calls] == [True, False]
    assert "took longer than 0.05 seconds" in result.tool_calls[0].text
    assert result.text == "I see"


# -- models


def test_the_model_of_a_run_replaces_the_agents_own(run: Runner) -> None:
    assert run(Agent("a", model=ScriptedModel([])), "go", model=ScriptedModel(["other"])).text == "other"
    assert run(Agent("a"), "go", default_model=ScriptedModel(["default"])).text == "default"


def test_an_agent_without_a_model_raises_an_error(run: Runner) -> None:
    with pytest.raises(ModelError, match=r"Agent 'a' of 'a' has no model\..*default_model"):
        run(Agent("a"), "go")


@pytest.mark.parametrize("model", [3, object(), "gpt", "nope:x", []])
def test_only_chat_models_are_accepted(model: Any, run: Runner) -> None:
    with pytest.raises(StatewrightError):
        run(Agent("a", model=model), "go")


@pytest.mark.parametrize(
    "answer",
    [
        None,
        "text",
        3,
        {"role": "assistant", "content": "x"},
        Message("x", role="assistant"),
        ModelResponse(Message("x")),
        ModelResponse(Message("x", role="tool", tool_call_id="1")),
        ModelResponse(None),  # type: ignore[arg-type]
        ModelResponse(Message(None, role="assistant")),  # type: ignore[arg-type]
        ModelResponse(Message(3, role="assistant")),  # type: ignore[arg-type]
        ModelResponse(Message("x", role="assistant"), usage=None),  # type: ignore[arg-type]
    ],
    ids=["none", "text", "number", "dict", "message", "user", "tool", "no message", "null", "content", "usage"],
)
def test_an_invalid_answer_of_a_model_is_an_error_that_names_its_adapter(answer: Any, run: Runner) -> None:
    class InvalidAdapter:
        async def complete(self, request: Any) -> Any:
            return answer

    with pytest.raises(ModelAnswerInvalid, match="InvalidAdapter"):
        run(Agent("a", model=InvalidAdapter(), retries=0), "go")


def test_a_plain_function_as_complete_is_reported_as_an_error(run: Runner) -> None:
    class Plain:
        def complete(self, request: Any) -> ModelResponse:
            return ModelResponse(Message("x", role="assistant"))

    with pytest.raises(StatewrightError):
        run(Agent("a", model=Plain(), retries=0), "go")


def test_a_model_that_does_not_answer_times_out(run: Runner) -> None:
    class HangingModel:
        async def complete(self, request: Any) -> Any:
            await asyncio.sleep(30)

    with pytest.raises(ModelError, match=r"not answer within 0.05 seconds"):
        run(Agent("a", model=HangingModel(), retries=0, settings={"timeout": 0.05}), "go")


# -- interrupts and streams


def test_an_interrupt_is_raised_and_the_run_can_be_resumed(run: Runner) -> None:
    def ask(question: str) -> str:
        """Ask."""
        return interrupt(question)

    agent = Agent(
        "a", model=ScriptedModel([ToolCall("1", "ask", {"question": "why?"}), "I see"]), tools=[ask], max_iter=2
    )
    saver = InMemorySaver()
    with pytest.raises(StatewrightError, match="why"):
        run(agent, "go", checkpointer=saver, thread_id="t")
    result = run(agent, Command(resume="because"), checkpointer=saver, thread_id="t")
    assert [call.text for call in result.tool_calls] == ["because"]


def test_an_agent_can_be_streamed_without_a_network() -> None:
    agent = Agent("a", model=ScriptedModel(["one two"]))

    async def texts() -> list[str]:
        return [message.text async for message, _ in agent.astream("go") if message.text]

    assert asyncio.run(texts()) == ["one", " two"]
