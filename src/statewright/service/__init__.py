"""Durable runs: what keeps them going, without a word of HTTP."""

from statewright.service.approvals import DECISIONS
from statewright.service.catalog import Catalog, Served, definition_id
from statewright.service.costs import Cost, CostSummary, Spent
from statewright.service.definitions import Added, GraphDescription, ServedGraph
from statewright.service.hub import Hub, LiveEvent
from statewright.service.records import Page
from statewright.service.request import RunFilter, StartRun
from statewright.service.service import Service
from statewright.service.settings import ServiceSettings
from statewright.service.spending import SpendingReport
from statewright.service.spending_limits import SpendingLimits
from statewright.service.starting import ON_BUSY, Started
from statewright.service.step_records import LogSource

__all__ = [
    "DECISIONS",
    "ON_BUSY",
    "Added",
    "Catalog",
    "Cost",
    "CostSummary",
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
    "Spent",
    "StartRun",
    "Started",
    "definition_id",
]
