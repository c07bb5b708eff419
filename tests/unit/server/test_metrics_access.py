"""Access to the metrics, which name the graphs of all workspaces."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.request import urlopen

import pytest
from tests.unit.server.serving import ADMIN_TOKEN, LEAD, serving

from statewright.errors import InvalidConfig
from statewright.observe import Metrics
from statewright.runs import DEFAULT_WORKSPACE
from statewright.server.app import serve_metrics
from statewright.server.settings import ServerSettings
from statewright.service.access import create_key

OPERATOR = {"x-admin-token": ADMIN_TOKEN}


@pytest.mark.parametrize(
    ("settings", "access"),
    [
        ({}, "open"),
        ({"host": "0.0.0.0"}, "keys"),
        ({"host": "0.0.0.0", "metrics": "open"}, "open"),
        ({"metrics": "keys"}, "keys"),
        ({"metrics": "off"}, "off"),
    ],
)
def test_metrics_are_open_on_loopback_by_default(settings: dict[str, Any], access: str) -> None:
    assert ServerSettings(**settings).metrics_access == access


def test_an_unknown_mode_is_refused() -> None:
    with pytest.raises(InvalidConfig, match="metrics='public'"):
        ServerSettings(metrics="public")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("settings", "none", "admin", "reader", "operator"),
    [
        ({"metrics": "open"}, 200, 200, 200, 200),
        ({"metrics": "keys"}, 401, 403, 200, 200),
        ({"host": "0.0.0.0"}, 401, 403, 200, 200),
        ({"metrics": "off"}, 404, 404, 404, 404),
    ],
)
def test_access_to_metrics_depends_on_the_mode_and_the_credentials(
    settings: dict[str, Any], none: int, admin: int, reader: int, operator: int
) -> None:
    async def run() -> None:
        async with serving(auth="keys", admin_token=ADMIN_TOKEN, metrics=Metrics()) as api:
            object.__setattr__(api.app.state.context, "settings", ServerSettings(admin_token=ADMIN_TOKEN, **settings))
            ledger, now = api.service.context.ledger, api.service.clock.now()
            keys = [
                (await create_key(ledger, DEFAULT_WORKSPACE, scope, [scope], now=now))[1]
                for scope in ("admin", "metrics:read")
            ]
            for headers, status in (
                ({}, none),
                ({"x-api-key": keys[0]}, admin),
                ({"x-api-key": keys[1]}, reader),
                (OPERATOR, operator),
                ({"x-admin-token": "wrong"}, none),
            ):
                for path in ("/metrics", "/api/v1/metrics"):
                    assert (await api.client.get(path, headers=headers)).status_code == status, (headers, path)

    asyncio.run(run())


def test_a_separate_port_needs_no_key() -> None:
    metrics = Metrics()
    with serve_metrics(metrics, ServerSettings(metrics="off", metrics_port=0)) as port:
        with urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
            assert b"statewright_http_requests" in answer.read()
        with (
            pytest.raises(InvalidConfig, match="metrics_port"),
            serve_metrics(metrics, ServerSettings(metrics_port=port)),
        ):
            pass
    with serve_metrics(metrics, ServerSettings()) as port:
        assert port is None


def test_labels_of_a_run_count_towards_the_limit_of_its_workspace() -> None:
    metrics = Metrics(most_label_values=1)

    async def run() -> None:
        from tests.unit.server.serving import catalog

        from statewright.service import Service

        service = Service(catalog(), instruments=[metrics], meter=metrics)
        async with serving(service=service, metrics=metrics) as api:
            await api.start(LEAD, wait=60)

    asyncio.run(run())
    text = metrics.render().decode()
    assert 'statewright_run_seconds_count{graph="lead"' in text
    metrics.record_run_start("run_of_another", "another")
    assert metrics._graph_labels("theirs", owner="another") == ("theirs",)
    assert metrics._graph_labels("more", owner="another") == ("other",)
