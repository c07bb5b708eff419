"""What holds for all views: accessibility, narrow screens, dark and light, the keyboard, no other hosts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.page.browser import NARROW, ROOT, expect, miss
from tests.page.page_server import PageServer
from tests.page.seeds import Seeds

NewTab = Callable[..., Any]
VIEWS: dict[str, Callable[[Seeds], str]] = {
    "runs": lambda seeds: "/ui/runs",
    "failed run": lambda seeds: f"/ui/runs/{seeds.failed}",
    "loop": lambda seeds: f"/ui/runs/{seeds.completed}?step=write.3&tab=diff",
    "network": lambda seeds: f"/ui/runs/{seeds.network}?tab=messages",
    "waiting run": lambda seeds: f"/ui/runs/{seeds.asking}",
    "events": lambda seeds: f"/ui/runs/{seeds.failed}?view=events",
    "definition": lambda seeds: f"/ui/runs/{seeds.yaml}?view=definition",
    "inbox": lambda seeds: "/ui/inbox?kind=question",
    "approval": lambda seeds: "/ui/inbox?kind=approval",
    "decided": lambda seeds: "/ui/inbox?decided=1",
    "start": lambda seeds: "/ui/start/registration",
    "threads": lambda seeds: "/ui/threads",
    "history": lambda seeds: "/ui/threads/letters",
    "schedules": lambda seeds: "/ui/schedules",
    "webhooks": lambda seeds: "/ui/schedules?tab=webhooks",
    "workers": lambda seeds: "/ui/workers",
    "costs": lambda seeds: "/ui/costs",
}
FIND_PROBLEMS = """async () => (await axe.run()).violations
  .filter((each) => ["serious", "critical"].includes(each.impact))
  .flatMap((each) => each.nodes.slice(0, 3).map((node) => `${each.id}: ${node.html} ${node.failureSummary}`))"""
FIND_OVERFLOW = """() => {
  const wide = [...document.querySelectorAll("html, body, main, .scroller, .runview, .work, .threadpage, .sheet")]
    .filter((each) => each.scrollWidth > each.clientWidth + 1 && getComputedStyle(each).overflowX !== "hidden");
  return wide.map((each) => `${each.tagName} ${each.className}: ${each.scrollWidth} > ${each.clientWidth}`);
}"""

FIND_CHOSEN = """() => [...document.querySelectorAll("[aria-selected=true], [aria-pressed=true], [aria-current]")]
  .map((each) => each.getAttribute("href") ?? each.textContent.replace(/[0-9]+/g, ""))"""  # without counts and ages


def open_view(tab: Any, address: str) -> None:
    """Open an address, and wait until its view has loaded what it shows."""
    tab.goto(address)
    tab.locator("main").locator("h1, h2").first.wait_for()
    expect(tab.locator(".bones")).to_have_count(0)


@pytest.fixture(scope="module")
def axe() -> str:
    """The source text of axe-core."""
    path = ROOT / "ui" / "node_modules" / "axe-core" / "axe.min.js"
    if not path.is_file():
        miss("axe-core is not installed", "make ui")
    return path.read_text(encoding="utf-8")


@pytest.mark.sampled(9)
@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("look", ["wide and light", "narrow and dark"])
def test_axe_finds_no_serious_problem(
    new_tab: NewTab, server: PageServer, seeds: Seeds, axe: str, name: str, look: str
) -> None:
    narrow = {"viewport": NARROW, "color_scheme": "dark"} if look == "narrow and dark" else {}
    with new_tab(server.key, **narrow) as tab:
        open_view(tab, VIEWS[name](seeds))
        tab.evaluate(axe)
        assert tab.evaluate(FIND_PROBLEMS) == []


@pytest.mark.full
def test_axe_finds_no_serious_problem_in_signing_in_and_dialogs(new_tab: NewTab, server: PageServer, axe: str) -> None:
    with new_tab() as tab:
        tab.goto("/ui/sign-in")
        tab.get_by_role("heading").wait_for()
        tab.evaluate(axe)
        assert tab.evaluate(FIND_PROBLEMS) == []
    with new_tab(server.key) as tab:
        open_view(tab, "/ui/costs")
        tab.evaluate(axe)
        for key in ("/", "?"):
            tab.keyboard.press(key)
            tab.get_by_role("dialog").wait_for()
            assert tab.evaluate(FIND_PROBLEMS) == []
            tab.keyboard.press("Escape")
            expect(tab.get_by_role("dialog")).to_have_count(0)


def test_no_view_scrolls_sideways_on_a_narrow_screen(new_tab: NewTab, server: PageServer, seeds: Seeds) -> None:
    with new_tab(server.key, viewport=NARROW) as tab:
        found = {}
        for name, address in VIEWS.items():
            open_view(tab, address(seeds))
            found[name] = tab.evaluate(FIND_OVERFLOW)
        assert {name: problems for name, problems in found.items() if problems} == {}


@pytest.mark.full
def test_a_run_is_watched_and_repaired_on_a_narrow_screen(new_tab: NewTab, server: PageServer) -> None:
    run_id = server.start_and_wait("payment", {"order": 3})
    with new_tab(server.key, viewport=NARROW) as tab:
        tab.goto("/ui/runs?status=failed&graph=payment")
        tab.locator(f'a[href="/ui/runs/{run_id}"]').click()
        rail = tab.locator(".railview")
        expect(rail.get_by_role("button")).to_contain_text(["reserve", "charge", "thank"])
        rail.get_by_role("button").first.click()
        expect(tab.get_by_role("region", name="Inspector").get_by_role("heading", level=2)).to_have_text("reserve")
        expect(tab.get_by_role("button", name="Retry from charge")).to_be_in_viewport()
        tab.get_by_role("navigation", name="Main").get_by_role("link", name="Inbox").click()
        tab.locator("a.ask").first.click()
        tab.locator("h2.question").wait_for()
        tab.get_by_role("link", name="All questions").click()
        expect(tab.locator("h2.question")).to_have_count(0)


@pytest.mark.full
def test_the_colours_follow_the_system_until_somebody_chooses(new_tab: NewTab, server: PageServer) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    with new_tab(server.key, color_scheme="dark") as tab:
        open_view(tab, "/ui/costs")
        dark = tab.evaluate(ground)
        tab.emulate_media(color_scheme="light")
        light = tab.evaluate(ground)
        assert light != dark
        tab.get_by_role("button", name="Dark or light").click()
        assert tab.evaluate(ground) == dark
        tab.reload()
        open_view(tab, "/ui/costs")
        assert tab.evaluate(ground) == dark
        tab.keyboard.press("t")
        assert tab.evaluate(ground) == light


def test_an_address_shows_the_same_view_after_a_reload(tab: Any, seeds: Seeds) -> None:
    addresses = [
        f"/ui/runs/{seeds.completed}?step=check.4&tab=output",
        f"/ui/runs/{seeds.failed}?view=events",
        "/ui/schedules?tab=triggers",
        "/ui/costs?period=90d",
        "/ui/inbox?kind=approval",
    ]
    for address in addresses:
        open_view(tab, address)
        chosen = tab.evaluate(FIND_CHOSEN)
        tab.reload()
        tab.wait_for_function(f"chosen => JSON.stringify(({FIND_CHOSEN})()) === JSON.stringify(chosen)", arg=chosen)
        assert tab.url.endswith(address)


def test_everything_is_reached_with_the_keyboard_alone(new_tab: NewTab, server: PageServer) -> None:
    run_id = server.start_and_wait("payment", {"order": 4}, tags=["keyboard"])
    with new_tab() as tab:
        tab.goto("/ui/runs?tag=keyboard")
        tab.get_by_label("API key").wait_for()
        tab.keyboard.type(server.key)  # the field has the focus
        tab.keyboard.press("Enter")
        tab.locator("table.runs tbody a").wait_for()
        tab.keyboard.press("j")
        tab.keyboard.press("Enter")
        tab.wait_for_url(f"**/ui/runs/{run_id}")
        tab.get_by_role("button", name="Retry from charge").wait_for()
        tab.keyboard.press("r")
        tab.get_by_text("The run tries again.").wait_for()
        for keys, place in (("gi", "inbox"), ("gs", "start"), ("gt", "threads"), ("gr", "runs"), ("n", "start")):
            for key in keys:
                tab.keyboard.press(key)
            tab.wait_for_url(f"**/ui/{place}")
        tab.keyboard.press("?")
        expect(tab.get_by_role("dialog", name="Keys")).to_be_visible()
        tab.keyboard.press("Escape")
        tab.keyboard.press("Tab")
        assert tab.evaluate("document.activeElement.matches(':focus-visible')")


@pytest.mark.full
def test_the_first_link_skips_to_the_content(tab: Any) -> None:
    open_view(tab, "/ui/costs")
    tab.keyboard.press("Tab")
    skip = tab.get_by_role("link", name="Skip to the content")
    expect(skip).to_be_focused()
    expect(skip).to_be_in_viewport()


def test_the_page_loads_little_and_only_from_its_server(tab: Any) -> None:
    """The host of each request is checked for every window; see `open_tab`."""
    scripts: list[int] = []
    tab.on(
        "response",
        lambda response: (
            scripts.append(int(response.headers["content-length"])) if response.url.endswith(".js") else None
        ),
    )
    tab.goto("/ui/runs")
    tab.locator("table.runs tbody tr").first.wait_for()
    assert 0 < sum(scripts) < 80_000
