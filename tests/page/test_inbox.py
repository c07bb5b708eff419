"""The inbox: questions and approvals of all runs, their answers, and who decided what."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.page.browser import expect
from tests.page.page_server import PageServer
from tests.page.seeds import Seeds


def open_question(tab: Any, server: PageServer, run_id: str) -> None:
    tab.goto(f"/ui/inbox/{server.wait_of(run_id)}")
    tab.locator("h2.question").wait_for()


def test_the_inbox_lists_what_asks_in_all_runs_by_kind(tab: Any, seeds: Seeds) -> None:
    tab.goto("/ui/inbox")
    asks = tab.locator("a.ask")
    for text in ("When may search be down?", "Publish these notes?", "Send this greeting?", "event parcel_received"):
        asks.filter(has_text=text).first.wait_for()
    expect(asks.filter(has_text="nap")).to_have_count(0)  # nobody can end a timer
    tab.get_by_role("button", name="Events").click()
    expect(asks.filter(has_text="When may search be down?")).to_have_count(0)
    expect(asks.filter(has_text="event parcel_received").first).to_be_visible()
    tab.reload()
    asks.filter(has_text="event parcel_received").first.wait_for()
    expect(asks.filter(has_text="When may search be down?")).to_have_count(0)


def test_a_question_is_answered_with_the_form_of_its_schema(tab: Any, server: PageServer) -> None:
    run_id = server.start_and_wait("maintenance", {"service": "mail"})
    open_question(tab, server, run_id)
    expect(tab.locator("aside.side").filter(has_text="What it knows")).to_contain_text("mail")
    length = tab.get_by_label("Length")
    expect(length).to_have_value("30")
    length.fill("4")
    tab.get_by_role("button", name="Send the answer").click()
    tab.get_by_text("2 fields to correct: Starts").wait_for()  # it is needed, and the other is too short
    tab.get_by_text("At least 5").wait_for()
    assert server.run(run_id)["status"] == "waiting"
    length.fill("45")
    tab.get_by_label("Starts").fill("2030-05-01T10:00")
    tab.get_by_label("Tell").press_sequentially("ann,bob,")
    tab.get_by_role("button", name="high").click()
    tab.get_by_label("Freeze deployments").check()
    tab.get_by_role("button", name="Send the answer").click()
    tab.get_by_text("Answered.").wait_for()
    output = server.wait_for(run_id, "completed")["output"]
    window = {"minutes": 45, "tell": ["ann", "bob"], "severity": "high", "freeze": True}
    assert output["window"].pop("starts").startswith("2030-05-01T")
    assert output["window"] == window
    assert output["booked"] == "45 minutes"


def test_a_question_is_answered_with_json_written_by_hand(tab: Any, server: PageServer) -> None:
    run_id = server.start_and_wait("maintenance", {"service": "wiki"})
    open_question(tab, server, run_id)
    tab.get_by_role("button", name="JSON").click()
    editor = tab.get_by_role("textbox", name="JSON")
    assert json.loads(editor.input_value())["minutes"] == 30
    editor.fill('{"starts": ')
    tab.get_by_text("This is not JSON").first.wait_for()
    editor.fill('{"starts": "2030-05-01T10:00:00Z", "minutes": 60}')
    tab.get_by_role("button", name="Form").click()
    expect(tab.get_by_label("Length")).to_have_value("60")
    tab.get_by_role("button", name="Send the answer").click()
    tab.get_by_text("Answered.").wait_for()
    assert server.wait_for(run_id, "completed")["output"]["booked"] == "60 minutes"


@pytest.mark.full
def test_an_answer_that_the_server_refuses_is_said_and_the_question_stays(tab: Any, server: PageServer) -> None:
    run_id = server.start_and_wait("maintenance", {"service": "shop"})
    open_question(tab, server, run_id)
    tab.get_by_role("button", name="JSON").click()
    tab.get_by_role("textbox", name="JSON").fill('{"starts": "2030-05-01T10:00:00Z", "minutes": 30, "tell": "all"}')
    tab.get_by_role("button", name="Send the answer").click()
    tab.get_by_text("1 field to correct: Tell").wait_for()
    tab.get_by_role("textbox", name="JSON").fill('{"starts": "2030-05-01T10:00:00Z", "minutes": 30}')
    server.call("POST", f"/workflow-runs/{run_id}/cancel")
    tab.get_by_text("This question is no longer open.").wait_for()


def test_an_approval_is_edited_and_sent_and_says_afterwards_who_decided(tab: Any, server: PageServer) -> None:
    run_id = server.start_and_wait("release", {"notes": "We have mended two faults."})
    open_question(tab, server, run_id)
    notes = tab.get_by_label("notes")
    expect(notes).to_have_value("We have mended two faults.")
    notes.fill("We have mended three faults.")
    tab.get_by_role("button", name="show changes").click()
    expect(tab.locator(".shown ins")).to_have_text("three")
    expect(tab.locator(".shown del")).to_have_text("two")
    tab.get_by_label("Your name").fill("Ann")
    tab.get_by_role("button", name="Approve with changes").click()
    tab.get_by_text("Answered.").wait_for()
    assert server.wait_for(run_id, "completed")["output"]["published"] == "We have mended three faults."
    tab.get_by_role("button", name="Decided").click()
    tab.locator("a.ask").filter(has_text="approved with changes by Ann").first.click()
    decided = tab.locator(".decide")
    expect(decided).to_contain_text("approved with changes, by Ann, with key key_")
    expect(decided.locator("ins")).to_have_text("three")
    expect(decided.get_by_role("link")).to_have_attribute("href", f"/ui/runs/{run_id}?step=agree")


def test_an_answer_is_shown_afterwards_with_who_gave_it_and_when(tab: Any, server: PageServer) -> None:
    run_id = server.start_and_wait("maintenance", {"service": "billing"})
    server.answer(run_id, "ask_window", {"starts": "2026-12-01T20:00:00Z", "minutes": 55})
    server.wait_for(run_id, "completed")
    tab.goto("/ui/inbox?decided=1")
    tab.locator("a.ask").filter(has_text='"minutes": 55').first.click()
    shown = tab.locator(".decide")
    expect(shown).to_contain_text("answered, with key key_")
    expect(shown).to_contain_text("ask_window asks")
    expect(shown).to_contain_text("55")
    expect(shown.get_by_role("link")).to_have_attribute("href", f"/ui/runs/{run_id}?step=ask_window")
    steps = server.call("GET", f"/workflow-runs/{run_id}/trace")["steps"]
    (wait,) = next(step["waits"] for step in steps if step["stepName"] == "ask_window")
    assert (wait["answer"]["minutes"], wait["endedBy"]) == (55, "signal")


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("key", "verdict"), [("Control+Enter", "approved"), ("d", "rejected")])
def test_an_approval_is_decided_with_the_keyboard_alone(tab: Any, server: PageServer, key: str, verdict: str) -> None:
    run_id = server.start_and_wait("release", {"notes": f"to be {verdict}"})
    open_question(tab, server, run_id)
    tab.keyboard.press(key)
    if verdict == "rejected":
        tab.get_by_role("button", name="Really reject?").wait_for()
        tab.keyboard.press(key)
    tab.get_by_text("Answered.").wait_for()
    assert server.wait_for(run_id, "completed")["output"]["verdict"] == verdict


@pytest.mark.full
def test_an_event_is_sent_with_a_payload(tab: Any, server: PageServer) -> None:
    run_id = server.start_and_wait("delivery")
    open_question(tab, server, run_id)
    tab.get_by_role("button", name="JSON").click()
    tab.get_by_role("textbox", name="JSON").fill('{"signed_by": "Ann"}')
    tab.get_by_role("button", name="Send the event").click()
    tab.get_by_text("Answered.").wait_for()
    assert server.wait_for(run_id, "completed")["output"]["receipt"] == {"signed_by": "Ann"}


def test_a_question_that_comes_while_the_page_is_open_is_counted_and_listed(tab: Any, server: PageServer) -> None:
    tab.goto("/ui/inbox?kind=approval")
    tab.locator("a.ask").first.wait_for()
    server.start_and_wait("release", {"notes": "fresh"})
    total = sum(wait["kind"] != "timer" for wait in server.call("GET", "/interrupts?pageSize=100"))
    expect(tab.get_by_role("button", name=f"Open {total}", exact=True)).to_be_visible()
    expect(tab.locator("nav.nav a", has_text="Inbox").locator(".count")).to_have_text(str(total))


@pytest.mark.full
def test_the_keyboard_moves_through_the_questions_and_into_the_form(tab: Any, seeds: Seeds) -> None:
    tab.goto("/ui/inbox")
    asks = tab.locator("a.ask")
    expect(asks.first).to_have_attribute("aria-current", "true")
    tab.keyboard.press("j")
    expect(asks.nth(1)).to_have_attribute("aria-current", "true")
    tab.keyboard.press("k")
    expect(asks.first).to_have_attribute("aria-current", "true")
    tab.keyboard.press("Enter")
    assert tab.evaluate("document.activeElement.closest('.decide') !== null")
    del seeds
