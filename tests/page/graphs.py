"""The graphs that the server of these tests serves: one for each thing that the page shows in a way of its own."""

from __future__ import annotations

import logging
import operator
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict

from pydantic import BaseModel, Field
from tests.page import hostile
from tests.page.gates import Gates

from statewright import (
    END,
    START,
    RetryPolicy,
    Send,
    StateGraph,
    append,
    interrupt,
    request_approval,
    sleep,
    wait_for_event,
)
from statewright.agents import Agent, Network, tool
from statewright.messages import Message, ToolCall
from statewright.models import ModelRequest, ModelResponse, ScriptedModel, Usage
from statewright.project import Project
from statewright.service import Catalog
from statewright.workflow.steps import Handlers

logger = logging.getLogger("letters")


# -- a loop


class Letter(TypedDict, total=False):
    subject: str
    text: str
    drafts: Annotated[list[str], append]
    checked: int
    sent: bool


def write(state: Letter) -> Letter:
    number = len(state.get("drafts", [])) + 1
    logger.info("writing draft %d", number)
    print(f"draft {number} of {state.get('subject')}")
    return {"text": f"Dear reader, this is draft {number} of {state.get('subject')}.", "drafts": [f"draft {number}"]}


def check(state: Letter) -> Letter:
    logger.warning("checked %s", state["text"])
    return {"checked": len(state["drafts"])}


def decide(state: Letter) -> Literal["write", "post"]:
    return "write" if state["checked"] < 3 else "post"


def post(state: Letter) -> Letter:
    return {"sent": True}


def letter() -> StateGraph:
    graph = StateGraph(Letter, name="letter").add_node(write).add_node(check).add_node(post)
    graph.add_edge(START, "write").add_edge("write", "check")
    graph.add_conditional_edges("check", decide, ["write", "post"])
    return graph.add_edge("post", END)


# -- what waits


class Window(BaseModel):
    """When the service is down."""

    starts: str = Field(title="Starts", json_schema_extra={"format": "date-time"})
    minutes: int = Field(30, title="Length", ge=5, le=240, description="Minutes of downtime")
    tell: list[str] = Field(default_factory=list, title="Tell")
    severity: Literal["low", "medium", "high"] = Field("low", title="Severity")
    freeze: bool = Field(False, title="Freeze deployments")


class Maintenance(TypedDict, total=False):
    service: str
    window: dict[str, Any]
    booked: str


def ask_window(state: Maintenance) -> Maintenance:
    question = {"prompt": f"When may {state.get('service')} be down?", "service": state.get("service")}
    window = interrupt(question, schema=Window)
    return {"window": window.model_dump()}


def book(state: Maintenance) -> Maintenance:
    return {"booked": f"{state['window']['minutes']} minutes"}


def maintenance() -> StateGraph:
    graph = StateGraph(Maintenance, name="maintenance").add_node(ask_window).add_node(book)
    return graph.add_edge(START, "ask_window").add_edge("ask_window", "book")


class Release(TypedDict, total=False):
    notes: str
    verdict: str
    published: str


def agree(state: Release) -> Release:
    decision = request_approval(state.get("notes", ""), prompt="Publish these notes?", content_key="notes")
    return {"notes": decision.content, "verdict": decision.verdict}


def publish(state: Release) -> Release:
    return {"published": state["notes"]}


def release() -> StateGraph:
    graph = StateGraph(Release, name="release").add_node(agree).add_node(publish)
    return graph.add_edge(START, "agree").add_edge("agree", "publish")


class Delivery(TypedDict, total=False):
    parcel: str
    receipt: Any


def wait_for_receipt(state: Delivery) -> Delivery:
    return {"receipt": wait_for_event("parcel_received")}


def nap(state: Delivery) -> Delivery:
    sleep(timedelta(days=1))
    return {}


def delivery() -> StateGraph:
    return StateGraph(Delivery, name="delivery").add_node(wait_for_receipt).add_edge(START, "wait_for_receipt")


def nightly() -> StateGraph:
    return StateGraph(Delivery, name="nightly").add_node(nap).add_edge(START, "nap")


# -- attempts, and a repair


class GatewayTimeout(ConnectionError):
    """The service of payments gave no answer."""


class Payment(TypedDict, total=False):
    order: int
    amount: float
    gate: str
    reserved: bool
    paid: bool


def payment(gates: Gates) -> StateGraph:
    """A graph that fails at its second node after three attempts, unless the door of the run is open."""

    def reserve(state: Payment) -> Payment:
        return {"reserved": True}

    def charge(state: Payment) -> Payment:
        if not gates.is_open(state.get("gate", "")):
            raise GatewayTimeout("payments.example gave no answer within 5 s")
        return {"paid": True}

    def thank(state: Payment) -> Payment:
        return {}

    policy = RetryPolicy(max_attempts=3, initial_interval=0.05, jitter=False)
    graph = StateGraph(Payment, name="payment").add_node(reserve).add_node("charge", charge, retry_policy=policy)
    graph.add_node(thank).add_edge(START, "reserve").add_edge("reserve", "charge").add_edge("charge", "thank")
    return graph


def slow_repair(gates: Gates) -> StateGraph:
    """A graph that fails unless the door of the run is open; the second through the door is let through later."""

    async def mend(state: Payment) -> Payment:
        if not gates.is_open(state["gate"], 0):
            raise GatewayTimeout("payments.example gave no answer within 5 s")
        await gates.pass_through(state["gate"], 1)
        return {"paid": True}

    return StateGraph(Payment, name="slow-repair").add_node(mend).add_edge(START, "mend")


# -- a fan-out, and a subgraph


class Migration(TypedDict, total=False):
    count: int
    gate: str
    tables: list[str]
    moved: Annotated[int, operator.add]
    verified: bool


class Table(TypedDict):
    number: int
    gate: str


def list_tables(state: Migration) -> Migration:
    return {"tables": [f"table {number}" for number in range(state.get("count", 0))]}


def send_tables(state: Migration) -> list[Send]:
    return [Send("move", Table(number=number, gate=state.get("gate", ""))) for number in range(state["count"])]


def verify(state: Migration) -> Migration:
    return {"verified": state["moved"] == state["count"]}


def migration(gates: Gates) -> StateGraph:
    """A graph that moves `count` tables at once, ten at a time, each of which passes through the door of the run."""

    async def move(table: Table) -> Migration:
        await gates.pass_through(table["gate"], table["number"])
        return {"moved": 1}

    graph = StateGraph(Migration, name="migration").add_node(list_tables)
    graph.add_node("move", move, max_concurrency=10).add_node(verify)
    graph.add_edge(START, "list_tables").add_conditional_edges("list_tables", send_tables, ["move"])
    return graph.add_edge("move", "verify")


class Estate(TypedDict, total=False):
    risk: int
    plan: str


def count_risks(state: Estate) -> Estate:
    return {"risk": 3}


def weigh_risks(state: Estate) -> Estate:
    return {"risk": state["risk"] * 2}


def make_plan(state: Estate) -> Estate:
    return {"plan": f"careful, because the risk is {state['risk']}"}


def estate() -> StateGraph:
    inner = StateGraph(Estate, name="assess").add_node(count_risks).add_node(weigh_risks)
    inner.add_edge(START, "count_risks").add_edge("count_risks", "weigh_risks")
    graph = StateGraph(Estate, name="estate").add_node("assess", inner.compile()).add_node(make_plan)
    return graph.add_edge(START, "assess").add_edge("assess", "make_plan")


# -- agents


@tool
def look_up(order: int) -> str:
    """Look up an order."""
    return f"order {order} is on its way"


def respond(message: Message) -> ModelResponse:
    return ModelResponse(message, Usage(input_tokens=1200, output_tokens=80, cost=0.02))


def answer_as_clerk(request: ModelRequest) -> ModelResponse:
    """Call the tool once, then say what it has returned."""
    last = request.messages[-1]
    if last.role == "tool":
        return respond(Message(f"I found it: {last.text}.", role="assistant"))
    call = ToolCall("call_1", "look_up", {"order": 17})
    return respond(Message("Let me look.", role="assistant", tool_calls=(call,)))


def answer_as_editor(request: ModelRequest) -> ModelResponse:
    return respond(Message("Your order is on its way, and should arrive tomorrow.", role="assistant"))


def desk() -> Network[Any]:
    clerk = Agent("Clerk", system="You look up orders.", model=ScriptedModel(answer_as_clerk), tools=[look_up])
    editor = Agent("Editor", system="You answer kindly.", model=ScriptedModel(answer_as_editor))

    def choose(call_count: int) -> Agent | None:
        return (clerk, editor, None)[min(call_count, 2)]

    return Network("desk", agents=[clerk, editor], router=choose)


@tool(approve=True)
def refund(order: int) -> str:
    """Refund an order."""
    return f"order {order} is refunded"


def answer_about_refunds(request: ModelRequest) -> ModelResponse:
    """Call the tool once, then say that it is done."""
    if request.messages[-1].role == "tool":
        return respond(Message("I have refunded it.", role="assistant"))
    call = ToolCall("call_1", "refund", {"order": 87214})
    return respond(Message("I refund it.", role="assistant", tool_calls=(call,)))


def clerk() -> Agent:
    """An agent that asks before it calls its tool."""
    return Agent("clerk", system="You refund.", model=ScriptedModel(answer_about_refunds), tools=[refund], max_iter=3)


def parrot(request: ModelRequest) -> ModelResponse:
    said = [message.text for message in request.messages if message.role == "user"]
    return respond(Message(f"You said: {said[-1]} ({len(said)})", role="assistant"))


# -- forms, YAML, steps in JSON


class Registration(BaseModel):
    """A person who registers for a course."""

    name: str = Field(title="Name", min_length=2, description="As it stands on the certificate")
    seats: int = Field(1, title="Seats", ge=1, le=8)
    level: Literal["beginner", "expert"] = Field("beginner", title="Level")
    email: str | None = Field(None, title="Email", json_schema_extra={"format": "email"})
    topics: list[str] = Field(default_factory=list, title="Topics")
    remote: bool = Field(False, title="Takes part from afar")


class Registered(TypedDict, total=False):
    name: str
    seats: int
    level: str
    email: str | None
    topics: list[str]
    remote: bool
    confirmation: str


def confirm(state: Registered) -> Registered:
    return {"confirmation": f"{state['seats']} for {state['name']}"}


def registration() -> StateGraph:
    graph = StateGraph(Registered, name="registration", input_schema=Registration)
    return graph.add_node(confirm).add_edge(START, "confirm")


# -- nested inputs


class Card(BaseModel):
    """A card that is charged."""

    kind: Literal["card"] = "card"
    digits: str = Field(pattern=r"^\d{4}$")


class Invoice(BaseModel):
    """A letter with a bill."""

    kind: Literal["invoice"] = "invoice"
    email: str = Field(json_schema_extra={"format": "email"})


class Line(BaseModel):
    """So many of one article."""

    sku: str
    count: int = Field(1, ge=1)


class Address(BaseModel):
    """A place of delivery."""

    city: str


class Order(BaseModel):
    """What a customer wants."""

    customer: str
    lines: list[Line] = Field(min_length=1)
    payment: Card | Invoice = Field(discriminator="kind")
    ship_to: Address | None = None
    labels: dict[str, int] = Field(default_factory=dict[str, int])
    options: list[Literal["gift", "express"]] = Field(default_factory=list)
    subscribed: bool | None = None


def accept(state: Any) -> dict[str, Any]:
    return {}


def order() -> StateGraph:
    return StateGraph(Order, name="order").add_node(accept).add_edge(START, "accept")


FLOW = """name: flow
tools:
- {id: clock, tool: tell_time}
states:
- id: look
  tool_id: clock
  next: {state_id: note}
- {id: note, tool_id: clock, next: {state_id: end}}
"""


def tell_time() -> str:
    """Tell the time, which has stopped."""
    return "12:00"


ONBOARDING: dict[str, Any] = {
    "name": "onboarding",
    "version": "1",
    "steps": [
        {"type": "task", "name": "greet", "handler": "greet"},
        {"type": "approval", "name": "agree", "contentKey": "greeting", "prompt": "Send this greeting?"},
    ],
}


def greet(context: Any) -> dict[str, Any]:
    return {"status": "completed", "stateUpdates": {"greeting": "Welcome, and make yourself at home."}}


def catalog(gates: Gates) -> Catalog:
    project = Project(Path(__file__).parent, functions={"tell_time": f"{__name__}:tell_time"})
    served = Catalog(handlers=Handlers({"greet": greet}), project=project)
    for graph in (letter, maintenance, release, delivery, nightly, estate, registration, order):
        served.serve(graph.__name__, graph())
    served.serve("payment", payment(gates))
    served.serve("slow-repair", slow_repair(gates))
    served.serve("migration", migration(gates), description="Moves tables, ten at a time.")
    served.serve("desk", desk())
    served.serve("clerk", clerk())
    served.serve("parrot", Agent("parrot", system="You repeat.", model=ScriptedModel(parrot)))
    served.serve_states(FLOW, name="flow")
    served.serve_steps(ONBOARDING)
    served.serve(hostile.GRAPH, hostile.hostile(), description=hostile.ALL)
    return served
