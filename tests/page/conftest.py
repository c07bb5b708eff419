"""The web page in Chromium, through a server in a process of its own that requires keys.

Without Chromium, Playwright or a built page, the tests are skipped, except with CI=true.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.integration.test_server import Server, free_port

from statewright.server.page.built_files import BUILT, INDEX

PROGRAM = """
import asyncio, sys
from statewright.server import ServerSettings, create_app, serve
from statewright.service import Service
from statewright.service.access import create_key, list_keys
from statewright.service.access.workspaces import ensure_default_workspace
from statewright.storage.sqlite import SqliteDatabase, SqliteLedger, SqliteSaver
from tests.unit.server.serving import catalog

with SqliteDatabase(sys.argv[2]) as database:
    ledger = SqliteLedger(database)
    service = Service(catalog(), ledger=ledger, saver=SqliteSaver(database))

    async def add_key():
        await ensure_default_workspace(ledger, service.clock.now())
        if not await list_keys(ledger, "ws_default"):
            _, key = await create_key(ledger, "ws_default", "tests", ["admin"], now=service.clock.now())
            open(sys.argv[2] + ".key", "w").write(key)

    asyncio.run(add_key())
    serve(create_app(service, settings=ServerSettings(auth="keys", port=int(sys.argv[1]), drain_timeout=5)))
"""
TIMEOUT = 60_000
"""Milliseconds after which a test fails that waits for something on the page. Only a fault takes this long."""
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@dataclass
class PageServer:
    """A server with the page, which can be stopped and started again on the same port and database."""

    port: int
    database: Path
    server: Server

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def key(self) -> str:
        return Path(f"{self.database}.key").read_text()

    def restart(self) -> None:
        self.server.stop()
        self.server = start_server(self.port, self.database)


def start_server(port: int, database: Path) -> Server:
    server = Server(port, database, PROGRAM)
    server.client.headers["x-api-key"] = Path(f"{database}.key").read_text()
    return server


def missing(what: str, remedy: str) -> None:
    """Skip the test, except in CI, where nothing may be missing."""
    assert not os.environ.get("CI"), f"{what}: {remedy}"
    pytest.skip(what)


@pytest.fixture
def chromium() -> Iterator[Any]:
    """A browser for one test: while Playwright runs, other tests of the process could run no event loop."""
    if not (BUILT / INDEX).is_file():
        missing("the web page is not built", "make ui")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        missing("playwright is not installed", "make setup")
    names = ("chromium", "chromium-browser", "google-chrome")
    path = os.environ.get("STATEWRIGHT_CHROMIUM") or next(filter(None, map(shutil.which, names)), None)
    if path is None:
        missing("chromium is not installed", "apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, headless=True, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageServer]:
    port, database = free_port(), tmp_path_factory.mktemp("page") / "runs.db"
    running = PageServer(port, database, start_server(port, database))
    yield running
    running.server.stop()


@contextmanager
def open_tab(chromium: Any, server: PageServer) -> Iterator[Any]:
    """Open a new browser window without cookies. It fails if the page reports an error or calls another host."""
    context = chromium.new_context(base_url=server.url, viewport={"width": 1440, "height": 900})
    context.set_default_timeout(TIMEOUT)
    tab = context.new_page()
    problems: list[str] = []
    tab.on("pageerror", lambda error: problems.append(f"error: {error}"))
    tab.on("request", lambda request: _check_host(request.url, server, problems))
    tab.on("console", lambda message: _check_console(message.text, problems))
    yield tab
    context.close()
    assert problems == []


def _check_host(url: str, server: PageServer, problems: list[str]) -> None:
    if not url.startswith((server.url, "data:", "blob:")):
        problems.append(f"request: {url}")


def _check_console(text: str, problems: list[str]) -> None:
    if "Content Security Policy" in text or "Refused to" in text:
        problems.append(f"policy: {text}")


@pytest.fixture
def tab(chromium: Any, server: PageServer) -> Iterator[Any]:
    with open_tab(chromium, server) as opened:
        yield opened


def sign_in(tab: Any, server: PageServer, path: str = "/ui/runs") -> None:
    """Open an address, sign in, and wait until the page is there."""
    tab.goto(path)
    tab.wait_for_url("**/ui/sign-in**")
    tab.locator("input[name=key]").fill(server.key)
    tab.locator("button[type=submit]").click()
    tab.wait_for_url(f"**{path}**")
