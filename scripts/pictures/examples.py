"""The graphs of `examples/`, whose models and tools take time of the stage, so that their steps can be told apart."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from stage_clock import clock, spend, spend_blocking

from statewright.models import ChatModel, ModelEvent, ModelRequest, ModelResponse, ScriptedModel, TextDelta, Usage
from statewright.models.port import response_events

sys.path.extend(map(str, sorted((Path(__file__).resolve().parents[2] / "examples").iterdir())))

import flow_tools
import graph as outreach
import session
from mail import Mailbox
from network import code_network as make_network
from office import writer

FOLDER = Path(__file__).resolve().parents[2] / "examples"
PRICE = 0.00004
"""US dollars per token."""


@dataclass
class StageModel:
    """A scripted model that streams word by word, in time of the stage, and whose tokens cost something."""

    model: ChatModel
    name: str
    seconds: float
    """Until the first word."""
    pace: float = 0.06
    """Seconds a word."""

    async def complete(self, request: ModelRequest) -> ModelResponse:
        await spend(self.seconds)
        response = await self.model.complete(request)
        await spend(self.pace * len(response.text.split()))
        return self._price(request, response)

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        await spend(self.seconds)
        for event in response_events(self._price(request, await self.model.complete(request))):
            if isinstance(event, TextDelta):
                for word in event.text.split(" "):
                    yield TextDelta(f"{word} ")
                    await spend(self.pace)
            else:
                yield event

    def _price(self, request: ModelRequest, response: ModelResponse) -> ModelResponse:
        read = len(request.system) + sum(len(message.text) for message in request.messages)
        written = len(response.text) + sum(len(str(call.arguments)) for call in response.message.tool_calls)
        usage = Usage(read // 4 + 300, written // 4 + 20)
        return replace(response, usage=replace(usage, cost=round(usage.tokens * PRICE, 6)), model=self.name)


code_network = make_network(StageModel(ScriptedModel(session.answer), "scripted-large", 1.4))
outreach.mailbox = lambda: Mailbox(Path(os.environ["OUTREACH_FOLDER"]) / "mailbox.db", clock=clock)
lead_outreach = outreach.make_graph(StageModel(writer, "scripted-small", 0.9))


# -- the tools of examples/audit/flow.yaml

find_files, judge, rank, write = flow_tools.find_files, flow_tools.judge, flow_tools.rank, flow_tools.write


def measure(root: str, path: str) -> dict[str, Any]:
    """Measure one file, and return the figures for the summary."""
    spend_blocking(0.2 + Path(path).stat().st_size / 10_000)
    return flow_tools.measure(root, path)
