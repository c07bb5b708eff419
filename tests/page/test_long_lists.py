"""Lists that are far longer than a screen cost no more than a screen."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from tests.page.browser import expect
from tests.page.gates import Gate
from tests.page.page_server import PageServer
from tests.work import FULL

from statewright.futures import resolve
from statewright.runs import DEFAULT_WORKSPACE, Insert, Run, RunStatus
from statewright.storage.sqlite import SqliteDatabase, SqliteLedger

COUNT = 100_000 if FULL else 4_000
OLDEST = datetime(2020, 1, 1, tzinfo=UTC)
MOST_ROWS = 60
COUNT_ROWS = """() => {
  const count = () => document.querySelectorAll("table.runs tbody tr").length;
  window.most = count();
  new MutationObserver(() => (window.most = Math.max(window.most, count())))
    .observe(document.querySelector("table.runs tbody"), { childList: true });
}"""

SHOWS_ROWS = """count => {
  const { top, bottom } = document.querySelector(".scroller").getBoundingClientRect();
  const rows = [...document.querySelectorAll("table.runs tbody tr")];
  const isInMiddle = ({ top: from, bottom: to }) => from <= (top + bottom) / 2 && (top + bottom) / 2 < to;
  const idAt = (row) => (count + 1 - Number(row.getAttribute("aria-rowindex"))).toString(16).padStart(32, "0");
  return rows.some((row) => isInMiddle(row.getBoundingClientRect()))
    && rows.every((row) => row.querySelector("a")?.getAttribute("href") === `/ui/runs/run_${idAt(row)}`);
}"""
"""True if there are rows in the middle of the window, and each row shows the run of its number: row 2 is the newest."""


def run_number(number: int) -> Run:
    """Return a run that began so many seconds after the oldest."""
    at = OLDEST + timedelta(seconds=number)
    run_id = f"run_{number:032x}"
    times = {"created_at": at, "updated_at": at, "started_at": at, "completed_at": at}
    status = RunStatus.COMPLETED
    return Run(id=run_id, workspace_id=DEFAULT_WORKSPACE, graph="archive", thread_id=run_id, status=status, **times)


@pytest.fixture(scope="module")
def archive(server: PageServer) -> None:
    """Runs of long ago, written to the database of the server."""
    with SqliteDatabase(server.database) as database:
        ledger = SqliteLedger(database)
        for first in range(0, COUNT, 2_000):
            resolve(ledger.write([Insert(run_number(number)) for number in range(first, min(first + 2_000, COUNT))]))


@pytest.mark.usefixtures("archive")
def test_a_list_of_many_thousand_runs_has_never_more_than_sixty_rows_in_the_document(tab: Any) -> None:
    pages: set[str] = set()
    tab.on("request", lambda request: pages.update(parse_qs(urlsplit(request.url).query).get("page", [])))
    tab.goto("/ui/runs?graph=archive")
    table = tab.locator("table.runs")
    expect(table).to_have_attribute("aria-rowcount", str(COUNT + 1))
    table.locator("tbody tr").first.wait_for()
    tab.evaluate(COUNT_ROWS)
    positions = [0.5, 0.1, 0.999, 1.0, 0.3, 0.0]
    for share in positions:
        tab.locator(".scroller").evaluate("(box, share) => (box.scrollTop = share * box.scrollHeight)", share)
        tab.wait_for_function(SHOWS_ROWS, arg=COUNT)
    tab.mouse.move(700, 600)
    for _ in range(30):
        tab.mouse.wheel(0, 700)
    tab.wait_for_function(SHOWS_ROWS, arg=COUNT)
    assert tab.evaluate("window.most") <= MOST_ROWS
    # A page is a hundred runs. A position needs at most two pages, and what was scrolled over at most eight.
    assert len(pages) <= 2 * len(positions) + 8


@pytest.mark.full
@pytest.mark.usefixtures("archive")
def test_the_keyboard_moves_on_beyond_what_was_in_the_document(tab: Any) -> None:
    tab.goto("/ui/runs?graph=archive")
    tab.locator("table.runs tbody tr").first.wait_for()
    for _ in range(70):
        tab.keyboard.press("j")
    here = tab.locator("table.runs tbody tr.here")
    expect(here).to_have_attribute("aria-rowindex", "71")
    expect(here).to_be_in_viewport()
    tab.keyboard.press("Enter")
    tab.wait_for_url(f"**/ui/runs/run_{COUNT - 70:032x}")


@pytest.mark.full
def test_the_events_of_a_long_run_have_never_more_than_sixty_rows_in_the_document(
    tab: Any, server: PageServer, gate: Gate
) -> None:
    gate.open()
    run_id = server.start_and_wait("migration", {"count": 300, "gate": gate.name}, "completed")
    last = server.server.client.get(f"/api/v1/workflow-runs/{run_id}/events?pageSize=1").json()["meta"]["total"]
    assert last > 600
    tab.goto(f"/ui/runs/{run_id}?view=events")
    numbers = tab.locator(".eventlist .event .n")
    expect(numbers.first).to_have_text("1")
    tab.locator(".eventlist").evaluate("box => (box.scrollTop = box.scrollHeight)")
    expect(numbers.last).to_have_text(str(last))
    assert numbers.count() <= MOST_ROWS
