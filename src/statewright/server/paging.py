"""Pages of lists."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import Query

from statewright.server.encode import Json, answer
from statewright.server.models.base import Shown, all_shown

PageNumber = Annotated[int, Query(ge=1, le=1_000_000, description="Which page, from 1.")]
PageSize = Annotated[int, Query(alias="pageSize", ge=1, le=100, description="How many a page has.")]


def page_of(kind: type[Shown], items: Sequence[Any], page: int, page_size: int, total: int) -> Json:
    """A page, and where in its list it is."""
    return answer(all_shown(kind, items), meta=meta(page, page_size, total))


def meta(page: int, page_size: int, total: int) -> dict[str, int]:
    """Where in its list a page is."""
    return {"page": page, "pageSize": page_size, "total": total, "totalPages": -(-total // page_size)}


def cut(kind: type[Shown], items: Sequence[Any], page: int, page_size: int) -> Json:
    """A page of a list that is at hand as a whole."""
    begin = (page - 1) * page_size
    return page_of(kind, items[begin : begin + page_size], page, page_size, len(items))
