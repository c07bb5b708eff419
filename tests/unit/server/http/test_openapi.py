"""The OpenAPI document is complete, and has the credentials that the application requires."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.unit.server.serving import ADMIN_TOKEN, catalog, serving

from statewright.server import ServerSettings, create_app
from statewright.service import Service


def test_the_document_is_complete():
    document = create_app(Service(catalog())).openapi()
    schemas = document["components"]["schemas"]
    assert not any(path.startswith("/v1") for path in document["paths"])
    names: set[str] = set()
    for path, item in document["paths"].items():
        for method, operation in item.items():
            assert operation["summary"], (method, path)
            assert operation["tags"], (method, path)
            assert "422" not in operation["responses"], (method, path)
            assert "security" in operation, (method, path)
            if operation["security"]:
                assert {"400", "401", "403", "429", "503"} <= operation["responses"].keys(), (method, path)
            names.add(operation["operationId"])
            for reference in _references(operation):
                assert reference in schemas, (method, path, reference)
    assert len(names) == sum(len(item) for item in document["paths"].values())
    for name, schema in schemas.items():
        assert all(reference in schemas for reference in _references(schema)), name
    assert schemas["StartRunBody"]["additionalProperties"] is False
    assert set(document["components"]["securitySchemes"]) == {"apiKey", "bearer", "adminToken"}


def _references(value: Any) -> list[str]:
    """Return the names of the schemas to which a value refers."""
    if isinstance(value, dict):
        own = [value["$ref"].rpartition("/")[2]] if isinstance(value.get("$ref"), str) else []
        return own + [name for part in value.values() for name in _references(part)]
    return [name for part in value for name in _references(part)] if isinstance(value, list) else []


def test_the_document_is_served_without_pages_that_load_foreign_scripts():
    async def run() -> None:
        async with serving() as api:
            assert (await api.call("GET", "/openapi.json")).json()["openapi"].startswith("3.")
            for path in ("/redoc", "/docs/oauth2-redirect"):
                assert (await api.client.get(path)).status_code == 404

    asyncio.run(run())


def test_without_keys_the_document_requires_no_credentials():
    app = create_app(Service(catalog()), settings=ServerSettings(auth="none"))
    operations = [operation for item in app.openapi()["paths"].values() for operation in item.values()]
    assert all(operation["security"] == [] for operation in operations)


def test_only_the_routes_of_the_operator_require_the_admin_token():
    app = create_app(Service(catalog()), settings=ServerSettings(auth="none", admin_token=ADMIN_TOKEN))
    paths = app.openapi()["paths"]
    assert paths["/api/v1/workspaces"]["post"]["security"] == [{"adminToken": []}]
    assert paths["/api/v1/workflow-runs"]["post"]["security"] == []


def test_the_document_has_the_schema_of_definitions():
    document = create_app(Service(catalog())).openapi()
    body = document["paths"]["/api/v1/workflow-definitions"]["post"]["requestBody"]
    assert body["content"]["application/json"]["schema"] == {"$ref": "#/components/schemas/Definition"}
    assert {"TaskStep", "LlmStep", "WaitStep", "ApprovalStep"} <= document["components"]["schemas"].keys()
