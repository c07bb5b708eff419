"""The protocol of handlers: one execution of a state, and its outcome."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar

from statewright.agents import as_text
from statewright.errors import ExpressionError
from statewright.graph import Runtime
from statewright.messages import Message
from statewright.workflow.states.engine.lineage import Lineage
from statewright.workflow.states.expressions.output import ParsedOutput
from statewright.workflow.states.language.model import State
from statewright.workflow.states.templates import render_off_loop
from statewright.workflow.states.templates.template import UnresolvedCallback

T = TypeVar("T")


@dataclass(slots=True)
class Call:
    """One execution of a state, as its handler sees it. It must not be modified."""

    state: State
    prompt: str
    """The rendered task."""
    context: Mapping[str, Any]
    """The context store of the branch, including the fields of its item."""
    scope: Mapping[str, Any]
    """The variables of templates, by name: the context, and `task`."""
    history: Sequence[Message]
    item: Any
    """The item of the branch; None outside iterations, where `has_item` is false."""
    has_item: bool
    number: int
    """The index of this call among the calls of the state in this run, by which a script selects the output. It is the
    number of earlier answers of the state's model, plus the index of the item in its iteration."""
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
    """The number of answers of the model, without requests for tools; 1 if the state calls no model."""
    parsed: ParsedOutput | None = None
    """The output with its parsed value, if the handler has parsed it already."""


class StateHandler(Protocol):
    """Performs a state: an assistant, a tool, a script or a custom node."""

    async def perform(self, call: Call) -> Outcome:
        """Perform the state. If this raises an exception, the state's retry policy decides whether to try again."""
        ...


NO_TASK: Final = "-"
"""Sent to a model in place of an empty task, because providers reject empty messages."""


def format_task(call: Call) -> str:
    """Return the user message for a model: the task, and the item of its branch."""
    task = call.prompt or NO_TASK
    return f"{task}\n\nCurrent task: {as_text(call.item)}" if call.has_item else task


CHARACTERS_PER_TOKEN: Final = 4
"""An estimate, for limits in tokens."""


def truncate(text: str, tokens: int, reason: str = "") -> str:
    """Truncate text to about `tokens` tokens, and append a line that says so. The line ends with `reason`."""
    limit = tokens * CHARACTERS_PER_TOKEN
    if len(text) <= limit:
        return text
    return f"{text[:limit]}\n[Cut off after {limit} of {len(text)} characters{reason}.]"


# -- templates

logger = logging.getLogger("statewright")


async def render_for_state(label: str, state_id: str, runtime: Runtime[Any], render: Callable[..., T]) -> T:
    """Render templates of a state off the event loop if they take long, and report their undefined placeholders.

    `render` takes the keyword arguments `on_unresolved` and `work` of `Template.render`. Raises ExpressionError, whose
    message names the state and the `label`, which is the key of the templates in the workflow file.
    """
    unresolved: list[str] = []

    def attempt(work: int) -> T:
        unresolved.clear()  # an earlier attempt, which exceeded its limit of work, may have found some already
        return render(on_unresolved=unresolved.append, work=work)

    try:
        result = await render_off_loop(attempt)
    except ExpressionError as error:
        raise ExpressionError(f"The {label} of state {state_id!r}: {error}") from error
    report_unresolved = make_unresolved_reporter(runtime, state_id)
    for placeholder in dict.fromkeys(unresolved):
        report_unresolved(placeholder)
    return result


def make_unresolved_reporter(runtime: Runtime[Any], state_id: str) -> UnresolvedCallback:
    """Return a callback for undefined placeholders, which emits a custom stream event and logs a warning."""

    def report(placeholder: str) -> None:
        event = {"kind": "template", "event": "unresolved", "state": state_id, "placeholder": placeholder}
        runtime.stream_writer(event)
        logger.warning("State %r: the placeholder %s is undefined and was left unchanged.", state_id, placeholder)

    return report
