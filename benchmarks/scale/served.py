"""`python -m benchmarks.scale.served URL PORT`: a server that starts runs on Postgres, and does nothing else."""

import socket
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.served.process import Served


def start(url: str) -> Served:
    """Start the server in a process of its own."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    folder = Path(tempfile.mkdtemp(prefix="statewright-capacity-"))
    return Served([sys.executable, "-m", "benchmarks.scale.served", url, str(port)], port, "/ready", folder)


def main(url: str, port: int) -> None:
    from benchmarks.scale.measured_service import service_on
    from statewright.server import ServerSettings, create_app, serve
    from statewright.service import Service
    from statewright.storage.postgres import PostgresDatabase

    class WithoutSweeps(Service):
        """Starts no sweeps after requests, whose cost is measured separately."""

        async def start_working(self) -> None:
            await super().start_working()
            self.context.wake_background = lambda: None

    service: Any = service_on(PostgresDatabase(url, schema="requests"), WithoutSweeps, works=False)
    serve(create_app(service, settings=ServerSettings(port=port, auth="none")))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
