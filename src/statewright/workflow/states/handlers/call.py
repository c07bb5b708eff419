"""One execution of a state, as whoever does its work sees it."""

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
    """What is given to a performer. Nothing of it may be changed."""

    state: State
    prompt: str
    """The task, with its templates filled in."""
    context: Mapping[str, Any]
    """The context store of the branch, with the fields of its item."""
    scope: Mapping[str, Any]
    """What templates see: the context, and `task`."""
    history: Sequence[Message]
    item: Any
    """That of the branch; None outside iterations, where `has_item` is false."""
    has_item: bool
    number: int
    """How often the state was called in this run before; items of one iteration count on."""
    lineage: Lineage
    """All visits of the run so far, and its input."""
    runtime: Runtime[Any]


@dataclass(slots=True)
class Outcome:
    """What came of it."""

    output: Any
    """Text, or a value of JSON."""
    summary: str | None = None
    """What the history was summarised to before."""
    calls: int = 1
    """How often a model was asked."""
    parsed: ParsedOutput | None = None
    """The output with its value, if that was parsed to check the answer."""


class StateHandler(Protocol):
    """Does the work of a state."""

    async def perform(self, call: Call) -> Outcome:
        """Do it. Raises what makes the state fail; the retry policy of the state decides what is tried again."""
        ...


NO_TASK: Final = "-"
"""What a model is told where there is no task: providers refuse empty messages."""


def told_to_do(call: Call) -> str:
    """What a model is told to do: the task, and the item of its branch."""
    task = call.prompt or NO_TASK
    return f"{task}\n\nCurrent task: {as_text(call.item)}" if call.has_item else task


# -- Events for placeholders that are left unchanged because a name in them is undefined.

logger = logging.getLogger("statewright")


def unresolved_reporter(runtime: Runtime[Any], state_id: str) -> Report:
    """Return a callback that emits a custom stream event and logs a warning."""

    def report(placeholder: str) -> None:
        event = {"kind": "template", "event": "unresolved", "state": state_id, "placeholder": placeholder}
        runtime.stream_writer(event)
        logger.warning("State %r: the placeholder %s is undefined and was left unchanged.", state_id, placeholder)

    return report
