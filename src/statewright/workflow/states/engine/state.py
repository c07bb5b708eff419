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
    """Text or a map. A map, or text that parses to one, becomes the initial context."""
    files: list[str]
    """Paths or names of files, which become `file_names` in the context."""


class WorkflowState(TypedDict, total=False):
    """The channels: the input, and the visits."""

    input: Any
    files: list[str]
    visits: Annotated[list[Visit], VisitLog()]
    summary: str
    """The summary written at the end of the run."""


def derive_visits(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return a map for each execution of a state, with `state`, `item`, `prompt` and `output`, oldest first."""
    lineage = make_lineage(values)
    return [
        {
            "state": visit.state,
            "item": lineage.get_item(visit.item),
            "prompt": visit.prompt,
            "output": visit.output,
        }
        for visit in lineage
        if visit.state != ANSWER
    ]


def derive_context(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the context store with the writes of all branches."""
    return dict(make_lineage(values).get_merged_view().context)


def derive_messages(values: Mapping[str, Any]) -> list[Message]:
    """Return the history with the messages of all branches."""
    return list(make_lineage(values).get_merged_view().history)


def derive_result(values: Mapping[str, Any]) -> Any:
    """Return the summary of the run, if there is one.

    Otherwise return the last output of a branch that has reached `end`, or else the last output of any branch.
    """
    summary = values.get("summary")
    visits = [visit for visit in cast("list[Visit]", values.get("visits") or ()) if visit.state != ANSWER]
    final_visits = [visit for visit in visits if END_STATE in visit.targets] or visits
    return summary if summary is not None else final_visits[-1].output if final_visits else None


class WorkflowResult(TypedDict, total=False):
    """The output of a run, derived from its visits."""

    result: Annotated[Any, Derived(derive_result)]
    context: Annotated[dict[str, Any], Derived(derive_context)]
    visits: Annotated[list[dict[str, Any]], Derived(derive_visits)]
    messages: Annotated[list[Message], Derived(derive_messages)]
