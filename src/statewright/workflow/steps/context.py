"""What a handler is told about the step that it is called for."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, cast

from statewright.graph import Runtime
from statewright.workflow.steps.plain import copied


class StepContext:
    """One attempt at one step. Tests of handlers may make one themselves; every part has a default."""

    def __init__(
        self,
        *,
        step_name: str = "",
        workflow_input: Mapping[str, Any] | None = None,
        workflow_state: Mapping[str, Any] | None = None,
        config: Mapping[str, Any] | None = None,
        run_id: str = "",
        workspace_id: str | None = None,
        idempotency_key: str = "",
        attempt: int = 1,
        runtime: Runtime[Any] | None = None,
    ) -> None:
        self.step_name = step_name
        self.run_id = run_id
        self.workspace_id = workspace_id
        """The workspace whose run it is; None outside the service."""
        self.idempotency_key = idempotency_key
        """The same for every attempt at the step, another one when the run comes to the step again."""
        self.attempt = attempt
        """From 1."""
        self._input = workflow_input or {}
        self._state = workflow_state or {}
        self._config = config or {}
        self._runtime = runtime

    @cached_property
    def workflow_input(self) -> dict[str, Any]:
        """What the run was started with: a copy, so whatever is done to it stays here."""
        return copied(dict(self._input))

    @cached_property
    def workflow_state(self) -> dict[str, Any]:
        """The state before the step: a copy. What is to reach the state is answered as `state_updates`."""
        return copied(dict(self._state))

    @cached_property
    def config(self) -> dict[str, Any]:
        """What the definition says under `config`; the arguments, where a model calls the handler as a tool."""
        return copied(dict(self._config))

    @property
    def runtime(self) -> Runtime[Any]:
        """What every node may ask for: journalled steps, heartbeats, the store. None in a context made by hand."""
        return cast("Runtime[Any]", self._runtime)
