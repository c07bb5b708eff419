"""Steps that ask a model: templates filled in, an answer held to its checks, and made part of the state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from statewright.errors import InvalidUpdateError
from statewright.messages import Message
from statewright.models import ModelRequest, OutputForm
from statewright.workflow.steps.execution import Execution
from statewright.workflow.steps.llm.checks import CheckedAnswer, Failed, Guard
from statewright.workflow.steps.llm.conversation import Conversation, Transcript
from statewright.workflow.steps.llm.models import StepModels
from statewright.workflow.steps.llm.tools import ToolSource
from statewright.workflow.steps.model import LlmStep
from statewright.workflow.steps.node import Order
from statewright.workflow.steps.result import NEXT_STEP, StepFailed, StepResult
from statewright.workflow.steps.template import render


class LlmPerformer:
    """Asks a model until it gives an answer that can be taken."""

    def __init__(
        self, step: LlmStep, order: Order, models: StepModels, tools: Sequence[ToolSource], guard: Guard
    ) -> None:
        self._step = step
        self._order = order
        self._models = models
        self._tools = tools
        self._guard = guard
        self._output = _output_form(step)

    async def perform(self, execution: Execution) -> StepResult:
        tools = {tool.name: tool for tool in (source.bound(execution) for source in self._tools)}
        transcript = Transcript()
        conversation = Conversation(self._step, self._request(execution), self._models, tools, execution, transcript)
        told = 0
        while True:
            answer = CheckedAnswer(await conversation.reply(), self._step)
            failed = await self._failed(answer, execution, transcript)
            try:
                feedback = self._guard.feedback(failed, told)
                if feedback is None:
                    return self._result(answer)
            except (StepFailed, InvalidUpdateError):
                await transcript.give_up()
                raise
            conversation.tell(feedback)
            told += 1

    async def _failed(self, answer: CheckedAnswer, execution: Execution, transcript: Transcript) -> list[Failed]:
        """The checks that the answer did not pass; each is made, and told, once."""
        if not self._step.guardrails.post_checks:
            return []

        async def verdict() -> list[list[str]]:
            return [list(one) for one in await self._guard.failed(answer, execution)]

        return [Failed(*one) for one in await transcript.once("check", verdict)]

    def _result(self, answer: CheckedAnswer) -> StepResult:
        """What the answer does. Raises StepFailed, and InvalidUpdateError if it goes on where there is no step."""
        result = result_of(answer)
        self._order.following(self._step, result.state_updates.get(NEXT_STEP))
        return result

    def _request(self, execution: Execution) -> ModelRequest:
        """What the model is asked first. Messages of the system stand before the conversation, as providers want it."""
        step = self._step
        said = [(one.role, render(one.content, execution.input, execution.state)) for one in step.messages]
        system = [render(step.system_prompt, execution.input, execution.state)]
        messages = [Message(text, role=role) for role, text in said if role != "system"]
        return ModelRequest(
            messages=messages,
            continue_last=bool(messages) and messages[-1].role == "assistant",  # the author has begun the answer
            system="\n\n".join(text for text in (*system, *(one for role, one in said if role == "system")) if text),
            output=self._output,
            temperature=step.temperature,
            max_tokens=step.max_tokens,
            metadata={"step": step.name},
        )


def _output_form(step: LlmStep) -> OutputForm | None:
    """The form that is asked of the provider: JSON, if the step wants that."""
    if step.response_format == "text":
        return None
    return OutputForm(step.output_schema or {"type": "object"})


def result_of(answer: CheckedAnswer) -> StepResult:
    """What an answer does to the state: JSON is merged, text becomes a field. Raises StepFailed."""
    step = answer.step
    if step.response_format == "text":
        written = {step.output_key or step.name: answer.text}
        return StepResult(output=written, state_updates=written)
    value = _json_of(answer)
    if step.output_key is not None:
        return StepResult(output={step.output_key: value}, state_updates={step.output_key: value})
    if not isinstance(value, Mapping):
        raise StepFailed(
            f"The model of step {step.name!r} answered a JSON {type(value).__name__}, and a map is wanted. "
            f"Ask for a map, or name an outputKey for it.",
            code="LLM_OUTPUT_INVALID",
            details={"text": answer.text[:1000]},
        )
    written = dict(cast("Mapping[str, Any]", value))
    return StepResult(output=written, state_updates=written)


def _json_of(answer: CheckedAnswer) -> Any:
    try:
        return answer.value
    except ValueError as error:
        raise StepFailed(
            f"The model of step {answer.step.name!r} was asked for JSON, and {error}.",
            code="LLM_OUTPUT_INVALID",
            details={"text": answer.text[:1000]},
        ) from error
