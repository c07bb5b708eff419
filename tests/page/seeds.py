"""Runs in every state, which tests look at and do not change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.page.page_server import PageServer

ALL = "metadata=seed%3Ayes"
"""The filter of the list of runs that selects the seeds: other tests start more runs than fit on a screen."""


@dataclass(frozen=True, kw_only=True)
class Seeds:
    """The ids of runs, by what they are an example of."""

    completed: str
    """A loop of three rounds, with logs, tags and metadata, on the thread `letters`."""
    failed: str
    """Failed at its second step, after three attempts."""
    asking: str
    """Asks a question with a JSON Schema."""
    approving: str
    """Waits for an approval."""
    expecting: str
    """Waits for an event."""
    sleeping: str
    """Waits for a time."""
    queued: str
    """Begins tomorrow."""
    cancelled: str
    network: str
    """Two agents, one of which has called a tool; with costs."""
    nested: str
    """A node of it is a graph."""
    yaml: str
    steps: str
    """A workflow in JSON, which waits for an approval."""


def seed(server: PageServer) -> Seeds:
    """Start the runs through the API, and wait until each is in its state."""

    def start(graph: str, input: Any = None, **fields: Any) -> str:  # noqa: A002
        metadata = {"seed": "yes", **fields.pop("metadata", {})}
        return server.start(graph, input, metadata=metadata, **fields)

    vip = {"tags": ["eu", "vip"], "metadata": {"shop": "north"}}
    seeds = Seeds(
        completed=start("letter", {"subject": "spring"}, threadId="letters", **vip),
        failed=start("payment", {"order": 4711, "amount": 129.9}, tags=["eu"]),
        asking=start("maintenance", {"service": "search"}),
        approving=start("release", {"notes": "We have mended two faults."}),
        expecting=start("delivery", {"parcel": "P-1"}),
        sleeping=start("nightly"),
        queued=start("letter", {"subject": "autumn"}, after="2100-01-01T00:00:00Z"),
        cancelled=start("nightly", {"parcel": "P-2"}),
        network=start("desk", {"input": "Where is my order 17?"}),
        nested=start("estate"),
        yaml=start("flow"),
        steps=start("onboarding"),
    )
    expected = {
        "completed": (seeds.completed, seeds.network, seeds.nested, seeds.yaml),
        "failed": (seeds.failed,),
        "waiting": (seeds.asking, seeds.approving, seeds.expecting, seeds.sleeping, seeds.steps, seeds.cancelled),
    }
    for status, runs in expected.items():
        for run in runs:
            found = server.wait_for(run)
            assert found["status"] == status, found
    server.call("POST", f"/workflow-runs/{seeds.cancelled}/cancel")
    return seeds
