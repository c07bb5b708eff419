"""The namespaces of subgraphs: which nodes and tasks have called them.

A namespace has a segment for each call that leads to the subgraph, the outermost first: `node:task:label`. The label
distinguishes calls of the same task. A subgraph that keeps its state has no task in its segment.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

_TASK_ID: Final = re.compile(r"[0-9a-f]{32}")


def segments_of(namespace: str) -> Sequence[str]:
    """Return the segments of a namespace; none for that of the run's own graph."""
    return namespace.split("|") if namespace else ()


def node_in(segment: str) -> str:
    """Return the node that has called a subgraph."""
    return segment.partition(":")[0]


def task_id_in(segment: str) -> str | None:
    """Return the id of the task that has called a subgraph; None if the subgraph keeps its state."""
    return next((part for part in segment.split(":")[1:] if _TASK_ID.fullmatch(part)), None)
