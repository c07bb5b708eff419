"""The units of systemd are valid, and their processes have few permissions."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.unit.deploy.deploy_files import DEPLOY, command_lines, parse, units

UNITS = units()
HARDENING = {
    "NoNewPrivileges": "yes",
    "ProtectSystem": "strict",
    "ProtectHome": "yes",
    "PrivateTmp": "yes",
    "PrivateDevices": "yes",
    "CapabilityBoundingSet": "",
    "RestrictAddressFamilies": "AF_INET AF_INET6 AF_UNIX",
    "SystemCallFilter": "@system-service",
    "StateDirectory": "statewright",
    "UMask": "0077",
}
PROGRAM = "/opt/statewright/bin/statewright"


@pytest.mark.parametrize("name", UNITS)
def test_a_unit_is_hardened_and_runs_as_a_user_of_its_own(name: str) -> None:
    service = UNITS[name]["Service"]
    assert {key: service.get(key) for key in HARDENING} == {key: [value] for key, value in HARDENING.items()}
    assert (service["User"], service["Group"]) == (["statewright"], ["statewright"])
    assert all(value.startswith(f"{PROGRAM} ") for value in service["ExecStart"])
    assert all(len(values) == 1 for section in UNITS[name].values() for values in section.values())


def test_processes_see_each_other_in_proc() -> None:
    """A process that is not visible there is taken for one that was killed, and its runs are taken over."""
    assert all("ProtectProc" not in unit["Service"] for unit in UNITS.values())


def test_all_units_have_the_same_files() -> None:
    for key in ("WorkingDirectory", "EnvironmentFile", "Environment"):
        assert len({tuple(unit["Service"][key]) for unit in UNITS.values()}) == 1, key


def test_the_server_and_the_workers_are_started_at_boot_and_the_migration_is_not() -> None:
    assert {name for name, unit in UNITS.items() if "Install" in unit} == {
        "statewright-server.service",
        "statewright-worker@.service",
    }
    assert all(
        "statewright-migrate.service" in unit["Unit"]["After"][0] for unit in UNITS.values() if "Install" in unit
    )


def test_an_instance_of_the_worker_is_named_by_its_port() -> None:
    assert parse(command_lines()["systemd: statewright-worker@.service"])["port"] == 8131


def test_the_example_of_the_environment_is_valid() -> None:
    text = (DEPLOY / "systemd/statewright.env.example").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert all(re.fullmatch(r"[A-Z_]+=[^\s'\"]+", line) for line in lines)
    assert {line.partition("=")[0] for line in lines} == {"STATEWRIGHT_DATABASE", "PGPASSWORD"}


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
@pytest.mark.parametrize("name", UNITS)
def test_systemd_accepts_a_unit(tmp_path: Path, name: str) -> None:
    program = tmp_path / "statewright"
    program.write_text("#!/bin/sh\n", encoding="utf-8")
    program.chmod(0o755)
    text = (DEPLOY / "systemd" / name).read_text(encoding="utf-8")
    copy = tmp_path / name.replace("@.", "@8131.")
    copy.write_text(text.replace(PROGRAM, str(program)), encoding="utf-8")
    result = subprocess.run(["systemd-analyze", "verify", str(copy)], capture_output=True, text=True, check=False)
    mine = [line for line in result.stderr.splitlines() if "statewright" in line]  # not about units of this machine
    assert (result.returncode, mine) == (0, []), result.stderr
