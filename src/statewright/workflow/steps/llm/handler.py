"""The handler of LLM steps, which renders prompts, requests and checks an answer, and converts it to a result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from statewright.errors import InvalidUpdateError
from statewright.messages import Message
from statewright.models import ModelRequest, OutputForm
from statewright.workflow.steps.execution import StepExecution
from statewright.workflow.steps.llm.checks import CheckedAnswer, FailedCheck, OutputGuard
from statewright.workflow.steps.llm.conversation import ConversationJournal, StepConversation
from statewright.workflow.steps.llm.resources import StepModels, ToolFactory
from statewright.workflow.steps.model import LlmStep
from statewright.workflow.steps.node import StepOrder
from statewright.workflow.steps.result import NEXT_STEP, StepFailed, StepResult
from statewright.workflow.steps.template import render


class LlmStepHandler:
    """Handler of one LLM step: calls the model until its answer is accepted."""

    def __init__(
        self, step: LlmStep, order: StepOrder, models: StepModels, tools: Sequence[ToolFactory], guard: OutputGuard
    ) -> None:
        self._step = step
        self._order = order
        self._models = models
        self._tools = tools
        self._guard = guard
        self._output = None if step.response_format == "text" else OutputForm(step.output_schema or {"type": "object"})

    async def perform(self, execution: StepExecution) -> StepResult:
        tools = {tool.name: tool for tool in (make_tool(execution) for make_tool in self._tools)}
        journal = ConversationJournal()
        conversation = StepConversation(
            self._step, self._make_request(execution), self._models, tools, execution, journal
        )
        corrections = 0
        while True:
            answer = CheckedAnswer(await conversation.reply(), self._step)
            failed_checks = await self._run_checks(answer, execution, journal)
            try:
                feedback = self._guard.make_feedback(failed_checks, corrections)
                if feedback is None:
                    return self._make_result(answer)
            except (StepFailed, InvalidUpdateError):
                await journal.abandon()
                raise
            conversation.add_message(feedback)
            corrections += 1

    async def _run_checks(
        self, answer: CheckedAnswer, execution: StepExecution, journal: ConversationJournal
    ) -> list[FailedCheck]:
        """Return the checks that an answer fails. Their results are journaled, so they are not run again."""
        if not self._step.guardrails.post_checks:
            return []

        async def run() -> list[list[str]]:
            return [list(check) for check in await self._guard.run_checks(answer, execution)]

        return [FailedCheck(*check) for check in await journal.call_once("check", run)]

    def _make_result(self, answer: CheckedAnswer) -> StepResult:
        """Convert an answer to a result. Raises StepFailed, or InvalidUpdateError for an unknown next step."""
        result = make_result(answer)
        self._order.resolve_next(self._step, result.state_updates.get(NEXT_STEP))
        return result

    def _make_request(self, execution: StepExecution) -> ModelRequest:
        """Return the first request. System messages are moved to its beginning, because providers require this."""
        step = self._step
        prompts = [("system", step.system_prompt), *((message.role, message.content) for message in step.messages)]
        rendered = [(role, render(text, execution.input, execution.state)) for role, text in prompts]
        messages = [Message(text, role=role) for role, text in rendered if role != "system"]
        return ModelRequest(
            messages=messages,
            # A final assistant message is the beginning of the answer.
            continue_last=bool(messages) and messages[-1].role == "assistant",
            system="\n\n".join(text for role, text in rendered if role == "system" and text),
            output=self._output,
            temperature=step.temperature,
            max_tokens=step.max_tokens,
            metadata={"step": step.name},
        )


def make_result(answer: CheckedAnswer) -> StepResult:
    """Convert an answer to a result, which merges JSON into the state, or stores text in a field of the state.

    Raises StepFailed for an answer that is not the expected JSON.
    """
    step = answer.step
    try:
        value = answer.text if step.response_format == "text" else answer.value
    except ValueError as error:
        raise _make_failure(answer, f"did not answer with JSON: {error}. Ask for JSON in the prompt.") from error
    if step.response_format == "text" or step.output_key is not None:
        fields: dict[str, Any] = {step.output_key or step.name: value}
    elif isinstance(value, Mapping):
        fields = dict(cast("Mapping[str, Any]", value))
    else:
        type_name = type(value).__name__
        raise _make_failure(
            answer, f"answered with a JSON {type_name}, not a map. Ask for a map in the prompt, or set an outputKey."
        )
    return StepResult(output=fields, state_updates=fields)


def _make_failure(answer: CheckedAnswer, reason: str) -> StepFailed:
    return StepFailed(
        f"The model of step {answer.step.name!r} {reason}",
        code="LLM_OUTPUT_INVALID",
        details={"text": answer.text[:1000]},
    )
