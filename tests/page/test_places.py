"""Schedules, triggers, webhooks, workers, queues and costs."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from uuid import uuid4

import pytest
from tests.page.browser import expect
from tests.page.page_server import PageServer
from tests.page.seeds import Seeds
from tests.work import wait_until


class Receiver(ThreadingHTTPServer):
    """Receives the messages of a webhook, and refuses them until it is told to accept them."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.messages: list[Any] = []
        self.status = 500

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/hook"


class Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        self.server.messages.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
        self.send_response(self.server.status)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *parts: Any) -> None:
        pass


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield running
        running.shutdown()
        thread.join()


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
    expect(row).to_contain_text("in ")
    assert server.call("GET", f"/schedules/{created['id']}")["paused"] is False


def test_a_trigger_is_listed_with_what_it_matches(tab: Any, server: PageServer) -> None:
    event = f"order_{uuid4().hex[:8]}"
    server.call("POST", "/triggers", {"event": event, "graph": "estate", "match": {"shop": "eu"}})
    tab.goto("/ui/schedules?tab=triggers")
    row = tab.get_by_role("row").filter(has_text=event)
    expect(row).to_contain_text("estate")
    expect(row).to_contain_text('{"shop": "eu"}')


def test_a_webhook_shows_its_deliveries_and_sends_one_again(tab: Any, server: PageServer, receiver: Receiver) -> None:
    created = server.call("POST", "/webhooks", {"url": receiver.url, "events": ["workflow.completed"]})
    run_id = server.start_and_wait("estate")
    wait_until(lambda: deliveries(server, created["id"], attempts=1))
    tab.goto(f"/ui/schedules?tab=webhooks&webhook={created['id']}")
    delivery = tab.locator(".delivery").filter(has_text="workflow.completed")
    expect(delivery).to_contain_text("500")
    expect(delivery.get_by_role("button", name="Send again")).to_be_disabled()  # it is tried again by itself
    delivery.get_by_role("button", name="workflow.completed").click()
    expect(tab.locator("pre.trace")).to_contain_text(run_id)
    receiver.status = 204
    server.start_and_wait("estate")
    wait_until(lambda: deliveries(server, created["id"], status="delivered"))
    tab.reload()
    tab.locator(".delivery").filter(has_text="HTTP 204").get_by_role("button", name="Send again").click()
    tab.get_by_text("The message is sent again.").wait_for()
    wait_until(lambda: len(deliveries(server, created["id"], status="delivered")) == 2)
    tab.reload()
    expect(tab.locator(".delivery").filter(has_text="HTTP 204")).to_have_count(2)
    server.call("DELETE", f"/webhooks/{created['id']}")


def deliveries(server: PageServer, webhook_id: str, **values: Any) -> list[Any]:
    found = server.call("GET", f"/webhooks/{webhook_id}/deliveries")
    return [each for each in found if all(each[name] == value for name, value in values.items())]


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
