"""Starting runs from the page: forms, earlier inputs, and the playground."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest
from tests.page.browser import expect
from tests.page.page_server import PageServer
from tests.page.seeds import Seeds


def started_run(tab: Any) -> str:
    """Return the id of the run that the page has started."""
    tab.wait_for_url(lambda url: "run=run_" in url)
    return tab.url.partition("run=")[2].partition("&")[0]


def test_a_run_is_started_with_a_form_from_the_input_schema(tab: Any, server: PageServer) -> None:
    tab.goto("/ui/start/registration")
    tab.get_by_label("Name").fill("A")
    tab.get_by_label("Seats").fill("9")
    tab.get_by_role("button", name="Start").click()
    tab.get_by_text("At least 2 characters").wait_for()
    tab.get_by_text("At most 8").wait_for()
    assert "run=" not in tab.url
    tab.get_by_label("Name").fill("Ann")
    tab.get_by_label("Seats").fill("2")
    tab.get_by_role("button", name="expert").click()
    tab.get_by_label("Topics").press_sequentially("graphs,")
    tab.get_by_label("Takes part from afar").check()
    tab.get_by_role("button", name="Options").click()
    thread = uuid4().hex
    tab.get_by_label("Thread").fill(thread)
    tab.get_by_label("Tags").fill("course, spring")
    tab.keyboard.press("Control+Enter")
    run = server.wait_for(started_run(tab), "completed")
    sent = {"name": "Ann", "seats": 2, "level": "expert", "topics": ["graphs"], "remote": True}
    assert run["input"] == {**run["input"], **sent}
    assert (run["threadId"], run["tags"]) == (thread, ["course", "spring"])
    expect(tab.locator(".chat")).to_contain_text("2 for Ann")


@pytest.mark.full
def test_the_input_can_be_written_as_json(tab: Any, server: PageServer) -> None:
    tab.goto("/ui/start/letter")
    tab.get_by_role("button", name="JSON").click()
    tab.get_by_role("textbox", name="Input").fill('{"subject": "by hand"}')
    tab.get_by_role("button", name="Start").click()
    assert server.wait_for(started_run(tab), "completed")["input"] == {"subject": "by hand"}


@pytest.mark.full
def test_an_input_that_the_server_refuses_is_said_and_nothing_is_started(tab: Any, server: PageServer) -> None:
    before = server.server.client.get("/api/v1/workflow-runs?graph=letter&pageSize=1").json()["meta"]["total"]
    tab.goto("/ui/start/letter")
    tab.get_by_role("button", name="JSON").click()
    tab.get_by_role("textbox", name="Input").fill('{"subjekt": "by hand"}')
    tab.get_by_role("button", name="Start").click()
    tab.get_by_role("alert").filter(has_text="subjekt").wait_for()
    after = server.server.client.get("/api/v1/workflow-runs?graph=letter&pageSize=1").json()["meta"]["total"]
    assert after == before


@pytest.mark.full
def test_the_inputs_of_earlier_runs_fill_the_form(tab: Any, server: PageServer) -> None:
    subject = f"about {uuid4().hex}"
    server.start_and_wait("letter", {"subject": subject})
    tab.goto("/ui/start/letter")
    tab.locator("button.earlier").filter(has_text=subject[:20]).click()
    expect(tab.get_by_label("subject")).to_have_value(subject)


@pytest.mark.full
def test_a_graph_without_messages_shows_its_steps_and_its_output(tab: Any, seeds: Seeds) -> None:
    tab.goto("/ui/start")
    tab.get_by_label("Graph").select_option("estate")
    tab.wait_for_url("**/ui/start/estate")
    tab.get_by_role("button", name="Start").click()
    expect(tab.locator(".chat .taskline .cut")).to_have_text(["assess", "make_plan"])
    expect(tab.locator(".chat")).to_contain_text("careful, because the risk is 6")
    del seeds


def test_the_playground_chats_with_an_agent_on_one_thread(tab: Any, server: PageServer) -> None:
    tab.goto("/ui/start/parrot")
    tab.get_by_label("Message of the user").fill("Good morning")
    tab.get_by_role("button", name="Start").click()
    said = tab.locator(".chat .say")
    expect(said.filter(has_text="You said: Good morning (1)")).to_be_visible()
    first = started_run(tab)
    answer = tab.get_by_role("textbox", name="Write to it")
    answer.fill("Good night")
    answer.press("Enter")
    expect(said.locator("p")).to_have_text(
        ["Good morning", "You said: Good morning (1)", "Good night", "You said: Good night (2)"]
    )
    second = started_run(tab)
    assert second != first
    assert server.run(second)["threadId"] == server.run(first)["threadId"]


def test_the_playground_shows_tool_calls_and_questions_in_place(tab: Any, server: PageServer) -> None:
    tab.goto("/ui/start/desk")
    tab.get_by_label("Message of the user").fill("Where is my order?")
    tab.get_by_role("button", name="Start").click()
    expect(tab.locator(".chat details.tool summary")).to_contain_text("look_up")
    expect(tab.locator(".chat")).to_contain_text("should arrive tomorrow")
    tab.goto("/ui/start/maintenance")
    tab.get_by_label("service").fill("forum")
    tab.get_by_role("button", name="Start").click()
    run_id = started_run(tab)
    question = tab.locator(".question-in").filter(has_text="When may forum be down?")
    question.get_by_role("button", name="Send the answer").click()
    question.get_by_text("This is needed").wait_for()
    question.get_by_label("Starts").fill("2030-05-01T10:00")
    question.get_by_role("button", name="Send the answer").click()
    assert server.wait_for(run_id, "completed")["output"]["booked"] == "30 minutes"
    expect(question).to_have_count(0)


@pytest.mark.full
def test_what_an_agent_says_is_shown_from_its_first_word_on(tab: Any, server: PageServer) -> None:
    tab.goto("/ui/start/parrot")
    tab.get_by_label("Message of the user").fill("Good morning")
    with tab.expect_request(lambda request: request.method == "POST" and "/workflow-runs" in request.url) as started:
        tab.get_by_role("button", name="Start").click()
    assert "live=true" in started.value.url  # the server keeps what is said until the page listens
    expect(tab.locator(".chat .say").filter(has_text="You said: Good morning (1)")).to_be_visible()
    del server


def test_a_call_that_needs_approval_is_allowed_where_it_is_asked(tab: Any, server: PageServer) -> None:
    tab.goto("/ui/start/clerk")
    tab.get_by_label("Message of the user").fill("Refund my order, please")
    tab.get_by_role("button", name="Start").click()
    question = tab.locator(".question-in").filter(has_text="May the tool refund be called?")
    expect(question).to_contain_text("87214")
    question.get_by_role("button", name="Allow once").click()
    expect(tab.locator(".chat")).to_contain_text("I have refunded it.")
    expect(tab.locator(".chat details.tool summary")).to_contain_text("refund")
    server.wait_for(started_run(tab), "completed")


@pytest.mark.full
def test_a_run_is_stopped_where_it_is_watched(tab: Any, server: PageServer) -> None:
    tab.goto("/ui/start/nightly")
    tab.get_by_role("button", name="Start").click()
    run_id = started_run(tab)
    tab.get_by_role("button", name="Stop").click()
    tab.get_by_text("It was stopped.").wait_for()
    assert server.wait_for(run_id)["status"] == "cancelled"


def test_nested_inputs_are_filled_in_and_their_problems_stand_at_their_fields(tab: Any, server: PageServer) -> None:
    tab.goto("/ui/start/order")
    tab.get_by_label("customer").fill("Ann")
    tab.get_by_role("button", name="Add lines").click()
    tab.get_by_label("payment").select_option("Invoice")
    tab.get_by_label("email").fill("nobody")
    tab.keyboard.press("Control+Enter")
    tab.get_by_text("2 fields to correct: lines").wait_for()
    expect(tab.locator("[data-path='lines.0.sku'] .help")).to_have_text("This is needed")
    expect(tab.locator("[data-path='payment.email'] .help")).to_have_text("This has to be an address for email")
    tab.get_by_label("sku").fill("A-1")
    tab.get_by_label("email").fill("ann@example.org")
    tab.get_by_role("button", name="Add labels").click()
    tab.get_by_label("Name 1").fill("boxes")
    tab.get_by_label("Value of boxes").fill("3")
    tab.get_by_label("gift").check()
    tab.get_by_role("button", name="Add ship_to").click()
    tab.get_by_label("city").fill("Lisbon")
    tab.get_by_role("group", name="subscribed").get_by_role("button", name="No").click()
    tab.keyboard.press("Control+Enter")
    run = server.wait_for(started_run(tab), "completed")
    sent = run["input"]
    assert (sent["lines"], sent["payment"]) == (
        [{"sku": "A-1", "count": 1}],
        {"kind": "invoice", "email": "ann@example.org"},
    )
    assert (sent["labels"], sent["options"], sent["ship_to"]["city"], sent["subscribed"]) == (
        {"boxes": 3},
        ["gift"],
        "Lisbon",
        False,
    )
