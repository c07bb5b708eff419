"""The application as a whole: its routes, its start and end, and its response to failures."""

from __future__ import annotations

import asyncio

import httpx
from fastapi import FastAPI
from tests.unit.server.serving import LEAD, catalog, serving

from statewright.server import ServerSettings, create_app
from statewright.service import Service


def test_the_package_creates_an_application():
    app = create_app(Service(catalog()), settings=ServerSettings(title="Ours"))
    assert isinstance(app, FastAPI)
    assert app.openapi()["info"]["title"] == "Ours"


def test_the_service_runs_as_long_as_the_application():
    async def run() -> None:
        service = Service(catalog())
        async with serving(service=service) as api:
            assert service.worker is not None
            await api.start(LEAD)
        assert service.worker is None

    asyncio.run(run())


def test_a_running_service_is_not_stopped():
    async def run() -> None:
        async with Service(catalog()) as service:
            async with serving(service=service) as api:
                await api.start(LEAD)
            assert service.worker is not None

    asyncio.run(run())


def test_all_routes_of_the_specification_are_served():
    expected = """
        GET /health
        GET /ready
        GET /metrics
        POST /workspaces
        GET /workspaces/current
        POST /api-keys
        GET /api-keys
        DELETE /api-keys/{id}
        POST /workflow-definitions
        GET /workflow-definitions
        GET /workflow-definitions/{id}
        POST /workflow-runs
        GET /workflow-runs
        GET /workflow-runs/{id}
        POST /workflow-runs/{id}/resume
        POST /workflow-runs/{id}/signals
        POST /workflow-runs/{id}/cancel
        POST /workflow-runs/{id}/pause
        POST /workflow-runs/{id}/retry
        POST /workflow-runs/cancel
        POST /workflow-runs/retry
        GET /workflow-runs/{id}/events
        GET /workflow-runs/{id}/stream
        GET /workflow-runs/{id}/steps
        GET /workflow-runs/{id}/state
        GET /workflow-runs/{id}/llm-calls
        GET /workflow-runs/{id}/logs
        GET /workflow-runs/{id}/cost
        GET /cost/summary
        GET /approval-requests
        GET /approval-requests/{id}
        POST /approval-requests/{id}/decide
        POST /webhooks
        GET /webhooks
        DELETE /webhooks/{id}
        PATCH /webhooks/{id}
        GET /webhooks/{id}/deliveries
        POST /webhooks/{id}/test
        GET /graphs
        GET /graphs/{id}
        GET /interrupts
        GET /threads/{id}/state
        POST /threads/{id}/state
        GET /threads/{id}/history
        GET /threads/{id}/diff
        POST /threads/{id}/fork
        POST /events
        POST /schedules
        POST /triggers
    """
    paths = create_app(Service(catalog())).openapi()["paths"]
    for line in expected.split("\n"):
        if line.strip():
            method, path = line.split()
            full = path if path in ("/health", "/ready", "/metrics") else f"/api/v1{path}"
            assert method.lower() in paths[full], line


def test_a_500_response_reveals_nothing_about_the_failure():
    async def run() -> None:
        app = create_app(Service(catalog()), settings=ServerSettings(auth="none"))

        @app.get("/broken")
        async def broken() -> None:
            raise RuntimeError("the password is 1234")

        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            response = await client.get("/broken")
            assert (response.status_code, "1234" in response.text) == (500, False)

    asyncio.run(run())
