"""The input of a simulation: the load, the processes and cores of a database, and the rules of the service."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """The runs of one database, or of a fleet of databases."""

    runs_per_second: float
    """Starts, which arrive at random (a Poisson process)."""
    supersteps: int = 3
    """Each executes one node."""
    node_seconds: float = 0.0
    """The mean time for which a node waits for a model or a service, exponentially distributed."""
    followed: float = 0.0
    """The share of runs whose events a client follows."""
    hot_threads: float = 0.0
    """The share of runs that all belong to one thread, and are advanced one after another."""
    hot_workspace: float = 0.0
    """The share of runs that belong to one workspace."""
    workspace_limit: int | None = None
    """The maximum number of concurrent runs of that workspace."""

    @property
    def run_seconds(self) -> float:
        """The time that the nodes of a run wait, on average."""
        return self.supersteps * self.node_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """One database with its processes."""

    servers: int
    """Processes with `serve --no-work`, a core each."""
    workers: int
    """Processes with `worker`, a core each."""
    capacity: int = 100
    """Runs that a worker advances at once (`--capacity`)."""
    cores: int = 8
    """Cores of the database."""
    has_bell: bool = True
    """False behind a pooler, where processes only poll."""

    @property
    def processes(self) -> int:
        return self.servers + self.workers


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Constants of the service, in seconds. A test compares them with the source."""

    lease: float = 30.0
    poll: float = 1.0
    drain: float = 20.0
    first_retry: float = 0.05
    """The first pause of a worker that found due runs which it could not claim; doubled up to `poll`."""
    max_claimed: int = 50
    max_group: int = 256
    """The maximum number of writes of a process in one transaction."""
    bell_interval: float = 0.05
    """The shortest time between two notifications of a process."""
    follow_poll: float = 1.0
    follow_batch: int = 400
    patience: float = 15.0
    """For how long a process tries to replace a lost session, until reads and writes fail."""
    max_readers: int = 8
    client_retry: float = 5.0
    """The mean time after which a client repeats a request that has failed. It is the client's own."""

    @property
    def heartbeat(self) -> float:
        return self.lease / 3


RULES = Rules()
