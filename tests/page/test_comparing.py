"""Two runs side by side: where they part, any two checkpoints, and running again in another version."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest
from tests.page.browser import NARROW, expect
from tests.page.page_server import PageServer
from tests.page.seeds import Seeds

GREET = {"type": "task", "name": "greet", "handler": "greet"}


def store(server: PageServer, name: str, version: str, steps: list[dict[str, Any]]) -> str:
    """Store a version of a workflow, and return its id."""
    return server.call("POST", "/workflow-definitions", {"name": name, "version": version, "steps": steps})["id"]


def run_version(server: PageServer, definition_id: str, value: Any = None) -> str:
    """Run a version to its end, and return the id of the run."""
    run_id = server.call("POST", "/workflow-runs", {"definitionId": definition_id, "input": value or {}})["id"]
    server.wait_for(run_id)
    return run_id


def fork_in_the_road(server: PageServer) -> tuple[str, str]:
    """Run a workflow that goes by land in one run, and by sea in another; return the ids of the runs."""
    steps = [
        GREET,
        {"type": "external_event", "name": "ask", "signalType": "answer"},
        {"type": "condition", "name": "choose", "expression": "land", "trueStep": "drive", "falseStep": "sail"},
        {**GREET, "name": "drive", "next": "arrive"},
        {**GREET, "name": "sail"},
        {**GREET, "name": "arrive"},
    ]
    definition_id = store(server, f"travel-{uuid4().hex[:8]}", "1", steps)
    runs = [run_version(server, definition_id) for _ in range(2)]
    for run_id, land in zip(runs, [True, False], strict=True):
        server.call("POST", f"/workflow-runs/{run_id}/resume", {"signalType": "answer", "payload": {"land": land}})
        server.wait_for(run_id, "completed")
    return runs[0], runs[1]


def compare(tab: Any, a: str, b: str, query: str = "") -> None:
    tab.goto(f"/ui/runs/compare?a={a}&b={b}{query}")
    expect(tab.locator(".versus .pin")).to_have_text(["A", "B"])


def rows(tab: Any) -> Any:
    return tab.get_by_role("option")


def test_the_step_where_two_runs_part_is_marked_and_its_diff_shown(tab: Any, server: PageServer) -> None:
    a, b = fork_in_the_road(server)
    compare(tab, a, b)
    parting = tab.get_by_role("status").filter(has_text="part")
    expect(parting).to_contain_text("They part at ask: it read the same, and returned something else, in land.")
    expect(parting).to_contain_text("Their ways part after choose: A goes to drive, and B to sail.")
    expect(tab.locator(".dk").filter(has_text="land")).to_contain_text("false")
    row = rows(tab).filter(has_text="drive")
    expect(row).to_contain_text("sail")
    expect(row).to_contain_text("the route")
    expect(rows(tab).filter(has_text="arrive")).to_have_count(1)  # where their ways meet again
    marked = tab.get_by_role("option", selected=True)
    expect(marked).to_contain_text("They part here")
    tab.get_by_role("button", name="Show where their ways part").click()
    expect(tab.get_by_role("option", selected=True)).to_contain_text("the route")
    expect(tab.get_by_role("heading", name="drive in A, sail in B")).to_be_visible()
    address = tab.url
    tab.reload()
    expect(tab.get_by_role("option", selected=True)).to_contain_text("the route")
    assert tab.url == address


@pytest.mark.full
def test_the_keyboard_moves_through_the_steps_of_both(tab: Any, server: PageServer) -> None:
    a, b = fork_in_the_road(server)
    compare(tab, a, b)
    selected = tab.get_by_role("option", selected=True)
    expect(selected).to_contain_text("ask")
    tab.keyboard.press("]")
    expect(selected).to_contain_text("choose")  # it has recorded the branch that was taken
    tab.keyboard.press("]")
    expect(selected).to_contain_text("the route")
    tab.keyboard.press("k")
    expect(selected).to_contain_text("choose")
    selected.focus()
    tab.keyboard.press("ArrowDown")
    expect(selected).to_be_focused()
    expect(selected).to_contain_text("the route")
    tab.keyboard.press("s")
    tab.wait_for_url(f"**a={b}&b={a}**")
    expect(tab.get_by_role("status").filter(has_text="part")).to_contain_text("A goes to sail, and B to drive")


@pytest.mark.full
def test_runs_that_did_the_same_say_so(tab: Any, server: PageServer) -> None:
    definition_id = store(server, f"same-{uuid4().hex[:8]}", "1", [GREET])
    compare(tab, run_version(server, definition_id), run_version(server, definition_id))
    expect(tab.get_by_role("status").filter(has_text="took the same way")).to_be_visible()
    expect(rows(tab)).to_contain_text(["alike"])


@pytest.mark.full
def test_the_other_run_is_found_by_typing(tab: Any, server: PageServer, seeds: Seeds) -> None:
    a, b = fork_in_the_road(server)
    tab.goto(f"/ui/runs/{a}")
    tab.get_by_role("button", name="More").click()
    tab.get_by_role("link", name="Compare with another run").click()
    field = tab.get_by_role("combobox", name="Find the run B")
    expect(field).to_be_focused()
    expect(tab.get_by_role("option")).to_have_count(1)  # the other run of this graph, and not the run itself
    field.fill("vip")
    expect(tab.get_by_role("option")).to_contain_text(["letter"])
    field.fill(b)
    expect(tab.get_by_role("option")).to_have_count(1)
    tab.keyboard.press("Enter")
    tab.wait_for_url(f"**a={a}&b={b}**")
    expect(tab.get_by_role("status").filter(has_text="part")).to_be_visible()
    tab.get_by_role("button", name="Other run for A").click()
    expect(tab.get_by_role("combobox")).to_be_focused()
    tab.keyboard.press("Escape")
    expect(tab.get_by_role("combobox")).to_have_count(0)
    del seeds


def test_any_two_checkpoints_of_two_runs_are_compared(tab: Any, server: PageServer, seeds: Seeds) -> None:
    other = server.start_and_wait("letter", {"subject": "summer"})
    compare(tab, seeds.completed, other, "&view=state")
    text = tab.locator(".dk").filter(has_text="subject")
    expect(text).to_contain_text("spring")
    expect(text).to_contain_text("summer")
    expect(tab.locator(".dk").filter(has_text="drafts")).to_have_count(0)  # alike at the end of both
    tab.get_by_label("Checkpoint B").select_option(label=first_label(tab, "write"))
    expect(tab.locator(".dk").filter(has_text="drafts")).to_contain_text("draft 3")
    address = tab.url
    tab.reload()
    expect(tab.locator(".dk").filter(has_text="drafts")).to_contain_text("draft 3")
    assert tab.url == address


def first_label(tab: Any, node: str) -> str:
    """Return the label of the first checkpoint of B that follows a node."""
    tab.get_by_label("Checkpoint B").wait_for()
    labels = tab.get_by_label("Checkpoint B").locator("option").all_inner_texts()
    return next(label for label in labels if node in label)


@pytest.mark.full
def test_a_checkpoint_of_a_thread_is_compared_with_another_run(tab: Any, server: PageServer, seeds: Seeds) -> None:
    other = server.start_and_wait("letter", {"subject": "winter"})
    tab.goto("/ui/threads/letters")
    tab.get_by_role("link", name="Compare with another run").click()
    tab.get_by_role("combobox", name="Find the run B").fill(other)
    expect(tab.get_by_role("option")).to_have_count(1)
    tab.get_by_role("option").click()
    expect(tab.locator(".dk").filter(has_text="subject")).to_contain_text("winter")
    assert f"b={other}" in tab.url
    assert "ac=" in tab.url
    del seeds


def test_a_run_is_run_again_in_another_version_and_compared(tab: Any, server: PageServer) -> None:
    name = f"letter-{uuid4().hex[:8]}"
    first = store(server, name, "1", [GREET])
    run_id = run_version(server, first, {"to": "Ann"})
    store(server, name, "2", [GREET, {**GREET, "name": "sign"}])
    tab.goto(f"/ui/runs/{run_id}")
    tab.get_by_role("link", name="Run again").first.click()
    expect(tab.get_by_text("Again of")).to_be_visible()
    expect(tab.get_by_label("Version").locator("option")).to_have_count(2)
    expect(tab.get_by_label("Version").locator("option").last).to_contain_text("as before")
    tab.get_by_role("button", name="Start", exact=False).last.click()
    tab.get_by_role("link", name="Compare with run_").click()
    expect(tab.get_by_role("status").filter(has_text="part")).to_contain_text("only B goes on to sign")
    expect(tab.locator(".versus")).to_contain_text("version 1")
    expect(tab.locator(".versus")).to_contain_text("version 2")


def test_two_runs_that_are_chosen_in_the_list_are_compared(tab: Any, server: PageServer) -> None:
    a, b = fork_in_the_road(server)
    graph = server.run(a)["graph"]
    tab.goto(f"/ui/runs?graph={graph}")
    for box in range(2):
        tab.get_by_role("checkbox", name="Choose").nth(box).check()
    tab.get_by_role("link", name="Compare these two").click()
    tab.wait_for_url(f"**a={a}&b={b}**")  # the older one first


@pytest.mark.full
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_comparison_fits_a_narrow_screen(new_tab: Any, server: PageServer, scheme: str) -> None:
    a, b = fork_in_the_road(server)
    with new_tab(server.key, viewport=NARROW, color_scheme=scheme) as tab:
        compare(tab, a, b)
        expect(rows(tab).filter(has_text="drive")).to_be_visible()
        assert tab.evaluate("document.documentElement.scrollWidth") == NARROW["width"]
