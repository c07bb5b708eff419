"""`statewright worker`: a process that advances runs, and answers no requests except about its health.

It drains, and exits, when it receives SIGTERM or SIGINT, or was asked to by `statewright workers drain`. Then it claims
no more runs, waits for the current steps of its runs, and releases the runs, which other workers continue. A second
signal cancels the steps. A third one kills the process, so that other workers notice its loss.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
from collections.abc import Mapping
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

import typer

from statewright.cli.console.failure import FAILED, TERMINATED
from statewright.cli.console.options import BaseUrlOption, ServerDatabaseOptions
from statewright.cli.console.warnings import redirect_warnings
from statewright.cli.serve.catalog import build_catalog, select_project
from statewright.cli.serve.serve import DRAIN_TIMEOUT, TargetArgument
from statewright.cli.serve.server import (
    DEFAULT_HOST,
    ServerLocation,
    build_server_settings,
    build_service_settings,
    open_service,
    resolve_database,
)
from statewright.cli.serve.sockets import open_listening_socket
from statewright.cli.serve.start_fields import start_fields
from statewright.cli.workers.fleet.options import FleetOptions
from statewright.cli.workers.health import HealthEndpoint
from statewright.cli.workers.queue_names import QueuesOption, read_queue_names
from statewright.cli.workers.signals import handling_signals
from statewright.cli.workflow.models import read_models
from statewright.observe import Metrics, configure_logging
from statewright.project import Project
from statewright.server import require_libraries
from statewright.service import Service, ServiceSettings

logger = logging.getLogger("statewright.worker")


@dataclass(frozen=True, kw_only=True)
class WorkerOptions(ServerDatabaseOptions):
    """The options of a worker."""

    queues: QueuesOption = None
    capacity: Annotated[
        int | None,
        typer.Option(
            "--capacity",
            "-c",
            metavar="N",
            min=1,
            help="Advance at most N runs concurrently. Default: the project's, or 100.",
        ),
    ] = None
    port: Annotated[
        int | None,
        typer.Option(
            "--port",
            "-p",
            metavar="N",
            min=0,
            max=65535,
            help="Answer /health, /live, /ready and /metrics on this port; 0 picks a free one.",
        ),
    ] = None
    host: Annotated[str, typer.Option("--host", metavar="ADDRESS", help="The address of --port.")] = DEFAULT_HOST
    model: Annotated[
        str | None,
        typer.Option("--model", "-m", metavar="MODEL", help="The model to use instead of those named in files."),
    ] = None
    base_url: BaseUrlOption = None
    log_format: Annotated[
        Literal["json", "console"], typer.Option("--log-format", help="The format of the log: JSON lines, or text.")
    ] = "json"

    def service_settings(self, project: Project) -> ServiceSettings:
        """Return the settings of the service: those of the command line, else of the project."""
        settings = build_service_settings(project)
        return replace(
            settings,
            queues=read_queue_names(self.queues) or settings.queues,
            capacity=self.capacity or settings.capacity,
            drain=project.serving.drain or DRAIN_TIMEOUT,
        )


def worker(target: TargetArgument = None, *, options: WorkerOptions, fleet: FleetOptions) -> None:
    """Advance runs of a project or of one file, without an HTTP API, until SIGTERM or `statewright workers drain`.

    With --ray, supervise a fleet of such workers on a Ray cluster. Needs the extra `server`.
    """
    if fleet.ray is None:
        fleet.check_unused()
    require_libraries()
    models = read_models([options.model] if options.model is not None else None, options.base_url)
    project = select_project(target)
    settings = options.service_settings(project)
    location = ServerLocation(
        host=options.host,
        port=options.port or 0,
        database=resolve_database(project, options.database),
        key_file=options.key_file,
    )
    if fleet.ray is not None:
        from statewright.cli.workers.fleet.command import run_fleet

        code = run_fleet(
            target, project, settings, location, models, fleet, port=options.port, log_format=options.log_format
        )
        raise SystemExit(code)
    with ExitStack() as stack:
        port = options.port
        listening = stack.enter_context(open_listening_socket(options.host, port)) if port is not None else None
        stack.enter_context(configure_logging(options.log_format, loggers=("statewright", "uvicorn")))
        stack.enter_context(redirect_warnings(logger.warning))
        catalog = build_catalog(project, models)
        metrics = Metrics() if listening is not None else None
        service = stack.enter_context(open_service(project, catalog, location, settings, metrics))
        health = None
        if listening is not None and metrics is not None:
            health = HealthEndpoint(listening, service, build_server_settings(project, location, "keys"), metrics)
        code = asyncio.run(_work(service, start_fields(location, catalog, settings), health))
    if code:
        raise SystemExit(code)


async def _work(service: Service, fields: Mapping[str, Any], health: HealthEndpoint | None) -> int:
    """Advance runs until the process is asked to end. Return the exit code. `fields` are logged at the start."""
    loop, must_end = asyncio.get_running_loop(), asyncio.Event()
    signals: list[signal.Signals] = []

    def on_signal(number: signal.Signals) -> None:
        signals.append(number)
        must_end.set()
        if len(signals) > 1:
            logger.warning("A second signal was received: the running steps are cancelled.")
            service.hurry()

    with handling_signals(on_signal):
        async with health.serving() if health is not None else nullcontext():
            await service.start_working()
            running = service.worker
            if running is None:
                return FAILED
            running.drain_request.add_done_callback(lambda _: loop.call_soon_threadsafe(must_end.set))
            settings = service.context.settings
            started = {
                "worker": running.id,
                **fields,
                "capacity": settings.capacity,
                "host": socket.gethostname(),
                **({"health_port": health.port} if health is not None else {}),
            }
            logger.info("The worker has started.", extra=started)
            await must_end.wait()
            if health is not None:
                health.report_stopping()
            reason = signals[0].name if signals else "drain request"
            logger.info("The worker is draining.", extra={"worker": running.id, "reason": reason})
            await service.stop()
            logger.info("The worker has stopped.", extra={"worker": running.id, "reason": reason})
    return TERMINATED if len(signals) > 1 else 0
