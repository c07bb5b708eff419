"""The web page in Chromium, on a server in a process of its own: bytes, times, and the processor time of idle pages.

Times are of the wall clock, as people see them, and need a quiet machine; the processor time of the tab stands beside
them. These rows are left out without Chromium, Playwright or a built page.
"""

from __future__ import annotations

import atexit
import gzip
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from typing import Any

from benchmarks.environment import ROOT
from benchmarks.figure import Figure, Take
from benchmarks.requirement import AtMost
from benchmarks.scale.spending import process_seconds
from benchmarks.served import page as server
from benchmarks.served.process import Served

BUILT = ROOT / "src" / "statewright" / "server" / "page" / "built"
CHROMIUM = os.environ.get("STATEWRIGHT_CHROMIUM") or next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
MANY_RUNS = 100_000
FRAMES = 240
PAGES = 20
SETTLING, IDLE = 5.0, 20.0
"""Seconds after the pages were opened, and of the measurement."""
PATIENCE = 300_000
"""Milliseconds after which a measurement fails, on a very busy machine too."""
MILLISECONDS = 1e3
KILOBYTE = 1e3
_WORK = ("ScriptDuration", "RecalcStyleDuration", "LayoutDuration")
_ARGUMENTS = ("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-sync")

FIRST_ROW = """() => new Promise(done => {
    const look = () => document.querySelector("tbody tr a.graph")
        ? requestAnimationFrame(() => setTimeout(() => done(performance.now())))
        : requestAnimationFrame(look);
    look();
})"""
OPEN_RUN = """([path, events]) => new Promise(done => {
    const began = performance.now();
    history.pushState(null, "", path);
    dispatchEvent(new PopStateEvent("popstate"));
    const look = () => {
        const count = document.querySelector("[data-tab=events] .count")?.textContent.replace(/\\D/g, "");
        if (Number(count) >= events && document.querySelector("svg#graph"))
            requestAnimationFrame(() => setTimeout(() => done(performance.now() - began)));
        else requestAnimationFrame(look);
    };
    look();
})"""
SCROLL = """async frames => {
    const box = document.querySelector(".scroller");
    let most = 0;
    for (let frame = 0; frame < frames; frame += 1) {
        await new Promise(requestAnimationFrame);
        box.scrollTop += 180;
        most = Math.max(most, document.querySelectorAll("tbody tr").length);
    }
    return most;
}"""


@dataclass
class Tab:
    """A page in Chromium, and the server that it shows."""

    served: Served
    page: Any
    session: Any

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.served.port}"

    def open_list(self) -> None:
        self.page.goto(f"{self.url}/ui/runs")
        self.page.wait_for_selector("tbody tr a.graph")

    def work(self, *names: str) -> float:
        """Return the processor time of the main thread so far, of these kinds, in milliseconds."""
        metrics = {each["name"]: each["value"] for each in self.session.send("Performance.getMetrics")["metrics"]}
        return sum(metrics[name] for name in names) * MILLISECONDS


@cache
def browser() -> Any:
    """Start Chromium, which ends with this process."""
    from playwright.sync_api import sync_playwright

    playwright = sync_playwright().start()
    launched = playwright.chromium.launch(executable_path=CHROMIUM, headless=True, args=[*_ARGUMENTS])
    atexit.register(playwright.stop)  # otherwise this process would wait for it
    atexit.register(launched.close)
    return launched


def _new_context() -> Any:
    context = browser().new_context(viewport={"width": 1440, "height": 900})
    context.set_default_timeout(PATIENCE)
    return context


@cache
def tab(runs: int = 0) -> Tab:
    """Open a page on a new server whose list has some runs."""
    served, context = server.start(runs), _new_context()
    page = context.new_page()
    session = context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    return Tab(served, page, session)


# -- bytes


def script_kilobytes(path: str, shown: str) -> Take:
    """Return a pass that counts the JavaScript that is loaded until something is shown, in gzip."""

    def take() -> float:
        opened, scripts = tab(30), set[str]()
        opened.page.on("response", lambda response: scripts.add(response.url.rpartition("/")[2]))
        opened.page.goto(f"{opened.url}{path.format(run=_crowded_run(opened))}")
        opened.page.wait_for_selector(shown)
        files = [BUILT / "assets" / name for name in scripts if name.endswith(".js")]
        return sum(len(gzip.compress(file.read_bytes(), 9)) for file in files) / KILOBYTE

    return take


# -- times


def first_row() -> float:
    """Return the milliseconds from opening the address until the first run is drawn; scripts are in the cache."""
    opened = tab(30)
    opened.page.goto("about:blank")
    opened.page.goto(f"{opened.url}/ui/runs", wait_until="commit")
    return opened.page.evaluate(FIRST_ROW)


def _crowded_run(opened: Tab) -> str:
    """Return a run with many events, which has ended."""
    return _crowded(opened.url)


@cache
def _crowded(url: str) -> str:
    request = browser().contexts[0].request
    sent = request.post(f"{url}/api/v1/workflow-runs", data={"graph": "crowded", "input": {}})
    run_id: str = sent.json()["data"]["id"]
    while request.get(f"{url}/api/v1/workflow-runs/{run_id}?wait=30").json()["data"]["status"] != "completed":
        pass
    return run_id


def _open_run(opened: Tab) -> float:
    run_id = _crowded_run(opened)
    opened.open_list()
    opened.page.wait_for_timeout(500)
    return opened.page.evaluate(OPEN_RUN, [f"/ui/runs/{run_id}", server.EVENTS])


def run_is_open() -> float:
    """Return the milliseconds from a click on the run until its graph and all its events are there."""
    return _open_run(tab(30))


def work_of_opening() -> float:
    """Return the milliseconds of processor time of the tab for opening the run."""
    opened = tab(30)
    _crowded_run(opened)
    opened.open_list()
    opened.page.wait_for_timeout(500)
    before = opened.work("TaskDuration")
    _open_run(opened)
    return opened.work("TaskDuration") - before


# -- the list


def _scroll() -> tuple[float, float]:
    """Scroll through a long list; return the milliseconds of work a frame, and the most rows in the document."""
    opened = tab(MANY_RUNS)
    opened.open_list()
    opened.page.wait_for_timeout(500)
    before = opened.work(*_WORK)
    rows = opened.page.evaluate(SCROLL, FRAMES)
    return (opened.work(*_WORK) - before) / FRAMES, rows


# -- idle pages


def idle_pages() -> float:
    """Return the share of a core that the server needs for open pages to which nothing happens, in percent."""
    served = server.start(30)
    contexts = [_new_context() for _ in range(PAGES)]  # as browsers of 20 people, with their own connections
    for context in contexts:
        page = context.new_page()
        page.goto(f"http://127.0.0.1:{served.port}/ui/runs")
        page.wait_for_selector("tbody tr a.graph")
    time.sleep(SETTLING)
    before = process_seconds(served.process.pid)
    time.sleep(IDLE)
    percent = (process_seconds(served.process.pid) - before) / IDLE * 100
    for context in contexts:
        context.close()
    served.close()
    return percent


def _figures() -> tuple[Figure, ...]:
    def figure(name: str, unit: str, ours: Callable[[], float], limit: float, *, is_repeated: bool = True) -> Figure:
        name = f"web page, {name}"
        return Figure(name=name, unit=unit, ours=ours, limit=AtMost(limit), is_repeated=is_repeated, is_long=True)

    first = script_kilobytes("/ui/runs", "tbody tr a.graph")
    run = script_kilobytes("/ui/runs/{run}", "svg#graph")
    return (
        figure("JavaScript of the first view", "kB", first, 80, is_repeated=False),
        figure("JavaScript of a run", "kB", run, 100, is_repeated=False),
        figure("first run of the list", "ms", first_row, 300),
        figure("a run of 10 000 events", "ms", run_is_open, 1000),
        figure("the same, processor of the tab", "ms", work_of_opening, 500),
        figure("scrolling 100 000 runs", "ms a frame", lambda: _scroll()[0], 6),
        figure("the same, rows in the document", "rows", lambda: _scroll()[1], 60, is_repeated=False),
        figure(f"{PAGES} idle pages, processor of the server", "% of a core", idle_pages, 5, is_repeated=False),
    )


FIGURES = _figures() if CHROMIUM and find_spec("playwright") and (BUILT / "index.html").is_file() else ()
