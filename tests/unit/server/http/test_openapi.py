"""The OpenAPI document is complete, and tells what this very application asks for."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.unit.server.serving import ADMIN_TOKEN, catalog, serving

from statewright.server import ServerSettings, create_app
from statewright.service import Service


def test_the_document_is_complete():
    told = create_app(Service(catalog())).openapi()
    schemas = told["components"]["schemas"]
    assert not any(path.startswith("/v1") for path in told["paths"])
    names: set[str] = set()
    for path, some in told["paths"].items():
        for method, operation in some.items():
            assert operation["summary"], (method, path)
            assert operation["tags"], (method, path)
            assert "422" not in operation["responses"], (method, path)
            assert "security" in operation, (method, path)
            if operation["security"]:
                assert {"400", "401", "403", "429", "503"} <= operation["responses"].keys(), (method, path)
            names.add(operation["operationId"])
            for one in _references(operation):
                assert one in schemas, (method, path, one)
    assert len(names) == sum(len(some) for some in told["paths"].values())
    for name, schema in schemas.items():
        assert all(one in schemas for one in _references(schema)), name
    assert schemas["StartRunBody"]["additionalProperties"] is False
    assert set(told["components"]["securitySchemes"]) == {"apiKey", "bearer", "adminToken"}


def _references(value: Any) -> list[str]:
    """The schemas that something refers to."""
    if isinstance(value, dict):
        found = [value["$ref"].rpartition("/")[2]] if isinstance(value.get("$ref"), str) else []
        return found + [one for part in value.values() for one in _references(part)]
    return [one for part in value for one in _references(part)] if isinstance(value, list) else []


def test_the_document_is_served_and_pages_that_load_scripts_from_elsewhere_are_not():
    async def run() -> None:
        async with serving() as api:
            assert (await api.call("GET", "/openapi.json")).json()["openapi"].startswith("3.")
            for path in ("/redoc", "/docs/oauth2-redirect"):
                assert (await api.client.get(path)).status_code == 404

    asyncio.run(run())


def test_without_keys_the_document_asks_for_none():
    app = create_app(Service(catalog()), settings=ServerSettings(auth="none"))
    assert all(one["security"] == [] for some in app.openapi()["paths"].values() for one in some.values())


def test_with_a_token_only_the_routes_of_the_operator_ask_for_it():
    app = create_app(Service(catalog()), settings=ServerSettings(auth="none", admin_token=ADMIN_TOKEN))
    told = app.openapi()["paths"]
    assert told["/api/v1/workspaces"]["post"]["security"] == [{"adminToken": []}]
    assert told["/api/v1/workflow-runs"]["post"]["security"] == []


def test_the_body_of_a_definition_is_told_in_full():
    told = create_app(Service(catalog())).openapi()
    body = told["paths"]["/api/v1/workflow-definitions"]["post"]["requestBody"]
    assert body["content"]["application/json"]["schema"] == {"$ref": "#/components/schemas/Definition"}
    assert {"TaskStep", "LlmStep", "WaitStep", "ApprovalStep"} <= told["components"]["schemas"].keys()
