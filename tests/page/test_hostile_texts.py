"""Texts of users and models that would do harm as HTML are shown as texts.

Every window of these tests fails if a dialog opens, the page raises an error, the Content-Security-Policy is violated,
or another host is called; see `open_tab`.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote
from xml.etree import ElementTree

import pytest
from tests.page import hostile
from tests.page.browser import expect
from tests.page.page_server import PageServer

FIND_HARM = """() => {
  const made = "img, style, script, iframe, object, [onerror], [onload], a[href^='javascript']";  // the page makes none
  const found = [...document.body.querySelectorAll(made)].map((each) => each.outerHTML);
  if (window.harm) found.push(`harm: ${window.harm}`);
  if (document.documentElement.scrollWidth > innerWidth) found.push("the page is wider than the window");
  return found;
}"""


@pytest.fixture(scope="module")
def waiting(server: PageServer) -> str:
    """A run that asks, with harmful texts wherever the API accepts one."""
    texts = {"tags": hostile.TAGS, "metadata": {hostile.SCRIPT: hostile.IMAGE}, "threadId": hostile.THREAD}
    server.call("POST", "/schedules", {"name": hostile.IMAGE, "graph": hostile.GRAPH, "cron": "0 0 1 1 *"})
    server.call("POST", "/triggers", {"event": hostile.IMAGE, "graph": hostile.GRAPH, "match": {hostile.SCRIPT: "x"}})
    return server.start_and_wait(hostile.GRAPH, {"input": hostile.ALL}, "waiting", **texts)


@pytest.fixture(scope="module")
def failed(server: PageServer) -> str:
    """A run that has got harmful answers, and has failed with a harmful error of 100 kB."""
    run_id = server.start_and_wait(hostile.GRAPH, {"input": hostile.ALL}, "waiting")
    server.answer(run_id, "ask", {hostile.IMAGE: hostile.ALL})
    server.answer(run_id, "approve", {"decision": "edited", "content": hostile.ALL, "decidedBy": hostile.IMAGE})
    server.wait_for(run_id, "failed")
    return run_id


def check_harmless(tab: Any) -> None:
    assert tab.evaluate(FIND_HARM) == []


def look_at(tab: Any, address: str, text: str = hostile.SCRIPT) -> None:
    """Open an address, and wait until it shows a text that would be invisible as HTML."""
    tab.goto(address)
    tab.get_by_text(text).first.wait_for()
    check_harmless(tab)


def test_lists_show_harmful_texts_as_texts(tab: Any, waiting: str, failed: str) -> None:
    look_at(tab, f"/ui/runs?graph={quote(hostile.GRAPH)}")
    expect(tab.locator(".filter")).to_contain_text([hostile.GRAPH, "Filter"])
    tab.get_by_role("button", name="Save view").click()
    tab.get_by_label("Name of the view").fill(hostile.IMAGE[:40])
    tab.keyboard.press("Enter")
    tab.get_by_role("link", name=hostile.IMAGE[:40]).wait_for()
    tab.keyboard.press("/")
    tab.get_by_role("combobox", name="Go to a run or graph").fill("hostile")
    tab.get_by_role("option").filter(has_text=hostile.GRAPH).first.wait_for()
    check_harmless(tab)
    look_at(tab, "/ui/threads", hostile.THREAD)
    look_at(tab, "/ui/schedules", hostile.IMAGE)
    look_at(tab, "/ui/schedules?tab=triggers", hostile.IMAGE)
    look_at(tab, f"/ui/start/{quote(hostile.GRAPH, safe='')}")
    tab.locator("button.earlier").first.click()
    check_harmless(tab)
    del waiting, failed


def test_a_run_shows_harmful_texts_as_texts_in_every_tab(tab: Any, failed: str) -> None:
    look_at(tab, f"/ui/runs/{failed}")
    for name in ("State diff", "Input", "Output", "Messages", "Logs", "Error"):
        for node in (hostile.NODE, hostile.FAILS):
            tab.locator("#graph .node").filter(has_text=node[:8]).first.click()
            tab.get_by_role("region", name="Inspector").get_by_role("tab", name=name).click()
            tab.get_by_role("region", name="Inspector").get_by_role("tabpanel").wait_for()
            check_harmless(tab)
    for name in ("Events", "Input and output", "Definition", "Logs"):
        tab.get_by_role("tablist", name="Where").get_by_role("tab", name=name, exact=name == "Logs").click()
        check_harmless(tab)
    events = tab.locator(".eventlist .event")
    tab.get_by_role("tablist", name="Where").get_by_role("tab", name="Events").click()
    events.filter(has_text="workflow failed").click()
    expect(tab.locator("pre.trace")).to_contain_text(hostile.SCRIPT)
    check_harmless(tab)


@pytest.mark.full
def test_a_picture_of_a_graph_has_harmful_names_as_texts(tab: Any, failed: str) -> None:
    tab.goto(f"/ui/runs/{failed}")
    tab.locator("#graph .node").first.wait_for()
    tab.get_by_role("button", name="More").click()
    with tab.expect_download() as download:
        tab.get_by_role("button", name="Graph as a picture").click()
    elements = list(ElementTree.fromstring(download.value.path().read_text()).iter())
    assert {element.tag.rpartition("}")[2] for element in elements} <= {"svg", "g", "rect", "path", "text", "circle"}
    assert not any(name.startswith("on") or "href" in name for element in elements for name in element.attrib)


def test_harmful_questions_and_approvals_are_answered_like_others(tab: Any, server: PageServer) -> None:
    run_id = server.start_and_wait(hostile.GRAPH, {"input": hostile.ALL}, "waiting")
    look_at(tab, f"/ui/runs/{run_id}")
    tab.get_by_role("region", name="Inspector").get_by_role("link", name="Answer 1 question").click()
    expect(tab.get_by_label(hostile.IMAGE)).to_have_value(hostile.ALL)
    check_harmless(tab)
    tab.get_by_role("button", name="Send the answer").click()
    tab.get_by_text("Answered.").wait_for()
    server.wait_of(run_id, "approve")
    tab.goto(f"/ui/runs/{run_id}")
    tab.get_by_role("button", name="Answer 1 question").click()
    content = tab.get_by_label(hostile.IMAGE)
    expect(content).to_have_value(hostile.ALL)
    content.fill(f"{hostile.ALL} {hostile.SCRIPT}")
    tab.get_by_role("button", name="show changes").click()
    expect(tab.locator(".shown ins").first).to_be_visible()
    check_harmless(tab)
    tab.get_by_label("Your name").fill(hostile.SCRIPT)
    tab.get_by_role("button", name="Approve with changes").click()
    tab.get_by_text("Answered.").wait_for()
    server.wait_for(run_id, "failed")
    look_at(tab, "/ui/inbox?decided=1")


@pytest.mark.full
def test_a_thread_shows_harmful_texts_as_texts(tab: Any, failed: str) -> None:
    look_at(tab, f"/ui/threads/{failed}", hostile.NODE)
    for node in tab.get_by_role("treeitem").all():
        node.click()
        check_harmless(tab)
    tab.keyboard.press("a")
    tab.get_by_role("treeitem").first.click()
    tab.keyboard.press("b")
    tab.locator(".versus").wait_for()
    check_harmless(tab)


def test_texts_that_change_the_direction_of_writing_change_no_text_beside_them(tab: Any, failed: str) -> None:
    tab.goto(f"/ui/runs/{failed}?tab=logs&step={quote(hostile.NODE)}")
    line = tab.locator(".inspect .log").first
    line.wait_for()
    styles = line.locator("> *").evaluate_all("found => found.map((each) => getComputedStyle(each).unicodeBidi)")
    assert set(styles) <= {"isolate", "plaintext"}
