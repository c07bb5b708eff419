"""The channels of a workflow of steps, and the updates that are written to them.

`input` is written once, at the start of a run. `state` is a map into which the updates of steps are merged without
merging nested maps. Two hidden channels contain the number of visits to each step, and the prefix of idempotency keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Final, TypedDict, cast

from statewright.channels import LastValue, Overwrite, Reduced
from statewright.errors import InvalidUpdateError
from statewright.state import IdSource, UpdateReader
from statewright.workflow.steps.result import NEXT_STEP, to_jsonable_map


def shallow_merge(current: Mapping[str, Any], update: Mapping[str, Any]) -> dict[str, Any]:
    """Merge two maps. Values of the update take precedence, and no key is removed."""
    return {**current, **update}


class Origin(LastValue):
    """The channel `origin`, hidden from the output of the run."""

    hidden: ClassVar[bool] = True


class Visits(Reduced):
    """The channel `visits`, hidden from the output of the run."""

    hidden: ClassVar[bool] = True

    def __init__(self) -> None:
        super().__init__(shallow_merge)


class StepsState(TypedDict, total=False):
    """The channels of a run."""

    input: dict[str, Any]
    state: Annotated[dict[str, Any], shallow_merge]
    visits: Annotated[dict[str, int], Visits()]
    """The number of visits by step name; 0 for a step that was skipped."""
    origin: Annotated[str, Origin()]
    """A unique id of this run of the workflow. It is the prefix of idempotency keys if the caller chose no run id."""


CHANNELS: Final = ("input", "state", "visits", "origin")


@dataclass(slots=True)
class StepWrites:
    """The writes of a finished step."""

    state: dict[str, Any]
    visits: dict[str, int]


class StateUpdates(UpdateReader):
    """Converts the updates of steps to writes.

    A map that does not come from a step, such as the argument of `update_state`, updates the visible state.
    """

    @property
    def takes_lists(self) -> bool:
        return True

    def read(self, update: Any, node: str, ids: IdSource) -> dict[str, Any]:
        if type(update) is StepWrites:
            return {"state": update.state, "visits": update.visits}
        if update is None:
            return {}
        updates = to_jsonable_map(update, f"The update of step {node!r}")
        if NEXT_STEP in updates:
            raise InvalidUpdateError(
                f"The update of step {node!r} contains {NEXT_STEP!r}, which only a step may return. Remove it."
            )
        return {"state": updates}

    def read_fields(self, mapping: dict[str, Any], node: str, ids: IdSource) -> dict[str, Any]:
        return self.read(mapping, node, ids)

    def _problems_of_keys(self, mapping: Mapping[str, Any], node: str | None) -> dict[str, str]:
        return {}  # neither the input nor the visible state has declared keys


class InputReader(StateUpdates):
    """Converts the input of a run to writes. These reset all channels other than `input`."""

    def read(self, update: Any, node: str, ids: IdSource) -> dict[str, Any]:
        workflow_input = to_jsonable_map(update, "The input of the workflow")
        return {"input": workflow_input, "state": Overwrite({}), "visits": Overwrite({}), "origin": ids.id}


def get_visible_state(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of the visible state."""
    return dict(cast("Mapping[str, Any]", values.get("state") or {}))
