"""Pages of lists."""

from __future__ import annotations

import pytest

from statewright.server.http.parameters import Page


@pytest.mark.parametrize(
    ("total", "size", "pages"),
    [(0, 20, 0), (1, 20, 1), (20, 20, 1), (21, 20, 2), (5, 1, 5), (10**15 + 1, 2, 5 * 10**14 + 1)],
)
def test_the_last_page_may_be_short(total: int, size: int, pages: int):
    assert Page(1, size).meta(total) == {"page": 1, "pageSize": size, "total": total, "totalPages": pages}


def test_a_page_begins_after_those_before_it():
    assert [Page(number, 20).offset for number in (1, 2, 5)] == [0, 20, 80]
