"""The process of `statewright worker --ray`: it connects to Ray and the database, and supervises the fleet.

It is a process of the project like `serve --no-work`: it loads the project, so that problems are reported before a
worker starts, and it attends to schedules, deadlines and webhooks, so that a fleet without workers grows when a
schedule starts a run.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from contextlib import AsyncExitStack, ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from statewright.cli.console.failure import TERMINATED
from statewright.cli.console.warnings import redirect_warnings
from statewright.cli.serve.catalog import build_catalog
from statewright.cli.serve.server import ServerLocation, build_server_settings, open_service
from statewright.cli.serve.sockets import open_listening_socket
from statewright.cli.serve.start_fields import start_fields
from statewright.cli.workers.fleet.fleet import Fleet
from statewright.cli.workers.fleet.fleet_name import claim_name
from statewright.cli.workers.fleet.hosted_worker import WorkerSpec
from statewright.cli.workers.fleet.metrics import FleetMetrics
from statewright.cli.workers.fleet.options import DEFAULT_FLEET, FleetOptions
from statewright.cli.workers.fleet.ray_connection import check_database, connect, import_ray
from statewright.cli.workers.fleet.ray_fleet import RayFleet
from statewright.cli.workers.fleet.scaling import ScalingPolicy
from statewright.cli.workers.fleet.supervisor import Supervisor
from statewright.cli.workers.health import HealthEndpoint
from statewright.cli.workers.signals import handling_signals
from statewright.cli.workflow.models import Models
from statewright.observe import LogFormat, Metrics, configure_logging
from statewright.project import Project
from statewright.service import Service, ServiceSettings

logger = logging.getLogger("statewright.fleet")
EXCLUDED_FROM_UPLOAD: Final = (
    ".git", ".venv", "venv", "__pycache__", "node_modules", ".statewright", "*.db", "*.db-*", ".env", ".env.*"
)  # fmt: skip
"""Patterns of files that are not sent to the nodes, besides those in `.gitignore`: what each node has, and secrets."""


def run_fleet(
    target: str | None,
    project: Project,
    settings: ServiceSettings,
    location: ServerLocation,
    models: Models,
    options: FleetOptions,
    *,
    port: int | None,
    log_format: LogFormat,
) -> int:
    """Supervise a fleet until SIGTERM or SIGINT, and return the exit code. Raises UsageError and MissingLibrary."""
    assert options.ray is not None
    policy, placement = options.scaling_policy(settings.capacity), options.placement()
    runtime_env = {**_upload_of(project, options), **options.read_runtime_env()}
    import_ray()
    location = _with_absolute_paths(location)
    with ExitStack() as stack:
        listening = stack.enter_context(open_listening_socket(location.host, port)) if port is not None else None
        stack.enter_context(configure_logging(log_format, loggers=("statewright", "uvicorn")))
        stack.enter_context(redirect_warnings(logger.warning))
        catalog = build_catalog(project, models)
        ray: Any = connect(options.ray, runtime_env)
        stack.callback(ray.shutdown)
        check_database(ray, options.ray, location.database)
        name = options.fleet or DEFAULT_FLEET
        holder = claim_name(ray, name)
        spec = WorkerSpec(
            target=relative_target(target, project.folder),
            folder=options.project_path,
            location=location,
            settings=settings,
            models=models,
            log_format=log_format,
        )
        metrics = Metrics() if listening is not None else None
        own_settings = replace(settings, works=False)
        service = stack.enter_context(open_service(project, catalog, location, own_settings, metrics))
        supervisor = _create_supervisor(RayFleet(ray, spec, placement), service, policy, settings)
        health = None
        if listening is not None and metrics is not None:
            metrics.registry.register(FleetMetrics(supervisor))
            health = HealthEndpoint(listening, service, build_server_settings(project, location, "keys"), metrics)
        fields = {
            "fleet": name,
            "address": options.ray,
            "min": policy.min,
            "max": policy.max,
            **start_fields(location, catalog, settings),
            "capacity": settings.capacity,
            **placement.options,
            **({"health_port": health.port} if health is not None else {}),
        }
        code = asyncio.run(_supervise(service, supervisor, health, fields))
        del holder  # it had to live until here, because Ray ends an actor without references
    return code


def _create_supervisor(fleet: Fleet, service: Service, policy: ScalingPolicy, settings: ServiceSettings) -> Supervisor:
    return Supervisor(
        fleet,
        service.context.ledger,
        policy,
        service.clock,
        queues=settings.queues,
        drain=settings.drain,
        heartbeat=settings.lease / 3,
    )


async def _supervise(
    service: Service, supervisor: Supervisor, health: HealthEndpoint | None, fields: dict[str, Any]
) -> int:
    """Supervise the fleet until the process is asked to end. Return the exit code."""
    must_end = asyncio.Event()
    signals: list[signal.Signals] = []

    def on_signal(number: signal.Signals) -> None:
        signals.append(number)
        must_end.set()
        if len(signals) > 1:
            logger.warning("A second signal was received: the workers of the fleet are killed.")
            supervisor.kill_all()

    async with AsyncExitStack() as stack:
        stack.enter_context(handling_signals(on_signal))
        if health is not None:
            await stack.enter_async_context(health.serving())
        await stack.enter_async_context(service)
        stack.callback(supervisor.kill_all)  # after an error
        logger.info("The fleet has started.", extra=fields)
        await supervisor.supervise(must_end)
        if health is not None:
            health.report_stopping()
        fields = {"fleet": fields["fleet"], "reason": signals[0].name}
        logger.info("The fleet is draining.", extra=fields)
        await supervisor.drain()
        logger.info("The fleet has stopped.", extra=fields)
    return TERMINATED if len(signals) > 1 else 0


def _upload_of(project: Project, options: FleetOptions) -> dict[str, Any]:
    """Return the part of the runtime environment that sends the project to the nodes; empty if they have it."""
    if options.project_path is not None:
        return {}
    return {"working_dir": str(project.folder), "excludes": list(EXCLUDED_FROM_UPLOAD)}


def _with_absolute_paths(location: ServerLocation) -> ServerLocation:
    """Return the location with paths that do not depend on the current folder, which is another one in an actor."""
    database = location.database
    return replace(
        location,
        database=database.resolve() if isinstance(database, Path) else database,
        key_file=location.key_file.resolve() if location.key_file is not None else None,
    )


def relative_target(target: str | None, folder: Path) -> str | None:
    """Return a target `FILE` or `FILE:GRAPH` with the path of the file relative to the folder of its project."""
    if target is None:
        return None
    file, colon, name = target.partition(":")
    return f"{Path(file).resolve().relative_to(folder).as_posix()}{colon}{name}"
