"""A model that answers from a script, for tests, and for demos without an API key."""

from __future__ import annotations

import re
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import replace

from statewright.errors import ModelError
from statewright.messages import Message, ToolCall
from statewright.models.conversation.prepare import check_request
from statewright.models.model import ModelEvent, ModelRequest, ModelResponse, TextDelta, ToolCallDelta, Usage
from statewright.models.port import response_events

Answer = str | Message | ToolCall | Sequence[ToolCall] | ModelResponse | Exception
"""Text, a message, one or several tool calls, a complete response, or an exception to raise."""
Script = Sequence[Answer] | Callable[[ModelRequest], Answer]
"""The answers in the order of the calls, or a function that returns the answer to a request."""


class ScriptedModel:
    """A chat model whose answers come from a script: a list with an answer for each call, or a function of the request.

    After the last answer of a list, further calls raise ModelError; with `repeat_last` they get the last answer again.
    An answer that is an exception is raised. Requests that a provider would refuse raise ModelError, see
    `check_request`. `requests` has all requests so far. Streams yield text word by word. Several threads may share a
    model.
    """

    def __init__(self, script: Script, *, repeat_last: bool = False) -> None:
        self.requests: list[ModelRequest] = []
        self._script = script
        self._repeat_last = repeat_last
        self._lock = threading.Lock()

    async def complete(self, request: ModelRequest) -> ModelResponse:
        return self._answer(request)

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        for event in response_events(self._answer(request)):
            for delta in _split_event(event):
                yield delta

    def _answer(self, request: ModelRequest) -> ModelResponse:
        check_request(request)
        with self._lock:
            index = len(self.requests)
            self.requests.append(request)
        answer = self._script(request) if callable(self._script) else self._answer_at(index, self._script)
        return _response(answer, request)

    def _answer_at(self, index: int, answers: Sequence[Answer]) -> Answer:
        if index < len(answers):
            return answers[index]
        if self._repeat_last and answers:
            return answers[-1]
        raise ModelError(
            f"The script has {len(answers)} answers, but the model was called {index + 1} times. "
            f"Add an answer, or pass repeat_last=True."
        )


def _split_event(event: ModelEvent) -> Iterator[ModelEvent]:
    """Split an event like a provider: text is streamed word by word, and arguments follow the name of the tool."""
    match event:
        case TextDelta(text):
            yield from (TextDelta(word) for word in re.findall(r"\s*\S+\s*$|\s*\S+|\s+", text))
        case ToolCallDelta(index, call_id, name, arguments):
            yield ToolCallDelta(index, call_id, name)
            yield ToolCallDelta(index, arguments=arguments)
        case _:
            yield event


def _response(answer: Answer, request: ModelRequest) -> ModelResponse:
    """Return an answer of the script as a response, or raise it if it is an exception."""
    if isinstance(answer, Exception):
        raise answer
    if isinstance(answer, ModelResponse):
        return answer
    if isinstance(answer, str | Message):
        message = replace(Message(answer) if isinstance(answer, str) else answer, role="assistant")
    else:
        calls = (answer,) if isinstance(answer, ToolCall) else tuple(answer)
        message = Message("", role="assistant", tool_calls=calls)
    return ModelResponse(message, _estimate(request, message), finish_reason="tools" if message.tool_calls else "stop")


def _estimate(request: ModelRequest, message: Message) -> Usage:
    """Return an estimate of the usage, at four characters per token, so that budgets can be tried out in tests."""
    characters = len(request.system) + sum(len(earlier.text) for earlier in request.messages)
    return Usage(input_tokens=-(-characters // 4), output_tokens=-(-len(message.text) // 4))
