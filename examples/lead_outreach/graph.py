"""The workflow as a graph in Python: look up a lead, draft an email, wait for approval, send it."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, TypedDict

from office import look_up, mailbox, prompt, writer

from statewright import END, START, Runtime, StateGraph, request_approval
from statewright.agents import ask
from statewright.messages import Message
from statewright.models import ChatModel, ModelRequest

SYSTEM = "You write for a small company that sells software for invoices."


class Lead(TypedDict):
    """The input."""

    lead_email: str


class Outreach(TypedDict):
    """The output."""

    lead_name: str
    company: str
    email_draft: str
    sent_at: str
    message_id: str


class State(Lead, Outreach): ...


class Rejected(Exception):
    """The email was rejected, which ends the run."""

    code = "APPROVAL_REJECTED"


def enrich_lead(state: State) -> dict[str, Any]:
    lead = look_up(state["lead_email"])
    return {"lead_name": lead.name, "company": lead.company}


def review_draft(state: State) -> dict[str, Any]:
    decision = request_approval(
        state["email_draft"], prompt=f"Send this to {state['lead_name']}?", content_key="email_draft"
    )
    if not decision.is_approved:
        raise Rejected(f"The email was {decision.verdict} by {decision.decided_by or 'somebody'}.")
    return {"email_draft": decision.content}


def send_email(state: State, runtime: Runtime[Any]) -> dict[str, Any]:
    letter = mailbox().send(runtime.idempotency_key, state["lead_email"], state["email_draft"])
    return {"sent_at": letter.sent_at, "message_id": letter.id}


def make_graph(model: ChatModel) -> StateGraph:
    """Return the graph, with a model that drafts the emails."""

    async def draft_email(state: State, runtime: Runtime[Any]) -> dict[str, Any]:
        question = prompt(state["lead_name"], state["company"], state["lead_email"])
        response = await ask(model, ModelRequest([Message(question)], system=SYSTEM), runtime)
        return {"email_draft": response.text}

    graph = StateGraph(State, input_schema=Lead, output_schema=Outreach, name="outreach")
    graph.add_node("enrich_lead", enrich_lead)
    graph.add_node("draft_email", draft_email)
    graph.add_node("review_draft", review_draft)
    graph.add_node("send_email", send_email)
    steps = [START, "enrich_lead", "draft_email", "review_draft", "send_email", END]
    for before, after in pairwise(steps):
        graph.add_edge(before, after)
    return graph


graph = make_graph(writer)
