"""pgbouncer in transaction mode in front of a Postgres server of the tests."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.postgres_programs import Server

START_SECONDS = 60.0
CONFIG = """
[databases]
* = host={host} port={server_port} user=postgres

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = {pool_size}
max_client_conn = 500
ignore_startup_parameters = extra_float_digits
"""


def program() -> str:
    """Return the path of pgbouncer. Without it the test is skipped, except in CI, where it must not be missing."""
    path = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin:/usr/local/sbin")
    if path is None:
        assert not os.environ.get("CI"), "pgbouncer is not installed: apt-get install pgbouncer"
        pytest.skip("pgbouncer is not installed")
    return path


@contextlib.contextmanager
def pooler(server: Server, *, pool_size: int = 5) -> Iterator[str]:
    """Run pgbouncer, and provide the address of the database `postgres` through it.

    Its sessions of the server are fewer than those of its clients, and each transaction takes another one.
    """
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    config = server.folder / "pgbouncer.ini"
    config.write_text(
        CONFIG.format(host=server.folder, server_port=server.port, port=port, pool_size=pool_size)
        + "server_round_robin = 1\n"
    )
    command = [program(), str(config)]
    if os.getuid() == 0:
        command[1:1] = ["-u", pwd.getpwnam("nobody").pw_name]
    with open(server.folder / "pgbouncer.log", "wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd="/")
    try:
        _wait_for(port, process, Path(log.name))
        yield server.tcp_url(port)
    finally:
        process.terminate()
        process.wait()


def _wait_for(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.02)
