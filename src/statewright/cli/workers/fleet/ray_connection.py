"""The connection of a supervisor to a Ray cluster, and the errors if it cannot be made.

Ray tries for minutes to reach a cluster that is down, and writes about it in its own words. So the port is tried
first, and the whole connection has a time limit. Ray offers none, and its calls cannot be interrupted, hence the
thread, which is left behind.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from statewright.cli.console.failure import UsageError
from statewright.extras import optional
from statewright.storage.locations import Location

CLIENT_SCHEME: Final = "ray://"
LOCAL: Final = "local"
"""The address of a new cluster on this machine, which ends with the process."""
NAMESPACE: Final = "statewright"
PORT_SECONDS: Final = 5.0
"""Seconds to open a connection to the port of a cluster."""
CONNECT_SECONDS: Final = 60.0
"""Seconds to connect, and to send the project."""
_CLIENT_PORT: Final = 10001


def import_ray() -> Any:
    """Import and return `ray`. Raises MissingLibrary."""
    with optional("The option --ray needs", extra="ray"):
        import ray
    return ray


def connect(address: str, runtime_env: Mapping[str, Any], seconds: float = CONNECT_SECONDS) -> Any:
    """Connect this process to a cluster, and return the module `ray`. Raises MissingLibrary and UsageError.

    Handlers of signals that are to last must be set afterwards, because Ray sets its own.
    """
    ray = import_ray()
    _check_port(address)
    options: dict[str, Any] = {
        "address": address,
        "namespace": NAMESPACE,
        "runtime_env": dict(runtime_env),
        "logging_level": "ERROR",
        "log_to_driver": False,  # the lines of all workers, in another format: they are in the logs of their nodes
    }
    if address == LOCAL:
        # Not on a thread: Linux ends the processes of the cluster together with the thread that has started them.
        ray.init(**options, include_dashboard=False)
        return ray
    failures: list[Exception] = []

    def work() -> None:
        try:
            ray.init(**options)
        except Exception as error:
            failures.append(error)

    thread = threading.Thread(target=work, name="statewright-ray-connection", daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        raise UsageError(f"{_unreachable(address)} It did not answer within {seconds:g} seconds. {_ADVICE}")
    if failures:
        reason = " ".join(str(failures[0]).split()).rstrip(".") or type(failures[0]).__name__
        raise UsageError(f"{_unreachable(address)} {reason}. {_ADVICE}") from failures[0]
    return ray


_ADVICE: Final = "Check --ray: HOST:PORT of the head node, ray://HOST:PORT of its client server, or `auto` on a node."


def _unreachable(address: str) -> str:
    return f"The Ray cluster {address!r} cannot be used."


def _check_port(address: str) -> None:
    """Raise UsageError if the port in an address does not accept connections."""
    if address == "auto":
        address = os.environ.get("RAY_ADDRESS", address)
    if address in ("auto", LOCAL):
        return
    host, colon, port = address.removeprefix(CLIENT_SCHEME).rpartition(":")
    if not colon and address.startswith(CLIENT_SCHEME):
        host, port = port, str(_CLIENT_PORT)
    if not host or not port.isdigit() or not 0 < int(port) <= 65535:
        raise UsageError(f"--ray {address!r} is not the address of a cluster. {_ADVICE}")
    try:
        socket.create_connection((host.strip("[]"), int(port)), PORT_SECONDS).close()
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise UsageError(f"{_unreachable(address)} Port {port} of {host}: {reason}. {_ADVICE}") from None


def check_database(ray: Any, address: str, database: Location) -> None:
    """Raise UsageError for a database file, unless all nodes of the cluster are this machine."""
    if not isinstance(database, Path):
        return
    hosts = {node["NodeManagerAddress"] for node in ray.nodes() if node["Alive"]}
    own = None if address.startswith(CLIENT_SCHEME) else ray.util.get_node_ip_address()
    if hosts != {own}:
        raise UsageError(
            f"The database {str(database)!r} is a file, which workers on other machines cannot share, and the cluster "
            f"{address!r} has nodes at {', '.join(sorted(hosts))}. Use a Postgres database: --database "
            f"postgresql://user@host/name. Move the runs there with: statewright db copy."
        )
