"""An open page outlives its server: nothing is lost or doubled, and what is old says so."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.page.browser import Browser, expect, open_tab
from tests.page.gates import Gate
from tests.page.page_server import PageServer, gates_of


@pytest.fixture(scope="module")
def mortal(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageServer]:
    """A server of its own, which tests kill and start again."""
    del browser  # without one, no server is started
    server = PageServer(tmp_path_factory.mktemp("mortal") / "runs.db")
    yield server
    log = server.stop()
    for key in server.keys:
        assert key not in log


@pytest.fixture
def mortal_tab(browser: Browser, mortal: PageServer) -> Iterator[Any]:
    with browser.enter(open_tab(browser, mortal, mortal.key)) as opened:
        yield opened


def shown_numbers(tab: Any) -> list[str]:
    return tab.locator(".eventlist .event .n").all_inner_texts()


def numbers(mortal: PageServer, run_id: str) -> list[str]:
    """Return the numbers of the events of a run, as the API has them."""
    return [str(event["seq"]) for event in mortal.call("GET", f"/workflow-runs/{run_id}/events?pageSize=100")]


def test_an_open_run_goes_on_after_its_server_was_killed_and_started_again(mortal: PageServer, mortal_tab: Any) -> None:
    run_id = mortal.start_and_wait("maintenance", {"service": "mail"})
    mortal_tab.goto(f"/ui/runs/{run_id}?view=events")
    mortal_tab.locator(".eventlist .event").first.wait_for()
    before = shown_numbers(mortal_tab)
    mortal.kill()
    mortal_tab.locator(".banner").filter(has_text="The server has not answered for").wait_for()
    expect(mortal_tab.get_by_role("button", name="Cancel")).to_be_disabled()
    assert shown_numbers(mortal_tab) == before  # what is known stays
    mortal.start_process()
    mortal.answer(run_id, "ask_window", {"starts": "2030-01-01T00:00:00Z", "minutes": 20})
    expect(mortal_tab.locator(".title")).to_contain_text("Done")
    expect(mortal_tab.locator(".banner")).to_have_count(0)
    assert mortal.wait_for(run_id)["status"] == "completed"
    expected = numbers(mortal, run_id)
    expect(mortal_tab.locator(".eventlist .event .n")).to_have_text(expected)
    assert expected == [str(number) for number in range(1, len(expected) + 1)]


@pytest.mark.full
def test_a_list_shows_what_has_happened_while_its_server_was_away(mortal: PageServer, mortal_tab: Any) -> None:
    runs = [mortal.start_and_wait("delivery", tags=["away"]) for _ in range(2)]
    mortal_tab.goto("/ui/runs?tag=away")
    rows = mortal_tab.locator("table.runs tbody tr")
    expect(rows).to_have_count(2)
    mortal.kill()
    mortal_tab.get_by_role("status").filter(has_text="Offline for").wait_for()
    mortal.start_process()
    mortal.call("POST", f"/workflow-runs/{runs[0]}/cancel")
    third = mortal.start_and_wait("delivery", tags=["away"])
    expect(rows).to_have_count(3)
    expect(rows.filter(has=mortal_tab.locator(f'a[href="/ui/runs/{runs[0]}"]'))).to_contain_text("Cancelled")
    expect(rows.filter(has=mortal_tab.locator(f'a[href="/ui/runs/{third}"]'))).to_contain_text("Waiting")
    expect(mortal_tab.get_by_role("status").filter(has_text="Live")).to_be_visible()


@pytest.mark.full
def test_a_fan_out_that_was_interrupted_is_shown_with_each_task_once(mortal: PageServer, mortal_tab: Any) -> None:
    """The server stops in the middle of a step, and its successor repeats what had not ended."""
    gate = Gate(gates_of(mortal.database), "interrupted")
    run_id = mortal.start("migration", {"count": 12, "gate": gate.name})
    mortal_tab.goto(f"/ui/runs/{run_id}")
    node = mortal_tab.locator('#graph [data-node="move"]')
    gate.open(5)
    expect(node).to_contain_text("5 done · 7 now")
    mortal.stop()
    mortal_tab.locator(".banner").filter(has_text="The server has not answered for").wait_for()
    mortal.start_process()
    gate.open()
    expect(node).to_contain_text("12 done")
    expect(mortal_tab.locator(".title")).to_contain_text("Done")
    assert mortal.run(run_id)["output"]["moved"] == 12
    mortal_tab.get_by_role("tab", name="Events").click()
    expect(mortal_tab.locator(".eventlist .event .n")).to_have_text(numbers(mortal, run_id))


@pytest.mark.full
def test_a_view_that_is_opened_while_the_server_is_away_is_shown_once_it_is_back(
    mortal: PageServer, mortal_tab: Any
) -> None:
    """The script of the view could not be fetched either."""
    mortal_tab.goto("/ui/costs")
    mortal_tab.get_by_role("heading", name="Costs").wait_for()
    mortal.kill()
    mortal_tab.get_by_role("link", name="Threads").click()
    mortal_tab.get_by_role("alert").filter(has_text="A part of the page could not be fetched").wait_for()
    mortal_tab.get_by_role("status").filter(has_text="Offline for").wait_for()
    mortal.start_process()
    mortal_tab.get_by_role("heading", name="Threads").wait_for()
    expect(mortal_tab.locator(".banner")).to_have_count(0)
