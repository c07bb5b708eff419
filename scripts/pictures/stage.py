"""A server with the clock of the stage: what its page shows stands still until time is played."""

from __future__ import annotations

import asyncio
import os
import socket
import tempfile
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from examples import FOLDER
from stage_clock import clock

from statewright.cli.serve.catalog import build_catalog
from statewright.cli.serve.server import apply_queue_limits
from statewright.observe import LogCapture
from statewright.project import load_project
from statewright.runs import DEFAULT_WORKSPACE, Run, RunStatus
from statewright.server import ServerSettings, create_app
from statewright.server.serve import create_server
from statewright.service import Service, StartRun
from statewright.service.access.workspaces import ensure_default_workspace
from statewright.storage.sqlite import SqliteDatabase, SqliteLedger, SqliteSaver

T = TypeVar("T")
ENDED = (RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.CANCELLED)


class Stage:
    """The service and its server. Every method may be called from the main thread."""

    def __init__(self, service: Service, loop: asyncio.AbstractEventLoop, url: str) -> None:
        self.service = service
        self.url = url
        self._loop = loop
        self._count = 0

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    def start(self, graph: str, value: Any, **options: Any) -> str:
        """Start a run, and return its id, which is the same in every performance."""
        self._count += 1
        scrambled = self._count * 0x9E3779B97F4A7C15 % 2**64  # all bits differ from run to run
        run_id = f"run_{self._count:04x}{scrambled:016x}{self._count:012x}"
        request = StartRun(graph=graph, input=value, run_id=run_id, **options)
        self.call(self.service.start(DEFAULT_WORKSPACE, request))
        return run_id

    def run(self, run_id: str) -> Run:
        return self.call(self.service.run(DEFAULT_WORKSPACE, run_id))

    def play_until_ended(self, run_ids: list[str], step: float = 0.5) -> None:
        """Let time pass until these runs have ended or wait."""
        self.play_until(run_ids, lambda run: run.status in (*ENDED, RunStatus.WAITING), step)

    def play_until(
        self, run_ids: list[str], is_reached: Callable[[Run], bool], step: float = 0.5, limit: float = 900
    ) -> None:
        """Let time pass until a condition holds for all of these runs.

        Raises TimeoutError after `limit` seconds of the stage.
        """
        started_at = clock.now()
        while not all(is_reached(self.run(run_id)) for run_id in run_ids):
            if (clock.now() - started_at).total_seconds() > limit:
                raise TimeoutError(f"{[self.run(run_id) for run_id in run_ids]} took too long.")
            clock.play(step, step)


@contextmanager
def open_stage() -> Iterator[Stage]:
    """Start the server on a free port of this machine, and stop it at the end."""
    project = load_project(Path(__file__).parent)
    folder = tempfile.TemporaryDirectory(prefix="statewright-pictures-")
    os.environ["OUTREACH_FOLDER"] = folder.name
    here = Path.cwd()
    os.chdir(folder.name)  # for the files that runs write
    Path("src").symlink_to(FOLDER.parent / "src")  # what the audit measures
    with folder, SqliteDatabase(Path(folder.name) / "runs.db") as database:
        ledger = SqliteLedger(database)
        with LogCapture(level=20, clock=clock) as logs:
            service = Service(
                build_catalog(project), ledger=ledger, saver=SqliteSaver(database), clock=clock, logs=logs
            )
            with socket.socket() as listening:
                listening.bind(("127.0.0.1", 0))
                port = listening.getsockname()[1]
                server = create_server(
                    create_app(service, settings=ServerSettings(port=port, auth="none", drain_timeout=1)),
                    handles_signals=False,
                )
                loop = asyncio.new_event_loop()

                async def serve() -> None:
                    await ensure_default_workspace(ledger, clock.now())
                    await apply_queue_limits(ledger, project)
                    await server.serve(sockets=[listening])

                thread = threading.Thread(target=loop.run_until_complete, args=[serve()], name="server")
                thread.start()
                try:
                    while not server.started and thread.is_alive():
                        clock.settle()
                    yield Stage(service, loop, f"http://127.0.0.1:{port}")
                finally:
                    server.should_exit = True
                    thread.join(30)
                    os.chdir(here)
