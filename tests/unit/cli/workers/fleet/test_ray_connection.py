"""Connecting to a cluster: errors about wrong addresses come at once, and others within a time limit."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.ray_cluster import needs_ray

from statewright.cli.console.failure import UsageError
from statewright.cli.workers.fleet.ray_connection import connect

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
def test_what_is_not_an_address_is_refused(address: str) -> None:
    with pytest.raises(UsageError, match=r"is not the address of a cluster\. Check --ray: HOST:PORT of the head node"):
        connect(address, {})


@pytest.mark.full
def test_what_does_not_answer_is_given_up(silent_port: int) -> None:
    command = [sys.executable, "-c", PROGRAM, f"127.0.0.1:{silent_port}"]
    root = Path(__file__).parents[5]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "It did not answer within 1 seconds." in done.stderr
