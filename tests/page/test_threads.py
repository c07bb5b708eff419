"""Threads and their histories: stepping through time, comparing, editing, forking."""

from __future__ import annotations

import json
from typing import Any
from uuid import uuid4

import pytest
from tests.page.browser import expect
from tests.page.page_server import PageServer
from tests.page.seeds import Seeds


def open_thread(tab: Any, thread_id: str) -> None:
    tab.goto(f"/ui/threads/{thread_id}")
    tab.get_by_role("treeitem").first.wait_for()


def chosen(tab: Any) -> Any:
    return tab.get_by_role("treeitem", selected=True)


@pytest.mark.full
def test_threads_are_found_by_the_beginning_of_their_name(tab: Any, server: PageServer, seeds: Seeds) -> None:
    name = f"customer-{uuid4().hex}"
    server.start_and_wait("letter", {"subject": "x"}, threadId=name)
    tab.goto("/ui/threads")
    field = tab.get_by_label("Name of the thread")
    field.fill("lett")
    tab.get_by_role("link", name="letters").wait_for()
    field.fill("customer-")
    row = tab.get_by_role("row").filter(has_text=name)
    expect(row).to_contain_text("Done")
    expect(tab.get_by_role("link", name="letters")).to_have_count(0)
    row.get_by_role("link", name=name).click()
    expect(tab.get_by_role("heading", level=1)).to_have_text(name)
    expect(tab.locator(".title")).to_contain_text("1 branch, 8 checkpoints")
    del seeds


def test_the_keyboard_steps_through_the_history_with_what_each_step_has_changed(tab: Any, seeds: Seeds) -> None:
    open_thread(tab, "letters")
    expect(chosen(tab)).to_contain_text("post")
    for _ in range(2):
        tab.keyboard.press("k")
    expect(chosen(tab)).to_contain_text("write")
    expect(tab.get_by_role("heading", name="State after superstep 5")).to_be_visible()
    expect(tab.locator(".dk").filter(has_text="drafts")).to_contain_text("draft 3")
    tab.keyboard.press("j")
    expect(chosen(tab)).to_contain_text("check")
    address = tab.url
    tab.reload()
    expect(chosen(tab)).to_contain_text("check")
    assert tab.url == address
    del seeds


@pytest.mark.full
def test_two_checkpoints_are_compared_by_pinning_them(tab: Any, seeds: Seeds) -> None:
    open_thread(tab, "letters")
    tab.keyboard.press("b")
    tab.get_by_role("treeitem").filter(has_text="check").first.click()
    tab.keyboard.press("a")
    expect(tab.locator(".versus .pin")).to_have_text(["A", "B"])
    expect(tab.locator(".dk").filter(has_text="drafts")).to_contain_text("draft 3")
    expect(tab.locator(".dk").filter(has_text="sent")).to_be_visible()
    assert tab.locator(".dk").filter(has_text="subject").count() == 0
    tab.reload()
    expect(tab.locator(".versus .pin")).to_have_text(["A", "B"])
    tab.keyboard.press("Escape")
    expect(tab.locator(".versus")).to_have_count(0)
    del seeds


def test_a_fork_is_a_branch_that_is_compared_with_its_origin(tab: Any, server: PageServer) -> None:
    thread = uuid4().hex
    server.start_and_wait("letter", {"subject": "fork"}, threadId=thread)
    open_thread(tab, thread)
    tab.keyboard.press("a")
    tab.get_by_role("treeitem").filter(has_text="check").first.click()
    tab.get_by_role("button", name="Fork from here").click()
    tab.get_by_text("begins at this checkpoint").wait_for()
    expect(tab.locator(".title")).to_contain_text("2 branches, 9 checkpoints")
    expect(chosen(tab)).to_contain_text("check")
    branch = tab.locator(".cp.branch b").nth(1).inner_text()
    expect(tab.locator(".toast")).to_contain_text(f"The branch {branch} begins at this checkpoint.")
    tab.keyboard.press("b")
    expect(tab.locator(".part")).to_have_text("They part after superstep 2, check.")
    expect(tab.locator(".dk").filter(has_text="drafts")).to_contain_text("draft 3")
    assert [run["status"] for run in server.call("GET", f"/workflow-runs?threadId={thread}")] == ["completed"]


def edit_state(tab: Any, change: dict[str, Any], as_node: str) -> None:
    tab.get_by_role("button", name="Edit state").click()
    editor = tab.get_by_label("State after superstep")
    editor.fill(json.dumps(json.loads(editor.input_value()) | change))
    expect(tab.locator(".foot")).to_contain_text(", ".join(change))
    tab.get_by_label("As if it was written by").fill(as_node)
    tab.get_by_role("button", name="Save as a new checkpoint").click()
    tab.get_by_text("The state is saved as a new checkpoint.").wait_for()


def test_a_run_that_failed_goes_on_from_a_state_that_was_edited(tab: Any, server: PageServer) -> None:
    run_id = server.start_and_wait("payment", {"order": 1})
    tab.goto(f"/ui/runs/{run_id}")
    tab.get_by_role("button", name="More").click()
    tab.get_by_role("link", name="Edit state, go on").click()
    tab.get_by_role("treeitem").first.wait_for()
    edit_state(tab, {"paid": True}, "charge")
    expect(chosen(tab)).to_contain_text("edited, charge")
    expect(tab.locator(".dk").filter(has_text="paid")).to_contain_text("true")
    tab.goto(f"/ui/runs/{run_id}")
    tab.get_by_role("button", name="Retry").click()
    expect(tab.locator(".title")).to_contain_text("Done")
    assert server.run(run_id)["output"]["paid"] is True


def go_on(tab: Any, place: Any, origin: str) -> str:
    """Start a run that goes on from here, which the page then shows, and return its id."""
    place.get_by_role("button", name="Go on from here").click()
    place.get_by_role("button", name="Start a run?").click()
    return shown_run(tab, origin)


def shown_run(tab: Any, origin: str) -> str:
    """Return the id of the run that is shown, once it is another one than its origin, and has ended."""
    tab.get_by_role("link", name="Compare with").wait_for()
    expect(tab.locator(".title")).to_contain_text("Done")
    run_id = tab.url.split("?")[0].rsplit("/", 1)[1]
    assert run_id != origin
    return run_id


def test_a_run_goes_on_from_a_checkpoint_and_is_compared_with_its_origin(tab: Any, server: PageServer) -> None:
    origin = server.start_and_wait("letter", {"subject": "again"})
    before = server.call("GET", f"/threads/{origin}/history")
    open_thread(tab, origin)
    expect(tab.get_by_role("button", name="Go on from here")).to_have_count(0)  # at the end nothing is left to do
    tab.get_by_role("treeitem").filter(has_text="check").first.click()
    expect(chosen(tab).locator(".size")).to_contain_text(" B")
    fork = go_on(tab, tab, origin)
    assert server.run(fork)["output"] == server.run(origin)["output"]
    assert server.call("GET", f"/threads/{origin}/history") == before
    tab.get_by_role("link", name="Compare with").click()
    parting = tab.get_by_role("status").filter(has_text="goes on from A")
    expect(parting).to_contain_text("B goes on from A after superstep 2: the steps before are the same.")
    expect(parting).to_contain_text("These two runs took the same way, and did the same on it.")
    expect(tab.get_by_role("option")).to_have_count(5)


def test_a_run_goes_on_from_a_step_and_with_a_state_that_was_edited(tab: Any, server: PageServer) -> None:
    origin = server.start_and_wait("letter", {"subject": "first"})
    step = next(each for each in server.run(origin)["stepRuns"] if each["stepName"] == "post")
    tab.goto(f"/ui/runs/{origin}?step=post.{step['superstep']}")
    tab.get_by_role("region", name="Inspector").get_by_role("button", name="Go on from here").click()
    tab.get_by_role("button", name="Start a run?").wait_for()
    tab.keyboard.press("Escape")  # takes the first click back, and does not leave the run
    tab.get_by_role("button", name="Start a run?").wait_for(state="detached")
    fork = go_on(tab, tab.get_by_role("region", name="Inspector"), origin)
    assert [each["stepName"] for each in server.run(fork)["stepRuns"]] == ["post"]

    open_thread(tab, origin)
    tab.get_by_role("treeitem").filter(has_text="check").first.click()
    tab.get_by_role("button", name="Edit state").click()
    editor = tab.get_by_label("State after superstep")
    editor.fill(json.dumps(json.loads(editor.input_value()) | {"subject": "second"}))
    tab.get_by_label("As if it was written by").fill("check")
    tab.get_by_role("button", name="Start a new run from this checkpoint").click()
    edited = shown_run(tab, origin)
    assert server.run(edited)["output"]["subject"] == "second"
    assert server.run(origin)["output"]["subject"] == "first"
    tab.get_by_role("link", name="Compare with").click()
    expect(tab.get_by_role("status").filter(has_text="goes on from A")).to_contain_text("They part at write")


@pytest.mark.full
def test_a_run_that_waits_goes_on_at_once_if_an_edit_does_what_it_waits_for(tab: Any, server: PageServer) -> None:
    run_id = server.start_and_wait("maintenance", {"service": "cache"})
    open_thread(tab, run_id)
    edit_state(tab, {"window": {"minutes": 7}}, "ask_window")
    assert server.wait_for(run_id, "completed")["output"]["booked"] == "7 minutes"
    expect(tab.get_by_role("treeitem").last).to_contain_text("book")
    tab.goto("/ui/inbox?kind=question")
    tab.get_by_role("heading", name="Inbox").wait_for()
    expect(tab.locator("a.ask").filter(has_text="cache")).to_have_count(0)


@pytest.mark.full
def test_a_state_that_is_not_json_or_has_an_unknown_field_is_not_saved(tab: Any, server: PageServer) -> None:
    run_id = server.start_and_wait("letter", {"subject": "broken"})
    open_thread(tab, run_id)
    tab.keyboard.press("e")
    editor = tab.get_by_label("State after superstep")
    editor.fill("{")
    tab.get_by_text("This is not JSON").wait_for()
    save = tab.get_by_role("button", name="Save as a new checkpoint")
    expect(save).to_be_disabled()
    editor.fill('{"subjekt": "x"}')
    save.click()
    tab.get_by_role("alert").filter(has_text="subjekt").wait_for()
    expect(tab.locator(".title")).to_contain_text("8 checkpoints")
