"""Schedules, triggers, webhooks, workers, queues and costs."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from tests.page.browser import Browser, expect, open_tab
from tests.page.page_server import PageServer
from tests.page.seeds import Seeds
from tests.work import wait_until


@pytest.mark.full
def test_a_schedule_is_listed_with_its_times_and_paused(tab: Any, server: PageServer) -> None:
    name = f"yearly-{uuid4().hex[:8]}"
    created = server.call("POST", "/schedules", {"name": name, "graph": "estate", "cron": "30 3 1 1 *"})
    tab.goto("/ui/schedules")
    row = tab.get_by_role("row").filter(has_text=name)
    expect(row).to_contain_text("30 3 1 1 *")
    expect(row).to_contain_text("in ")
    row.get_by_role("button", name="Pause").click()
    expect(row).to_contain_text("paused")
    assert server.call("GET", f"/schedules/{created['id']}")["paused"] is True
    row.get_by_role("button", name="Continue").click()
    expect(row.get_by_role("button", name="Pause")).to_be_visible()
    assert server.call("GET", f"/schedules/{created['id']}")["paused"] is False


@pytest.mark.full
def test_a_trigger_is_listed_with_what_it_matches(tab: Any, server: PageServer) -> None:
    event = f"order_{uuid4().hex[:8]}"
    server.call("POST", "/triggers", {"event": event, "graph": "estate", "match": {"shop": "eu"}})
    tab.goto("/ui/schedules?tab=triggers")
    row = tab.get_by_role("row").filter(has_text=event)
    expect(row).to_contain_text("estate")
    expect(row).to_contain_text('{"shop": "eu"}')


def test_workers_and_queues_are_listed_with_their_load(tab: Any, server: PageServer) -> None:
    server.call("PUT", "/queues/slow", {"maxRunning": 2, "startsPerMinute": 30})
    tab.goto("/ui/workers")
    (worker,) = server.call("GET", "/workers")
    row = tab.get_by_role("row").filter(has_text=worker["id"])
    expect(row).to_contain_text("live")
    expect(row).to_contain_text(f"/ {worker['capacity']}")
    queue = tab.get_by_role("row").filter(has=tab.get_by_role("link", name="slow"))
    expect(queue).to_contain_text("2, 30 a minute")
    tab.get_by_role("link", name="default").click()
    tab.wait_for_url(lambda url: url.endswith("/ui/runs?queue=default"))


@pytest.mark.full
def test_a_worker_that_is_drained_takes_no_more_runs_and_another_one_does(browser: Browser, tmp_path: Path) -> None:
    server = PageServer(tmp_path / "runs.db")
    with open_tab(browser, server, server.key) as tab:
        tab.goto("/ui/workers")
        (worker,) = server.call("GET", "/workers")
        row = tab.get_by_role("row").filter(has_text=worker["id"])
        row.get_by_role("button", name="Drain").click()
        row.get_by_role("button", name="Really drain?").click()
        tab.get_by_text("The worker takes no more runs.").wait_for()
        expect(row.get_by_role("button", name="Drain")).to_have_count(0)
        expect(row).to_contain_text("drains")
        wait_for_heartbeats(server, 2)  # with the first, or the second, the worker learns of it
        run_id = server.start("estate")
        tab.goto(f"/ui/runs/{run_id}")
        expect(tab.locator(".title")).to_contain_text("Queued")
        server.stop()
        server.start_process()
        expect(tab.locator(".title")).to_contain_text("Done")
        tab.goto("/ui/workers")
        expect(tab.get_by_role("row").filter(has=tab.get_by_role("button", name="Drain"))).to_have_count(1)
    server.stop()


def wait_for_heartbeats(server: PageServer, count: int) -> None:
    """Wait until the only worker has renewed its lease so many times."""

    def end_of_lease() -> str:
        return server.call("GET", "/workers")[0]["until"]

    for _ in range(count):
        before = end_of_lease()
        wait_until(lambda before=before: end_of_lease() != before)


def test_costs_are_summed_up_by_day_model_and_graph(tab: Any, server: PageServer, seeds: Seeds) -> None:
    tab.goto("/ui/costs")
    by_graph = tab.locator(".halves section").filter(has=tab.get_by_role("heading", name="By graph"))
    row = by_graph.get_by_role("row").filter(has_text="desk")
    expect(row).to_contain_text("$0.")
    runs = server.server.client.get("/api/v1/workflow-runs?graph=desk&pageSize=1").json()["meta"]["total"]
    expect(row.get_by_role("cell").nth(1)).to_have_text(str(runs))
    by_model = tab.locator(".halves section").filter(has=tab.get_by_role("heading", name="By model"))
    expect(by_model.get_by_role("columnheader")).to_have_text(["Model", "Calls", "Cost"])
    expect(tab.locator("figure.strip rect").last).to_be_visible()
    tab.get_by_role("button", name="7 days").click()
    tab.wait_for_url(lambda url: "period=7d" in url)
    tab.reload()
    expect(tab.get_by_role("button", name="7 days")).to_have_attribute("aria-pressed", "true")
    by_graph.get_by_role("link", name="desk").click()
    tab.wait_for_url(lambda url: url.endswith("/ui/runs?graph=desk"))


@pytest.mark.full
def test_an_address_of_nothing_says_so(tab: Any) -> None:
    tab.goto("/ui/runs/run_0123456789abcdef")
    tab.get_by_role("heading", name="This does not exist").wait_for()
    tab.get_by_role("link", name="All runs").click()
    tab.get_by_role("heading", name="Runs", exact=True).wait_for()
    tab.goto("/ui/nowhere")
    tab.get_by_role("alert").filter(has_text="There is no page at this address.").wait_for()
