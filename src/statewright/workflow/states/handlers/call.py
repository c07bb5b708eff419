"""The protocol of handlers: one execution of a state, and its outcome."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from statewright.agents import as_text
from statewright.graph import Runtime
from statewright.messages import Message
from statewright.workflow.states.engine.lineage import Lineage
from statewright.workflow.states.expressions.output import ParsedOutput
from statewright.workflow.states.language.model import State
from statewright.workflow.states.templates.template import Report


@dataclass(slots=True)
class Call:
    """One execution of a state, as its handler sees it. It must not be modified."""

    state: State
    prompt: str
    """The rendered task."""
    context: Mapping[str, Any]
    """The context store of the branch, including the fields of its item."""
    scope: Mapping[str, Any]
    """The names that templates see: the context and `task`."""
    history: Sequence[Message]
    item: Any
    """The item of the branch; None outside iterations, where `has_item` is false."""
    has_item: bool
    number: int
    """The number of earlier calls of the state in this run; the items of one iteration are numbered consecutively."""
    lineage: Lineage
    """All visits of the run so far, and its input."""
    runtime: Runtime[Any]


@dataclass(slots=True)
class Outcome:
    """The outcome of a call."""

    output: Any
    """Text, or a JSON value."""
    summary: str | None = None
    """The summary that replaced the history before the call."""
    calls: int = 1
    """The number of model calls."""
    parsed: ParsedOutput | None = None
    """The output with its value, if it was parsed to check the answer."""


class StateHandler(Protocol):
    """Performs a state: an assistant, a tool, a script or a custom node."""

    async def perform(self, call: Call) -> Outcome:
        """Perform the state. After an exception its retry policy decides about another attempt."""
        ...


NO_TASK: Final = "-"
"""Sent to a model if there is no task: providers reject empty messages."""


def format_task(call: Call) -> str:
    """Return the user message for a model: the task, and the item of its branch."""
    task = call.prompt or NO_TASK
    return f"{task}\n\nCurrent task: {as_text(call.item)}" if call.has_item else task


CHARACTERS_PER_TOKEN: Final = 4
"""An estimate, for limits in tokens."""


def truncate(text: str, tokens: int, reason: str = "") -> str:
    """Truncate a text to a number of tokens, and mark the cut in a last line."""
    limit = tokens * CHARACTERS_PER_TOKEN
    if len(text) <= limit:
        return text
    return f"{text[:limit]}\n[Cut off after {limit} of {len(text)} characters{reason}.]"


# -- undefined placeholders

logger = logging.getLogger("statewright")


def make_unresolved_reporter(runtime: Runtime[Any], state_id: str) -> Report:
    """Return a callback that emits a custom stream event and logs a warning."""

    def report(placeholder: str) -> None:
        event = {"kind": "template", "event": "unresolved", "state": state_id, "placeholder": placeholder}
        runtime.stream_writer(event)
        logger.warning("State %r: the placeholder %s is undefined and was left unchanged.", state_id, placeholder)

    return report
