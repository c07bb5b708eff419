"""A service and its application, called without a network. Each response is checked against the OpenAPI document."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar

import httpx
import jsonschema_rs
from fastapi import FastAPI

from statewright.agents import Agent
from statewright.models import ScriptedModel
from statewright.server.app import create_app
from statewright.server.settings import ServerSettings
from statewright.service import Catalog, Service
from statewright.service.webhooks import WebhookSettings
from statewright.workflow.steps import Handlers

BASE = "/api/v1"


def enrich(ctx: Any) -> dict[str, Any]:
    updates = {"leadName": "Jane Smith", "company": "Acme Inc"}
    return {"status": "completed", "output": {"found": True}, "stateUpdates": updates}


def send(ctx: Any) -> dict[str, Any]:
    print("sent to", ctx.workflow_input.get("leadEmail"))
    return {"status": "completed", "stateUpdates": {"messageId": "msg_789"}}


def fail(ctx: Any) -> dict[str, Any]:
    return {"status": "failed", "error": {"message": "no luck", "code": "NO_LUCK"}}


def handlers() -> Handlers:
    return Handlers({"enrich": enrich, "send": send, "fail": fail})


LEAD: dict[str, Any] = {
    "name": "lead",
    "version": "1",
    "steps": [
        {"type": "task", "name": "enrich-lead", "handler": "enrich"},
        {"type": "task", "name": "send-email", "handler": "send"},
    ],
}
PAYMENT: dict[str, Any] = {
    "name": "payment",
    "version": "1",
    "steps": [
        {"type": "task", "name": "enrich-lead", "handler": "enrich"},
        {"type": "external_event", "name": "pay", "signalType": "payment_confirmed"},
    ],
}
REVIEW: dict[str, Any] = {
    "name": "review",
    "version": "1",
    "steps": [
        {"type": "task", "name": "enrich-lead", "handler": "enrich"},
        {"type": "approval", "name": "agree", "contentKey": "company", "prompt": "Send it?"},
    ],
}
BROKEN: dict[str, Any] = {
    "name": "broken",
    "version": "1",
    "steps": [{"type": "task", "name": "try", "handler": "fail", "retry": {"maxAttempts": 1}}],
}


class Document:
    """The OpenAPI document, to check responses. It is the same for all applications, and built once."""

    _cache: ClassVar[dict[str, Any]] = {}

    def __init__(self, app: FastAPI) -> None:
        if not self._cache:
            self._cache.update(app.openapi())
        self._document = self._cache
        self._paths = [(re.compile(re.sub(r"\{[^}]+\}", "[^/]+", path)), path) for path in self._document["paths"]]

    def check(self, method: str, path: str, status: int, media: str, body: Any) -> None:
        operation = self._operation(method, path)
        if operation is None:
            return
        assert str(status) in operation["responses"], f"{method} {path} answered {status}, which is not documented"
        content = operation["responses"][str(status)].get("content", {})
        if media != "application/json":
            assert media in content or not content, (method, path, media)
            return
        schema = {**content[media]["schema"], "components": self._document["components"]}
        problems = [str(problem) for problem in jsonschema_rs.validator_for(schema).iter_errors(body)]
        assert not problems, f"{method} {path} {status}: {problems[:3]}"

    def _operation(self, method: str, path: str) -> dict[str, Any] | None:
        full_path = f"/api{path}" if path.startswith("/v1/") else path
        exact = self._document["paths"].get(full_path)
        matches = (self._document["paths"][name] for pattern, name in self._paths if pattern.fullmatch(full_path))
        return (exact or next(matches, {})).get(method.lower())


@dataclass
class Api:
    """A client of an application."""

    app: FastAPI
    service: Service
    client: httpx.AsyncClient
    document: Document
    headers: dict[str, str] = field(default_factory=dict)

    async def call(self, method: str, path: str, **options: Any) -> httpx.Response:
        """Send a request, and check the response against the document."""
        path = (
            path
            if path.startswith(("/api/", "/v1/", "/health", "/live", "/ready", "/metrics", "/openapi"))
            else BASE + path
        )
        options["headers"] = {**self.headers, **options.get("headers", {})}
        response = await self.client.request(method, path, **options)
        media = response.headers.get("content-type", "").partition(";")[0]
        body = response.json() if media == "application/json" else None
        self.document.check(method, response.request.url.path, response.status_code, media, body)
        return response

    async def get(self, path: str, status: int = 200, **options: Any) -> Any:
        return _data(await self.call("GET", path, **options), status)

    async def post(self, path: str, body: Any = None, status: int = 200, **options: Any) -> Any:
        content = {"json": body} if body is not None else {}
        return _data(await self.call("POST", path, **content, **options), status)

    async def patch(self, path: str, body: Any, status: int = 200) -> Any:
        return _data(await self.call("PATCH", path, json=body), status)

    async def delete(self, path: str, status: int = 204) -> Any:
        return _data(await self.call("DELETE", path), status)

    async def define(self, definition: dict[str, Any]) -> str:
        """Store a definition, and return its id."""
        response = await self.call("POST", "/workflow-definitions", json=definition)
        assert response.status_code in (200, 201), response.text
        return response.json()["data"]["id"]

    async def start(self, definition: dict[str, Any], wait: float = 10, **values: Any) -> dict[str, Any]:
        """Run a definition until it is idle, and return the run."""
        body = {"definitionId": await self.define(definition), **values}
        return await self.post(f"/workflow-runs?wait={wait}", body, 201)

    def as_owner_of(self, key: str) -> Api:
        """Return a client with the key."""
        return Api(self.app, self.service, self.client, self.document, {"x-api-key": key})


def _data(response: httpx.Response, status: int) -> Any:
    assert response.status_code == status, f"{response.status_code}: {response.text}"
    if status == 204:
        return None
    body = response.json()
    assert body["success"] is (status < 400)
    return body["data"] if status < 400 else body["error"]


def catalog() -> Catalog:
    served = Catalog(handlers=handlers())
    served.serve("greeter", Agent("greeter", system="You greet.", model=ScriptedModel(["hello"] * 50)))
    return served


ADMIN_TOKEN = "the-operator-knows-this"


@asynccontextmanager
async def serving(
    *, service: Service | None = None, metrics: Any = None, webhooks: WebhookSettings | None = None, **settings: Any
) -> AsyncIterator[Api]:
    """Start an application, by default without keys."""
    server_settings = ServerSettings(**{"auth": "none", **settings})
    service = service or Service(catalog())
    app = create_app(service, settings=server_settings, metrics=metrics, webhooks=webhooks)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1:8123") as client,
    ):
        yield Api(app, service, client, Document(app))


@asynccontextmanager
async def two_workspaces(**settings: Any) -> AsyncIterator[tuple[Api, Api]]:
    """Start a service with keys, and yield a client for each of two workspaces."""
    async with serving(auth="keys", admin_token=ADMIN_TOKEN, **settings) as api:
        keys = [await _key_of(api, slug) for slug in ("one", "two")]
        yield api.as_owner_of(keys[0]), api.as_owner_of(keys[1])


async def _key_of(api: Api, slug: str) -> str:
    workspace = await api.post("/workspaces", {"slug": slug}, 201, headers={"x-admin-token": ADMIN_TOKEN})
    return workspace["apiKey"]["key"]
