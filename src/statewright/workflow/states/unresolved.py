"""Events about placeholders that stay as they were written, because something in them has no value."""

from __future__ import annotations

import logging
from typing import Any

from statewright.graph import Runtime
from statewright.workflow.states.templates.template import Report

logger = logging.getLogger("statewright")


def unresolved_reporter(runtime: Runtime[Any], state_id: str) -> Report:
    """Return what writes an event into the stream of the run, and a warning into the log."""

    def report(placeholder: str) -> None:
        event = {"kind": "template", "event": "unresolved", "state": state_id, "placeholder": placeholder}
        runtime.stream_writer(event)
        logger.warning("State %r: nothing was filled in for %s, which has no value.", state_id, placeholder)

    return report
