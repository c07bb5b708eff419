"""Parameters that several routes share: paging, idempotency keys, and run filters."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any, Final

from fastapi import Depends, Header, Query, Request

from statewright.api.resource import MAX_PAGE_SIZE
from statewright.errors import InvalidRequest, RequestConflict, suggestion
from statewright.runs import RunStatus
from statewright.server.http.body import MAX_IDEMPOTENCY_KEY_LENGTH, Instant
from statewright.server.http.encode import JsonResponse, success_response
from statewright.server.http.representation import Representation
from statewright.service import RunFilter
from statewright.service.context.records import MAX_LABELS

PageNumber = Annotated[int, Query(ge=1, le=1_000_000, description="The number of the page, from 1.")]
PageSize = Annotated[int, Query(alias="pageSize", ge=1, le=MAX_PAGE_SIZE, description="The number of items per page.")]


@dataclass(frozen=True, slots=True)
class Paging:
    """The requested page of a list."""

    page: int
    """The number of the page, from 1."""
    size: int
    """The number of items per page."""

    @property
    def offset(self) -> int:
        """The number of items before the page."""
        return (self.page - 1) * self.size

    def to_response(self, representation: Representation, items: Iterable[Any], total: int) -> JsonResponse:
        """Return a response with the items of the page. `total` is the number of items in the whole list."""
        return self.encoded_response(representation.encode_all(items), total)

    def encoded_response(self, items: list[dict[str, Any]], total: int) -> JsonResponse:
        """Return a response with the items of the page, which are encoded already."""
        meta = {"page": self.page, "pageSize": self.size, "total": total, "totalPages": -(-total // self.size)}
        return success_response(items, meta=meta)


async def _paging(page: PageNumber = 1, page_size: PageSize = 20) -> Paging:
    return Paging(page, page_size)


PageQuery = Annotated[Paging, Depends(_paging)]
"""The query parameters `page` and `pageSize`."""


# -- the header `Idempotency-Key`, which may replace a field of the body

IdempotencyKeyHeader = Annotated[
    str | None,
    Header(alias="idempotency-key", description="Same as the key in the body; if both are sent, they must be equal."),
]


def resolve_idempotency_key(header: str | None, field: str | None, name: str) -> str | None:
    """Return the idempotency key of a request, from its header or from the body field called `name`.

    The header may be quoted, as the IETF draft of Idempotency-Key requires. Raises RequestConflict if header and body
    differ, and InvalidRequest for a header that is empty, too long or not printable.
    """
    if header is None:
        return field
    key = header[1:-1] if len(header) >= 2 and header[0] == header[-1] == '"' else header
    if not 1 <= len(key) <= MAX_IDEMPOTENCY_KEY_LENGTH or not key.isprintable():
        raise InvalidRequest(
            f"The header Idempotency-Key has {len(key)} characters. Send 1 to {MAX_IDEMPOTENCY_KEY_LENGTH} printable "
            f"characters."
        )
    if field is not None and field != key:
        raise RequestConflict(
            f"The header Idempotency-Key is {key!r}, but {name} in the body is {field!r}. Send only one of them, or "
            f"the same key in both."
        )
    return key


# -- run filters

METADATA: Final[list[dict[str, Any]]] = [
    {
        "name": "metadata",
        "in": "query",
        "style": "deepObject",
        "explode": True,
        "required": False,
        "description": "Entries that the metadata must have: `metadata[customer]=acme`, or `metadata.customer=acme`.",
        "schema": {"type": "object", "additionalProperties": {"type": "string"}},
    }
]
_STATUSES: Final = [status.value for status in RunStatus]
OptionalText = Annotated[str | None, Query(max_length=300)]
Statuses = Annotated[
    list[str] | None,
    Query(
        description="Statuses to include, repeated or separated by commas.",
        json_schema_extra={"items": {"type": "string", "enum": _STATUSES}},
    ),
]
Tags = Annotated[
    list[str] | None, Query(description="Tags, all of which a run must have.", alias="tag", max_length=MAX_LABELS)
]

AnyTags = Annotated[
    list[str] | None,
    Query(description="Tags, at least one of which a run must have.", alias="anyTag", max_length=MAX_LABELS),
]


async def _run_query(
    request: Request,
    status: Statuses = None,
    graph: OptionalText = None,
    definition_id: Annotated[str | None, Query(alias="definitionId")] = None,
    thread_id: Annotated[str | None, Query(alias="threadId")] = None,
    parent_id: Annotated[str | None, Query(alias="parentId")] = None,
    idempotency_key: Annotated[str | None, Query(alias="idempotencyKey")] = None,
    queue: OptionalText = None,
    dead: Annotated[
        bool, Query(description="Only runs that were set aside, because worker after worker was lost with them.")
    ] = False,
    tags: Tags = None,
    any_tags: AnyTags = None,
    text: Annotated[
        str | None,
        Query(
            max_length=200,
            description="A text in the id, thread, graph or idempotency key of a run, in a tag or in a value of its "
            "metadata. It is looked for in all runs that the other filters leave.",
        ),
    ] = None,
    created_from: Annotated[Instant | None, Query(alias="createdFrom")] = None,
    created_to: Annotated[Instant | None, Query(alias="createdTo", description="Created before this instant.")] = None,
) -> RunFilter:
    return RunFilter(
        status=[_parse_status(part) for names in status or () for part in names.split(",")],
        graph=graph,
        definition_id=definition_id,
        thread_id=thread_id,
        parent_id=parent_id,
        idempotency_key=idempotency_key,
        queue=queue,
        dead=dead,
        tags=tags or (),
        any_tags=any_tags or (),
        text=text,
        metadata=_parse_metadata(request),
        created_from=created_from,
        created_to=created_to,
    )


def _parse_status(name: str) -> RunStatus:
    try:
        return RunStatus(name.strip().lower())
    except ValueError:
        hint = suggestion(name.lower(), _STATUSES, noun="Statuses")
        problem = {"path": "query.status", "message": "is not known"}
        raise InvalidRequest(f"Status {name!r} does not exist. {hint}", details={"problems": [problem]}) from None


def _parse_metadata(request: Request) -> dict[str, str]:
    """Return the metadata filters of a query, written as `metadata.NAME=VALUE` or `metadata[NAME]=VALUE`."""
    metadata: dict[str, str] = {}
    for name, value in request.query_params.multi_items():
        if name.startswith("metadata."):
            metadata[name.removeprefix("metadata.")] = value
        elif name.startswith("metadata[") and name.endswith("]"):
            metadata[name[len("metadata[") : -1]] = value
    return metadata


RunQuery = Annotated[RunFilter, Depends(_run_query)]
"""The query parameters that filter runs."""
