"""Threads: the memory of runs, and what can be done to it."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from pydantic import Field, model_validator

from statewright.server.models.base import Body, JsonMap, Name, Shown


class ForkBody(Body):
    """A branch that begins at a checkpoint."""

    checkpoint_id: Name
    branch: Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[A-Za-z0-9_.-]+$")] | None = None
    """How the branch is called; without a name the checkpoint becomes the head of its own branch again."""


class UpdateThreadBody(Body):
    """A change of the state, as if a node had made it."""

    values: Any = None
    as_node: Name | None = None
    checkpoint_id: Name | None = None
    """Where to begin from; the head of the thread if none is given."""

    @model_validator(mode="after")
    def _has_values(self) -> UpdateThreadBody:
        if "values" not in self.model_fields_set:
            raise ValueError("give values: what is to change")
        return self


class ThreadShown(Shown):
    """A thread at one checkpoint."""

    thread_id: str
    checkpoint_id: str | None
    parent_checkpoint_id: str | None
    branch: str
    values: Any
    next: list[str]
    """The nodes that are due or wait."""
    metadata: JsonMap
    created_at: datetime | None
    tasks: list[JsonMap]
    """What is due or was done last: `id`, `name`, `error`, `result`, `interrupts`."""
