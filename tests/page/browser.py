"""Chromium for tests: one process for all tests of a process, on a thread of its own.

The synchronous interface of Playwright keeps an event loop running on its thread for as long as it is used. Other tests
of the process could then run no event loop, and to start the browser anew for each test takes seconds. So Playwright
has a thread of its own, and tests that use the browser are called on it; see `pytest_pyfunc_call` in conftest.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest
from tests.page.page_server import PageServer

from statewright.server.page.built_files import BUILT, INDEX

T = TypeVar("T")
TIMEOUT = 120_000
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
ROOT = Path(__file__).parents[2]
WIDE = {"width": 1440, "height": 900}
NARROW = {"width": 360, "height": 740}


def find_chromium() -> str:
    """Return the path of Chromium. Skips the test without it, without Playwright, or without a built page."""
    if not (BUILT / INDEX).is_file():
        miss("the web page is not built", "make ui")
    try:
        import playwright  # noqa: F401
    except ImportError:
        miss("playwright is not installed", "make setup")
    names = ("chromium", "chromium-browser", "google-chrome")
    path = os.environ.get("STATEWRIGHT_CHROMIUM") or next(filter(None, map(shutil.which, names)), None)
    return path or miss("chromium is not installed", "apt-get install chromium")


def miss(what: str, remedy: str) -> Any:
    """Skip the test, except in CI, where nothing may be missing."""
    assert not os.environ.get("CI"), f"{what}: {remedy}"
    pytest.skip(what)


def expect(found: Any) -> Any:
    """Return the assertions of Playwright about what was found, which wait until they hold."""
    from playwright.sync_api import expect as expect_of

    return expect_of(found)


class Browser:
    """A thread with Chromium. Everything that Playwright returns may be used on this thread only."""

    def __init__(self, path: str) -> None:
        self._thread = ThreadPoolExecutor(1, "browser")
        self.call(self._launch, path)

    def _launch(self, path: str) -> None:
        from playwright.sync_api import expect, sync_playwright

        expect.set_options(timeout=TIMEOUT)
        self._playwright = sync_playwright().start()
        self.chromium = self._playwright.chromium.launch(executable_path=path, headless=True, args=ARGUMENTS)

    def call(self, function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """Call a function on the thread, and return its result."""
        return self._thread.submit(function, *args, **kwargs).result()

    @contextmanager
    def enter(self, manager: AbstractContextManager[T]) -> Iterator[T]:
        """Enter and leave a context manager on the thread."""
        stack = ExitStack()
        value = self.call(stack.enter_context, manager)
        try:
            yield value
        finally:
            self.call(stack.close)

    def close(self) -> None:
        self.call(self.chromium.close)
        self.call(self._playwright.stop)
        self._thread.shutdown()


@contextmanager
def open_tab(browser: Browser, server: PageServer, key: str | None = None, **options: Any) -> Iterator[Any]:
    """Open a window without traces of others, signed in with a key if there is one.

    When it is closed, the test fails if the page has raised an error, opened a dialog, called another host, or broken
    its Content-Security-Policy.
    """
    context = browser.chromium.new_context(base_url=server.url, **{"viewport": WIDE, **options})
    context.set_default_timeout(TIMEOUT)
    if key is not None:
        context.add_cookies([server.cookie_of(key)])
    tab = context.new_page()
    problems: list[str] = []
    tab.on("pageerror", lambda error: problems.append(f"error: {error}"))
    tab.on("dialog", lambda dialog: (problems.append(f"dialog: {dialog.message}"), dialog.dismiss()))
    tab.on("request", lambda request: _check_host(request.url, server, problems))
    tab.on("console", lambda message: _check_console(message.text, problems))
    try:
        yield tab
    finally:
        context.close()
    assert problems == []


def _check_host(url: str, server: PageServer, problems: list[str]) -> None:
    if not url.startswith((f"{server.url}/", "data:", f"blob:{server.url}/")):
        problems.append(f"request: {url}")


def _check_console(text: str, problems: list[str]) -> None:
    if "Content Security Policy" in text or "Refused to" in text:
        problems.append(f"policy: {text}")
