"""Signing in and out, and what a key may not do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.page.browser import NARROW
from tests.page.page_server import PageServer
from tests.page.seeds import Seeds

NewTab = Callable[..., Any]


def sign_in(tab: Any, key: str) -> None:
    tab.get_by_label("API key").fill(key)
    tab.get_by_role("button", name="Sign in").click()


@pytest.mark.full
def test_a_browser_that_opens_the_server_is_asked_to_sign_in(new_tab: NewTab) -> None:
    with new_tab() as tab:
        tab.goto("/")
        tab.wait_for_url("**/ui/sign-in**")
        tab.get_by_role("heading", name="Sign in to Statewright").wait_for()


@pytest.mark.full
def test_a_wrong_key_is_refused_and_said_to_be_unknown(new_tab: NewTab) -> None:
    with new_tab() as tab:
        tab.goto("/ui/sign-in")
        sign_in(tab, "stw_wrong")
        tab.get_by_role("alert").filter(has_text="This key is unknown, revoked or expired").wait_for()
        assert "/ui/sign-in" in tab.url
        assert tab.context.cookies() == []


@pytest.mark.full
def test_signing_in_leads_to_the_address_that_was_asked_for(new_tab: NewTab, server: PageServer, seeds: Seeds) -> None:
    with new_tab() as tab:
        tab.goto(f"/ui/runs/{seeds.failed}?tab=error")
        tab.wait_for_url("**/ui/sign-in**")
        sign_in(tab, server.key)
        tab.wait_for_url(f"**/ui/runs/{seeds.failed}?tab=error")
        tab.get_by_role("heading", name="payment").wait_for()


def test_the_key_is_exchanged_for_a_cookie_and_kept_nowhere_else(new_tab: NewTab, server: PageServer) -> None:
    with new_tab() as tab:
        addresses: list[str] = []
        said: list[str] = []
        tab.on("request", lambda request: addresses.append(request.url))
        tab.on("console", lambda message: said.append(message.text))
        tab.goto("/ui/runs")
        sign_in(tab, server.key)
        tab.get_by_role("link", name="Start a run").wait_for()
        (cookie,) = tab.context.cookies()
        assert (cookie["httpOnly"], cookie["sameSite"], cookie["value"] == server.key) == (True, "Strict", False)
        kept = tab.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie, history.state])")
        databases = tab.evaluate("indexedDB.databases()")
        for secret in (server.key, cookie["value"]):
            assert secret not in kept
            assert not any(secret in text for text in [*addresses, *said, tab.url, tab.content()])
        assert databases == []


def test_signing_out_ends_the_session_on_the_server(new_tab: NewTab, server: PageServer) -> None:
    with new_tab() as tab:
        tab.goto("/ui/runs")
        sign_in(tab, server.key)
        tab.get_by_role("link", name="Start a run").wait_for()
        (cookie,) = tab.context.cookies()
        tab.get_by_role("button", name="Sign out").click()
        tab.wait_for_url("**/ui/sign-in**")
        assert tab.context.cookies() == []
        tab.context.add_cookies([{"name": cookie["name"], "value": cookie["value"], "url": server.url}])
        tab.goto("/ui/runs")
        tab.wait_for_url("**/ui/sign-in**")


@pytest.mark.full
def test_one_can_sign_out_on_a_narrow_screen(new_tab: NewTab, server: PageServer) -> None:
    key = server.add_key("runs:read")[1]
    with new_tab(key, viewport=NARROW) as tab:
        tab.goto("/ui/runs")
        tab.get_by_role("button", name="More").click()
        tab.get_by_role("button", name="Sign out").click()
        tab.wait_for_url("**/ui/sign-in**")
        assert tab.context.cookies() == []


def test_revoking_a_key_signs_out_the_pages_that_are_open(new_tab: NewTab, server: PageServer) -> None:
    key_id, key = server.add_key("runs:read")
    with new_tab(key) as tab:
        tab.goto("/ui/runs")
        tab.get_by_role("heading", name="Runs", exact=True).wait_for()
        server.call("DELETE", f"/api-keys/{key_id}")
        tab.wait_for_url("**/ui/sign-in**")


@pytest.fixture(scope="module")
def reader(server: PageServer) -> str:
    """A key that may only read."""
    return server.add_key("runs:read", "definitions:read", "threads:read")[1]


def test_what_a_key_may_not_do_is_not_offered(new_tab: NewTab, reader: str, seeds: Seeds) -> None:
    with new_tab(reader) as tab:
        tab.goto(f"/ui/runs/{seeds.failed}")
        tab.get_by_role("heading", name="payment").wait_for()
        places = [text.split()[0] for text in tab.locator("nav.nav a").all_inner_texts()]
        assert places == ["Runs", "Inbox", "Threads", "Costs"]
        for name in ("Retry from charge", "Run again", "Cancel"):
            assert tab.get_by_role("button", name=name).count() == 0
            assert tab.get_by_role("link", name=name).count() == 0
        tab.goto("/ui/runs")
        tab.get_by_role("row").nth(1).wait_for()
        assert tab.get_by_role("link", name="Start a run").count() == 0
        tab.get_by_role("row").nth(1).get_by_role("checkbox").check()
        assert tab.get_by_role("toolbar").count() == 0
        tab.goto("/ui/threads/letters")
        tab.get_by_role("treeitem").first.wait_for()
        assert tab.get_by_role("button", name="Fork from here").count() == 0
        assert tab.get_by_role("button", name="Edit state").count() == 0


def test_an_approval_is_shown_but_cannot_be_decided_without_the_scope(
    new_tab: NewTab, reader: str, seeds: Seeds
) -> None:
    with new_tab(reader) as tab:
        tab.goto("/ui/inbox?kind=approval")
        tab.get_by_text("Your key may not decide approvals.").wait_for()
        assert tab.get_by_role("button", name="Approve").is_disabled()
        assert tab.get_by_role("button", name="Reject").is_disabled()
    del seeds
