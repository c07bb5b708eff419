"""The graphs of the pictures, besides those of `examples/`: a payment, a migration, an evaluation, a contract."""

from __future__ import annotations

import logging
import operator
from datetime import timedelta
from typing import Annotated, Any, Literal, TypedDict

from pydantic import BaseModel, Field
from stage_clock import spend

from statewright import END, START, RetryPolicy, Send, StateGraph, append, interrupt, sleep, wait_for_event

log = logging.getLogger("payments")


# -- an order that is paid, or fails


class GatewayTimeout(ConnectionError): ...


class Order(TypedDict, total=False):
    receipt: str
    order_id: int
    amount: float
    currency: Literal["EUR", "USD", "GBP"]
    note: str
    gateway: Literal["up", "down"]
    reserved: list[dict[str, Any]]
    paid: bool


async def reserve_stock(state: Order) -> Order:
    await spend(0.3)
    return {"reserved": [{"sku": "A-1", "count": 2}, {"sku": "B-7", "count": 1}]}


async def price(state: Order) -> Order:
    await spend(0.1)
    return {"amount": state.get("amount") or 129.9}


async def charge_card(state: Order) -> Order:
    log.info("charge order %s, %.2f EUR", state["order_id"], state["amount"])
    if state.get("gateway") == "down":
        await spend(5)
        log.warning("payments.example: no answer in 5 s")
        raise GatewayTimeout("payments.example gave no answer within 5 s")
    await spend(0.6 + state["order_id"] % 7 * 0.4)
    return {"paid": True}


def is_paid(state: Order) -> Literal["paid", "declined"]:
    return "paid" if state.get("paid") else "declined"


async def ship_order(state: Order) -> Order:
    await spend(0.2)
    return {}


async def release_stock(state: Order) -> Order:
    return {"reserved": []}


async def send_receipt(state: Order) -> Order:
    return {"receipt": f"Receipt for order {state['order_id']}: {state['amount']:.2f} EUR"}


order_payment = StateGraph(Order, name="order_payment")
order_payment.add_node("reserve_stock", reserve_stock)
order_payment.add_node("price", price)
order_payment.add_node(
    "charge_card", charge_card, retry_policy=RetryPolicy(max_attempts=5, initial_interval=2, jitter=False)
)
order_payment.add_node("ship_order", ship_order)
order_payment.add_node("release_stock", release_stock)
order_payment.add_node("send_receipt", send_receipt)
order_payment.add_edge(START, "reserve_stock")
order_payment.add_edge("reserve_stock", "price")
order_payment.add_edge("price", "charge_card")
order_payment.add_conditional_edges("charge_card", is_paid, {"paid": "ship_order", "declined": "release_stock"})
order_payment.add_edge("ship_order", "send_receipt")
order_payment.add_edge("send_receipt", END)
order_payment.add_edge("release_stock", END)


# -- a migration: a subgraph, a loop, a fan-out of 1 000, a question, and a step that tries again


class Wave(TypedDict):
    id: int
    tables: int


class Migration(TypedDict, total=False):
    estate: str
    tables: int
    found: list[str]
    risk: float
    strategy: str
    decisions: Annotated[list[dict[str, Any]], append]
    moved: Annotated[list[str], operator.add]
    waves: list[Wave]
    approver: str
    draft_plan: str
    buckets: int
    drift: int


IN_ONE_GO = """\
The ledger is written to all day, and the archive is read by nobody.

Copy the tables of wave 1 in one go, and keep the old cluster readable until all waves are done.

Everything is rehearsed on a copy first."""
IN_PARALLEL = IN_ONE_GO.replace("in one go", "in parallel, the largest ones first").replace(
    "all waves are done", "verify has found no drift"
)


async def discover(state: Migration) -> Migration:
    await spend(4.2)
    found = [f"table_{number:04}" for number in range(state["tables"])]
    return {"found": found, "draft_plan": "Move everything over one weekend and hope", "strategy": IN_ONE_GO}


async def inventory(state: Migration) -> Migration:
    await spend(2.1)
    return {"decisions": [{"wave": 0, "reason": "inventory taken"}]}


async def weigh(state: Migration) -> Migration:
    await spend(2.2)
    risk = 7.4 if state.get("risk") is None else 4.1
    return {"risk": risk, "decisions": [{"wave": 1, "reason": "ledger_entries is written to"}]}


assess = StateGraph(Migration, name="assess")
assess.add_node("inventory", inventory)
assess.add_node("weigh", weigh)
assess.add_edge(START, "inventory")
assess.add_edge("inventory", "weigh")
assess.add_edge("weigh", END)


async def plan(state: Migration) -> dict[str, Any]:
    await spend(6.1)
    if state["risk"] > 7:
        return {"decisions": [{"wave": 1, "reason": "the risk is too high, weigh it again"}]}
    waves = [{"id": 1, "tables": 412}, {"id": 2, "tables": 388}, {"id": 3, "tables": 188}, {"id": 4, "tables": 12}]
    decision = {"wave": 4, "reason": "ledger_entries is written to"}
    return {
        "waves": waves,
        "strategy": IN_PARALLEL,
        "approver": "ann@ours.example",
        "draft_plan": None,
        "decisions": [decision],
    }


def spread(state: Migration) -> Any:
    if state["risk"] > 7:
        return "assess_risk"
    return [*(Send("migrate_table", {"table": name}) for name in state["found"]), "copy_buckets", "book_window"]


_failures: dict[str, int] = {}


async def migrate_table(item: dict[str, Any]) -> dict[str, Any]:
    name = item["table"]
    number = int(name[-4:])
    failures = _failures.setdefault(name, 0)
    if number % 187 == 113 and failures < 2:
        _failures[name] += 1
        await spend(150 + number % 5)
        raise ConnectionError("The replica went away.")
    await spend(9 if number < 60 else 3 + number * 0.24 + number * 7919 % 400 / 10)
    return {"moved": [name]}


async def copy_buckets(state: Migration) -> Migration:
    await spend(18)
    if state["tables"] < 100:
        return {"buckets": 14}
    raise ConnectionError("Bucket eu-west is slow to answer.")


class Window(BaseModel):
    """When the old cluster becomes read-only."""

    starts: str = Field(
        title="Starts", description="In the zone of the data centre", json_schema_extra={"format": "date-time"}
    )
    minutes: int = Field(30, title="Length", ge=5, le=240, description="Minutes for which writes are refused")
    notify: list[str] = Field(default_factory=list, title="Tell", description="Addresses that are told a day before")
    severity: Literal["low", "medium", "high"] = Field("low", title="Severity")
    freeze: bool = Field(True, title="Freeze deployments meanwhile")


async def book_window(state: Migration) -> Migration:
    question = {
        "prompt": "Which maintenance window shall be booked?",
        "tables": len(state["found"]),
        "risk": state["risk"],
    }
    interrupt(question, schema=Window)
    return {"decisions": [{"wave": 4, "reason": "the window is booked"}]}


async def verify(state: Migration) -> Migration:
    await spend(3)
    return {"drift": 0}


def has_drifted(state: Migration) -> Literal["drift > 0", "drift = 0"]:
    return "drift > 0" if state["drift"] else "drift = 0"


async def cutover(state: Migration) -> Migration:
    sleep(timedelta(minutes=10))
    return {}


cloud_migration = StateGraph(Migration, name="cloud_migration")
cloud_migration.add_node("discover", discover)
cloud_migration.add_node("assess_risk", assess.compile())
cloud_migration.add_node("plan", plan)
cloud_migration.add_node(
    "migrate_table",
    migrate_table,
    retry_policy=RetryPolicy(max_attempts=5, initial_interval=20, jitter=False),
)
cloud_migration.add_node(
    "copy_buckets", copy_buckets, retry_policy=RetryPolicy(max_attempts=5, initial_interval=22, jitter=False)
)
cloud_migration.add_node("book_window", book_window)
cloud_migration.add_node("verify", verify)
cloud_migration.add_node("cutover", cutover)
cloud_migration.add_edge(START, "discover")
cloud_migration.add_edge("discover", "assess_risk")
cloud_migration.add_edge("assess_risk", "plan")
cloud_migration.add_conditional_edges("plan", spread, ["assess_risk", "migrate_table", "copy_buckets", "book_window"])
cloud_migration.add_edge(["migrate_table", "copy_buckets", "book_window"], "verify")
cloud_migration.add_conditional_edges("verify", has_drifted, {"drift > 0": "migrate_table", "drift = 0": "cutover"})
cloud_migration.add_edge("cutover", END)


# -- an evaluation: a fan-out that a schedule starts


class Evaluation(TypedDict, total=False):
    cases: int
    grades: Annotated[list[int], operator.add]
    score: float


def choose_cases(state: Evaluation) -> Any:
    return [Send("grade_case", {"case": number}) for number in range(state["cases"])]


async def load_cases(state: Evaluation) -> Evaluation:
    await spend(1.5)
    return {}


async def grade_case(item: dict[str, Any]) -> Evaluation:
    await spend(2 + item["case"] * 31 % 7)
    return {"grades": [1 if item["case"] % 11 else 0]}


async def summarize(state: Evaluation) -> Evaluation:
    await spend(1)
    return {"score": round(sum(state["grades"]) / len(state["grades"]), 3)}


nightly_eval = StateGraph(Evaluation, name="nightly_eval")
nightly_eval.add_node("load_cases", load_cases)
nightly_eval.add_node("grade_case", grade_case, max_concurrency=6)
nightly_eval.add_node("summarize", summarize)
nightly_eval.add_edge(START, "load_cases")
nightly_eval.add_conditional_edges("load_cases", choose_cases, ["grade_case"])
nightly_eval.add_edge("grade_case", "summarize")
nightly_eval.add_edge("summarize", END)


# -- a contract: a run that waits for an event


class Vendor(TypedDict, total=False):
    vendor: str
    country: str
    contract: dict[str, Any]


async def look_up_vendor(state: Vendor) -> Vendor:
    await spend(0.8)
    return {"country": "PT"}


async def await_contract(state: Vendor) -> Vendor:
    return {"contract": wait_for_event("contract_signed", timeout=timedelta(hours=19))}


async def file_contract(state: Vendor) -> Vendor:
    await spend(0.4)
    return {}


vendor_onboarding = StateGraph(Vendor, name="vendor_onboarding")
vendor_onboarding.add_node("look_up_vendor", look_up_vendor)
vendor_onboarding.add_node("await_contract", await_contract)
vendor_onboarding.add_node("file_contract", file_contract)
vendor_onboarding.add_edge(START, "look_up_vendor")
vendor_onboarding.add_edge("look_up_vendor", "await_contract")
vendor_onboarding.add_edge("await_contract", "file_contract")
vendor_onboarding.add_edge("file_contract", END)
