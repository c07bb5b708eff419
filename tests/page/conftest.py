"""The web page in Chromium, through a server in a process of its own that requires keys.

Without Chromium, Playwright or a built page, the tests are skipped, except with CI=true. One browser and one server are
shared by all tests of a process: tests start the runs that they change, and leave the `seeds` as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any
from uuid import uuid4

import pytest
from tests.page.browser import Browser, find_chromium, open_tab
from tests.page.gates import Gate
from tests.page.page_server import PageServer, gates_of
from tests.page.seeds import Seeds, seed


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Call tests that use the browser on its thread."""
    browser = pyfuncitem.funcargs.get("browser")
    if not isinstance(browser, Browser):
        return None
    names = pyfuncitem._fixtureinfo.argnames
    browser.call(pyfuncitem.obj, **{name: pyfuncitem.funcargs[name] for name in names})
    return True


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    launched = Browser(find_chromium())
    yield launched
    launched.close()


@pytest.fixture(scope="session")
def server(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageServer]:
    running = PageServer(tmp_path_factory.mktemp("page") / "runs.db")
    yield running
    running.stop()


@pytest.fixture(scope="session")
def seeds(server: PageServer) -> Seeds:
    return seed(server)


@pytest.fixture
def gate(server: PageServer) -> Iterator[Gate]:
    """A gate for the runs of a test, which is opened at the latest when the test has ended."""
    created = Gate(gates_of(server.database), uuid4().hex)
    yield created
    created.open()


@pytest.fixture
def tab(browser: Browser, server: PageServer) -> Iterator[Any]:
    """A window that is signed in with all scopes."""
    with browser.enter(open_tab(browser, server, server.key)) as opened:
        yield opened


@pytest.fixture
def new_tab(browser: Browser, server: PageServer) -> Callable[..., AbstractContextManager[Any]]:
    """Opens further windows: without a key, with another one, or with options of Playwright."""
    return lambda key=None, **options: open_tab(browser, server, key, **options)
