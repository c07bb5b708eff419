"""The server takes its settings from the application. Its shutdown is covered by the integration tests."""

from __future__ import annotations

from tests.unit.server.serving import catalog

from statewright.server.app import create_app
from statewright.server.serve import create_server
from statewright.server.settings import ServerSettings
from statewright.service import Service


def test_settings_default_to_those_of_the_application():
    app = create_app(Service(catalog()), settings=ServerSettings(port=1234, drain_timeout=7))
    config = create_server(app).config
    assert (config.host, config.port, config.timeout_graceful_shutdown) == ("127.0.0.1", 1234, 7)
    assert config.server_header is False
    overridden = create_server(app, ServerSettings(host="0.0.0.0", port=1)).config
    assert (overridden.host, overridden.port) == ("0.0.0.0", 1)
