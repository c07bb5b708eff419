"""The welcome page."""

from __future__ import annotations

import asyncio
import re
from base64 import b64encode
from hashlib import sha256

import pytest
from tests.unit.server.serving import serving

BROWSER = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}


@pytest.mark.parametrize("path", ["/", "/docs"])
@pytest.mark.parametrize("auth", ["keys", "none"])
def test_a_browser_gets_a_page_with_valid_links(path: str, auth: str) -> None:
    async def run() -> None:
        async with serving(auth=auth) as api:
            response = await api.client.get(path, headers=BROWSER)
            assert response.status_code == 200
            assert response.headers["content-type"] == "text/html; charset=utf-8"
            links = re.findall(r'href="([^"]*)"', response.text)
            assert links == ["/openapi.json", "/health", "/live", "/ready"]
            for link in links:
                assert (await api.client.get(link)).status_code == 200
            assert "statewright runs start GRAPH" in response.text

    asyncio.run(run())


def test_the_page_loads_no_resources_and_has_no_scripts() -> None:
    async def run() -> None:
        async with serving() as api:
            response = await api.client.get("/", headers=BROWSER)
            (style,) = re.findall("<style>(.*)</style>", response.text)
            policy = response.headers["content-security-policy"]
            assert policy.startswith("default-src 'none'; style-src 'sha256-")
            assert b64encode(sha256(style.encode()).digest()).decode() in policy
            assert not re.search("<script|src=|style=", response.text)

    asyncio.run(run())


def test_other_clients_get_json() -> None:
    async def run() -> None:
        async with serving() as api:
            for headers in ({"accept": "application/json"}, {"accept": "*/*"}):
                response = (await api.client.get("/", headers=headers)).json()
                assert response["links"]["openapi"] == "/openapi.json"
                assert response["version"]

    asyncio.run(run())
