"""Show the progress of a run: one line per node.

On a terminal the lines are redrawn; otherwise each node gets one line at the end.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from typing import Any

from statewright import CompiledGraph

REDRAW_SECONDS = 0.05


def show_progress(app: CompiledGraph, inputs: Any) -> dict[str, Any]:
    """Run the graph, and return its last state."""
    finished: Counter[str] = Counter()
    state: dict[str, Any] = {}
    creation_time_of, on_terminal = 0.0, sys.stderr.isatty()
    for mode, part in app.stream(inputs, stream_mode=["tasks", "values"]):
        if mode == "values":
            state = part
        elif "error" in part:  # the end of a task
            finished[part["name"]] += 1
        if on_terminal and (mode == "values" or time.monotonic() - creation_time_of > REDRAW_SECONDS):
            _draw(finished, again=bool(creation_time_of))
            creation_time_of = time.monotonic()
    if not on_terminal:
        _draw(finished, again=False)
    return state


def _draw(finished: Counter[str], *, again: bool) -> None:
    line = "  ".join(f"{node} {count}" for node, count in finished.items())
    start = "\r\x1b[K" if again else ""
    end = "" if sys.stderr.isatty() and "report" not in finished else "\n"
    sys.stderr.write(f"{start}{line}{end}")
    sys.stderr.flush()
