"""The costs of which the capacity model consists: one dataclass, whose values are in `costs.toml` with their origin.

An origin is `measured` (by `measure.py`, on the machine and at the time that the file names), `spike` (measured by the
prototype that preceded the Postgres adapter) or `estimate` (by reasoning that the source explains). Processor times are
those of one core. `python -m benchmarks.simulate_scale --measure costs.toml` measures them on another machine.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

DEFAULT_FILE = Path(__file__).with_name("costs.toml")
ORIGINS = ("measured", "spike", "estimate")


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """Times in milliseconds, sizes in bytes."""

    # -- processor time of a server or worker process
    request_cpu: float
    """A server answers POST of a run, with authentication off: parsing, checks, a read, a write, the response."""
    run_cpu: float
    """A worker begins and ends a run, without its supersteps."""
    superstep_cpu: float
    """A worker performs a superstep with one empty node, and encodes and sends its commit."""
    claim_cpu: float
    """A worker claims, with the reads before and after."""
    sweep_cpu: float
    """A process looks for due webhooks, schedules and deadlines: what it does each time the bell rings for due runs."""
    notified_cpu: float
    """A process receives a notification of the bell."""
    polled_run_cpu: float
    """A server compares the version of one followed run."""
    # -- processor time of the database
    transaction_db_cpu: float
    """BEGIN, COMMIT and the row of the writer, once for all writes that share a transaction."""
    insert_db_cpu: float
    """The record of a new run."""
    superstep_db_cpu: float
    """The commit of a superstep with the records of its step and its events."""
    read_db_cpu: float
    """A read of one record, with its transaction."""
    sweep_db_cpu: float
    """The six reads of a sweep."""
    claim_db_cpu: float
    """A claim that finds nothing."""
    claimed_run_db_cpu: float
    """Each run that a claim returns."""
    heartbeat_db_cpu: float
    """The reads of a heartbeat, without those that depend on the number of runs and workers."""
    heartbeat_run_db_cpu: float
    """Each claimed run of the database, at each heartbeat of each worker."""
    heartbeat_worker_db_cpu: float
    """Each worker of the database, at each heartbeat of each worker."""
    notify_db_cpu: float
    """One NOTIFY."""
    notified_db_cpu: float
    """The delivery of a notification to one session."""
    polled_run_db_cpu: float
    """The version of one followed run, in a poll of many."""
    # -- waiting
    flush: float
    """The log of the database reaches the disk."""
    round_trip: float
    """A message to the database and back, without any work."""
    bell: float
    """From the call that rings to the callback in another process, on an idle machine."""
    # -- disk and memory
    run_bytes: float
    """Tables and indexes of the database grow by this for a run without its supersteps."""
    superstep_bytes: float
    """And by this for each superstep of a small state."""
    run_log_bytes: float
    """The log of the database grows by this for a run without its supersteps."""
    superstep_log_bytes: float
    """And by this for each superstep."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The origin of a cost."""

    kind: str
    """One of `ORIGINS`."""
    source: str


class InvalidCosts(ValueError):
    """A file of costs that cannot be used."""


def load_costs(path: Path = DEFAULT_FILE) -> tuple[Costs, Mapping[str, Origin]]:
    """Read costs, and the origin of each by its name. Raises InvalidCosts."""
    try:
        read: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise InvalidCosts(f"{path}: cannot be read: {error}. Write one with --measure.") from error
    # Other values than tables have no fields, so that they are reported, too.
    tables: dict[str, dict[str, Any]] = {name: table if isinstance(table, dict) else {} for name, table in read.items()}
    names = [field.name for field in fields(Costs)]
    problems = [f"{name} is missing" for name in names if name not in tables]
    problems += [f"{name} is not a cost" for name in tables if name not in names]
    problems += [f"{name} {problem}" for name in names if name in tables and (problem := _problem(tables[name]))]
    if problems:
        raise InvalidCosts(f"{path}: {'; '.join(problems)}. Costs: {', '.join(names)}.")
    origins = {name: Origin(tables[name]["origin"], tables[name]["source"]) for name in names}
    return Costs(**{name: float(tables[name]["value"]) for name in names}), origins


def _problem(table: dict[str, Any]) -> str | None:
    value = table.get("value")
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
        return f"needs a value that is not negative, not {value!r}"
    if table.get("origin") not in ORIGINS or not table.get("source"):
        return f"needs an origin ({', '.join(ORIGINS)}) and a source"
    return None


def save_costs(path: Path, costs: Costs, origins: Mapping[str, Origin], head: str) -> None:
    """Write costs with their origins below a comment."""
    lines = [f"# {line}".rstrip() for line in head.splitlines()]
    for field in fields(Costs):
        origin = origins[field.name]
        source = origin.source.replace("\\", "\\\\").replace('"', '\\"')
        lines += ["", f"[{field.name}]", f"value = {getattr(costs, field.name):.4g}"]
        lines += [f'origin = "{origin.kind}"', f'source = "{source}"']
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
