"""The client against the OpenAPI document: it covers all operations, parameters, fields and resources."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.unit.client import document as api_document

from statewright import client as client_package
from statewright.api.resource import Resource, camel
from statewright.client import Client
from statewright.client.sync_async import IteratingMethod, Method, Namespace

NOW = datetime(2026, 1, 2, tzinfo=UTC)
FILTER: dict[str, Any] = {
    "status": ["failed"],
    "graph": "g",
    "definition_id": "d",
    "thread_id": "t",
    "parent_id": "p",
    "idempotency_key": "k",
    "queue": "q",
    "dead": True,
    "tags": ["a", "b"],
    "any_tags": ["c"],
    "text": "acme",
    "metadata": {"customer": "acme"},
    "created_from": NOW,
    "created_to": NOW,
}
START: dict[str, Any] = {
    "thread_id": "t",
    "idempotency_key": "k",
    "on_busy": "enqueue",
    "after": NOW,
    "timeout": 5.0,
    "tags": ["a"],
    "metadata": {"a_b": 1},
    "concurrency_key": "c",
    "concurrency_limit": 2,
    "queue": "q",
    "priority": 3,
    "recursion_limit": 5,
    "max_concurrency": 2,
    "durability": "async",
    "context": {"user_id": 1},
}
FORK: Any = {
    "thread_id": "t",
    "checkpoint_id": "c",
    "edit": {"values": {"a_b": 1}, "overwrite": ["a_b"], "as_node": "n"},
}
STEPS = {"name": "n", "version": "1", "steps": [{"type": "task", "name": "t", "handler": "h"}]}
SCHEDULE: dict[str, Any] = {
    "timezone": "UTC",
    "input": {},
    "overlap": "allow",
    "catch_up": "all",
    "tags": ["a"],
    "metadata": {},
}
Calls = list[Callable[[Client], Any]]
RUNS: Calls = [
    lambda c: c.runs.start("g", {"a_b": 1}, wait=3, **START),
    lambda c: c.runs.start(definition_id="d"),
    lambda c: c.runs.start("g", live=True),
    lambda c: c.runs.start("g", fork=FORK),
    lambda c: c.runs.start_and_wait("g", seconds=1),
    lambda c: c.runs.wait("r", seconds=5),
    lambda c: c.runs.get("r"),
    lambda c: c.runs.list(page=2, page_size=5, sort="status", brief=True, **FILTER),
    lambda c: c.runs.histogram(NOW, NOW, periods=3, **FILTER),
    lambda c: c.runs.trace("r", cursor="c", limit=5),
    lambda c: c.runs.step_states("r", "s"),
    lambda c: list(c.runs.iterate(**FILTER)),
    lambda c: c.runs.steps("r"),
    lambda c: c.runs.state("r"),
    lambda c: c.runs.model_calls("r"),
    lambda c: c.runs.logs("r", step="s"),
    lambda c: c.runs.cost("r"),
    lambda c: c.runs.events("r", after=3, page=2, page_size=5),
    lambda c: next(c.runs.follow("r", after=3), None),
    lambda c: next(c.runs.watch("r"), None),
    lambda c: next(c.runs.changes()),
    lambda c: c.runs.cancel("r", "why"),
    lambda c: c.runs.cancel("r"),
    lambda c: c.runs.pause("r"),
    lambda c: c.runs.resume("r"),
    lambda c: c.runs.resume("r", "paid", {"a": 1}, signal_id="s"),
    lambda c: c.runs.signal("r", "paid", {"a": 1}, signal_id="s"),
    lambda c: c.runs.answer("r", {"w": True}),
    lambda c: c.runs.retry("r"),
    lambda c: c.runs.cancel_all(**FILTER),
    lambda c: c.runs.retry_all(**FILTER),
]
INTERRUPTS: Calls = [
    lambda c: c.interrupts.list(run_id="r", page=1, page_size=5),
    lambda c: list(c.interrupts.iterate()),
    lambda c: c.interrupts.answers(before="b", limit=5),
    lambda c: c.approvals.list(pending=True, run_id="r", page=1, page_size=5),
    lambda c: list(c.approvals.iterate(pending=False)),
    lambda c: c.approvals.get("a"),
    lambda c: c.approvals.approve("a", by="Ada"),
    lambda c: c.approvals.reject("a"),
    lambda c: c.approvals.edit("a", {"x": 1}, by="Ada"),
    lambda c: c.events.send("e", {"a": 1}, key="k"),
]
DEFINITIONS: Calls = [
    lambda c: c.definitions.add({**STEPS, "description": "text"}),
    lambda c: c.definitions.get("d"),
    lambda c: c.definitions.source("d"),
    lambda c: c.definitions.diagram("d"),
    lambda c: c.definitions.list(name="n", page=1, page_size=5),
    lambda c: list(c.definitions.iterate()),
    lambda c: c.graphs.list(),
    lambda c: c.graphs.get("g"),
    lambda c: c.graphs.reload(),
    lambda c: c.threads.list(prefix="t", limit=5),
    lambda c: c.threads.state("t", checkpoint_id="c"),
    lambda c: c.threads.history("t", branch="b", limit=5),
    lambda c: c.threads.checkpoints("t", branch="b", before="c", limit=9),
    lambda c: c.threads.diff("t", "a", "b"),
    lambda c: c.threads.fork("t", "c", branch="b"),
    lambda c: c.threads.update("t", {"x": 1}, overwrite=["x"], as_node="n", checkpoint_id="c"),
    lambda c: c.costs.summary(NOW, NOW),
    lambda c: c.costs.by_day(NOW, NOW, "graph"),
]
AUTOMATION: Calls = [
    lambda c: c.webhooks.add("https://e.example/x", events=["e"], description="d"),
    lambda c: c.webhooks.get("w"),
    lambda c: c.webhooks.list(page=1, page_size=5),
    lambda c: list(c.webhooks.iterate()),
    lambda c: c.webhooks.change(
        "w", url="https://e.example", events=[], description="", active=True, rotate_secret=True
    ),
    lambda c: c.webhooks.remove("w"),
    lambda c: c.webhooks.deliveries("w", page=1, page_size=5),
    lambda c: c.webhooks.test("w"),
    lambda c: c.webhooks.send_again("w", "d"),
    lambda c: c.schedules.add("s", "0 9 * * *", graph="g", paused=True, **SCHEDULE),
    lambda c: c.schedules.add("s", "0 9 * * *", definition_id="d"),
    lambda c: c.schedules.get("s"),
    lambda c: c.schedules.list(page=1, page_size=5),
    lambda c: list(c.schedules.iterate()),
    lambda c: c.schedules.change("s", name="n", cron="0 9 * * *", **SCHEDULE),
    lambda c: c.schedules.pause("s"),
    lambda c: c.schedules.resume("s"),
    lambda c: c.schedules.preview("s", count=3),
    lambda c: c.schedules.preview_cron("0 9 * * *", timezone="Europe/Berlin", count=5),
    lambda c: c.schedules.remove("s"),
    lambda c: c.triggers.add("e", graph="g", match={"a": 1}),
    lambda c: c.triggers.add("e", definition_id="d"),
    lambda c: c.triggers.get("t"),
    lambda c: c.triggers.list(page=1, page_size=5),
    lambda c: list(c.triggers.iterate()),
    lambda c: c.triggers.change("t", match={}, active=False),
    lambda c: c.triggers.remove("t"),
]
ACCESS: Calls = [
    lambda c: c.keys.create("k", ["runs:read"], requests_per_minute=5, expires_at=NOW),
    lambda c: c.keys.list(page=1, page_size=5),
    lambda c: list(c.keys.iterate()),
    lambda c: c.keys.revoke("k"),
    lambda c: c.workspaces.create("s", name="n", max_running=1, starts_per_minute=1, retention_days=1),
    lambda c: c.workspaces.list(page=1, page_size=5),
    lambda c: list(c.workspaces.iterate()),
    lambda c: c.workspaces.current(),
    lambda c: c.workspaces.spending(),
    lambda c: c.workspaces.change("w", name="n", max_running=None, starts_per_minute=1, retention_days=None),
    lambda c: c.workers.list(),
    lambda c: c.workers.drain("w"),
    lambda c: c.queues.list(),
    lambda c: c.queues.set("q", max_running=1, starts_per_minute=2),
    lambda c: c.queues.remove("q"),
    lambda c: c.health(),
    lambda c: c.live(),
    lambda c: c.ready(),
    lambda c: c.metrics(),
]
CALLS: Calls = [*RUNS, *INTERRUPTS, *DEFINITIONS, *AUTOMATION, *ACCESS]


@pytest.fixture(scope="module")
def documented() -> Any:
    """Call every operation, and return the recording transport."""
    transport = api_document.DocumentedTransport(api_document.document())
    with Client(transport=transport, retries=0) as client:
        for call in CALLS:
            call(client)
    return transport


def operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield the operations, except those of the session: its cookie is for browsers, and clients send their keys."""
    for path, methods in document["paths"].items():
        if path.endswith("/session"):
            continue
        for method, operation in methods.items():
            yield method.upper(), path, operation


def test_every_operation_is_called_by_a_method(documented: Any) -> None:
    missing = [(m, p) for m, p, _ in operations(documented.document) if (m, p) not in documented.parameters]
    assert missing == []


def test_every_parameter_is_sent_by_a_method(documented: Any) -> None:
    same_as_header = ("lastEventId", "idempotency-key")
    missing = [
        (method, path, parameter["name"])
        for method, path, operation in operations(documented.document)
        for parameter in operation.get("parameters", ())
        if parameter["in"] != "path"
        and parameter["name"] not in documented.parameters[method, path] | {*same_as_header}
    ]
    assert missing == []


def test_every_field_of_a_body_is_sent_by_a_method(documented: Any) -> None:
    missing = {
        (method, path): documented.fields_of(method, path) - documented.fields[method, path]
        for method, path, _ in operations(documented.document)
    }
    assert {key: names for key, names in missing.items() if names} == {}


def test_every_method_of_the_client_was_called() -> None:
    """The other tests rely on this: add a call of a new method above."""
    client = Client(transport=api_document.DocumentedTransport(api_document.document()))
    namespaces = {
        "": client,
        **{name: member for name, member in vars(client).items() if isinstance(member, Namespace)},
    }
    methods = {
        f"{space}.{name}".lstrip(".")
        for space, namespace in namespaces.items()
        for name, _ in inspect.getmembers(type(namespace), lambda member: isinstance(member, Method | IteratingMethod))
    }
    source = Path(__file__).read_text("utf-8")
    assert [name for name in sorted(methods) if f"c.{name}(" not in source] == []


RECORDS = {
    client_package.Run: "RunShown",
    client_package.StartedRun: "StartedShown",
    client_package.RunWithSteps: "RunWithSteps",
    client_package.Step: "StepShown",
    client_package.Event: "EventShown",
    client_package.ModelCall: "ModelCallShown",
    client_package.Log: "LogShown",
    client_package.Cost: "CostShown",
    client_package.CostSummary: "CostSummaryShown",
    client_package.CostTotal: "Spent",
    client_package.ModelCost: "ModelCost",
    client_package.Definition: "DefinitionShown",
    client_package.DefinitionWithBody: "DefinitionWithBody",
    client_package.Graph: "GraphShown",
    client_package.GraphDescription: "GraphDescriptionShown",
    client_package.Thread: "ThreadShown",
    client_package.ThreadInList: "ThreadInList",
    client_package.Wait: "WaitShown",
    client_package.Approval: "ApprovalShown",
    client_package.PastAnswer: "PastAnswerShown",
    client_package.ReceivedEvent: "ReceivedEventShown",
    client_package.Webhook: "WebhookShown",
    client_package.WebhookWithSecret: "WebhookWithSecret",
    client_package.Delivery: "DeliveryShown",
    client_package.Schedule: "ScheduleShown",
    client_package.Trigger: "TriggerShown",
    client_package.Key: "KeyShown",
    client_package.NewKey: "NewKey",
    client_package.Workspace: "WorkspaceShown",
    client_package.NewWorkspace: "NewWorkspace",
    client_package.Spending: "SpendingShown",
    client_package.SpendingLimits: "SpendingLimitsShown",
    client_package.Worker: "WorkerShown",
    client_package.Queue: "QueueShown",
    client_package.Health: "Health",
    client_package.Activity: "ActivityShown",
    client_package.RunCounts: "RunCounts",
    client_package.DailyCost: "DailyCost",
    client_package.Trace: "TraceShown",
    client_package.TracedStep: "TracedStep",
    client_package.Attempt: "Attempt",
    client_package.PastWait: "PastWait",
    client_package.TracedCall: "TracedCall",
    client_package.Queued: "Queued",
    client_package.StepStates: "StepStatesShown",
    client_package.Source: "SourceShown",
    client_package.Diagram: "DiagramShown",
}


@pytest.mark.parametrize(("kind", "schema"), RECORDS.items(), ids=lambda value: getattr(value, "__name__", ""))
def test_a_resource_has_the_fields_of_its_schema(kind: type[Resource], schema: str, documented: Any) -> None:
    document = documented.document["components"]["schemas"][schema]
    assert {camel(field.name) for field in fields(kind) if field.name != "raw"} == set(document["properties"])
    value = kind.from_json(documented.sample({"$ref": f"#/components/schemas/{schema}"}))
    assert value.raw[api_document.UNKNOWN] == 1


def test_every_resource_is_checked_against_a_schema() -> None:
    kinds = {kind for kind in vars(client_package).values() if isinstance(kind, type) and issubclass(kind, Resource)}
    # The events of streams have no schema in the document.
    stream_events = {client_package.LiveEvent, client_package.EventBase}
    assert kinds - stream_events == set(RECORDS)
