"""The graph that a user chats with, and how it takes messages and answers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from statewright.cli.console.failure import UsageError
from statewright.cli.workflow.load import is_workflow, load
from statewright.cli.workflow.models import Models
from statewright.messages import Message
from statewright.runtime import CompiledGraph

if TYPE_CHECKING:
    from statewright.agents import Network


@dataclass(frozen=True, slots=True)
class ChatTarget:
    """A graph that takes messages and keeps the conversation in its field `messages`."""

    app: CompiledGraph
    has_several_speakers: bool = False
    """True if several agents answer, so that their names should be shown."""
    answers_breakpoints: bool = False
    """True if text typed at a breakpoint is passed to the run as an answer."""

    def make_input(self, text: str) -> Any:
        """Return the input that passes a message from the user to a run."""
        return {"messages": [Message(text)]}

    def past_messages(self, values: Any) -> Sequence[Message]:
        """Return the messages in the state."""
        return values.get("messages") or ()

    def final_answer(self, values: Any, *, is_over: bool) -> str:
        """Return the final answer of a run, which may not have been streamed; empty if there is none.

        `is_over` is False while the run is waiting for input.
        """
        return ""


@dataclass(frozen=True, slots=True)
class _NetworkTarget(ChatTarget):
    network: Network[Any] | None = None
    """Always set. It has a default only because the inherited fields have defaults."""

    def make_input(self, text: str) -> Any:
        return {"input": Message(text)}

    def past_messages(self, values: Any) -> Sequence[Message]:
        assert self.network is not None
        state = self.network.state_of(values)
        return [*state.messages, *(message for turn in state.turns for message in turn.messages)]


@dataclass(frozen=True, slots=True)
class _WorkflowTarget(ChatTarget):
    def make_input(self, text: str) -> Any:
        return {"input": text}

    def final_answer(self, values: Any, *, is_over: bool) -> str:
        visits = values.get("visits")
        result = values.get("result") if is_over or not visits else visits[-1]["output"]
        if result is None or isinstance(result, str):
            return result or ""
        return json.dumps(result, ensure_ascii=False, indent=2)


def load_chat_target(target: str, models: Models) -> ChatTarget:
    """Load the graph of a target. Raises UsageError if its state has no messages, and the errors of `load`."""
    app, network = load(target, models)
    if is_workflow(target):
        return _WorkflowTarget(app, answers_breakpoints=True)
    if network is not None:
        return _NetworkTarget(app, has_several_speakers=len(network.agents) > 1, network=network)
    if "messages" not in app.graph.schema.keys:
        raise UsageError(
            f"You cannot chat with graph {app.name!r}: its state has no field `messages`. "
            f"Run it with `statewright run {target}`."
        )
    return ChatTarget(app)
