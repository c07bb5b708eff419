"""A scripted model for this example: it runs anywhere, without an API key.

The responses are scripted, but each is derived from the actual results of the tools. The conversation alone determines
the next response, as with a real model, so a run that was killed can be resumed here too.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

from statewright.messages import Message, ToolCall
from statewright.models import ChatModel, ModelEvent, ModelRequest, ModelResponse, ScriptedModel, stream_model

Call = tuple[str, dict[str, Any]]
"""A tool and its arguments."""


class Talk:
    """The conversation since the last user message."""

    def __init__(self, request: ModelRequest) -> None:
        messages = list(request.messages)
        index = max(index for index, message in enumerate(messages) if message.role == "user")
        self.messages = messages[index:]
        self.agent: str = request.metadata["agent"]

    @property
    def turn(self) -> int:
        """Return the number of responses of this agent."""
        return sum(message.role == "assistant" and message.name == self.agent for message in self.messages)

    def results(self, tool: str) -> list[str]:
        """Return the results of a tool, the latest one last."""
        return [message.text for message in self.messages if message.role == "tool" and message.name == tool]

    def respond(self, text: str, *calls: Call) -> Message:
        """Return the next response: a text and tool calls."""
        tool_calls = [ToolCall(f"call_{len(self.messages)}_{index}", *call) for index, call in enumerate(calls)]
        return Message(text, role="assistant", tool_calls=tuple(tool_calls))


# -- the planner


def look_around(talk: Talk) -> Message:
    return talk.respond("Cents get lost when a bill is shared. Let me look at the files.", ("list_files", {}))


def read_files(talk: Talk) -> Message:
    paths = talk.results("list_files")[-1].splitlines()
    files = [path for path in paths if path.endswith(".py") and not path.endswith("__init__.py")]
    return talk.respond(f"Let me read {', '.join(files)}.", *(("read_file", {"path": path}) for path in files))


def make_plan(talk: Talk) -> Message:
    path, source = culprit(talk)
    line = next(number for number, line in enumerate(source.splitlines(), 1) if "//" in line)
    plan = {
        "thoughts": f"Line {line} of {path} drops the remainder of the division, so nobody pays it.",
        "details": "Distribute the remainder too. The signature of the function stays the same.",
        "edits": [
            {
                "filename": path,
                "idea": "Divide with divmod, and add the remainder to the shares.",
                "reasoning": "Then the shares add up to the bill.",
            }
        ],
    }
    return talk.respond(f"The remainder is dropped in {path}, line {line}.", ("create_plan", plan))


# -- the editor


def run_first_tests(talk: Talk) -> Message:
    return talk.respond("First, let me see which tests fail.", ("run_tests", {}))


def edit(talk: Talk) -> Message:
    fix = "    share, rest = divmod(total, people)\n    return [share + rest, *[share] * (people - 1)]\n"
    return talk.respond(f"{failing(talk)} fail. Let the first person pay the remainder.", *rewrite(talk, fix))


def edit_again(talk: Talk) -> Message:
    fix = "    share, rest = divmod(total, people)\n    return [share + 1] * rest + [share] * (people - rest)\n"
    text = f"The shares add up now, but {failing(talk)} fails: the remainder can be more than a cent. Let me spread it."
    return talk.respond(text, *rewrite(talk, fix))


def finish(talk: Talk) -> Message:
    match = re.search(r"Ran \d+ tests", talk.results("run_tests")[-1])
    summary = "The remainder of a bill is spread over the shares, a cent each."
    return talk.respond(
        f"{match[0] if match else 'The tests ran'}, and all of them pass.", ("done", {"summary": summary})
    )


# -- reading the results of tools


def culprit(talk: Talk) -> tuple[str, str]:
    """Return the path and the content of the file with the function."""
    calls = [call for message in talk.messages for call in message.tool_calls if call.name == "read_file"]
    results = {message.tool_call_id: message.text for message in talk.messages if message.role == "tool"}
    return next((call.arguments["path"], results[call.id]) for call in calls if "def split" in results[call.id])


def failing(talk: Talk) -> str:
    """Return the names of the tests that failed last."""
    return " and ".join(re.findall(r"^(?:FAIL|ERROR): (\w+)", talk.results("run_tests")[-1], re.M))


def rewrite(talk: Talk, fix: str) -> list[Call]:
    """Return the tool calls that replace the two wrong lines and run the tests."""
    path, source = culprit(talk)
    content = re.sub(r"    share = .*\n    return .*\n", lambda _: fix, source)
    return [("write_file", {"path": path, "content": content}), ("run_tests", {})]


# -- the model

TURNS: dict[str, list[Callable[[Talk], Message]]] = {
    "Planner": [look_around, read_files, make_plan],
    "Editor": [run_first_tests, edit, edit_again, finish],
}


def answer(request: ModelRequest) -> Message:
    """Return the scripted response to a request."""
    talk = Talk(request)
    return TURNS[talk.agent][talk.turn](talk)


@dataclass
class PacedModel:
    """A slow model that streams word by word, as providers do."""

    model: ChatModel
    pace: float
    """Delay per event, in seconds."""

    async def complete(self, request: ModelRequest) -> ModelResponse:
        return await self.model.complete(request)

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        async for event in stream_model(self.model, request):
            await asyncio.sleep(self.pace)
            yield event


def scripted_model(pace: float) -> ChatModel:
    """Return the model that follows this script."""
    return PacedModel(ScriptedModel(answer), pace)
