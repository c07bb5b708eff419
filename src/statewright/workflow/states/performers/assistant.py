"""Assistants: states whose work is done by a chat model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from statewright.agents import as_text
from statewright.errors import ModelAnswerInvalid
from statewright.messages import Message
from statewright.models import ChatModel, ModelRequest, ModelResponse
from statewright.workflow.states.answer_form import AnswerForm
from statewright.workflow.states.model import Assistant
from statewright.workflow.states.performers.call import Call, Outcome
from statewright.workflow.states.performers.memory import Memory
from statewright.workflow.states.performers.tool_use import ToolUse

NO_TASK = "-"
"""What a model is told where there is no task: providers refuse empty messages."""
MOST_ROUNDS = 25
"""How often a model may ask for tools before it has to answer."""
REPEATS = 2
"""How often a model is asked again for an answer in the form that was asked for."""


class AssistantState:
    """Asks the model of an assistant."""

    def __init__(
        self, assistant: Assistant, model: ChatModel, memory: Memory, form: AnswerForm | None, tools: ToolUse
    ) -> None:
        self._assistant = assistant
        self._model = model
        self._memory = memory
        self._form = form
        self._tools = tools

    async def perform(self, call: Call) -> Outcome:
        history, summary = await self._memory.fitting(call)
        request = self._request(call, history)
        wrong: str | None = None
        for asked in range(1, REPEATS + 2):
            request, response = await self._answered(request, call)
            wrong = self._form.fault(response.text) if self._form is not None else None
            if wrong is None:
                return Outcome(response.text, summary, asked)
            request = _asked_again(request, response, wrong)
        raise ModelAnswerInvalid(
            f"State {call.state.id!r} asks for an answer in the form of its output_schema. After {REPEATS + 1} "
            f"attempts the model's answer does not have it: {wrong}."
        )

    async def _answered(self, request: ModelRequest, call: Call) -> tuple[ModelRequest, ModelResponse]:
        """The answer of the model, once it asks for no more tools, and the request with all that was said before."""
        for _ in range(MOST_ROUNDS):
            response = await self._model.complete(request)
            call.runtime.spend(tokens=response.usage.tokens, cost=response.usage.cost)
            asked = response.message.tool_calls
            if not asked:
                return request, response
            answers = await self._tools.answers(asked, call)
            request = replace(request, messages=(*request.messages, response.message, *answers))
        raise ModelAnswerInvalid(
            f"The model of state {call.state.id!r} has asked for tools {MOST_ROUNDS} times and has given no answer."
        )

    def _request(self, call: Call, history: Sequence[Message]) -> ModelRequest:
        assistant, form = self._assistant, self._form
        system = assistant.system_prompt or ""
        if form is not None:
            system = f"{system}\n\n{form.told(call.scope)}".strip()
        return ModelRequest(
            messages=(*history, Message(said(call))),
            system=system,
            output=form.output if form is not None else None,
            tools=self._tools.specs,
            model=assistant.model,
            temperature=assistant.temperature,
            metadata={"state": call.state.id, "call": call},
        )


def said(call: Call) -> str:
    """What a model is told to do: the task, and the item of its branch."""
    task = call.prompt or NO_TASK
    return f"{task}\n\nCurrent task: {as_text(call.item)}" if call.has_item else task


def _asked_again(request: ModelRequest, response: ModelResponse, wrong: str) -> ModelRequest:
    told = f"Your answer does not have the form that was asked for: {wrong}. Answer again, with nothing but the JSON."
    return replace(request, messages=(*request.messages, response.message, Message(told)))
