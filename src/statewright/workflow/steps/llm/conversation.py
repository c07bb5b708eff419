"""The conversation between a step and its model: requests, tool calls and fallback models.

Each call of a model or a tool is a task whose result is stored in the journal of the thread. So a step that is executed
again, after a crash, a pause or a failed attempt, resumes its conversation, and requests no answer twice. A
conversation that can no longer succeed is marked as abandoned in the journal, and the next attempt at the step starts a
new conversation.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from itertools import count
from typing import Any, Final, TypeVar

from statewright.agents import answer_call, ask
from statewright.agents.loop.request import tool_specs
from statewright.agents.tools import Tool, ToolContext
from statewright.checkpoint import JournalKey
from statewright.errors import InternalError, InvalidConfig, MissingApiKey, ModelError, RunError, StorageError
from statewright.messages import Message, ToolCall
from statewright.models import ModelRequest, ModelResponse, Usage
from statewright.runtime import get_runtime
from statewright.runtime.tasks.scope import Scope, current_scope
from statewright.runtime.tasks.task_calls import CalledFunction, call_task
from statewright.workflow.steps.execution import StepExecution
from statewright.workflow.steps.llm.resources import StepModels
from statewright.workflow.steps.model import LlmStep
from statewright.workflow.steps.result import StepFailed

T = TypeVar("T")
_ABANDONED: Final = "give_up"
"""The name of the journal entry that marks a conversation as abandoned. It is stored, so it must not change."""


class ConversationJournal:
    """The journal of a step's current conversation, which is the first conversation that is not abandoned."""

    def __init__(self) -> None:
        scope = current_scope()
        self._number = next(number for number in count() if not _is_abandoned(scope, number))

    async def call_once(self, name: str, function: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Call a function, or return the journaled result of an earlier execution. Results must be serializable.

        The call is a separate task, so that the ids of the interrupts, journaled steps and runs that it creates do not
        depend on which earlier calls are executed again.
        """
        called_function = CalledFunction(function, _make_task_name(name, self._number), shows_result=False)
        return await call_task(called_function, (), {})

    async def abandon(self) -> None:
        """Mark the conversation as abandoned, so that the next attempt starts a new conversation."""
        await self.call_once(_ABANDONED, _do_nothing)


async def _do_nothing() -> None:
    """Do nothing. Only the journal entry of the call is needed."""


def _make_task_name(name: str, number: int) -> str:
    return name if number == 0 else f"{name}#{number + 1}"


def _is_abandoned(scope: Scope | None, number: int) -> bool:
    if scope is None or scope.task is None:
        raise InternalError("A conversation started outside a node. Please report this.")
    key: JournalKey = (scope.task.id, _make_task_name(_ABANDONED, number), 0)
    return key in scope.run.journal


# -- the conversation

_RUN_ERRORS: Final = (RunError, StorageError, InternalError)
"""Errors of the run itself, after which no other model is tried."""


class MissingModel(ModelError):
    """A step names a model that does not exist."""


_FINAL_ERRORS: Final = (InvalidConfig, MissingApiKey, MissingModel)
"""Errors that would occur again in another attempt."""


class StepConversation:
    """One conversation of a step with its model."""

    def __init__(
        self,
        step: LlmStep,
        request: ModelRequest,
        models: StepModels,
        tools: Mapping[str, Tool],
        execution: StepExecution,
        journal: ConversationJournal,
    ) -> None:
        self._step = step
        self._request = replace(request, tools=tool_specs(tools.values()))
        self._models = models
        self._tools = tools
        self._execution = execution
        self._journal = journal
        self._messages: list[Message] = list(request.messages)
        self._model_names: Sequence[str] = (step.model, *step.fallback_models)
        """The models to try, in order. A model that failed is removed, and not called again in this attempt."""
        self._position = 0
        """The number of requests to models so far, which identifies the next request in the journal."""

    async def reply(self) -> ModelResponse:
        """Call the tools that the model requests, until it answers without tool calls. Return this answer.

        Raises StepFailed if no model answers, or after the maximum number of rounds of tool calls.
        """
        for _ in range(self._step.max_tool_rounds):
            response = await self._next_response()
            if not response.message.tool_calls:
                return response
            for call in response.message.tool_calls:
                self._messages.append(await self._journal.call_once("call_tool", partial(self._call_tool, call)))
        response = await self._next_response()
        if response.message.tool_calls:
            await self._journal.abandon()
            raise StepFailed(
                f"The model of step {self._step.name!r} called tools in more than {self._step.max_tool_rounds} rounds. "
                f"Raise maxToolRounds, or tell the model when to stop.",
                code="TOOL_ROUNDS_EXCEEDED",
            )
        return response

    def add_message(self, text: str) -> None:
        """Add a user message, to which the model replies next."""
        self._messages.append(Message(text))

    # -- models

    async def _next_response(self) -> ModelResponse:
        """Return the next answer, and add it to the conversation."""
        message, usage, model, finish_reason, position = await self._journal.call_once("ask_model", self._call_models)
        self._messages.append(message)
        self._position = position + 1
        return ModelResponse(message, Usage(**usage), model, finish_reason)

    async def _call_models(self) -> list[Any]:
        """Call the models in order until one of them answers.

        Returns a list of values that the journal can store: the message, the usage as a map, the name of the model, the
        finish reason, and the position of the request. Raises StepFailed if all models fail.
        """
        errors: list[Exception] = []
        while self._model_names:
            try:
                answer = await self._call_model(self._model_names[0])
            except Exception as error:
                if isinstance(error, _RUN_ERRORS) and not isinstance(error, InvalidConfig):
                    raise
                errors.append(error)
                self._report_failure(error)
                self._model_names = self._model_names[1:]
                self._position += 1
            else:
                return [answer.message, asdict(answer.usage), answer.model, answer.finish_reason, self._position]
        raise self._make_failure(errors) from errors[-1]

    async def _call_model(self, name: str) -> ModelResponse:
        model = self._models.find(name)
        if model is None:
            raise MissingModel(f"The model {name!r} is unknown. Register it, or name its provider: provider:model.")
        request = replace(self._request, messages=list(self._messages))
        return await ask(model, request, self._execution.runtime, position=self._position)

    def _report_failure(self, error: Exception) -> None:
        """Record in the log of the run that a model failed."""
        self._execution.record_event(
            "LLM_CALL_FAILED",
            model=self._model_names[0],
            error=f"{type(error).__name__}: {error}",
            fallback=self._model_names[1] if len(self._model_names) > 1 else None,
        )

    def _make_failure(self, errors: Sequence[Exception]) -> StepFailed:
        models = (self._step.model, *self._step.fallback_models)[-len(errors) :]
        failures = [f"{name}: {type(error).__name__}: {error}" for name, error in zip(models, errors, strict=True)]
        waits = [wait for error in errors if (wait := getattr(error, "retry_after", None)) is not None]
        return StepFailed(
            f"No model answered in step {self._step.name!r}. {' '.join(failures)}",
            code="LLM_FAILED",
            details={"failures": failures},
            is_final=all(isinstance(error, _FINAL_ERRORS) for error in errors),
            retry_after=min(waits, default=None),
        )

    # -- tools

    async def _call_tool(self, call: ToolCall) -> Message:
        execution, runtime = self._execution, get_runtime()
        context = ToolContext(
            runtime=runtime,
            stream_writer=runtime.stream_writer,
            tool_call_id=call.id,
            state=execution.state,
            idempotency_key=f"{execution.idempotency_key}:{call.name}:{len(self._messages)}",
        )
        return await answer_call(call, self._tools, context)
