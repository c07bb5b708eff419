"""Signing in, the list of runs, and the view of one run."""

from __future__ import annotations

from typing import Any

from tests.page.conftest import PageServer, open_tab, sign_in
from tests.unit.server.serving import BROKEN, LEAD, PAYMENT


def test_a_browser_that_opens_the_server_is_asked_to_sign_in(tab: Any, server: PageServer) -> None:
    tab.goto("/")
    tab.wait_for_url("**/ui/sign-in**")
    tab.locator("input[name=key]").fill("stw_wrong")
    tab.locator("button[type=submit]").click()
    tab.get_by_role("alert").filter(has_text="key").wait_for()
    assert "/ui/sign-in" in tab.url
    assert "stw_wrong" not in tab.url


def test_the_key_is_exchanged_for_a_cookie_and_kept_nowhere_else(tab: Any, server: PageServer) -> None:
    sign_in(tab, server)
    assert server.key not in tab.url
    (cookie,) = tab.context.cookies()
    assert (cookie["httpOnly"], cookie["sameSite"], cookie["value"] == server.key) == (True, "Strict", False)
    kept = tab.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie])")
    assert server.key not in kept
    assert cookie["value"] not in kept


def test_runs_appear_in_the_list_and_open_by_a_click(tab: Any, server: PageServer) -> None:
    failed = server.server.start(BROKEN)
    server.server.start(PAYMENT)
    sign_in(tab, server)
    tab.get_by_text("no luck").first.wait_for()
    tab.get_by_text("payment_confirmed").first.wait_for()
    lead = server.server.start(LEAD)  # while the list is shown
    tab.get_by_text("lead").first.wait_for()
    tab.goto(f"/ui/runs/{lead['id']}")
    tab.get_by_text("enrich-lead").first.wait_for()
    tab.get_by_text("send-email").first.wait_for()
    tab.goto(f"/ui/runs/{failed['id']}")
    tab.get_by_text("no luck").first.wait_for()


def test_a_revoked_session_leads_back_to_signing_in(chromium: Any, server: PageServer) -> None:
    client = server.server.client
    created = client.post("/api/v1/api-keys", json={"name": "second", "scopes": ["runs:read"]}).json()["data"]
    with open_tab(chromium, server) as tab:
        tab.goto("/ui/runs")
        tab.wait_for_url("**/ui/sign-in**")
        tab.locator("input[name=key]").fill(created["key"])
        tab.locator("button[type=submit]").click()
        tab.wait_for_url("**/ui/runs**")
        assert client.delete(f"/api/v1/api-keys/{created['id']}").status_code == 200
        tab.wait_for_url("**/ui/sign-in**")


def test_the_session_and_the_page_survive_a_restart_of_the_server(tab: Any, server: PageServer) -> None:
    run = server.server.start(PAYMENT)
    sign_in(tab, server)
    tab.goto(f"/ui/runs?text={run['id']}")  # only this run
    tab.get_by_text("payment_confirmed").first.wait_for()
    server.restart()
    body = {"signalType": "payment_confirmed", "payload": {"amount": 5}}
    server.server.post(f"/workflow-runs/{run['id']}/resume", body)
    tab.get_by_text("payment_confirmed").first.wait_for(state="detached")  # the row has changed in its place
    assert "/ui/runs" in tab.url
