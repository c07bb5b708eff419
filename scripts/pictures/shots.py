"""The pictures: what each shows, and how the page is brought there."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

Tab = Any
"""A page of Playwright, which has no types without being installed."""
WIDE, NARROW = (1440, 900), (360, 740)


@dataclass(frozen=True, slots=True)
class Shot:
    """A picture of one address."""

    name: str
    path: str
    """`{live}` stands for the id of the run that was started under this name."""
    theme: str = "light"
    size: tuple[int, int] = WIDE
    prepare: Callable[[Tab], object] = lambda _: None
    """Clicks and keys, before the picture is taken."""


def choose_failed(tab: Tab) -> None:
    for row in tab.locator("tbody tr", has_text="Failed").all()[:2]:
        row.locator("input.tick").check()


def shorten_draft(tab: Tab) -> None:
    tab.get_by_text("Send this to Jane Smith?").first.click()
    draft = tab.locator("textarea").first
    draft.fill(draft.input_value().replace("May I show you how?", "May I show you on Tuesday?"))
    tab.get_by_role("button", name="show changes").click()


def scroll_to_end(tab: Tab) -> None:
    tab.evaluate("document.querySelectorAll('.scroller, .page, .work, .thread').forEach(box => box.scrollTo(0, 1e6))")


NETWORK = "/ui/runs/{network}?step=agent&tab=messages"
WORKING = "/ui/start/code_network?input={network}&run={working}"
PICTURES = (
    (Shot("runs", "/ui/runs?since=24h", prepare=choose_failed),),
    (Shot("run", "/ui/runs/{live}?step=plan"),),
    (Shot("fan-out", "/ui/runs/{live}?step=migrate_table", "dark"),),
    (Shot("failed", "/ui/runs/{failed}"),),
    (Shot("network", NETWORK, "dark"),),
    (Shot("definition", "/ui/runs/{audit}?view=definition&step=measure"),),
    (Shot("inbox", "/ui/inbox", prepare=shorten_draft),),
    (Shot("start", WORKING),),
    (Shot("history", "/ui/threads/lead-omar?a={draft}&b={shorter}", "dark"),),
    (Shot("costs", "/ui/costs?period=7d"),),
    (
        Shot("narrow", "/ui/runs", size=NARROW),
        Shot("run", "/ui/runs/{live}?step=migrate_table", size=NARROW),
        Shot("inbox", "/ui/inbox", size=NARROW, prepare=shorten_draft),
        Shot("history", "/ui/threads/lead-omar", size=NARROW),
    ),
    (
        Shot("narrow-dark", "/ui/runs?status=failed", "dark", NARROW),
        Shot("failed", "/ui/runs/{failed}", "dark", NARROW),
        Shot("start", WORKING, "dark", NARROW, prepare=scroll_to_end),
        Shot("costs", "/ui/costs", "dark", NARROW),
    ),
)
"""Each picture has one view, or several beside each other; it is named after the first."""


@contextmanager
def open_browser(executable: str) -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    switches = [
        "--no-sandbox",
        "--disable-gpu",
        "--no-first-run",
        "--disable-background-networking",
        "--hide-scrollbars",
    ]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, headless=True, args=switches)
        yield browser
        browser.close()


def take(browser: Any, url: str, shot: Shot, runs: Mapping[str, str], now: datetime) -> bytes:
    """Return a picture as PNG. Raises RuntimeError if the page reports an error."""
    width, height = shot.size
    context = browser.new_context(
        base_url=url,
        viewport={"width": width, "height": height},
        color_scheme=shot.theme,
        timezone_id="UTC",
        locale="en-GB",
        reduced_motion="reduce",
    )
    context.set_default_timeout(180_000)
    problems: list[str] = []
    tab = context.new_page()
    tab.on("pageerror", lambda error: problems.append(str(error)))
    pending: set[Any] = set()
    tab.on("request", lambda request: pending.add(request) if "/stream" not in request.url else None)
    for event in ("requestfinished", "requestfailed"):
        tab.on(event, lambda request: pending.discard(request))
    tab.clock.set_fixed_time(now)
    tab.goto(shot.path.format_map(runs))
    tab.wait_for_load_state("load")
    wait_until_still(tab, pending)
    shot.prepare(tab)
    wait_until_still(tab, pending)
    picture = tab.screenshot()
    context.close()
    if problems:
        raise RuntimeError(f"The page of {shot.name} reports: {problems}")
    return picture


def wait_until_still(tab: Tab, pending: Collection[Any]) -> None:
    """Wait until the document has not changed for half a second, and no response is awaited."""
    tab.wait_for_selector("main")
    tab.wait_for_selector(".bone", state="detached")
    script = """() => new Promise(resolve => {
        let timer = setTimeout(resolve, 500);
        const later = () => { clearTimeout(timer); timer = setTimeout(resolve, 500); };
        const all = {subtree: true, childList: true, attributes: true, characterData: true};
        new MutationObserver(later).observe(document, all);
    })"""
    tab.evaluate(script)
    while pending:
        tab.evaluate(script)
