"""What is said between a step and its model: requests, calls of tools, and models that stand in for one another.

Each answer of a model and of a tool is kept in the journal when it is there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Any

from statewright.agents import answer_call, ask
from statewright.agents.loop.request import tool_specs
from statewright.agents.tools import Tool, ToolContext
from statewright.errors import InternalError, InvalidConfig, MissingKey, ModelError, RunError, StorageError
from statewright.messages import Message, ToolCall
from statewright.models import ModelRequest, ModelResponse, Usage
from statewright.runtime import get_runtime
from statewright.workflow.steps.execution import Execution
from statewright.workflow.steps.failure import StepFailed
from statewright.workflow.steps.llm.models import StepModels
from statewright.workflow.steps.llm.transcript import Transcript
from statewright.workflow.steps.model import LlmStep

_OF_THE_RUN = (RunError, StorageError, InternalError)
"""Errors that concern the run itself: no other model would mend them."""


class MissingModel(ModelError):
    """A step names a model that is nowhere."""


_NOT_TO_BE_MENDED = (InvalidConfig, MissingKey, MissingModel)
"""Errors after which the same model is not worth another attempt."""


class Conversation:
    """One conversation with a model. It grows with every answer."""

    def __init__(
        self,
        step: LlmStep,
        request: ModelRequest,
        models: StepModels,
        tools: Mapping[str, Tool],
        execution: Execution,
        transcript: Transcript,
    ) -> None:
        self._step = step
        self._request = replace(request, tools=tool_specs(tools.values()))
        self._models = models
        self._tools = tools
        self._execution = execution
        self._transcript = transcript
        self._messages: list[Message] = list(request.messages)
        self._names: Sequence[str] = (step.model, *step.fallback_models)
        """The models that may still be asked; one that has failed is not asked again by this attempt."""
        self._position = 0
        """What tells the next question to a model from those before."""

    async def reply(self) -> ModelResponse:
        """What the model answers when it wants no more tools. Raises StepFailed if it does not come to that."""
        for _ in range(self._step.max_tool_rounds):
            response = await self._answer()
            if not response.message.tool_calls:
                return response
            for call in response.message.tool_calls:
                self._messages.append(await self._transcript.once("call_tool", partial(self._called, call)))
        response = await self._answer()
        if response.message.tool_calls:
            await self._transcript.give_up()
            raise StepFailed(
                f"The model of step {self._step.name!r} asked for tools more than {self._step.max_tool_rounds} times. "
                f"Raise maxToolRounds, or tell it when to stop.",
                code="TOOL_ROUNDS_EXCEEDED",
            )
        return response

    def tell(self, text: str) -> None:
        """Say something to the model, to which it answers next."""
        self._messages.append(Message(text))

    # -- the model

    async def _answer(self) -> ModelResponse:
        """The next answer, which is part of the conversation then."""
        message, usage, model, finish_reason, position = await self._transcript.once("ask_model", self._asked)
        self._messages.append(message)
        self._position = position + 1
        return ModelResponse(message, Usage(**usage), model, finish_reason)

    async def _asked(self) -> list[Any]:
        """The parts of the answer of the first model that gives one. Raises StepFailed if none does."""
        errors: list[Exception] = []
        while self._names:
            try:
                answer = await self._asked_of(self._names[0])
            except Exception as error:
                if isinstance(error, _OF_THE_RUN) and not isinstance(error, InvalidConfig):
                    raise
                errors.append(error)
                self._note(error)
                self._names = self._names[1:]
                self._position += 1
            else:
                return [answer.message, asdict(answer.usage), answer.model, answer.finish_reason, self._position]
        raise self._failure(errors) from errors[-1]

    async def _asked_of(self, name: str) -> ModelResponse:
        model = self._models.find(name)
        if model is None:
            raise MissingModel(f"Nobody knows the model {name!r}. Register it, or name its provider: provider:model.")
        request = replace(self._request, messages=list(self._messages))
        return await ask(model, request, self._execution.runtime, position=self._position)

    def _note(self, error: Exception) -> None:
        """Tell the log of a model that did not answer."""
        self._execution.report_event(
            "LLM_CALL_FAILED",
            model=self._names[0],
            error=f"{type(error).__name__}: {error}",
            fallback=self._names[1] if len(self._names) > 1 else None,
        )

    def _failure(self, errors: Sequence[Exception]) -> StepFailed:
        asked = (self._step.model, *self._step.fallback_models)[-len(errors) :]
        told = [f"{name}: {type(error).__name__}: {error}" for name, error in zip(asked, errors, strict=True)]
        waits = [wait for error in errors if (wait := getattr(error, "retry_after", None)) is not None]
        return StepFailed(
            f"No model answered in step {self._step.name!r}. {' '.join(told)}",
            code="LLM_FAILED",
            details={"failures": told},
            is_final=all(isinstance(error, _NOT_TO_BE_MENDED) for error in errors),
            retry_after=min(waits, default=None),
        )

    # -- its tools

    async def _called(self, call: ToolCall) -> Message:
        return await answer_call(call, self._tools, self._tool_context(call))

    def _tool_context(self, call: ToolCall) -> ToolContext:
        execution, runtime = self._execution, get_runtime()
        key = f"{execution.idempotency_key}:{call.name}:{len(self._messages)}"
        return ToolContext(
            runtime=runtime,
            stream_writer=runtime.stream_writer,
            tool_call_id=call.id,
            state=execution.state,
            idempotency_key=key,
        )
