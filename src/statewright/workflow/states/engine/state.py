"""The channels of a workflow's graph, the input of a run, and its derived output."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypedDict, cast

from statewright.messages import Message
from statewright.state import Derived
from statewright.workflow.states.engine.lineage import make_lineage
from statewright.workflow.states.engine.visit import ANSWER, Visit, VisitLog
from statewright.workflow.states.language.transition import END_STATE


class WorkflowInput(TypedDict, total=False):
    """The input of a run."""

    input: Any
    """Text or a map. A map, or text that parses to one, becomes the context."""
    files: list[str]


class WorkflowState(TypedDict, total=False):
    """The channels: the input, and the visits."""

    input: Any
    files: list[str]
    visits: Annotated[list[Visit], VisitLog()]
    summary: str
    """The summary written at the end of the run."""


def visits_of(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return each execution of a state as a map, in the order of supersteps."""
    lineage = make_lineage(values)
    return [
        {
            "state": visit.state,
            "item": lineage.item(visit.item),
            "prompt": visit.prompt,
            "output": visit.output,
        }
        for visit in lineage
        if visit.state != ANSWER
    ]


def context_of(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the context store with the writes of all branches."""
    return dict(make_lineage(values).merged_view().context)


def messages_of(values: Mapping[str, Any]) -> list[Message]:
    """Return the history with the messages of all branches."""
    return list(make_lineage(values).merged_view().history)


def result_of_run(values: Mapping[str, Any]) -> Any:
    """Return the summary of the run; without one its last output."""
    summary = values.get("summary")
    visits = [visit for visit in cast("list[Visit]", values.get("visits") or ()) if visit.state != ANSWER]
    ends = [visit for visit in visits if END_STATE in visit.into] or visits
    return summary if summary is not None else ends[-1].output if ends else None


class WorkflowResult(TypedDict, total=False):
    """The output of a run, derived from its visits."""

    result: Annotated[Any, Derived(result_of_run)]
    context: Annotated[dict[str, Any], Derived(context_of)]
    visits: Annotated[list[dict[str, Any]], Derived(visits_of)]
    messages: Annotated[list[Message], Derived(messages_of)]
