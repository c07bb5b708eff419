"""The OpenAPI document, completed with security schemes and the definition schema."""

from __future__ import annotations

from typing import Any, Final

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from statewright.server.context.auth import ADMIN
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
        "description": "The token of the operator.",
    },
}
DESCRIPTION: Final = """Durable runs of workflows.

Every response is `{"success": true, "data": ...}` or `{"success": false, "error": {"code", "message", "details"}}`;
lists have `meta` with `page`, `pageSize`, `total` and `totalPages`. `/v1` is an alias of `/api/v1`. Times are in UTC.
Resources of other workspaces are answered with 404, as if they did not exist.

Scopes of keys: """ + ", ".join(f"`{scope}`" for scope in SCOPES)


def add_document(app: FastAPI) -> None:
    """Make the application serve its document, which is built at the first request."""

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
    security = _security_by_audience(app.state.context.settings)
    for operation in (operation for path in document["paths"].values() for operation in path.values()):
        _add_security(operation, security)
        _tidy_body(operation)
        operation["responses"].pop("422", None)  # the framework's own; this server answers 400
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    return document


def _security_by_audience(settings: ServerSettings) -> dict[bool, list[dict[str, list[str]]]]:
    """Return the required credentials, for the routes of the operator (True) and for all others (False)."""
    keys = settings.auth == "keys"
    return {True: [{"adminToken": []}] if keys or settings.admin_token else [], False: _KEY if keys else []}


def _add_security(operation: dict[str, Any], security: dict[bool, list[dict[str, list[str]]]]) -> None:
    scope = operation.get("x-scope", "open")
    if scope == "open":
        operation["security"] = []
        del operation["x-scope"]
    else:
        operation["security"] = security[scope == ADMIN]


def _tidy_body(operation: dict[str, Any]) -> None:
    """Remove the framework's additions to the bodies that routes describe themselves."""
    for media in operation.get("requestBody", {}).get("content", {}).values():
        if "$ref" in media["schema"]:
            media["schema"] = {"$ref": media["schema"]["$ref"]}


def _definition_schemas() -> dict[str, Any]:
    """Return the JSON Schema of a definition, with its nested schemas."""
    schema = Definition.model_json_schema(by_alias=True, ref_template="#/components/schemas/{model}")
    parts = schema.pop("$defs", {})
    return {**parts, "Definition": schema}
