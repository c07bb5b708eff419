"""The service, which stores, schedules and advances durable runs. It does not depend on HTTP."""

from statewright.service.access.spending import SpendingLimits, SpendingReport
from statewright.service.catalog.catalog import Catalog, Served, definition_id
from statewright.service.catalog.definitions import Added, GraphDescription, ServedGraph
from statewright.service.context.records import Page
from statewright.service.context.requests import Fork, RunFilter, StartRun, StateEdit
from statewright.service.context.service_context import LogSource, ServiceSettings
from statewright.service.following.hub import Hub, LiveEvent
from statewright.service.operations.approvals import DECISIONS
from statewright.service.operations.reads import Cost, CostSummary, CostTotal
from statewright.service.operations.starting import ON_BUSY, Started
from statewright.service.service import Service

__all__ = [
    "DECISIONS",
    "ON_BUSY",
    "Added",
    "Catalog",
    "Cost",
    "CostSummary",
    "CostTotal",
    "Fork",
    "GraphDescription",
    "Hub",
    "LiveEvent",
    "LogSource",
    "Page",
    "RunFilter",
    "Served",
    "ServedGraph",
    "Service",
    "ServiceSettings",
    "SpendingLimits",
    "SpendingReport",
    "StartRun",
    "Started",
    "StateEdit",
    "definition_id",
]
