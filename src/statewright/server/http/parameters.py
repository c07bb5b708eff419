"""Parameters shared by routes: pages, idempotency keys, and filters of runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Final, NamedTuple

from fastapi import Depends, Header, Query, Request

from statewright.errors import InvalidRequest, RequestConflict, suggestion
from statewright.runs import RunStatus
from statewright.server.http.encode import Json, answer
from statewright.server.models.base import Instant, Shown, all_shown
from statewright.service import RunFilter
from statewright.service.context.records import MOST_LABELS

PageNumber = Annotated[int, Query(ge=1, le=1_000_000, description="Which page, from 1.")]
PageSize = Annotated[int, Query(alias="pageSize", ge=1, le=100, description="How many a page has.")]


class Page(NamedTuple):
    """The requested page of a list."""

    number: int
    """From 1."""
    size: int

    @property
    def offset(self) -> int:
        """The number of items on the pages before."""
        return (self.number - 1) * self.size

    def meta(self, total: int) -> dict[str, int]:
        """Return the metadata of the page: its position in the list."""
        pages = -(-total // self.size)
        return {"page": self.number, "pageSize": self.size, "total": total, "totalPages": pages}

    def answer(self, kind: type[Shown], items: Sequence[Any], total: int) -> Json:
        """Return the response with the items of the page."""
        return answer(all_shown(kind, items), meta=self.meta(total))


async def _read_page(page: PageNumber = 1, page_size: PageSize = 20) -> Page:
    return Page(page, page_size)


Paged = Annotated[Page, Depends(_read_page)]
"""The page in a query."""


# -- the header `Idempotency-Key`, an alternative to the field of the body

LONGEST: Final = 255
"""Characters."""
IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="idempotency-key", description="The same as the field of the body. If both are sent, they must agree."
    ),
]


def read_key(header: str | None, field: str | None, name: str) -> str | None:
    """Return the key of a request, from its header or the named field of its body.

    The header may be quoted, as the draft of its standard wants. Raises RequestConflict if the two differ, and
    InvalidRequest for a header that is empty or too long.
    """
    if header is None:
        return field
    key = header[1:-1] if len(header) >= 2 and header[0] == header[-1] == '"' else header
    if not 1 <= len(key) <= LONGEST or not key.isprintable():
        raise InvalidRequest(
            f"The header Idempotency-Key has {len(key)} characters. Give 1 to {LONGEST} printable ones."
        )
    if field is not None and field != key:
        raise RequestConflict(
            f"The header Idempotency-Key is {key!r}, and {name} in the body is {field!r}. Send one, or the same twice."
        )
    return key


# -- filters of runs

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
        status=[_status(part) for text in status or () for part in text.split(",")],
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
        problem = {"path": "query.status", "message": "is not known"}
        message = f"There is no status {name!r}. {suggestion(name.lower(), _STATUSES, noun='Statuses')}"
        raise InvalidRequest(message, details={"problems": [problem]}) from None


def _metadata(request: Request) -> dict[str, str]:
    """Return the metadata filters of a query: `metadata.name` or `metadata[name]`."""
    filters: dict[str, str] = {}
    for name, value in request.query_params.multi_items():
        if name.startswith("metadata."):
            filters[name.removeprefix("metadata.")] = value
        elif name.startswith("metadata[") and name.endswith("]"):
            filters[name[len("metadata[") : -1]] = value
    return filters


RunQuery = Annotated[RunFilter, Depends(_run_query)]
"""The filter of runs in a query."""
