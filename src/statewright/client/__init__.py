"""A typed client of the service's HTTP API, synchronous and asynchronous, on one implementation.

Nothing of HTTP is loaded before a client is made; that needs the extra `client`.
"""

from statewright.client.async_client import AsyncClient
from statewright.client.flow.pages import Page
from statewright.client.records.access import Health, Key, NewKey, NewWorkspace, Spending, SpendingLimits, Workspace
from statewright.client.records.definitions import Definition, DefinitionWithBody, Graph, GraphDescription, Thread
from statewright.client.records.interrupts import Approval, ReceivedEvent, Wait
from statewright.client.records.runs import (
    Cost,
    CostSummary,
    Event,
    LiveEvent,
    Log,
    ModelCall,
    ModelCost,
    Run,
    RunWithSteps,
    Spent,
    StartedRun,
    Step,
    Told,
)
from statewright.client.records.schedules import Schedule, Trigger
from statewright.client.records.webhooks import Delivery, Webhook, WebhookWithSecret
from statewright.client.settings import DEFAULT_URL
from statewright.client.sync_client import Client

__all__ = [
    "DEFAULT_URL",
    "Approval",
    "AsyncClient",
    "Client",
    "Cost",
    "CostSummary",
    "Definition",
    "DefinitionWithBody",
    "Delivery",
    "Event",
    "Graph",
    "GraphDescription",
    "Health",
    "Key",
    "LiveEvent",
    "Log",
    "ModelCall",
    "ModelCost",
    "NewKey",
    "NewWorkspace",
    "Page",
    "ReceivedEvent",
    "Run",
    "RunWithSteps",
    "Schedule",
    "Spending",
    "SpendingLimits",
    "Spent",
    "StartedRun",
    "Step",
    "Thread",
    "Told",
    "Trigger",
    "Wait",
    "Webhook",
    "WebhookWithSecret",
    "Workspace",
]
