"""Whatever supervises a process waits longer for its end than the process may need."""

from __future__ import annotations

import re

import pytest
from tests.unit.deploy.deploy_files import DEPLOY, command_lines, containers, parse, pods, services, units

from statewright.cli.console.failure import TERMINATED, USAGE_ERROR
from statewright.cli.serve.serve import DRAIN_TIMEOUT
from statewright.project import load_project
from statewright.server.routes.health import LIVE_TIMEOUT
from statewright.service.background.loop_thread import CANCEL_TIMEOUT
from statewright.storage.postgres.writer import PATIENCE

DRAIN = load_project(DEPLOY / "project").serving.drain or DRAIN_TIMEOUT
AFTER_DRAIN = 2 * CANCEL_TIMEOUT + PATIENCE
"""Seconds after the drain: steps that are cancelled, the thread of the service, and a database that is gone."""
LONG_RUNNING = ["serve", "worker"]


def test_the_project_sets_the_drain_that_the_files_are_made_for() -> None:
    assert load_project(DEPLOY / "project").serving.drain == DRAIN == DRAIN_TIMEOUT


@pytest.mark.parametrize("name", ["statewright-server", "statewright-worker"])
def test_kubernetes_waits_long_enough(name: str) -> None:
    container, grace = containers()[name], pods()[name]["terminationGracePeriodSeconds"]
    pause = container.get("lifecycle", {}).get("preStop", {}).get("exec", {}).get("command", ["sleep", "0"])
    assert pause[0] == "sleep"
    assert grace > int(pause[1]) + DRAIN + AFTER_DRAIN
    if container["args"][0] == "serve":  # it must be left by its clients before it stops to listen
        readiness = container["readinessProbe"]
        assert int(pause[1]) >= readiness["periodSeconds"]


@pytest.mark.parametrize("name", ["server", "worker"])
def test_compose_waits_long_enough(name: str) -> None:
    assert int(services()[name]["stop_grace_period"].removesuffix("s")) > DRAIN + AFTER_DRAIN


@pytest.mark.parametrize("name", [name for name, unit in units().items() if unit["Service"]["Type"] != ["oneshot"]])
def test_systemd_waits_long_enough_and_knows_the_exit_codes(name: str) -> None:
    service = units()[name]["Service"]
    assert int(service["TimeoutStopSec"][0]) > DRAIN + AFTER_DRAIN
    assert (service["KillSignal"], service["KillMode"]) == (["SIGTERM"], ["mixed"])
    assert service["Restart"] == ["on-failure"]
    assert service["RestartPreventExitStatus"] == [str(USAGE_ERROR)]
    assert service["SuccessExitStatus"] == [str(TERMINATED)]


def test_a_server_with_separate_workers_advances_no_runs() -> None:
    """Otherwise it would drain twice: open requests, and then its runs."""
    for place, arguments in command_lines().items():
        if arguments[0] == "serve" and place != "Dockerfile":
            assert parse(arguments)["no_work"], place


def test_probes_wait_longer_than_the_process_for_its_event_loop() -> None:
    timeouts = [c["livenessProbe"]["timeoutSeconds"] for c in containers().values() if "livenessProbe" in c]
    assert len(timeouts) == len(LONG_RUNNING)
    (timeout,) = re.findall(r"HEALTHCHECK .*--timeout=(\d+)s", (DEPLOY / "Dockerfile").read_text(encoding="utf-8"))
    assert min(*timeouts, int(timeout)) > LIVE_TIMEOUT
