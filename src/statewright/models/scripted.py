"""A model that answers from a script: for tests and for demonstrations without a key."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace

from statewright.errors import ModelError
from statewright.messages import Message
from statewright.models.model import ModelRequest, ModelResponse, Usage

Answer = str | Message | ModelResponse | Exception
Script = Sequence[Answer] | Callable[[ModelRequest], Answer]


class ScriptedModel:
    """Gives the answers of a list, one a call, or what a function makes of each request.

    `repeat_last` lets the last answer serve all further calls; otherwise they raise ModelError. An exception in the
    script is raised. `requests` holds what it was asked. It may be asked from several threads.
    """

    def __init__(self, script: Script, *, repeat_last: bool = False) -> None:
        self.requests: list[ModelRequest] = []
        self._script = script
        self._repeat_last = repeat_last
        self._lock = threading.Lock()

    async def complete(self, request: ModelRequest) -> ModelResponse:
        with self._lock:
            number = len(self.requests)
            self.requests.append(request)
        answer = self._script(request) if callable(self._script) else self._numbered(self._script, number)
        return _response(answer, request)

    def _numbered(self, answers: Sequence[Answer], number: int) -> Answer:
        if number < len(answers):
            return answers[number]
        if self._repeat_last and answers:
            return answers[-1]
        raise ModelError(
            f"The script has {len(answers)} answers, and the model was asked for another one. "
            f"Add it, or pass repeat_last=True."
        )


def _response(answer: Answer, request: ModelRequest) -> ModelResponse:
    if isinstance(answer, Exception):
        raise answer
    if isinstance(answer, ModelResponse):
        return answer
    message = Message(answer, role="assistant") if isinstance(answer, str) else replace(answer, role="assistant")
    return ModelResponse(message, _estimate(request, message))


def _estimate(request: ModelRequest, message: Message) -> Usage:
    """Four characters a token, as a rule of thumb: budgets can be tried without a provider."""
    asked = len(request.system) + sum(len(one.text) for one in request.messages)
    return Usage(input_tokens=-(-asked // 4), output_tokens=-(-len(message.text) // 4))
