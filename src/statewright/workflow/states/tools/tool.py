"""What a tool is, and what it is told beside its arguments."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from statewright.workflow.states.tools.integrations import NO_CREDENTIALS, Credentials


def _to_nobody(_: Any) -> None:
    return None


@dataclass(frozen=True, slots=True)
class ToolContext:
    """What one call is told beside its arguments. A function asks for it by a parameter with this annotation."""

    credentials: Credentials = field(default_factory=lambda: NO_CREDENTIALS)
    """The values of the integration that the call was given; empty if none was."""
    stream_writer: Callable[[Any], None] = _to_nobody
    """Sends a value to whoever watches the run."""
    idempotency_key: str | None = None
    """The same for every attempt at the call: for services that know such keys."""


class Tool(Protocol):
    """Does one thing with arguments, for a state or for a model that asks for it."""

    @property
    def name(self) -> str: ...
    @property
    def description(self) -> str: ...
    @property
    def parameters(self) -> Mapping[str, Any]:
        """A JSON Schema of an object: the arguments."""
        ...

    @property
    def never_from_context(self) -> Collection[str]:
        """Arguments that are never taken from the context of a run: only what was written for them counts."""
        ...

    async def call(self, arguments: Mapping[str, Any], *, context: ToolContext) -> Any:
        """What it answers. Raises ToolError for arguments that it does not take, and whatever else goes wrong."""
        ...
