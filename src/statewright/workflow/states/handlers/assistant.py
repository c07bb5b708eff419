"""Assistants: states that call a chat model.

Without tools the model is called here. With tools the state runs a conversation, which is a graph of its own: see
`conversation`.
"""

from __future__ import annotations

from collections.abc import Sequence

from statewright.agents import ask
from statewright.errors import ExpressionError, ModelAnswerInvalid
from statewright.graph import RetryPolicy
from statewright.messages import Message
from statewright.models import ChatModel, ModelRequest, ModelResponse, ToolSpec
from statewright.workflow.states.expressions.output import ParsedOutput
from statewright.workflow.states.handlers.assistant_tools import AssistantTools, LazyToolSet
from statewright.workflow.states.handlers.call import Call, Outcome, format_task
from statewright.workflow.states.handlers.conversation import AssistantConversation, run_conversation
from statewright.workflow.states.handlers.scripted import ScriptModel
from statewright.workflow.states.handlers.summaries import HistorySummarizer
from statewright.workflow.states.language.model import Assistant
from statewright.workflow.states.language.output_schema import OutputSchema

REPEATS = 2
"""The maximum number of corrections of an answer that does not match the output schema."""


class AssistantStateHandler:
    """Calls the model of an assistant."""

    def __init__(
        self,
        assistant: Assistant,
        model: ChatModel,
        memory: HistorySummarizer,
        form: OutputSchema | None,
        tools: AssistantTools | None = None,
        retries: RetryPolicy | None = None,
    ) -> None:
        self._assistant = assistant
        self._model = model
        self._memory = memory
        self._form = form
        self._tools = tools
        """None for an assistant without tools, and for a scripted one."""
        self._retries = retries
        self.retries_internally = tools is not None
        """True if the steps of its conversation are retried one by one, instead of the whole state."""

    async def perform(self, call: Call) -> Outcome:
        if self._tools is not None:
            return await self._in_conversation(self._tools, call)
        system = await self._system(call)
        history, summary = await self._memory.fit_history(call)
        exchange: list[Message] = []
        answers = 0
        while True:
            answers += 1
            request = self._request(call, system, [*history, Message(format_task(call)), *exchange])
            if isinstance(self._model, ScriptModel):  # a script is neither traced nor charged to the budget
                response = await self._model.complete(request)
            else:
                response = await ask(self._model, request, call.runtime, name=call.state.id, position=answers)
            answer = ParsedOutput(response.text)
            correction = self._correction(call, answer, answers)
            if correction is None:
                return Outcome(response.text, summary, answers, answer)
            exchange += [response.message, correction]

    async def _in_conversation(self, tools: AssistantTools, call: Call) -> Outcome:
        system = await self._system(call)
        answers: list[ParsedOutput] = []

        def correct(response: ModelResponse, attempts: int) -> Message | None:
            answers.append(ParsedOutput(response.text))
            return self._correction(call, answers[-1], attempts)

        conversation = AssistantConversation(
            call=call,
            model=self._model,
            memory=self._memory,
            tools=LazyToolSet(tools, call.scope),
            request=lambda messages, specs: self._request(call, system, messages, specs),
            correction=correct,
        )
        outcome = await run_conversation(conversation, self._retries)
        # After a crash the last answer comes from a checkpoint: another process checked it.
        outcome.parsed = next((answer for answer in reversed(answers) if answer.output == outcome.output), None)
        return outcome

    def _correction(self, call: Call, answer: ParsedOutput, attempts: int) -> Message | None:
        """Return a correction for an answer that does not match the output schema; None if it does.

        Raises ModelAnswerInvalid after the maximum number of corrections.
        """
        fault = self._form.find_fault(answer) if self._form is not None else None
        if fault is None:
            return None
        if attempts > REPEATS:
            raise ModelAnswerInvalid(
                f"State {call.state.id!r} requires answers that match its output_schema. After {attempts} attempts "
                f"the model's answer does not: {fault}. Simplify the schema, or use another model."
            )
        return Message(
            f"Your answer does not have the required form: {fault}. Answer again, with nothing but the JSON."
        )

    async def _system(self, call: Call) -> str:
        """Return the system prompt with the instruction about the output schema."""
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
