"""The description of a route, and the checks before its function is called."""

from __future__ import annotations

import asyncio

from tests.unit.server.serving import serving

from statewright.server.http.route import describe
from statewright.server.resources import RUN


def test_every_route_documents_the_errors_of_any_request():
    arguments = describe("Something.", RUN, scope="runs:read", errors=(404,))
    assert set(arguments["responses"]) == {200, 400, 401, 403, 404, 413, 429, 503}
    assert arguments["openapi_extra"] == {"x-scope": "runs:read"}
    assert set(describe("Something.", RUN)["responses"]) == {200}


def test_a_page_has_meta_and_a_second_status_has_the_same_model():
    arguments = describe("Something.", RUN, scope="runs:read", is_paged=True, status=201, other_statuses={200: "again"})
    assert "meta" in arguments["responses"][201]["model"].model_fields
    assert arguments["responses"][200]["model"] is arguments["responses"][201]["model"]
    assert arguments["status_code"] == 201


def test_unknown_query_parameters_are_refused_with_a_suggestion():
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
