"""With whom a conversation is held: a graph over messages, an agent, a network, or a workflow in YAML."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from statewright.cli.console.failure import WrongUse
from statewright.cli.workflow.load import load
from statewright.cli.workflow.models import Models
from statewright.cli.workflow.states import is_workflow, load_app
from statewright.messages import Message
from statewright.runtime import CompiledGraph

if TYPE_CHECKING:
    from statewright.agents import Network


@dataclass(frozen=True, slots=True)
class Subject:
    """A graph that is spoken to by its field `messages`."""

    app: CompiledGraph
    names_speakers: bool = False
    """Whether several speak, so that it has to be said who does."""
    answers_pauses: bool = False
    """Whether what is typed at a breakpoint is an answer, with which the run goes on."""

    def given(self, text: str) -> Any:
        """The input of a run that begins with what the user says."""
        return {"messages": [Message(text)]}

    def past(self, values: Any) -> Sequence[Message]:
        """What has been said, as far as the state has it."""
        return values.get("messages") or ()

    def answer(self, values: Any, *, is_over: bool) -> str:
        """The answer, for a run that told nobody of it while it was made; empty if there is none.

        `is_over`: whether the run has come to its end, and does not wait for something.
        """
        return ""


@dataclass(frozen=True, slots=True)
class _NetworkSubject(Subject):
    network: Network[Any] | None = None

    def given(self, text: str) -> Any:
        return {"input": Message(text)}

    def past(self, values: Any) -> Sequence[Message]:
        assert self.network is not None
        state = self.network.state_of(values)
        return [*state.messages, *(message for turn in state.turns for message in turn.messages)]


@dataclass(frozen=True, slots=True)
class _WorkflowSubject(Subject):
    def given(self, text: str) -> Any:
        return {"input": text}

    def answer(self, values: Any, *, is_over: bool) -> str:
        visits = values.get("visits")
        result = values.get("result") if is_over or not visits else visits[-1]["output"]
        if result is None or isinstance(result, str):
            return result or ""
        return json.dumps(result, ensure_ascii=False, indent=2)


def load_subject(target: str, models: Models) -> Subject:
    """The subject that a target means. Raises WrongUse for a graph that has no messages, and what `load` raises."""
    if is_workflow(target):
        return _WorkflowSubject(load_app(target, models=models), answers_pauses=True)
    app, network = load(target, models)
    if network is not None:
        return _NetworkSubject(app, names_speakers=len(network.agents) > 1, network=network)
    if "messages" not in app.graph.schema.keys:
        raise WrongUse(
            f"Graph {app.name!r} cannot chat: its state has no field `messages`. "
            f"Run it with `statewright run {target}`."
        )
    return Subject(app)
