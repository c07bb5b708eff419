"""The list of runs: filters, views, bulk actions, and changes as they happen."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest
from tests.page.browser import expect
from tests.page.gates import Gate
from tests.page.page_server import PageServer
from tests.page.seeds import ALL, Seeds

NewTab = Callable[..., Any]


def rows(tab: Any) -> Any:
    return tab.locator("table.runs tbody tr:not(.boned)")


def row_of(tab: Any, run_id: str) -> Any:
    return rows(tab).filter(has=tab.locator(f'a[href="/ui/runs/{run_id}"]'))


def open_list(tab: Any, query: str = "") -> None:
    tab.goto(f"/ui/runs{query}")
    rows(tab).first.wait_for()


def test_each_run_says_what_it_is_doing(tab: Any, seeds: Seeds) -> None:
    open_list(tab, f"?{ALL}")
    said = {
        seeds.completed: ("Done", ""),
        seeds.failed: ("Failed", "charge failed 3 of 3: payments.example gave no answer within 5 s"),
        seeds.asking: ("Waiting", "When may search be down?"),
        seeds.approving: ("Waiting", "Publish these notes?"),
        seeds.expecting: ("Waiting", "event parcel_received"),
        seeds.sleeping: ("Waiting", "nap"),
        seeds.queued: ("Queued", "starts at"),
        seeds.cancelled: ("Cancelled", "cancelled"),
    }
    for run_id, (status, sentence) in said.items():
        expect(row_of(tab, run_id).locator(".c-status")).to_contain_text(status)
        expect(row_of(tab, run_id).locator(".c-why")).to_contain_text(sentence)
    expect(row_of(tab, seeds.network).locator(".c-cost")).to_have_text("$0.04")
    expect(row_of(tab, seeds.completed).locator(".c-tags")).to_contain_text("vip")


@pytest.mark.sampled(7)
@pytest.mark.parametrize(
    ("query", "named", "chip"),
    [
        ("status=failed&graph=payment", "failed", "Status is"),
        ("tag=eu&tag=vip", "completed", "Tag has"),
        ("thread=letters", "completed", "Thread is"),
        ("metadata=shop%3Anorth", "completed", "Metadata has"),
        ("text=autumn-nothing-else", None, "Text is"),
        ("since=1h&graph=estate", "nested", "Started in the"),
        ("from=2100-01-01T00%3A00%3A00Z", None, "Started after"),
    ],
)
def test_the_filters_in_the_address_select_the_runs(
    tab: Any, seeds: Seeds, query: str, named: str | None, chip: str
) -> None:
    tab.goto(f"/ui/runs?{query}")
    tab.locator(".filter .op").filter(has_text=chip).wait_for()
    if named is None:
        tab.get_by_role("heading", name="No run fits these filters").wait_for()
        tab.get_by_role("link", name="Remove the filters").click()
        tab.wait_for_url(lambda url: url.endswith("/ui/runs"))
        rows(tab).first.wait_for()
    else:
        row_of(tab, getattr(seeds, named)).wait_for()
        assert row_of(tab, seeds.sleeping).count() == 0


def test_a_filter_is_added_by_typing_and_stays_in_the_address(tab: Any, seeds: Seeds) -> None:
    open_list(tab, f"?{ALL}")
    tab.keyboard.press("f")
    tab.get_by_role("textbox", name="Filter").press_sequentially("gra")
    tab.keyboard.press("Enter")
    tab.get_by_role("textbox", name="Graph").press_sequentially("esta")
    tab.keyboard.press("Enter")
    tab.wait_for_url(lambda url: url.endswith(f"?{ALL}&graph=estate"))
    row_of(tab, seeds.nested).wait_for()
    expect(row_of(tab, seeds.completed)).to_have_count(0)
    tab.reload()
    row_of(tab, seeds.nested).wait_for()
    tab.get_by_role("button", name="Remove this filter: Graph").click()
    row_of(tab, seeds.completed).wait_for()
    tab.go_back()
    expect(row_of(tab, seeds.completed)).to_have_count(0)


@pytest.mark.full
def test_a_view_is_saved_under_a_name_and_kept_in_the_browser(tab: Any, seeds: Seeds) -> None:
    open_list(tab, "?graph=payment&status=failed")
    tab.get_by_role("button", name="Save view").click()
    tab.get_by_role("textbox", name="Name of the view").fill("Broken payments")
    tab.keyboard.press("Enter")
    view = tab.get_by_role("link", name="Broken payments")
    expect(view).to_have_attribute("aria-current", "page")
    tab.goto(f"/ui/runs?{ALL}")
    row_of(tab, seeds.completed).wait_for()
    view.click()
    expect(row_of(tab, seeds.completed)).to_have_count(0)
    tab.get_by_role("button", name="Remove this view").click()
    expect(view).to_have_count(0)


def test_a_run_that_begins_and_changes_is_shown_without_loading_the_page(tab: Any, server: PageServer) -> None:
    server.start_and_wait("delivery", tags=["live"])
    open_list(tab, "?tag=live")
    run_id = server.start_and_wait("delivery", tags=["live"])
    row = row_of(tab, run_id)
    row.wait_for()
    server.call(
        "POST", f"/workflow-runs/{run_id}/resume", {"signalType": "parcel_received", "payload": {"signed": True}}
    )
    expect(row.locator(".c-status")).to_contain_text("Done")
    assert tab.evaluate("performance.getEntriesByType('navigation').length") == 1


@pytest.mark.full
def test_new_runs_wait_behind_a_button_while_somebody_reads(tab: Any, server: PageServer) -> None:
    first = server.start_and_wait("delivery", tags=["read"])
    open_list(tab, "?tag=read")
    tab.keyboard.press("j")
    second = server.start_and_wait("delivery", tags=["read"])
    tab.get_by_role("button", name="1 new run").wait_for()
    assert row_of(tab, second).count() == 0
    tab.keyboard.press(".")
    row_of(tab, second).wait_for()
    row_of(tab, first).wait_for()


def test_chosen_runs_are_cancelled_together_after_being_asked_once_more(tab: Any, server: PageServer) -> None:
    runs = [server.start_and_wait("delivery", tags=["bulk"]) for _ in range(3)]
    open_list(tab, "?tag=bulk")
    for run_id in runs[:2]:
        row_of(tab, run_id).get_by_role("checkbox").check()
    toolbar = tab.get_by_role("toolbar", name="2 chosen")
    toolbar.get_by_role("button", name="Cancel").click()
    assert server.run(runs[0])["status"] == "waiting"
    toolbar.get_by_role("button", name="Really cancel?").click()
    tab.get_by_text("Cancelled 2 runs").wait_for()
    for run_id in runs[:2]:
        expect(row_of(tab, run_id).locator(".c-status")).to_contain_text("Cancelled")
    assert [server.run(run_id)["status"] for run_id in runs] == ["cancelled", "cancelled", "waiting"]


@pytest.mark.full
def test_all_runs_that_fit_are_retried_together(tab: Any, server: PageServer, gate: Gate) -> None:
    runs = [server.start_and_wait("payment", {"gate": gate.name}, tags=["retry"]) for _ in range(2)]
    gate.open()
    open_list(tab, "?tag=retry&status=failed")
    row_of(tab, runs[0]).get_by_role("checkbox").check()
    tab.get_by_role("button", name="Choose all 2 that fit").click()
    tab.get_by_role("button", name="Retry from failed step").click()
    tab.get_by_text("Retried 2 runs").wait_for()
    for run_id in runs:
        assert server.wait_for(run_id, "completed")["status"] == "completed"
    tab.get_by_role("heading", name="No run fits these filters").wait_for()  # none of them has failed any more


@pytest.mark.full
def test_the_runs_that_fit_are_exported_as_json(tab: Any, seeds: Seeds) -> None:
    open_list(tab, "?thread=letters")
    with tab.expect_download() as download:
        tab.get_by_role("button", name="Export").click()
    (run,) = json.loads(download.value.path().read_text())
    assert (run["id"], run["input"]["subject"]) == (seeds.completed, "spring")


@pytest.mark.full
def test_the_list_is_sorted_by_its_start_in_both_directions(tab: Any, server: PageServer) -> None:
    runs = [server.start_and_wait("estate", tags=["sorted"]) for _ in range(2)]
    open_list(tab, "?tag=sorted")
    links = rows(tab).locator("a.graph")
    newest_first = [f"/ui/runs/{run_id}" for run_id in reversed(runs)]
    assert [link.get_attribute("href") for link in links.all()] == newest_first
    tab.get_by_role("button", name="Started").click()
    tab.wait_for_url(lambda url: "sort=createdAt" in url)
    expect(links.first).to_have_attribute("href", newest_first[-1])


@pytest.mark.full
def test_one_can_go_to_a_run_or_a_graph_by_typing(tab: Any, seeds: Seeds) -> None:
    open_list(tab)
    tab.keyboard.press("/")
    field = tab.get_by_role("combobox", name="Go to a run or graph")
    field.fill(seeds.nested)
    tab.get_by_role("option").first.wait_for()
    tab.keyboard.press("Enter")
    tab.wait_for_url(f"**/ui/runs/{seeds.nested}")
    tab.keyboard.press("/")
    field.fill("e")
    options = tab.get_by_role("option")
    expect(options).to_have_count(12)
    for _ in range(11):
        tab.keyboard.press("ArrowDown")
    expect(options.last).to_have_attribute("aria-selected", "true")
    expect(options.last).to_be_in_viewport()


@pytest.mark.full
def test_the_keyboard_moves_through_the_rows_and_opens_one(tab: Any, seeds: Seeds) -> None:
    open_list(tab, f"?text={quote(seeds.failed)}")
    tab.keyboard.press("j")
    expect(row_of(tab, seeds.failed)).to_have_class("here")
    tab.keyboard.press("x")
    tab.get_by_role("toolbar", name="1 chosen").wait_for()
    tab.keyboard.press("Escape")
    expect(tab.get_by_role("toolbar")).to_have_count(0)
    tab.keyboard.press("j")
    tab.keyboard.press("Enter")
    tab.wait_for_url(f"**/ui/runs/{seeds.failed}")
