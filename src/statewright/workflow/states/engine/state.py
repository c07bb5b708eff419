"""The state of a workflow's graph, what a run is given, and what it gives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypedDict, cast

from statewright.messages import Message
from statewright.state import Derived
from statewright.workflow.states.engine.lineage import Lineage, lineage_of
from statewright.workflow.states.engine.visit import ANSWER, Visit, VisitLog
from statewright.workflow.states.language.model import END_STATE


class WorkflowInput(TypedDict, total=False):
    """What a run begins with."""

    input: Any
    """Text, or a map that becomes the context; text that means a map does too."""
    files: list[str]


class WorkflowState(TypedDict, total=False):
    """The channels: what was given, and everything that was done."""

    input: Any
    files: list[str]
    visits: Annotated[list[Visit], VisitLog()]
    summary: str
    """What the run was summed up to at its end."""


def shown_visits(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Each execution of a state, in the order of supersteps."""
    lineage = lineage_of(values)
    return [_shown(visit, lineage) for visit in lineage if visit.state != ANSWER]


def _shown(visit: Visit, lineage: Lineage) -> dict[str, Any]:
    return {
        "state": visit.state,
        "item": lineage.item(visit.item),
        "prompt": visit.prompt,
        "output": visit.output,
    }


def context_of(values: Mapping[str, Any]) -> dict[str, Any]:
    """The context store, with what all branches have written so far."""
    return dict(lineage_of(values).whole().context)


def messages_of(values: Mapping[str, Any]) -> list[Message]:
    """The history, with the messages of all branches."""
    return list(lineage_of(values).whole().history)


def result_of_run(values: Mapping[str, Any]) -> Any:
    """The summary of the run, or the output with which it ended."""
    summary = values.get("summary")
    visits = [visit for visit in cast("list[Visit]", values.get("visits") or ()) if visit.state != ANSWER]
    ends = [visit for visit in visits if END_STATE in visit.into] or visits
    return summary if summary is not None else ends[-1].output if ends else None


class WorkflowResult(TypedDict, total=False):
    """What a run gives, worked out of what was done."""

    result: Annotated[Any, Derived(result_of_run)]
    context: Annotated[dict[str, Any], Derived(context_of)]
    visits: Annotated[list[dict[str, Any]], Derived(shown_visits)]
    messages: Annotated[list[Message], Derived(messages_of)]
