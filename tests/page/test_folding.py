"""What can be opened and arranged: chains of large graphs, subgraphs, the inspector, the columns of the list."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest
from tests.page.browser import NARROW, expect
from tests.page.page_server import PageServer
from tests.page.seeds import Seeds


def node(tab: Any, name: str) -> Any:
    return tab.locator(f'#graph [data-node="{name}"]')


def glyph(tab: Any, name: str) -> Any:
    return node(tab, name).get_by_role("img")


def inspector(tab: Any) -> Any:
    return tab.get_by_role("region", name="Inspector")


def open_run(tab: Any, run_id: str, query: str = "") -> None:
    tab.goto(f"/ui/runs/{run_id}{query}")
    tab.locator("#graph .node").first.wait_for()


# -- chains of a large graph


@pytest.fixture(scope="module")
def long_run(server: PageServer) -> str:
    """A run of 40 steps, a wait, and 30 more steps, which waits."""
    steps = [{"type": "task", "name": f"load-{number}", "handler": "greet"} for number in range(70)]
    steps.insert(40, {"type": "external_event", "name": "look", "signalType": "go"})
    body = {"name": f"long-{uuid4().hex[:8]}", "version": "1", "steps": steps}
    definition_id = server.call("POST", "/workflow-definitions", body)["id"]
    run_id = server.call("POST", "/workflow-runs", {"definitionId": definition_id, "input": {}})["id"]
    server.wait_for(run_id, "waiting")
    return run_id


@pytest.mark.full
def test_a_long_chain_is_one_node_with_the_status_of_what_needs_a_look(tab: Any, long_run: str) -> None:
    open_run(tab, long_run)
    expect(tab.locator("#graph .node")).to_have_count(1)
    chain = tab.locator("#graph .node")
    expect(chain).to_contain_text("71 steps")
    expect(chain).to_contain_text("40 of 71 done")
    expect(chain).to_contain_text("look")
    expect(chain.get_by_role("img")).to_have_accessible_name("waits")
    expect(chain).to_have_attribute("aria-selected", "true")  # what is chosen is in it


def test_a_chain_is_opened_and_closed_by_keyboard_and_the_address_keeps_it(tab: Any, long_run: str) -> None:
    open_run(tab, long_run)
    chain = tab.locator("#graph .node")
    expect(chain).to_have_attribute("aria-expanded", "false")
    chain.focus()
    tab.keyboard.press("o")
    expect(tab.locator("#graph .node")).to_have_count(71)
    expect(node(tab, "load-0")).to_be_focused()
    expect(glyph(tab, "load-39")).to_have_accessible_name("done")
    expect(glyph(tab, "look")).to_have_accessible_name("waits")
    expect(glyph(tab, "load-40")).to_have_accessible_name("queued")
    tab.reload()
    expect(tab.locator("#graph .node")).to_have_count(71)
    shut = tab.get_by_role("button", name="Close 71 steps")
    shut.focus()
    tab.keyboard.press("Enter")
    expect(tab.locator("#graph .node")).to_have_count(1)
    expect(tab.locator("#graph .node")).to_be_focused()


@pytest.mark.full
def test_steps_that_have_not_run_are_reached_with_the_arrows(tab: Any, server: PageServer) -> None:
    run_id = server.start("maintenance", {"service": "mail"})
    server.wait_for(run_id, "waiting")
    open_run(tab, run_id)
    node(tab, "ask_window").focus()
    tab.keyboard.press("ArrowDown")
    expect(node(tab, "book")).to_be_focused()
    expect(node(tab, "ask_window")).to_have_attribute("aria-selected", "true")
    tab.keyboard.press("ArrowUp")
    expect(node(tab, "ask_window")).to_be_focused()


@pytest.mark.full
def test_a_chain_is_opened_on_a_narrow_screen(new_tab: Any, server: PageServer, long_run: str) -> None:
    with new_tab(server.key, viewport=NARROW) as tab:
        tab.goto(f"/ui/runs/{long_run}")
        expect(tab.locator(".railrow")).to_have_count(1)
        tab.get_by_role("button", name="Open 71 steps").click()
        expect(tab.locator(".railrow")).to_have_count(71)
        tab.get_by_role("button", name="Close 71 steps").click()
        expect(tab.locator(".railrow")).to_have_count(1)


# -- subgraphs and networks


def test_the_steps_inside_a_subgraph_that_is_open_have_their_status(tab: Any, seeds: Seeds) -> None:
    open_run(tab, seeds.nested)
    expect(node(tab, "assess").get_by_role("img")).to_have_accessible_name("done")
    node(tab, "assess").get_by_role("button", name="Open assess").click()
    expect(glyph(tab, "assess/count_risks")).to_have_accessible_name("done")
    expect(glyph(tab, "assess/weigh_risks")).to_have_accessible_name("done")
    expect(tab.locator("#graph .edge.taken")).not_to_have_count(0)
    node(tab, "assess/weigh_risks").click()
    expect(node(tab, "assess/weigh_risks")).to_have_attribute("aria-selected", "true")
    expect(inspector(tab).get_by_role("tab", name="Inside")).to_have_attribute("aria-selected", "true")
    expect(inspector(tab).get_by_role("button", name="weigh_risks")).to_have_attribute("aria-pressed", "true")
    tab.reload()
    expect(node(tab, "assess/weigh_risks")).to_have_attribute("aria-selected", "true")
    inspector(tab).get_by_role("button", name="count_risks").click()
    expect(node(tab, "assess/count_risks")).to_have_attribute("aria-selected", "true")
    tab.get_by_role("button", name="Close assess").click()
    expect(node(tab, "assess")).to_have_attribute("aria-selected", "true")


@pytest.mark.full
def test_the_steps_inside_an_agent_of_a_network_have_their_status(tab: Any, server: PageServer, seeds: Seeds) -> None:
    open_run(tab, seeds.network)
    (opener, *_) = tab.locator("#graph .node .opener").all()
    opener.click()
    expect(tab.locator('#graph [data-node*="/"] .s-completed')).not_to_have_count(0)
    trace = server.call("GET", f"/workflow-runs/{seeds.network}/trace")
    assert any(step["innerSteps"] for step in trace["steps"])


# -- the inspector


def width_of(tab: Any) -> int:
    return round(inspector(tab).bounding_box()["width"])


@pytest.mark.full
def test_the_inspector_is_made_wider_by_dragging_and_stays_so(tab: Any, seeds: Seeds) -> None:
    open_run(tab, seeds.completed)
    line = tab.get_by_role("separator", name="Width of the inspector")
    before = width_of(tab)
    box = line.bounding_box()
    tab.mouse.move(box["x"] + box["width"] / 2, box["y"] + 200)
    tab.mouse.down()
    tab.mouse.move(box["x"] - 96, box["y"] + 210, steps=4)
    tab.mouse.up()
    assert before + 90 <= width_of(tab) <= before + 110
    assert line.get_attribute("aria-valuenow") == str(width_of(tab))
    wide = width_of(tab)
    tab.reload()
    expect(line).to_have_attribute("aria-valuenow", str(wide))
    assert width_of(tab) == wide


@pytest.mark.full
def test_the_inspector_is_made_wider_with_the_keyboard_within_its_limits(tab: Any, seeds: Seeds) -> None:
    open_run(tab, seeds.completed)
    line = tab.get_by_role("separator", name="Width of the inspector")
    line.focus()
    tab.keyboard.press("ArrowLeft")
    expect(line).to_have_attribute("aria-valuenow", "464")
    tab.keyboard.press("Shift+ArrowRight")
    expect(line).to_have_attribute("aria-valuenow", "400")
    assert width_of(tab) == 400
    tab.keyboard.press("Home")
    tab.keyboard.press("ArrowRight")
    expect(line).to_have_attribute("aria-valuenow", str(line.get_attribute("aria-valuemin")))
    tab.keyboard.press("Enter")
    expect(line).to_have_attribute("aria-valuenow", "448")


# -- the columns of the list


def test_columns_are_hidden_and_stay_hidden_in_this_browser(tab: Any, seeds: Seeds) -> None:
    tab.goto("/ui/runs")
    heads = tab.locator("table.runs thead th:visible")
    expect(heads).to_have_count(9)
    tab.get_by_role("button", name="Columns").click()
    expect(tab.get_by_role("checkbox", name="Status")).to_be_focused()
    tab.get_by_role("checkbox", name="Tags").uncheck()
    tab.get_by_role("checkbox", name="Cost").uncheck()
    tab.keyboard.press("Escape")
    expect(tab.get_by_role("button", name="Columns")).to_be_focused()
    expect(heads).to_have_count(7)
    expect(tab.locator("td.c-tags:visible")).to_have_count(0)
    first_row = tab.locator("table.runs tbody tr").first
    assert first_row.locator(".c-dur").bounding_box()["x"] > first_row.locator(".c-start").bounding_box()["x"]
    tab.reload()
    expect(heads).to_have_count(7)
    del seeds


@pytest.mark.full
def test_a_saved_view_has_its_columns(tab: Any, seeds: Seeds) -> None:
    tab.goto("/ui/runs?status=failed")
    heads = tab.locator("table.runs thead th:visible")
    tab.get_by_role("button", name="Columns").click()
    tab.get_by_role("checkbox", name="Run", exact=True).uncheck()
    tab.keyboard.press("Escape")
    tab.get_by_role("button", name="Save view").click()
    tab.get_by_label("Name of the view").fill("Short")
    tab.keyboard.press("Enter")
    tab.get_by_role("button", name="Columns").click()
    tab.get_by_role("checkbox", name="Run", exact=True).check()
    tab.keyboard.press("Escape")
    expect(heads).to_have_count(9)
    tab.get_by_role("link", name="All", exact=True).click()
    tab.get_by_role("link", name="Short").click()
    expect(heads).to_have_count(8)
    assert "hide=run" in tab.url
    expect(tab.get_by_role("link", name="Short")).to_have_attribute("aria-current", "page")
    tab.get_by_role("link", name="All", exact=True).click()
    expect(heads).to_have_count(9)
    del seeds


# -- editing a state


def test_a_list_that_is_appended_to_is_overwritten_by_an_edit_or_merged(tab: Any, server: PageServer) -> None:
    thread = uuid4().hex
    server.start_and_wait("letter", {"subject": "edit"}, threadId=thread)
    tab.goto(f"/ui/threads/{thread}")
    tab.get_by_role("treeitem").first.wait_for()

    def edit(drafts: str, how: str) -> list[str]:
        count = tab.get_by_role("treeitem").count()
        tab.keyboard.press("e")
        area = tab.locator("textarea#state")
        state = area.input_value()
        area.fill(state[: state.index('"drafts"')] + f'"drafts": {drafts}' + state[state.index("]") + 1 :])
        tab.get_by_role("group", name="How drafts is written").get_by_role("button", name=how).click()
        tab.get_by_role("button", name="Save as a new checkpoint").click()
        expect(tab.get_by_role("treeitem")).to_have_count(count + 1)
        return server.call("GET", f"/threads/{thread}/state")["values"]["drafts"]

    assert edit('["only this"]', "Overwrite") == ["only this"]
    assert edit('["and that"]', "Merge") == ["only this", "and that"]
