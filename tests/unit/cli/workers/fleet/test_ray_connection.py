"""Connecting to a cluster: errors about wrong addresses come at once, and others within a time limit."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.ray_cluster import needs_ray

from statewright.cli.console.failure import UsageError
from statewright.cli.workers.fleet.ray_connection import check_database, connect
from statewright.storage.locations import parse_location

pytestmark = [needs_ray, pytest.mark.filterwarnings("ignore::Warning:ray")]
PROGRAM = """
import sys
from statewright.cli.console.failure import UsageError
from statewright.cli.workers.fleet.ray_connection import connect
try:
    connect(sys.argv[1], {}, seconds=1)
except UsageError as error:
    sys.exit(str(error))
"""


@pytest.fixture
def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


@pytest.fixture
def silent_port() -> Iterator[int]:
    """A port that accepts connections, and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.mark.parametrize("scheme", ["", "ray://"])
def test_a_port_that_is_closed_is_reported(closed_port: int, scheme: str) -> None:
    with pytest.raises(UsageError, match=rf"cannot be used\. Port {closed_port} of 127\.0\.0\.1: Connection refused"):
        connect(f"{scheme}127.0.0.1:{closed_port}", {})


@pytest.mark.parametrize("address", ["", "head", "head:", ":6379", "head:x", "head:0", "head:70000", "http://head"])
def test_an_invalid_address_is_refused(address: str) -> None:
    with pytest.raises(UsageError, match=r"is not the address of a cluster\. Check --ray: HOST:PORT of the head node"):
        connect(address, {})


@pytest.mark.full
def test_a_cluster_that_does_not_answer_is_given_up(silent_port: int) -> None:
    command = [sys.executable, "-c", PROGRAM, f"127.0.0.1:{silent_port}"]
    root = Path(__file__).parents[5]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "It did not answer within 1 seconds." in done.stderr


def cluster_of(*hosts: str) -> Any:
    """Return what `ray` says about a cluster to a process on the machine 10.0.0.1. A node at 10.0.0.9 was lost."""
    nodes = [{"NodeManagerAddress": host, "Alive": True} for host in hosts]
    lost = {"NodeManagerAddress": "10.0.0.9", "Alive": False}
    return SimpleNamespace(nodes=lambda: [*nodes, lost], util=SimpleNamespace(get_node_ip_address=lambda: "10.0.0.1"))


def test_a_database_file_needs_a_cluster_on_this_machine() -> None:
    file, server = parse_location("runs.db"), parse_location("postgresql://db/runs")
    check_database(cluster_of("10.0.0.1", "10.0.0.1"), "auto", file)
    check_database(cluster_of("10.0.0.1", "10.0.0.2"), "auto", server)
    for hosts, address in [
        (("10.0.0.1", "10.0.0.2"), "auto"),
        (("10.0.0.2",), "head:1"),
        (("10.0.0.1",), "ray://head"),
    ]:
        with pytest.raises(UsageError, match=r"'runs\.db' is a file, .* Use a Postgres database: --database postgres"):
            check_database(cluster_of(*hosts), address, file)
