"""Schedules, triggers and webhooks: creating, editing, pausing and deleting them, and what was delivered."""

from __future__ import annotations

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from uuid import uuid4

import pytest
from tests.page.browser import expect
from tests.page.page_server import PageServer
from tests.work import wait_until


class Receiver(ThreadingHTTPServer):
    """Receives messages of webhooks, and answers each with its `status`."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), ReceiverHandler)
        self.status = 204

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/{uuid4().hex}"


class ReceiverHandler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(self.server.status)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the name of the base class
        pass


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as listening:
        thread = Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield listening
        listening.shutdown()
        thread.join()


def find(items: Any, **fields: Any) -> Any:
    """Return the only item that has these fields."""
    (found,) = [item for item in items if all(item[name] == value for name, value in fields.items())]
    return found


def test_a_schedule_is_created_with_its_next_times_edited_paused_and_deleted(tab: Any, server: PageServer) -> None:
    name = f"weekly {uuid4().hex}"
    tab.goto("/ui/schedules")
    tab.get_by_role("button", name="New schedule").click()
    tab.get_by_label("Name").fill(name)
    tab.get_by_label("Graph").select_option("letter")
    tab.get_by_label("subject").fill("the week")
    tab.get_by_label("Time zone").fill("Europe/Berlin")
    tab.get_by_role("button", name="on weekdays").click()
    expect(tab.locator("ol.times li")).to_have_count(5)
    expect(tab.locator("ol.times")).to_contain_text("09:00")
    tab.get_by_role("button", name="queue").click()
    tab.get_by_role("button", name="Create").click()
    row = tab.locator("tr").filter(has_text=name)
    expect(row).to_contain_text("0 9 * * MON-FRI")
    stored = find(server.call("GET", "/schedules?pageSize=100"), name=name)
    assert (stored["timezone"], stored["overlap"], stored["input"]["subject"]) == (
        "Europe/Berlin",
        "enqueue",
        "the week",
    )

    row.get_by_role("button", name=f"Pause {name}").click()
    row.get_by_text("paused").wait_for()
    row.get_by_role("button", name=f"Continue {name}").click()
    row.get_by_role("button", name=f"Pause {name}").wait_for()

    row.get_by_role("link", name=name).click()
    tab.get_by_label("Times", exact=True).fill("0 7 * * *")
    tab.keyboard.press("Control+Enter")
    expect(row).to_contain_text("0 7 * * *")
    row.get_by_role("link", name=name).click()
    tab.get_by_role("button", name="Delete").click()
    tab.get_by_role("button", name="Really delete?").click()
    expect(row).to_have_count(0)
    assert not [item for item in server.call("GET", "/schedules?pageSize=100") if item["name"] == name]


def test_problems_of_a_schedule_stand_at_their_fields(tab: Any, server: PageServer) -> None:
    taken = f"taken {uuid4().hex}"
    server.call("POST", "/schedules", {"name": taken, "graph": "letter", "cron": "0 9 * * *"})
    tab.goto("/ui/schedules?edit=new")
    times = tab.get_by_label("Times", exact=True)
    times.fill("0 25 * * *")
    expect(tab.locator("[data-path=cron] .help")).to_contain_text("the hour is '25'")  # while it is typed
    times.fill("0 5 * * *")
    expect(tab.locator("[data-path=cron]")).not_to_contain_text("invalid")
    tab.get_by_role("button", name="Create").click()
    tab.get_by_text("2 fields to correct: Name").wait_for()
    tab.get_by_label("Name").fill(taken)
    tab.get_by_label("Graph").select_option("letter")
    tab.get_by_role("button", name="Create").click()
    expect(tab.locator("[data-path=name] .help")).to_contain_text("already exists")
    expect(tab.get_by_label("Name")).to_be_focused()


@pytest.mark.full
def test_a_trigger_is_created_for_matching_events_changed_paused_and_deleted(tab: Any, server: PageServer) -> None:
    event = f"paid.{uuid4().hex}"
    tab.goto("/ui/schedules?tab=triggers")
    tab.get_by_role("button", name="New trigger").click()
    tab.get_by_label("Event").fill(event)
    tab.get_by_label("Graph").select_option("letter")
    tab.get_by_role("button", name="Add Match").click()
    tab.get_by_label("Name 1").fill("order.gift")
    tab.get_by_label("Value of order.gift", exact=True).select_option("yes or no")
    tab.get_by_role("button", name="Yes").click()
    tab.get_by_role("button", name="Create").click()
    row = tab.locator("tr").filter(has_text=event)
    row.wait_for()
    stored = find(server.call("GET", "/triggers?pageSize=100"), event=event)
    assert (stored["graph"], stored["match"]) == ("letter", {"order.gift": True})
    row.get_by_role("button", name=f"Pause {event}").click()
    row.get_by_text("paused").wait_for()
    row.get_by_role("link", name=event).click()
    expect(tab.get_by_label("Graph")).to_be_disabled()
    tab.get_by_role("button", name="Remove order.gift").click()
    tab.get_by_role("button", name="Save").click()
    expect(row).to_contain_text("every event")
    row.get_by_role("link", name=event).click()
    tab.get_by_role("button", name="Delete").click()
    tab.get_by_role("button", name="Really delete?").click()
    expect(row).to_have_count(0)


def test_a_webhook_shows_its_secret_once_and_what_was_delivered(
    tab: Any, server: PageServer, receiver: Receiver
) -> None:
    url = receiver.url
    tab.goto("/ui/schedules?tab=webhooks")
    tab.get_by_role("button", name="New webhook").click()
    tab.get_by_label("Address").fill("http://192.168.1.1/x")
    tab.get_by_role("button", name="Create").click()
    expect(tab.locator("[data-path=url] .help")).to_contain_text("http://")
    tab.get_by_label("Address").fill(url)
    tab.get_by_label("workflow.failed").check()
    tab.get_by_role("button", name="Create").click()
    secret = tab.get_by_role("status", name="Secret of this webhook")
    expect(secret).to_contain_text("whsec_")
    secret.get_by_role("button", name="I have stored it").click()
    expect(tab.get_by_text("whsec_")).to_have_count(0)
    webhook = find(server.call("GET", "/webhooks?pageSize=100"), url=url)
    assert webhook["events"] == ["workflow.failed"]

    tab.goto(f"/ui/schedules?tab=webhooks&webhook={webhook['id']}")
    tab.get_by_role("button", name="Send a test").click()
    delivered = tab.locator("table.deliveries tr").filter(has_text="webhook.test")
    expect(delivered).to_contain_text("delivered")
    expect(delivered).to_contain_text("204")
    delivered.get_by_role("button", name="Send again").click()
    expect(delivered).to_have_count(2)
    delivered.first.get_by_role("button", name="webhook.test").click()
    expect(tab.locator("pre.trace")).to_contain_text("webhookId")

    row = tab.locator("tr").filter(has_text=url)
    row.get_by_role("button", name="Disable").click()
    row.get_by_text("disabled").wait_for()
    expect(tab.get_by_role("button", name="Send a test")).to_be_disabled()
    row.get_by_role("button", name="Edit").click()
    tab.get_by_role("button", name="Delete").click()
    tab.get_by_role("button", name="Really delete?").click()
    expect(row).to_have_count(0)


def test_a_message_that_failed_is_tried_again_by_itself_and_one_that_arrived_is_sent_again(
    tab: Any, server: PageServer, receiver: Receiver
) -> None:
    receiver.status = 500
    webhook = server.call("POST", "/webhooks", {"url": receiver.url, "events": ["workflow.cancelled"]})
    refused = cancel_a_run(server)
    tab.goto(f"/ui/schedules?tab=webhooks&webhook={webhook['id']}")
    rows = tab.locator("table.deliveries tr").filter(has_text="workflow.cancelled")
    failed = rows.filter(has_text="tries again")
    expect(failed).to_contain_text("500")
    expect(failed).to_contain_text("in ")
    expect(failed.get_by_role("button", name="Send again")).to_be_disabled()
    failed.get_by_role("button", name="workflow.cancelled").click()
    expect(tab.locator("pre.trace")).to_contain_text(refused)

    receiver.status = 204
    accepted = cancel_a_run(server)
    wait_until(lambda: count_delivered(server, webhook, accepted) == 1)
    arrived = rows.filter(has_text="delivered").first  # the message about the newer run
    arrived.get_by_role("button", name="Send again").click()
    tab.get_by_text("The message is sent again.").wait_for()
    wait_until(lambda: count_delivered(server, webhook, accepted) == 2)
    expect(rows.filter(has_text="204")).to_have_count(count_delivered(server, webhook))
    server.call("DELETE", f"/webhooks/{webhook['id']}")


def cancel_a_run(server: PageServer) -> str:
    """Start a run, cancel it while it waits, and return its id."""
    run_id = server.start_and_wait("delivery")
    server.call("POST", f"/workflow-runs/{run_id}/cancel")
    return run_id


def count_delivered(server: PageServer, webhook: Any, run_id: str = "") -> int:
    """Return how many messages of a webhook have arrived: all, or those about one run."""
    found = server.call("GET", f"/webhooks/{webhook['id']}/deliveries")
    return sum(run_id in str(each["body"]) for each in found if each["status"] == "delivered")


def test_a_key_is_offered_only_what_it_may_manage(new_tab: Any, server: PageServer) -> None:
    _, key = server.add_key("webhooks:manage", "schedules:manage")
    _, narrow = server.add_key("runs:read", "schedules:manage")
    with new_tab(key) as tab:
        tab.goto("/ui/schedules")
        expect(tab.get_by_role("tab")).to_have_text(["Schedules", "Triggers", "Webhooks"])
    with new_tab(narrow) as tab:
        tab.goto("/ui/schedules?tab=webhooks")
        expect(tab.get_by_role("tab")).to_have_text(["Schedules", "Triggers"])
