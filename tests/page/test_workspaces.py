"""Workspaces: what one has, the other neither sees nor reaches, whatever address it opens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import httpx
import pytest
from tests.page.browser import expect
from tests.page.page_server import PageServer
from tests.page.seeds import Seeds

RUN_LINKS = 'a[href*="/ui/runs/run_"]'
LISTS = {
    "/ui/runs": "No runs yet",
    "/ui/inbox": "Nothing waits for a person",
    "/ui/inbox?decided=1": "Nothing was decided yet",
    "/ui/threads": "No threads yet",
    "/ui/schedules": "No schedules yet",
    "/ui/costs": "No model was called in this time",
}
"""What each list says while the workspace is empty."""
SEND = """async ([path, body]) => {
  const headers = {"content-type": "application/json"};
  return (await fetch("/api/v1" + path, {method: "POST", body: JSON.stringify(body), headers})).status;
}"""
"""Sends what the page would send, with the cookie of its session, and returns the status of the response."""


@pytest.fixture(scope="module")
def other_key(server: PageServer) -> str:
    """The key of a second workspace."""
    return server.add_workspace(f"other-{uuid4().hex[:8]}")


def test_the_lists_of_a_workspace_have_nothing_of_another(
    new_tab: Callable[..., Any], server: PageServer, seeds: Seeds, other_key: str
) -> None:
    del seeds
    server.call("POST", "/schedules", {"name": uuid4().hex, "graph": "letter", "cron": "0 9 * * *"})
    with new_tab(other_key) as tab:
        for address, says in LISTS.items():
            tab.goto(address)
            tab.get_by_text(says).first.wait_for()
            assert tab.locator(RUN_LINKS).count() == 0, address
        tab.goto("/ui/runs")
        tab.get_by_text("No runs yet").wait_for()
        server.start_and_wait("estate")  # in the first workspace, while the list of the other is live
        headers = {"x-api-key": other_key}
        own = httpx.post(f"{server.url}/api/v1/workflow-runs", json={"graph": "estate"}, headers=headers).json()["data"]
        expect(tab.locator(RUN_LINKS)).to_have_count(1)
        expect(tab.locator(RUN_LINKS)).to_have_attribute("href", f"/ui/runs/{own['id']}")
    with new_tab(server.key) as tab:
        tab.goto(f"/ui/runs/{own['id']}")
        tab.get_by_role("heading", name="This does not exist").wait_for()


def test_no_address_of_another_workspace_shows_or_changes_anything(
    new_tab: Callable[..., Any], server: PageServer, seeds: Seeds, other_key: str
) -> None:
    wait = server.wait_of(seeds.approving)
    before = server.call("GET", "/threads/letters/history")
    with new_tab(other_key) as tab:
        for address in (f"/ui/runs/{seeds.completed}", f"/ui/runs/{seeds.failed}?tab=error", "/ui/threads/letters"):
            tab.goto(address)
            tab.get_by_role("heading", name="This does not exist").wait_for()
            expect(tab.get_by_text("spring")).to_have_count(0)
        tab.goto(f"/ui/runs/compare?a={seeds.completed}&b={seeds.failed}")
        tab.get_by_role("heading", name="This does not exist").first.wait_for()
        tab.goto(f"/ui/inbox/{wait}")
        tab.get_by_text("This question is no longer open.").wait_for()
        for path, body in (
            (f"/workflow-runs/{seeds.approving}/resume", {"answers": {wait: {"decision": "approved"}}}),
            (f"/workflow-runs/{seeds.approving}/cancel", {}),
            (f"/approval-requests/{wait}/decide", {"decision": "approved"}),
            ("/threads/letters/fork", {"checkpointId": before[0]["checkpointId"]}),
            (
                "/workflow-runs",
                {"graph": "letter", "fork": {"threadId": "letters", "checkpointId": before[1]["checkpointId"]}},
            ),
        ):
            assert tab.evaluate(SEND, [path, body]) == 404, path
    assert server.run(seeds.approving)["status"] == "waiting"
    assert server.call("GET", "/threads/letters/history") == before
