"""The server takes its settings from the application, and exits on signals at any time.

Its graceful shutdown is covered by the integration tests.
"""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from tests.unit.server.serving import catalog

from statewright.server.app import create_app
from statewright.server.serve import STARTUP_FAILURE, create_server, exit_on_signals, serve
from statewright.server.settings import ServerSettings
from statewright.service import Service


def test_a_server_has_the_settings_of_its_application_by_default():
    app = create_app(Service(catalog()), settings=ServerSettings(port=1234, drain_timeout=7))
    config = create_server(app).config
    assert (config.host, config.port, config.timeout_graceful_shutdown) == ("127.0.0.1", 1234, 7)
    assert config.server_header is False
    overridden = create_server(app, ServerSettings(host="0.0.0.0", port=1)).config
    assert (overridden.host, overridden.port) == ("0.0.0.0", 1)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_before_the_event_loop_runs_ends_the_server(number: signal.Signals) -> None:
    server = create_server(create_app(Service(catalog()), settings=ServerSettings(port=0)))
    previous = signal.getsignal(number)
    with exit_on_signals(server):
        signal.raise_signal(number)
        server.run()  # would run until the next signal if the first one was ignored
        signal.raise_signal(number)  # as uvicorn does after its loop
    assert signal.getsignal(number) is previous


def test_an_application_that_cannot_start_exits_with_an_error() -> None:
    app = create_app(Service(catalog()), settings=ServerSettings(port=0))

    @asynccontextmanager
    async def fail(_: object) -> AsyncIterator[None]:
        raise RuntimeError("no database")
        yield

    app.router.lifespan_context = fail
    with pytest.raises(SystemExit) as raised:
        serve(app)
    assert raised.value.code == STARTUP_FAILURE
