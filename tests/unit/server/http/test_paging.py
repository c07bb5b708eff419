"""Pages of lists."""

from __future__ import annotations

import json

import pytest

from statewright.server.http.parameters import Paging
from statewright.server.resources import RUN


@pytest.mark.parametrize(
    ("total", "size", "pages"),
    [(0, 20, 0), (1, 20, 1), (20, 20, 1), (21, 20, 2), (5, 1, 5), (10**15 + 1, 2, 5 * 10**14 + 1)],
)
def test_the_last_page_may_be_short(total: int, size: int, pages: int):
    content = json.loads(Paging(1, size).to_response(RUN, [], total).body)
    assert content["meta"] == {"page": 1, "pageSize": size, "total": total, "totalPages": pages}
