"""Webhooks over HTTP: secrets are shown once, and forbidden addresses are refused."""

from __future__ import annotations

import asyncio

from tests.unit.server.serving import serving

from statewright.service.webhooks import WebhookSettings

ALLOWED = WebhookSettings(allow_hosts=["localhost"])
URL = "http://localhost:9/hook"


def test_a_secret_is_shown_once():
    async def run() -> None:
        async with serving(webhooks=ALLOWED) as api:
            webhook = await api.post("/webhooks", {"url": URL, "events": ["workflow.failed"]}, 201)
            assert webhook["secret"].startswith("whsec_")
            path = f"/webhooks/{webhook['id']}"
            for response in (await api.call("GET", "/webhooks"), await api.call("GET", path)):
                assert "whsec_" not in response.text
            assert (await api.patch(path, {"description": "mine"}))["secret"] is None
            rotated = await api.patch(path, {"rotateSecret": True})
            assert rotated["secret"] not in (None, webhook["secret"])
            assert (rotated["description"], rotated["events"]) == ("mine", ["workflow.failed"])
            await api.delete(path)
            await api.get(path, 404)

    asyncio.run(run())


def test_a_test_message_is_recorded_as_a_delivery():
    async def run() -> None:
        async with serving(webhooks=ALLOWED) as api:
            webhook = await api.post("/webhooks", {"url": URL}, 201)
            path = f"/webhooks/{webhook['id']}"
            delivery = await api.post(f"{path}/test")
            assert (delivery["eventType"], delivery["webhookId"]) == ("webhook.test", webhook["id"])
            assert [entry["id"] for entry in await api.get(f"{path}/deliveries")] == [delivery["id"]]
            assert (await api.patch(path, {"active": False}))["active"] is False
            assert (await api.post(f"{path}/test", status=409))["code"] == "CONFLICT"

    asyncio.run(run())


def test_forbidden_addresses_are_refused():
    async def run() -> None:
        async with serving() as api:
            for url in (
                "http://127.0.0.1/",
                "https://127.0.0.1/",
                "https://localhost/",
                "https://169.254.169.254/latest/meta-data",
                "https://[::1]/",
                "https://0x7f000001/",
                "ftp://example.org/",
                "file:///etc/passwd",
                "https://user:password@example.org/",
                "nonsense",
                "",
                "https://" + "a" * 3000 + ".example",
            ):
                error = await api.post("/webhooks", {"url": url}, 400)
                assert error["code"] == "VALIDATION_ERROR", url
            error = await api.post("/webhooks", {"url": URL, "events": ["workflow.complete"]}, 400)
            assert "workflow.completed" in error["message"]
            await api.post("/webhooks", {"url": URL, "secret": "mine"}, 400)
            assert await api.get("/webhooks") == []

    asyncio.run(run())
