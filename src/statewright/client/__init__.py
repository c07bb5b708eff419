"""A typed client of the service's HTTP API: synchronous and asynchronous classes that share one implementation.

httpx, which the extra `client` installs, is imported when a client is created.
"""

from statewright.api.access import Health, Key, NewKey, NewWorkspace, Spending, SpendingLimits, Workspace
from statewright.api.automation import Delivery, Schedule, Trigger, Webhook, WebhookWithSecret
from statewright.api.definitions import Definition, DefinitionWithBody, Graph, GraphDescription, Thread, ThreadInList
from statewright.api.runs import (
    Activity,
    Approval,
    Cost,
    CostSummary,
    CostTotal,
    DailyCost,
    Event,
    EventBase,
    LiveEvent,
    Log,
    ModelCall,
    ModelCost,
    ReceivedEvent,
    Run,
    RunCounts,
    RunWithSteps,
    StartedRun,
    Step,
    Wait,
)
from statewright.api.traces import (
    Attempt,
    Diagram,
    PastWait,
    Queued,
    Source,
    StepStates,
    Trace,
    TracedCall,
    TracedStep,
)
from statewright.api.workers import Queue, Worker
from statewright.client.clients import AsyncClient, Client
from statewright.client.send import Page
from statewright.client.settings import DEFAULT_URL

__all__ = [
    "DEFAULT_URL",
    "Activity",
    "Approval",
    "AsyncClient",
    "Attempt",
    "Client",
    "Cost",
    "CostSummary",
    "CostTotal",
    "DailyCost",
    "Definition",
    "DefinitionWithBody",
    "Delivery",
    "Diagram",
    "Event",
    "EventBase",
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
    "PastWait",
    "Queue",
    "Queued",
    "ReceivedEvent",
    "Run",
    "RunCounts",
    "RunWithSteps",
    "Schedule",
    "Source",
    "Spending",
    "SpendingLimits",
    "StartedRun",
    "Step",
    "StepStates",
    "Thread",
    "ThreadInList",
    "Trace",
    "TracedCall",
    "TracedStep",
    "Trigger",
    "Wait",
    "Webhook",
    "WebhookWithSecret",
    "Worker",
    "Workspace",
]
