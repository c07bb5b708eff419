"""Assistants: states whose work is done by a chat model.

Without tools the model is asked here. With tools a conversation follows, which is a graph of its own: see
`conversation.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

from statewright.agents import ask
from statewright.errors import ExpressionError, ModelAnswerInvalid
from statewright.graph import RetryPolicy
from statewright.messages import Message
from statewright.models import ChatModel, ModelRequest, ModelResponse, ToolSpec
from statewright.workflow.states.expressions.output import ParsedOutput
from statewright.workflow.states.handlers.assistant_tools import OfferedOnce, OfferedTools
from statewright.workflow.states.handlers.call import Call, Outcome, told_to_do
from statewright.workflow.states.handlers.conversation import Conversation, converse
from statewright.workflow.states.handlers.scripted import ScriptModel
from statewright.workflow.states.handlers.summaries import Memory
from statewright.workflow.states.language.model import Assistant
from statewright.workflow.states.language.output_schema import AnswerForm

REPEATS = 2
"""How often a model is asked again for an answer in the form that was asked for."""


class AssistantState:
    """Asks the model of an assistant."""

    def __init__(
        self,
        assistant: Assistant,
        model: ChatModel,
        memory: Memory,
        form: AnswerForm | None,
        tools: OfferedTools | None = None,
        retries: RetryPolicy | None = None,
    ) -> None:
        self._assistant = assistant
        self._model = model
        self._memory = memory
        self._form = form
        self._tools = tools
        """None for an assistant that has none, and for one that answers from a script."""
        self._retries = retries
        self.tries_again_itself = tools is not None
        """Whether the steps of its conversation are tried again one by one, and the state is not as a whole."""

    async def perform(self, call: Call) -> Outcome:
        if self._tools is not None:
            return await self._in_conversation(self._tools, call)
        system = await self._system(call)
        history, summary = await self._memory.fitting(call)
        said: list[Message] = []
        asked = 0
        while True:
            asked += 1
            request = self._request(call, system, [*history, Message(told_to_do(call)), *said])
            if isinstance(self._model, ScriptModel):  # nobody is asked, so nothing is noted or counted
                response = await self._model.complete(request)
            else:
                response = await ask(self._model, request, call.runtime, name=call.state.id, position=asked)
            answer = ParsedOutput(response.text)
            told = self._correction(call, answer, asked)
            if told is None:
                return Outcome(response.text, summary, asked, answer)
            said += [response.message, told]

    async def _in_conversation(self, tools: OfferedTools, call: Call) -> Outcome:
        system = await self._system(call)
        answers: list[ParsedOutput] = []

        def correct(response: ModelResponse, asked: int) -> Message | None:
            answers.append(ParsedOutput(response.text))
            return self._correction(call, answers[-1], asked)

        conversation = Conversation(
            call=call,
            model=self._model,
            memory=self._memory,
            tools=OfferedOnce(tools, call.scope),
            request=lambda messages, specs: self._request(call, system, messages, specs),
            correction=correct,
        )
        outcome = await converse(conversation, self._retries)
        # After a crash the last answer comes from a checkpoint, and was checked by another process.
        outcome.parsed = next((answer for answer in reversed(answers) if answer.output == outcome.output), None)
        return outcome

    def _correction(self, call: Call, answer: ParsedOutput, asked: int) -> Message | None:
        """What the model is told about an answer in the wrong form; None if there is nothing to tell.

        Raises ModelAnswerInvalid once it was told so often enough.
        """
        wrong = self._form.fault(answer) if self._form is not None else None
        if wrong is None:
            return None
        if asked > REPEATS:
            raise ModelAnswerInvalid(
                f"State {call.state.id!r} asks for an answer in the form of its output_schema. After {asked} attempts "
                f"the model's answer does not have it: {wrong}."
            )
        return Message(
            f"Your answer does not have the form that was asked for: {wrong}. Answer again, with nothing but the JSON."
        )

    async def _system(self, call: Call) -> str:
        """Return the system prompt, with the instruction about the output schema."""
        system = self._assistant.system_prompt or ""
        if self._form is None:
            return system
        try:
            return f"{system}\n\n{await self._form.instruction(call.scope)}".strip()
        except ExpressionError as error:
            raise ExpressionError(f"The output_schema of state {call.state.id!r}: {error}") from error

    def _request(
        self, call: Call, system: str, messages: Sequence[Message], tools: Sequence[ToolSpec] = ()
    ) -> ModelRequest:
        assistant, form = self._assistant, self._form
        return ModelRequest(
            messages=messages,
            system=system,
            output=form.output if form is not None else None,
            tools=tools,
            model=assistant.model,
            temperature=assistant.temperature,
            metadata={"agent": call.state.id, "state": call.state.id, "call": call},
        )
