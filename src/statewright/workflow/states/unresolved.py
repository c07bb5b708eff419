"""Events for placeholders that are left unchanged because a name in them is undefined."""

from __future__ import annotations

import logging
from typing import Any

from statewright.graph import Runtime
from statewright.workflow.states.templates.template import Report

logger = logging.getLogger("statewright")


def unresolved_reporter(runtime: Runtime[Any], state_id: str) -> Report:
    """Return a callback that emits a custom stream event and logs a warning."""

    def report(placeholder: str) -> None:
        event = {"kind": "template", "event": "unresolved", "state": state_id, "placeholder": placeholder}
        runtime.stream_writer(event)
        logger.warning("State %r: the placeholder %s is undefined and was left unchanged.", state_id, placeholder)

    return report
