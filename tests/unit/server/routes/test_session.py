"""The session of the web page: signing in, what its cookie permits, and everything that ends it."""

from __future__ import annotations

import asyncio
import logging
from contextlib import AsyncExitStack
from typing import Any

import pytest
from tests.unit.server.serving import ADMIN_TOKEN, BASE, PAYMENT, Api, catalog, serving

from statewright.checkpoint import InMemorySaver
from statewright.runs import InMemoryLedger, Session
from statewright.service import Service
from statewright.testing import FakeClock

SAME_ORIGIN = {"origin": "http://127.0.0.1:8123"}


async def create_key(api: Api, **values: Any) -> tuple[str, str]:
    """Return the id and the text of a new key of a new workspace, or of an existing one if `values` name scopes."""
    body = {"slug": f"ws{len(values)}{id(values)}"}
    created = await api.post("/workspaces", body, 201, headers={"x-admin-token": ADMIN_TOKEN})
    owner = created["apiKey"]
    if not values:
        return owner["id"], owner["key"]
    key = await api.as_owner_of(owner["key"]).post("/api-keys", {"name": "page", **values}, 201)
    return key["id"], key["key"]


async def sign_in(api: Api, key: str, status: int = 200) -> Any:
    return await api.post("/session", {"key": key}, status, headers=SAME_ORIGIN)


def test_a_session_has_the_scopes_and_the_workspace_of_its_key() -> None:
    async def run() -> None:
        async with serving(auth="keys", admin_token=ADMIN_TOKEN) as api:
            assert (await api.get("/session"))["authenticated"] is False
            await api.get("/workflow-runs", 401)
            key_id, key = await create_key(api, scopes=["runs:read"])
            signed_in = await sign_in(api, key)
            assert signed_in["authenticated"] is True
            assert (signed_in["scopes"], signed_in["keyId"]) == (["runs:read"], key_id)
            assert await api.get("/session") == signed_in
            assert await api.get("/workflow-runs") == []
            assert (await api.get("/workspaces/current"))["id"] == signed_in["workspaceId"]
            await api.get("/api-keys", 403)
            await api.post("/workflow-runs", {"graph": "greeter"}, 403, headers=SAME_ORIGIN)

    asyncio.run(run())


def test_scripts_cannot_read_the_cookie_and_other_sites_cannot_send_it() -> None:
    async def run() -> None:
        async with serving(auth="keys", admin_token=ADMIN_TOKEN) as api:
            _, key = await create_key(api)
            for host, prefix, secure in (("127.0.0.1:8123", "", False), ("runs.example.org", "__Host-", True)):
                headers = {"host": host, "origin": f"https://{host}"}
                response = await api.call("POST", "/session", json={"key": key}, headers=headers)
                name, *attributes = response.headers["set-cookie"].lower().split("; ")
                assert name.startswith(f"{prefix}statewright_session=".lower())
                assert {"httponly", "samesite=strict", "path=/"} <= {*attributes}
                assert ("secure" in attributes) is secure
                assert key not in response.text + response.headers["set-cookie"]

    asyncio.run(run())


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:9999"},
        {"origin": "http://127.0.0.1:8123.evil.example"},
        {"origin": "http://evil.example@127.0.0.1:8123"},
        {"origin": "http://127.0.0.1:8123", "sec-fetch-site": "same-site"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "none"},
    ],
)
def test_requests_that_pages_of_other_origins_forge_change_nothing(headers: dict[str, str]) -> None:
    async def run() -> None:
        async with serving(auth="keys", admin_token=ADMIN_TOKEN) as api:
            _, key = await create_key(api)
            assert (await api.call("POST", "/session", json={"key": key}, headers=headers)).status_code == 403
            await sign_in(api, key)
            await api.post("/workflow-runs", {"graph": "greeter"}, 403, headers=headers)
            await api.post("/workflow-runs/cancel", {"status": ["running"]}, 403, headers=headers)
            assert (await api.call("DELETE", "/session", headers=headers)).status_code == 403
            assert (await api.get("/session"))["authenticated"] is True
            assert await api.get("/workflow-runs") == []
            # A key that is sent on purpose needs no origin, whatever cookies there are.
            await api.as_owner_of(key).post("/workflow-runs", {"graph": "greeter"}, 201, headers=headers)

    asyncio.run(run())


def test_a_page_behind_a_proxy_that_changes_the_host_may_write() -> None:
    async def run() -> None:
        async with serving(auth="keys", admin_token=ADMIN_TOKEN) as api:
            _, key = await create_key(api)
            headers = {"origin": "https://runs.example.org", "sec-fetch-site": "same-origin"}
            await api.post("/session", {"key": key}, headers=headers)
            await api.post("/workflow-runs", {"graph": "greeter"}, 201, headers=headers)

    asyncio.run(run())


def test_unknown_and_malformed_tokens_are_no_credentials() -> None:
    async def run() -> None:
        async with serving(auth="keys", admin_token=ADMIN_TOKEN) as api:
            await sign_in(api, "stw_unknown", 401)
            await api.post("/session", {"key": 5}, 400, headers=SAME_ORIGIN)
            for token in ("x", "x" * 43, "é" * 43, "x" * 100_000):
                cookie = {"cookie": f"statewright_session={token}".encode()}
                response = await api.client.get(f"{BASE}/workflow-runs", headers=cookie)  # type: ignore[arg-type]
                assert response.status_code == 401
                assert (await api.client.get(f"{BASE}/session", headers=cookie)).status_code == 200  # type: ignore[arg-type]

    asyncio.run(run())


def test_neither_keys_nor_tokens_get_into_logs_and_errors(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        async with serving(auth="keys", admin_token=ADMIN_TOKEN) as api:
            _, key = await create_key(api)
            await sign_in(api, key)
            token = api.client.cookies["statewright_session"]
            secrets = (key, token, "stw_a_wrong_key", "z" * 43)
            answers = [
                await api.call("POST", "/session", json={"key": "stw_a_wrong_key"}, headers=SAME_ORIGIN),
                await api.call("POST", "/session", json={"key": key, "more": 1}, headers=SAME_ORIGIN),
                await api.call("POST", "/session", json=key, headers=SAME_ORIGIN),
                await api.client.get(f"{BASE}/workflow-runs", headers={"cookie": f"statewright_session={'z' * 43}"}),
                await api.call("DELETE", "/session", headers=SAME_ORIGIN),
            ]
            sessions = [str(record) for record in await asyncio.to_thread(api.service.context.ledger.find, Session)]  # type: ignore[arg-type]
            texts = [caplog.text, *sessions, *(f"{answer.text} {answer.url}" for answer in answers)]
            assert not [secret for secret in secrets if any(secret in text for text in texts)]

    with caplog.at_level(logging.DEBUG):
        asyncio.run(run())


def test_a_session_ends_by_signing_out_and_its_token_is_not_accepted_again() -> None:
    async def run() -> None:
        async with serving(auth="keys", admin_token=ADMIN_TOKEN) as api:
            _, key = await create_key(api)
            await sign_in(api, key)
            token = api.client.cookies["statewright_session"]
            signed_out = await api.call("DELETE", "/session", headers=SAME_ORIGIN)
            assert signed_out.json()["data"]["authenticated"] is False
            assert "max-age=0" in signed_out.headers["set-cookie"].lower()
            cookie = {"cookie": f"statewright_session={token}"}
            assert (await api.client.get(f"{BASE}/workflow-runs", headers=cookie)).status_code == 401
            # The key itself is still valid, and signing out twice is no error.
            await api.as_owner_of(key).get("/workflow-runs")
            assert (await api.call("DELETE", "/session", headers=SAME_ORIGIN)).status_code == 200

    asyncio.run(run())


def test_a_session_ends_when_it_is_not_used_and_after_a_week_at_the_latest() -> None:
    async def run() -> None:
        clock = FakeClock()
        service = Service(catalog(), clock=clock)
        async with serving(service=service, auth="keys", admin_token=ADMIN_TOKEN, session_idle=3600) as api:
            _, key = await create_key(api)
            await sign_in(api, key)
            for _ in range(3):
                clock.advance(3000)
                await api.get("/workflow-runs")
            clock.advance(3000)
            assert (await api.get("/session"))["authenticated"] is True  # looking does not prolong it
            clock.advance(601)
            await api.get("/workflow-runs", 401)
            await sign_in(api, key)
            for _ in range(7 * 24 * 2 - 1):
                clock.advance(1800)
                await api.get("/workflow-runs")
            clock.advance(1800)
            await api.get("/workflow-runs", 401)
            # Ended sessions are deleted when somebody signs in.
            clock.advance(3600)
            await sign_in(api, key)
            assert len(service.context.ledger.find(Session)) == 1  # type: ignore[arg-type]

    asyncio.run(run())


def test_revoking_a_key_ends_its_sessions_and_their_streams_on_all_servers() -> None:
    async def run() -> None:
        ledger, saver = InMemoryLedger(), InMemorySaver()
        async with AsyncExitStack() as stack:
            options: Any = {"auth": "keys", "admin_token": ADMIN_TOKEN}
            services = [Service(catalog(), ledger=ledger, saver=saver) for _ in range(2)]
            servers = [await stack.enter_async_context(serving(service=one, **options)) for one in services]
            owner = await servers[0].post("/workspaces", {"slug": "one"}, 201, headers={"x-admin-token": ADMIN_TOKEN})
            admin = servers[1].as_owner_of(owner["apiKey"]["key"])
            created = await admin.post("/api-keys", {"name": "page", "scopes": ["runs:read"]}, 201)
            run = await admin.start(PAYMENT)
            await sign_in(servers[0], created["key"])
            cookies = dict(servers[0].client.cookies)
            servers[1].client.cookies.update(cookies)
            await servers[1].get(f"/workflow-runs/{run['id']}")  # the other server accepts the session
            stream = asyncio.ensure_future(servers[0].client.get(f"{BASE}/workflow-runs/{run['id']}/stream"))
            streams = servers[0].app.state.context.streams
            while not streams._stops_by_session:
                await asyncio.sleep(0.01)
            await admin.delete(f"/api-keys/{created['id']}", 200)
            for server in servers:
                assert (await server.client.get(f"{BASE}/workflow-runs")).status_code == 401
                assert (await server.get("/session"))["authenticated"] is False
            assert not stream.done()
            await streams.check_sessions()  # which is done every few seconds
            assert (await stream).status_code == 200

    asyncio.run(run())


def test_signing_out_ends_the_streams_of_the_session_only() -> None:
    async def run() -> None:
        async with serving(auth="keys", admin_token=ADMIN_TOKEN) as api:
            _, key = await create_key(api)
            run = await api.as_owner_of(key).start(PAYMENT)
            path = f"{BASE}/workflow-runs/{run['id']}/stream"
            await sign_in(api, key)
            in_session = asyncio.ensure_future(api.client.get(path))
            with_key = asyncio.ensure_future(api.client.get(path, headers={"x-api-key": key}))
            streams = api.app.state.context.streams
            while sum(map(len, streams._stops_by_key.values())) < 2:
                await asyncio.sleep(0.01)
            await api.call("DELETE", "/session", headers=SAME_ORIGIN)
            await in_session
            assert not with_key.done()
            with_key.cancel()

    asyncio.run(run())


def test_a_server_without_keys_says_that_none_is_needed() -> None:
    async def run() -> None:
        async with serving() as api:
            session = await api.get("/session")
            assert (session["authenticated"], session["keyRequired"]) == (True, False)
            assert "runs:write" in session["scopes"]
            response = await api.call("POST", "/session", json={"key": "any"}, headers=SAME_ORIGIN)
            assert response.status_code == 200
            assert "set-cookie" not in response.headers

    asyncio.run(run())
