"""One run: its graph, waterfall, events and inspector, and what can be done to it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.page.browser import expect
from tests.page.gates import Gate
from tests.page.page_server import PageServer
from tests.page.seeds import Seeds


def node(tab: Any, name: str) -> Any:
    return tab.locator(f'#graph [data-node="{name}"]')


def inspector(tab: Any) -> Any:
    return tab.get_by_role("region", name="Inspector")


def open_run(tab: Any, run_id: str, query: str = "") -> None:
    tab.goto(f"/ui/runs/{run_id}{query}")
    tab.locator("#graph .node").first.wait_for()


# -- the graph


def test_the_graph_shows_the_state_of_each_node(tab: Any, seeds: Seeds) -> None:
    open_run(tab, seeds.failed)
    expect(node(tab, "reserve").get_by_role("img")).to_have_accessible_name("done")
    expect(node(tab, "charge").get_by_role("img")).to_have_accessible_name("failed")
    expect(node(tab, "charge")).to_contain_text("3 attempts")
    expect(node(tab, "charge")).to_contain_text("GatewayTimeout")
    expect(node(tab, "thank").get_by_role("img")).to_have_accessible_name("queued")
    expect(node(tab, "charge")).to_have_attribute("aria-selected", "true")  # it is what needs a look
    expect(tab.locator(".title")).to_contain_text("Failed at charge after 3 attempts")


@pytest.mark.full
def test_a_loop_is_one_node_with_its_visits_and_an_edge_that_says_how_often_it_was_taken(
    tab: Any, seeds: Seeds
) -> None:
    open_run(tab, seeds.completed)
    expect(tab.locator("#graph .node")).to_have_count(3)
    expect(node(tab, "write")).to_contain_text("3 visits")
    expect(node(tab, "check")).to_contain_text("3 visits")
    expect(tab.locator("#graph .elabel")).to_have_text(["2 times"])
    tab.keyboard.press("k")
    expect(inspector(tab)).to_contain_text("Superstep 6 · visit 3")


def test_a_fan_out_of_a_thousand_is_one_node_that_counts_while_it_is_watched(
    tab: Any, server: PageServer, gate: Gate
) -> None:
    run_id = server.start("migration", {"count": 1000, "gate": gate.name})
    open_run(tab, run_id)
    expect(node(tab, "move")).to_contain_text("10 now · 990 waiting")  # the node runs ten at a time
    expect(node(tab, "move")).to_have_count(1)
    expect(node(tab, "move")).to_contain_text("×1\u202f000")
    gate.open(400)
    expect(node(tab, "move")).to_contain_text("400 done · 10 now · 590 waiting")
    expect(tab.locator(".title")).to_contain_text("Running · 400 of 1\u202f000 move")
    node(tab, "move").click()
    expect(inspector(tab).get_by_role("img", name="400 done, 10 now")).to_be_visible()
    expect(inspector(tab).locator(".taskline").filter(has=tab.get_by_role("img", name="running"))).to_have_count(10)
    assert inspector(tab).locator(".taskline").count() <= 60
    assert tab.locator("#graph .node").count() == 3
    gate.open()
    expect(node(tab, "move")).to_contain_text("1\u202f000 done")
    expect(node(tab, "verify").get_by_role("img")).to_have_accessible_name("done")
    expect(tab.locator(".title")).to_contain_text("Done")
    assert tab.evaluate("performance.getEntriesByType('navigation').length") == 1
    count = server.server.client.get(f"/api/v1/workflow-runs/{run_id}/events?pageSize=1").json()["meta"]["total"]
    expect(tab.get_by_role("tab", name="Events")).to_have_text(f"Events{count:,}".replace(",", "\u202f"))


def test_a_subgraph_opens_in_place_and_stays_open_after_a_reload(tab: Any, seeds: Seeds) -> None:
    open_run(tab, seeds.nested)
    assert node(tab, "assess/weigh_risks").count() == 0
    tab.get_by_role("button", name="Open assess").click()
    node(tab, "assess/weigh_risks").wait_for()
    tab.reload()
    node(tab, "assess/weigh_risks").wait_for()
    tab.get_by_role("button", name="Close assess").click()
    expect(node(tab, "assess/weigh_risks")).to_have_count(0)
    node(tab, "assess").wait_for()


@pytest.mark.full
def test_the_agents_of_a_network_are_drawn_apart(tab: Any, seeds: Seeds) -> None:
    open_run(tab, seeds.network)
    for agent in ("Clerk", "Editor"):
        expect(tab.locator("#graph .node").filter(has_text=agent).first.get_by_role("img")).to_have_accessible_name(
            "done"
        )


@pytest.mark.full
def test_a_step_that_asks_leads_to_its_question(tab: Any, seeds: Seeds) -> None:
    open_run(tab, seeds.asking)
    expect(node(tab, "ask_window")).to_contain_text("asks a person")
    expect(tab.locator(".title")).to_contain_text("Waiting · one question is open")
    inspector(tab).get_by_role("link", name="Answer 1 question").click()
    tab.get_by_role("heading", name="When may search be down?").wait_for()
    tab.go_back()
    node(tab, "ask_window").wait_for()


# -- the waterfall and the events


def test_the_waterfall_shows_the_queue_and_each_attempt_with_its_back_off(tab: Any, seeds: Seeds) -> None:
    open_run(tab, seeds.failed)
    fall = tab.get_by_role("region", name="Waterfall")
    expect(fall.locator(".fr .lab")).to_have_text(
        ["reserve", "charge 3 tries", "attempt 1", "attempt 2", "attempt 3", "thank"], use_inner_text=True
    )
    charge = fall.locator(".fr").filter(has_text="3 tries")
    expect(charge.locator(".w-fail")).to_have_count(3)
    expect(charge.locator(".w-back")).to_have_count(2)
    expect(fall.locator(".fr").first.locator(".w-queue")).to_have_count(1)
    fall.locator(".fr").first.click()
    expect(inspector(tab).get_by_role("heading", name="reserve")).to_be_visible()


@pytest.mark.full
def test_the_waterfall_shows_the_calls_of_models_and_tools(tab: Any, seeds: Seeds) -> None:
    open_run(tab, seeds.network)
    fall = tab.get_by_role("region", name="Waterfall")
    fall.get_by_role("button", name="Calls").click()
    expect(fall.locator(".fr.in1").filter(has_text="look_up")).to_contain_text("tool")
    expect(fall.locator(".fr.in1").filter(has_text="model").first).to_be_visible()


def test_every_event_is_listed_with_its_payload(tab: Any, server: PageServer, seeds: Seeds) -> None:
    open_run(tab, seeds.failed)
    tab.get_by_role("tab", name="Events").click()
    events = tab.locator(".eventlist .event")
    total = server.server.client.get(f"/api/v1/workflow-runs/{seeds.failed}/events").json()["meta"]["total"]
    expect(events).to_have_count(total)
    assert events.locator(".n").all_inner_texts() == [str(number) for number in range(1, total + 1)]
    tab.reload()
    events.filter(has_text="retry scheduled").first.click()
    expect(tab.locator("pre.trace")).to_contain_text('"attempt": 2')


# -- the inspector


def test_the_inspector_shows_what_a_step_has_changed_in_the_state(tab: Any, seeds: Seeds) -> None:
    open_run(tab, seeds.completed, "?step=write.3&tab=diff")
    drafts = inspector(tab).locator(".dk").filter(has=tab.locator("code", has_text="drafts"))
    expect(drafts.locator(".dl.add")).to_contain_text('"draft 2"')
    expect(drafts).to_contain_text("list, appended, 1 → 2")
    text = inspector(tab).locator(".dk").filter(has=tab.locator("code", has_text="text"))
    expect(text.locator("del")).to_have_text("1")
    expect(text.locator("ins")).to_have_text("2")
    assert inspector(tab).locator(".dk").count() == 2  # what is as before is folded
    inspector(tab).get_by_role("button", name="All").click()
    expect(inspector(tab).locator(".dk").filter(has_text="subject")).to_contain_text("spring")


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("run", "step", "name", "texts"),
    [
        ("completed", "write.1", "Input", ["subject", "spring"]),
        ("completed", "write.1", "Output", ["drafts", "draft 1"]),
        ("completed", "write.1", "Logs", ["INFO", "writing draft 1", "STDOUT", "draft 1 of spring"]),
        ("failed", "charge", "Error", ["GatewayTimeout", "payments.example gave no answer within 5 s", "reserved"]),
        ("network", "Clerk", "Output", ["Model calls", "1\u202f200 in, 80 out", "$0.02"]),
    ],
)
def test_the_inspector_has_a_tab_for_each_question_about_a_step(
    tab: Any, seeds: Seeds, run: str, step: str, name: str, texts: list[str]
) -> None:
    if run == "network":
        open_run(tab, seeds.network)
        tab.locator("#graph .node").filter(has_text=step).first.click()
    else:
        open_run(tab, getattr(seeds, run), f"?step={step}")
    inspector(tab).get_by_role("tab", name=name).click()
    for text in texts:
        expect(inspector(tab).get_by_role("tabpanel")).to_contain_text(text)
    address = tab.url
    tab.reload()
    expect(inspector(tab).get_by_role("tab", name=name)).to_have_attribute("aria-selected", "true")
    assert tab.url == address


@pytest.mark.full
def test_the_error_tab_lists_the_attempts_behind_an_error(tab: Any, seeds: Seeds) -> None:
    open_run(tab, seeds.failed)
    attempts = inspector(tab).locator(".att")
    expect(attempts).to_have_count(3)
    expect(attempts.locator(".n")).to_have_text(["1", "2", "3"])
    expect(attempts.last).to_contain_text("payments.example gave no answer within 5 s")


def test_messages_are_a_conversation_with_folded_tool_calls(tab: Any, seeds: Seeds) -> None:
    open_run(tab, seeds.network, "?tab=messages")
    tab.locator("#graph .node").filter(has_text="Clerk").first.click()
    said = inspector(tab).locator(".say.assistant").filter(has_text="Let me look.")
    expect(said.locator(".from")).to_have_text("Clerk")
    call = said.locator("details.tool")
    expect(call.locator("summary")).to_contain_text("look_up")
    expect(call.locator("pre").last).to_be_hidden()
    call.locator("summary").click()
    expect(call.locator("pre").last).to_contain_text("order 17 is on its way")


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("run", "step", "line"),
    [
        ("completed", "check", "def check(state: Letter) -> Letter:"),
        ("yaml", "note", "- {id: note, tool_id: clock, next: {state_id: end}}"),
        ("steps", "agree", '"name": "agree",'),
    ],
)
def test_the_definition_stands_beside_the_graph_with_the_line_of_the_chosen_node(
    tab: Any, seeds: Seeds, run: str, step: str, line: str
) -> None:
    open_run(tab, getattr(seeds, run), "?view=definition")
    node(tab, step).click()
    expect(tab.locator(".code .here span")).to_have_text(line)
    expect(tab.locator(".code .here")).to_be_in_viewport()


def test_the_keyboard_steps_through_a_run_and_its_tabs(tab: Any, seeds: Seeds) -> None:
    open_run(tab, seeds.completed, "?step=write.1")
    heading = inspector(tab).get_by_role("heading", level=2)
    tab.keyboard.press("j")
    expect(heading).to_have_text("check")
    tab.keyboard.press("k")
    expect(heading).to_have_text("write")
    tab.keyboard.press("3")
    expect(inspector(tab).get_by_role("tab", selected=True)).to_have_text("Output")
    tab.keyboard.press("w")
    expect(tab.locator(".runview")).to_have_class("runview pane-graph wide")
    tab.keyboard.press("Escape")
    expect(tab.locator(".runview")).to_have_class("runview pane-graph")
    node(tab, "write").focus()
    tab.keyboard.press("ArrowDown")
    expect(heading).to_have_text("check")
    tab.keyboard.press("Escape")
    tab.wait_for_url(lambda url: url.endswith("/ui/runs"))


# -- actions


def test_a_run_that_failed_is_repaired_from_the_page(tab: Any, server: PageServer, gate: Gate) -> None:
    run_id = server.start_and_wait("payment", {"gate": gate.name})
    open_run(tab, run_id)
    gate.open()
    tab.get_by_role("button", name="Retry from charge").click()
    tab.get_by_text("The run tries again.").wait_for()
    expect(node(tab, "thank").get_by_role("img")).to_have_accessible_name("done")
    expect(tab.locator(".title")).to_contain_text("Done")
    steps = [step["stepName"] for step in server.run(run_id)["stepRuns"]]
    assert steps.count("reserve") == 1


def test_a_retry_that_takes_a_while_is_followed_to_its_end(tab: Any, server: PageServer, gate: Gate) -> None:
    run_id = server.start_and_wait("slow-repair", {"gate": gate.name})
    open_run(tab, run_id)
    expect(tab.locator(".title")).to_contain_text("Failed")
    gate.open(1)
    tab.get_by_role("button", name="Retry from mend").click()
    expect(tab.locator(".title")).to_contain_text("Running")
    gate.open(2)
    expect(tab.locator(".title")).to_contain_text("Done")


@pytest.mark.full
def test_a_run_is_paused_and_continued(tab: Any, server: PageServer, gate: Gate) -> None:
    run_id = server.start("migration", {"count": 2, "gate": gate.name})
    open_run(tab, run_id)
    expect(node(tab, "move")).to_contain_text("2 now")
    tab.get_by_role("button", name="Pause").click()
    tab.get_by_text("The run pauses after its current step.").wait_for()
    gate.open()
    expect(tab.locator(".title")).to_contain_text("Paused")
    tab.get_by_role("button", name="Continue").click()
    expect(tab.locator(".title")).to_contain_text("Done")


@pytest.mark.full
def test_a_run_is_cancelled_after_being_asked_once_more(tab: Any, server: PageServer) -> None:
    run_id = server.start_and_wait("delivery")
    open_run(tab, run_id)
    tab.get_by_role("button", name="Cancel").click()
    tab.get_by_role("button", name="Really cancel?").click()
    expect(tab.locator(".title")).to_contain_text("Cancelled")
    assert server.run(run_id)["status"] == "cancelled"
    expect(tab.get_by_role("link", name="Run again")).to_be_visible()


@pytest.mark.full
def test_a_run_is_repeated_with_another_input(tab: Any, server: PageServer, seeds: Seeds) -> None:
    open_run(tab, seeds.completed)
    tab.get_by_role("link", name="Run again").click()
    subject = tab.get_by_label("subject")
    expect(subject).to_have_value("spring")
    subject.fill("summer")
    tab.get_by_role("button", name="Start").click()
    tab.get_by_role("link", name="Open run").click()
    expect(tab.locator(".title")).to_contain_text("Done")
    run_id = tab.url.partition("/runs/")[2].partition("?")[0]
    assert server.run(run_id)["input"]["subject"] == "summer"


@pytest.mark.full
def test_a_run_is_exported_as_json_and_its_graph_as_a_picture(tab: Any, seeds: Seeds) -> None:
    open_run(tab, seeds.failed)
    tab.get_by_role("button", name="More").click()
    with tab.expect_download() as download:
        tab.get_by_role("button", name="Export as JSON").click()
    exported = json.loads(download.value.path().read_text())
    assert exported["run"]["id"] == seeds.failed
    assert [step["stepName"] for step in exported["steps"]] == ["reserve", "charge"]
    assert [event["seq"] for event in exported["events"]] == list(range(1, len(exported["events"]) + 1))
    tab.get_by_role("button", name="More").click()
    with tab.expect_download() as download:
        tab.get_by_role("button", name="Graph as a picture").click()
    picture = download.value.path().read_text()
    assert download.value.suggested_filename == "payment.svg"
    assert "GatewayTimeout" in picture
    assert "<script" not in picture
