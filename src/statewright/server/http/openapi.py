"""The OpenAPI document that FastAPI generates, with security schemes and the schema of definitions added."""

from __future__ import annotations

from typing import Any, Final

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from statewright.server.context.auth import OPERATOR
from statewright.server.http.route import OPEN
from statewright.server.settings import ServerSettings
from statewright.service.access import SCOPES
from statewright.workflow.steps import Definition

DEFINITION_BODY: Final[dict[str, Any]] = {
    "required": True,
    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Definition"}}},
}
_KEY: Final[list[dict[str, list[str]]]] = [{"apiKey": []}, {"bearer": []}]
_SCHEMES: Final = {
    "apiKey": {"type": "apiKey", "in": "header", "name": "x-api-key", "description": "A key of a workspace."},
    "bearer": {"type": "http", "scheme": "bearer", "description": "The same key, as a bearer token."},
    "adminToken": {
        "type": "apiKey",
        "in": "header",
        "name": "x-admin-token",
        "description": "The admin token of the server.",
    },
}
DESCRIPTION: Final = """Durable workflow runs.

Every response is `{"success": true, "data": ...}` or `{"success": false, "error": {"code", "message", "details"}}`;
lists have `meta` with `page`, `pageSize`, `total` and `totalPages`. `/v1` is an alias of `/api/v1`. Times are in UTC.
Requests for resources of other workspaces are answered with 404, as if they did not exist.

Scopes of keys: """ + ", ".join(f"`{scope}`" for scope in SCOPES)


def add_openapi_document(app: FastAPI) -> None:
    """Make the application serve its OpenAPI document, which is built on the first request."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _build_document(app)
        return app.openapi_schema

    app.openapi = openapi


def _build_document(app: FastAPI) -> dict[str, Any]:
    document = get_openapi(title=app.title, version=app.version, description=DESCRIPTION, routes=app.routes)
    schemas = document.setdefault("components", {}).setdefault("schemas", {})
    schemas.update(_definition_schemas())
    document["components"]["securitySchemes"] = _SCHEMES
    for operation in (operation for path in document["paths"].values() for operation in path.values()):
        _add_security(operation, app.state.context.settings)
        _clean_body_schema(operation)
        operation["responses"].pop("422", None)  # added by FastAPI, but this server answers invalid requests with 400
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    return document


def _add_security(operation: dict[str, Any], settings: ServerSettings) -> None:
    scope = operation.get("x-scope", OPEN)
    if scope == OPEN:
        operation["security"] = []
        del operation["x-scope"]
    elif scope == OPERATOR:
        operation["security"] = [{"adminToken": []}] if settings.auth == "keys" or settings.admin_token else []
    else:
        operation["security"] = _KEY if settings.auth == "keys" else []


def _clean_body_schema(operation: dict[str, Any]) -> None:
    """Remove what FastAPI adds to the schema of a request body that refers to a component."""
    for media in operation.get("requestBody", {}).get("content", {}).values():
        if "$ref" in media["schema"]:
            media["schema"] = {"$ref": media["schema"]["$ref"]}


def _definition_schemas() -> dict[str, Any]:
    """Return the JSON Schema of a definition and the schemas nested in it, by name."""
    schema = Definition.model_json_schema(by_alias=True, ref_template="#/components/schemas/{model}")
    nested_schemas = schema.pop("$defs", {})
    return {**nested_schemas, "Definition": schema}
