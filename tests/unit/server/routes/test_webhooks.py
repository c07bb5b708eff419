"""Webhooks over HTTP: secrets are shown once, and strange addresses are refused."""

from __future__ import annotations

import asyncio

from tests.unit.server.serving import serving

from statewright.service.webhooks import WebhookSettings

ALLOWED = WebhookSettings(allow_hosts=["localhost"])
HERE = "http://localhost:9/hook"


def test_a_secret_is_shown_once():
    async def run() -> None:
        async with serving(webhooks=ALLOWED) as api:
            made = await api.post("/webhooks", {"url": HERE, "events": ["workflow.failed"]}, 201)
            assert made["secret"].startswith("whsec_")
            path = f"/webhooks/{made['id']}"
            for answer in (await api.call("GET", "/webhooks"), await api.call("GET", path)):
                assert "whsec_" not in answer.text
            assert (await api.patch(path, {"description": "mine"}))["secret"] is None
            rotated = await api.patch(path, {"rotateSecret": True})
            assert rotated["secret"] not in (None, made["secret"])
            assert (rotated["description"], rotated["events"]) == ("mine", ["workflow.failed"])
            await api.delete(path)
            await api.get(path, 404)

    asyncio.run(run())


def test_a_test_message_is_a_delivery():
    async def run() -> None:
        async with serving(webhooks=ALLOWED) as api:
            made = await api.post("/webhooks", {"url": HERE}, 201)
            path = f"/webhooks/{made['id']}"
            sent = await api.post(f"{path}/test")
            assert (sent["eventType"], sent["webhookId"]) == ("webhook.test", made["id"])
            assert [one["id"] for one in await api.get(f"{path}/deliveries")] == [sent["id"]]
            assert (await api.patch(path, {"active": False}))["active"] is False
            assert (await api.post(f"{path}/test", status=409))["code"] == "CONFLICT"

    asyncio.run(run())


def test_addresses_that_may_not_be_called_are_refused():
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
            error = await api.post("/webhooks", {"url": HERE, "events": ["workflow.complete"]}, 400)
            assert "workflow.completed" in error["message"]
            await api.post("/webhooks", {"url": HERE, "secret": "mine"}, 400)
            assert await api.get("/webhooks") == []

    asyncio.run(run())
