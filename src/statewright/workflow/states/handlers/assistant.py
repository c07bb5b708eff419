"""Assistants: states that call a chat model.

Without tools, the model is called in a loop until its answer matches the output schema. With tools, the state calls a
subgraph, the conversation:

    summarize (if the history is too long) -> model -> tools (each call is a task) -> model ... until the model answers

Each node runs in a superstep of its own, which is saved, so finished tool calls are not repeated after a crash. Data
that the workflow state can derive, such as the history of its branch, is passed in a context variable and not saved
again. For this reason the graph is not that of `create_agent`, which saves the whole conversation as its messages. It
also loops back to the model for corrections.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Annotated, Any, Final, TypedDict

from statewright.agents import ToolContext, answer_call, ask
from statewright.channels import add_messages
from statewright.errors import ModelAnswerInvalid, ToolError
from statewright.graph import END, START, Command, RetryPolicy, Runtime, Send
from statewright.messages import Message, ToolCall
from statewright.models import ChatModel, ModelRequest, ToolSpec
from statewright.runtime import CompiledGraph, StateGraph
from statewright.workflow.states.expressions.output import ParsedOutput
from statewright.workflow.states.handlers.assistant_tools import AssistantTools, LazyToolSet
from statewright.workflow.states.handlers.call import Call, Outcome, format_task, render_for_state
from statewright.workflow.states.handlers.scripted import WorkflowScriptModel
from statewright.workflow.states.handlers.summaries import HistorySummarizer, replace_history
from statewright.workflow.states.language.model import Assistant
from statewright.workflow.states.language.output_schema import OutputSchema

MAX_CORRECTIONS: Final = 2
"""The maximum number of times the model is asked to correct an answer that does not match the output schema."""
MAX_ROUNDS: Final = 25
"""The maximum number of rounds of tool calls before the model has to answer. A round may consist of several calls."""
CALL_KEY: Final = "conversation"
"""The `call_key` of the conversation. It becomes part of the namespace in which the conversation is saved, so it must
never change."""


class AssistantStateHandler:
    """Calls the model of an assistant."""

    def __init__(
        self,
        assistant: Assistant,
        model: ChatModel,
        summarizer: HistorySummarizer,
        output_schema: OutputSchema | None,
        tools: AssistantTools | None = None,
        step_retries: RetryPolicy | None = None,
    ) -> None:
        self._assistant = assistant
        self.model = model
        self.summarizer = summarizer
        self._output_schema = output_schema
        self._tools = tools
        """None for an assistant without tools, and for one that answers from a script."""
        self._step_retries = step_retries
        self.retries_internally = tools is not None
        """True if failed steps of the conversation are retried one by one. The whole state is then not retried."""

    async def perform(self, call: Call) -> Outcome:
        system = await self._make_system_prompt(call)
        if self._tools is not None:
            return await self._run_conversation(Conversation(self, call, system, LazyToolSet(self._tools, call.scope)))
        return await self._answer_without_tools(call, system)

    async def _answer_without_tools(self, call: Call, system: str) -> Outcome:
        """Call the model until its answer is valid. Raises ModelAnswerInvalid if it is still invalid in the end."""
        history, summary = await self.summarizer.fit_history(call)
        corrections: list[Message] = []
        answer_count = 0
        while True:
            answer_count += 1
            request = self.make_request(call, system, [*history, Message(format_task(call)), *corrections])
            if isinstance(self.model, WorkflowScriptModel):  # its answers are neither traced nor charged to the budget
                response = await self.model.complete(request)
            else:
                # All answers come from one task, so the position tells their messages apart.
                response = await ask(self.model, request, call.runtime, name=call.state.id, position=answer_count)
            answer = ParsedOutput(response.text)
            correction = self.check_answer(call, answer, answer_count)
            if correction is None:
                return Outcome(response.text, summary=summary, calls=answer_count, parsed=answer)
            corrections += [response.message, correction]

    async def _run_conversation(self, conversation: Conversation) -> Outcome:
        """Run a conversation and return its outcome. Failed steps are retried one by one."""
        token = _current_conversation.set(conversation)
        try:
            # After a crash, this resumes the conversation from its last checkpoint.
            state: Any = await compile_conversation(self._step_retries).ainvoke({}, call_key=CALL_KEY)
        finally:
            _current_conversation.reset(token)
        text: str = state["messages"][-1].text
        # None if another process has checked the answer before a crash. The output is then parsed again.
        parsed = next((answer for answer in reversed(conversation.checked_answers) if answer.output == text), None)
        # Requests for tools are not counted, because scripts list only answers.
        return Outcome(text, summary=state.get("summary"), calls=state["answers"], parsed=parsed)

    async def _make_system_prompt(self, call: Call) -> str:
        """Return the system prompt, followed by the instruction about the output schema."""
        system = self._assistant.system_prompt or ""
        if self._output_schema is None:
            return system
        render = partial(self._output_schema.render_instruction, call.scope)
        instruction = await render_for_state("output_schema", call.state.id, call.runtime, render)
        return f"{system}\n\n{instruction}".strip()

    def make_request(
        self, call: Call, system: str, messages: Sequence[Message], tools: Sequence[ToolSpec] = ()
    ) -> ModelRequest:
        """Return the request to the model."""
        assistant, schema = self._assistant, self._output_schema
        return ModelRequest(
            messages=messages,
            system=system,
            output=schema.output if schema is not None else None,
            tools=tools,
            model=assistant.model,
            temperature=assistant.temperature,
            # "agent" is for providers; "state" and "call" are for WorkflowScriptModel.
            metadata={"agent": call.state.id, "state": call.state.id, "call": call},
        )

    def check_answer(self, call: Call, answer: ParsedOutput, answer_count: int) -> Message | None:
        """Check an answer against the output schema. Return a request to correct it; None if it is valid.

        `answer_count` is the number of answers so far. Raises ModelAnswerInvalid after the maximum number of
        corrections.
        """
        fault = self._output_schema.find_fault(answer) if self._output_schema is not None else None
        if fault is None:
            return None
        if answer_count > MAX_CORRECTIONS:
            raise ModelAnswerInvalid(
                f"State {call.state.id!r} requires answers that match its output_schema, but after {answer_count} "
                f"attempts the model's answer still does not: {fault}. Simplify the schema, or use another model."
            )
        return Message(
            f"Your answer does not have the required form: {fault}. Answer again, with nothing but the JSON."
        )


# -- conversations with tools


@dataclass(slots=True)
class Conversation:
    """The data of one conversation that the graph does not store, because the workflow state can derive it."""

    handler: AssistantStateHandler
    call: Call
    system: str
    tools: LazyToolSet
    checked_answers: list[ParsedOutput] = field(default_factory=list[ParsedOutput])
    """The answers that this process has parsed and checked against the output schema."""


_current_conversation: Final[ContextVar[Conversation]] = ContextVar("statewright_conversation")


class ConversationState(TypedDict, total=False):
    """The graph state of a conversation."""

    messages: Annotated[list[Message], add_messages]
    """The messages after the task. The history and the task are added to each request."""
    summary: str
    """The summary that replaces the history, if the history was too long."""
    rounds: int
    """The number of rounds of tool calls that the model has requested."""
    answers: int
    """The number of answers without tool calls, including those that the model was asked to correct."""


@lru_cache(maxsize=64)
def compile_conversation(step_retries: RetryPolicy | None) -> CompiledGraph:
    """Return the graph of a conversation, which is compiled once per retry policy."""
    graph = StateGraph(ConversationState)
    # The alias is the former name of the node, which saved conversations may contain.
    graph.add_node("summarize", _summarize_history, retry_policy=step_retries, aliases=["remember"])
    graph.add_node("model", _call_model, retry_policy=step_retries, destinations=["model", "tools", END])
    graph.add_node("tools", _call_tool, retry_policy=_retries_of_loading(step_retries))
    graph.add_conditional_edges(START, _choose_first_node, {"summarize": "summarize", "model": "model"})
    graph.add_edge("summarize", "model")
    graph.add_edge("tools", "model")
    # A round takes two supersteps, and the summary and the answers take a few more. So this limit is never reached: a
    # conversation ends with the error of a limit of its own.
    return graph.compile(name="conversation").with_config({"recursion_limit": 4 * MAX_ROUNDS})


def _retries_of_loading(step_retries: RetryPolicy | None) -> RetryPolicy | None:
    """Return the retry policy of a tool call, which only loads the tools again: a failed call is not repeated.

    `_call_tool` raises a ToolError only if loading has failed. The error of a call is reported to the model.
    """
    if step_retries is None:
        return None

    def is_worth_loading_again(error: BaseException) -> bool:
        return isinstance(error, ToolError) and step_retries.matches(error)

    return replace(step_retries, retry_on=is_worth_loading_again)


def _choose_first_node(state: Mapping[str, Any]) -> str:
    conversation = _current_conversation.get()
    return "summarize" if conversation.handler.summarizer.is_too_long(conversation.call.history) else "model"


async def _summarize_history(state: Mapping[str, Any], runtime: Runtime[Any]) -> dict[str, Any]:
    conversation = _current_conversation.get()
    return {"summary": await conversation.handler.summarizer.summarize(conversation.call, runtime)}


async def _call_model(state: Mapping[str, Any], runtime: Runtime[Any]) -> Command[Any]:
    """Call the model, and continue with its tool calls, a correction, or the end."""
    conversation = _current_conversation.get()
    handler, call, tools = conversation.handler, conversation.call, await conversation.tools.load()
    history = replace_history(call.history, state.get("summary"))
    messages = [*history, Message(format_task(call)), *state.get("messages", ())]
    request = handler.make_request(call, conversation.system, messages, tools.specs)
    response = await ask(handler.model, request, runtime, name=call.state.id)
    tool_calls = response.message.tool_calls
    if tool_calls:
        rounds = state.get("rounds", 0) + 1
        if rounds > MAX_ROUNDS:
            raise ModelAnswerInvalid(
                f"The model of state {call.state.id!r} has requested more than {MAX_ROUNDS} rounds of tool calls "
                f"without an answer. Tell it in the system prompt when to stop, or split the task."
            )
        update = {"messages": [response.message], "rounds": rounds}
        return Command(update=update, goto=[Send("tools", tool_call) for tool_call in tool_calls])
    answer_count, answer = state.get("answers", 0) + 1, ParsedOutput(response.text)
    conversation.checked_answers.append(answer)
    correction = handler.check_answer(call, answer, answer_count)
    if correction is None:
        return Command(update={"messages": [response.message], "answers": answer_count}, goto=END)
    return Command(update={"messages": [response.message, correction], "answers": answer_count}, goto="model")


async def _call_tool(tool_call: ToolCall, runtime: Runtime[Any]) -> dict[str, Any]:
    """Make one tool call. Its result or error becomes a message for the model."""
    tools = await _current_conversation.get().tools.load()
    context = ToolContext(
        stream_writer=runtime.stream_writer,
        idempotency_key=runtime.idempotency_key,
        tool_call_id=tool_call.id,
        runtime=runtime,
    )
    return {"messages": [tools.truncate_result(await answer_call(tool_call, tools.by_name, context))]}
