"""The channels of a workflow of steps, and what is written to them.

`input` is written once, by the beginning of a run. `state` is what steps add to: a map that grows by shallow merges.
Two more are the books of the run: how often it has come to each step, and what its idempotency keys begin with.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Final, TypedDict, cast

from statewright.channels import LastValue, Overwrite, Reduced
from statewright.errors import InvalidUpdateError
from statewright.state import IdSource, UpdateReader
from statewright.workflow.steps.jsonable import plain_map
from statewright.workflow.steps.result import NEXT_STEP


def shallow_merge(current: Mapping[str, Any], update: Mapping[str, Any]) -> dict[str, Any]:
    """The map with new keys, and others in place of those that both have. No key goes."""
    return {**current, **update}


class Origin(LastValue):
    """A text that is kept with the run, and shown to nobody."""

    hidden: ClassVar[bool] = True


class Visits(Reduced):
    """Counts that are kept with the run, and shown to nobody."""

    hidden: ClassVar[bool] = True

    def __init__(self) -> None:
        super().__init__(shallow_merge)


class StepsState(TypedDict, total=False):
    """What a run of steps holds."""

    input: dict[str, Any]
    state: Annotated[dict[str, Any], shallow_merge]
    visits: Annotated[dict[str, int], Visits()]
    """How often the run came to each step; 0 for a step that was jumped over."""
    origin: Annotated[str, Origin()]
    """Names this pass through the steps: no two runs on any thread have the same."""


CHANNELS: Final = ("input", "state", "visits", "origin")


class StepWrites:
    """What a step writes when it is done."""

    __slots__ = ("state", "visits")

    def __init__(self, state: dict[str, Any], visits: dict[str, int]) -> None:
        self.state = state
        self.visits = visits


class StateUpdates(UpdateReader):
    """Reads what steps write; from outside, as in `update_state`, a map is an update of the state as it is shown."""

    @property
    def takes_lists(self) -> bool:
        return True

    def read(self, update: Any, node: str, ids: IdSource) -> dict[str, Any]:
        if type(update) is StepWrites:
            return {"state": update.state, "visits": update.visits}
        if update is None:
            return {}
        updates = plain_map(update, f"The update of step {node!r}")
        if NEXT_STEP in updates:
            raise InvalidUpdateError(f"The update of step {node!r} holds {NEXT_STEP!r}, which only a step may answer.")
        return {"state": updates}

    def read_fields(self, mapping: dict[str, Any], node: str, ids: IdSource) -> dict[str, Any]:
        return self.read(mapping, node, ids)


class InputReader(StateUpdates):
    """Reads the input of a run, with which everything begins anew."""

    def unknown_in(self, update: Any) -> str | None:
        return None  # what the keys of an input are is not said anywhere

    def read(self, update: Any, node: str, ids: IdSource) -> dict[str, Any]:
        given = plain_map(update, "The input of the workflow")
        return {"input": given, "state": Overwrite({}), "visits": Overwrite({}), "origin": ids.id}


def state_of(values: Mapping[str, Any]) -> dict[str, Any]:
    """The state as it is shown: a map of its own."""
    return dict(cast("Mapping[str, Any]", values.get("state") or {}))
