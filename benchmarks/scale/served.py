"""`python -m benchmarks.scale.served ROLE URL PORT`: a process on Postgres that is measured.

Roles: `server` starts runs and leaves them to workers, `requests` does so without the sweeps after each request, and
`worker` advances the runs of the default queue.
"""

import socket
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.served.process import Served

SCHEMA = "served"


def start(role: str, url: str) -> Served:
    """Start a process."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    folder = Path(tempfile.mkdtemp(prefix="statewright-capacity-"))
    return Served([sys.executable, "-m", "benchmarks.scale.served", role, url, str(port)], port, "/ready", folder)


def main(role: str, url: str, port: int) -> None:
    from benchmarks.scale.measured_service import service_on
    from statewright.runs import DEFAULT_QUEUE
    from statewright.server import ServerSettings, create_app, serve
    from statewright.service import Service
    from statewright.storage.postgres import PostgresDatabase

    class WithoutSweeps(Service):
        """Starts no sweeps after requests, whose cost is measured separately."""

        async def start_working(self) -> None:
            await super().start_working()
            self.context.wake_background = lambda: None

    service_type = WithoutSweeps if role == "requests" else Service
    opened = PostgresDatabase(url, schema=SCHEMA)
    service: Any = service_on(
        opened, service_type, has_bell=role != "requests", works=role == "worker", queues=[DEFAULT_QUEUE]
    )
    serve(create_app(service, settings=ServerSettings(port=port, auth="none")))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
