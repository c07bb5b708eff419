"""Which runs a query means."""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import Depends, Query, Request

from statewright.errors import InvalidRequest, suggestion
from statewright.runs import RunStatus
from statewright.server.models.base import Instant
from statewright.service import RunFilter
from statewright.service.records import MOST_LABELS

METADATA: Final[list[dict[str, Any]]] = [
    {
        "name": "metadata",
        "in": "query",
        "style": "deepObject",
        "explode": True,
        "required": False,
        "description": "Entries of their metadata: `metadata[customer]=acme`, or `metadata.customer=acme`.",
        "schema": {"type": "object", "additionalProperties": {"type": "string"}},
    }
]
_STATUSES: Final = [status.value for status in RunStatus]
Text = Annotated[str | None, Query(max_length=300)]
Statuses = Annotated[
    list[str] | None,
    Query(
        description="Any of them; several are given one by one or with commas.",
        json_schema_extra={"items": {"type": "string", "enum": _STATUSES}},
    ),
]
Tags = Annotated[list[str] | None, Query(description="All of them.", alias="tag", max_length=MOST_LABELS)]


async def _run_query(
    request: Request,
    status: Statuses = None,
    graph: Text = None,
    definition_id: Annotated[str | None, Query(alias="definitionId")] = None,
    thread_id: Annotated[str | None, Query(alias="threadId")] = None,
    parent_id: Annotated[str | None, Query(alias="parentId")] = None,
    idempotency_key: Annotated[str | None, Query(alias="idempotencyKey")] = None,
    tags: Tags = None,
    created_from: Annotated[Instant | None, Query(alias="createdFrom")] = None,
    created_to: Annotated[Instant | None, Query(alias="createdTo", description="Before this instant.")] = None,
) -> RunFilter:
    return RunFilter(
        status=[_status(part) for one in status or () for part in one.split(",")],
        graph=graph,
        definition_id=definition_id,
        thread_id=thread_id,
        parent_id=parent_id,
        idempotency_key=idempotency_key,
        tags=tags or (),
        metadata=_metadata(request),
        created_from=created_from,
        created_to=created_to,
    )


def _status(name: str) -> RunStatus:
    try:
        return RunStatus(name.strip().lower())
    except ValueError:
        told = suggestion(name.lower(), _STATUSES, noun="Statuses")
        problem = {"path": "query.status", "message": "is not known"}
        raise InvalidRequest(f"There is no status {name!r}. {told}", details={"problems": [problem]}) from None


def _metadata(request: Request) -> dict[str, str]:
    """Entries that are asked for as `metadata.name` or `metadata[name]`."""
    found: dict[str, str] = {}
    for name, value in request.query_params.multi_items():
        if name.startswith("metadata."):
            found[name.removeprefix("metadata.")] = value
        elif name.startswith("metadata[") and name.endswith("]"):
            found[name[len("metadata[") : -1]] = value
    return found


RunQuery = Annotated[RunFilter, Depends(_run_query)]
"""The filters of a query."""
