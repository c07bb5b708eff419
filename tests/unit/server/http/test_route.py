"""What a route says of itself, and what is checked before its function is called."""

from __future__ import annotations

import asyncio

from tests.unit.server.serving import serving

from statewright.server.http.route import described
from statewright.server.resources import RUN


def test_every_route_tells_what_can_happen_to_any_request():
    told = described("Something.", RUN, scope="runs:read", errors=(404,))
    assert set(told["responses"]) == {200, 400, 401, 403, 404, 413, 429, 503}
    assert told["openapi_extra"] == {"x-scope": "runs:read"}
    assert set(described("Something.", RUN)["responses"]) == {200}


def test_a_page_has_meta_and_a_second_status_the_same_answer():
    told = described("Something.", RUN, scope="runs:read", page=True, status=201, also={200: "again"})
    assert "meta" in told["responses"][201]["model"].model_fields
    assert told["responses"][200]["model"] is told["responses"][201]["model"]
    assert told["status_code"] == 201


def test_names_of_a_query_that_are_not_known_are_told_with_near_misses():
    async def run() -> None:
        async with serving() as api:
            error = await api.get("/workflow-runs?pagesize=5", 400)
            assert "Did you mean 'pageSize'" in error["message"]
            assert error["details"]["problems"] == [{"path": "query.pagesize", "message": "is not known"}]
            await api.get("/graphs?x=1", 400)
            await api.get("/workflow-runs?metadata", 400)
            await api.get("/workflow-runs?metadatax=1", 400)
            assert await api.get("/workflow-runs?metadata.x=1&metadata[y.z]=2") == []

    asyncio.run(run())
