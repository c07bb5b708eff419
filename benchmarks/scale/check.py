"""Compares the simulation with real processes: a server and a worker on a Postgres server of this machine.

The client, the server, the worker and the database share the cores of the machine, and the simulated ones have their
own. So the real latency is higher when the machine is busy; on one with four free cores or more they can be compared.
"""

from __future__ import annotations

import asyncio
import time
from random import Random

from benchmarks.scale.cell import Cell, percentile
from benchmarks.scale.costs import Costs
from benchmarks.scale.load import Deployment, Load
from benchmarks.scale.measured_service import FEW
from benchmarks.scale.scenarios import Table
from benchmarks.scale.served import start
from benchmarks.served.connection import Connection

RATES = (2, 10, 40)
"""Runs a second."""
SECONDS = 15.0
CLIENTS = 8


def compare(url: str, costs: Costs, seed: int) -> Table:
    """Return real and simulated latencies from the request to the first node."""
    server, worker = start("server", url), start("worker", url)
    try:
        real = {rate: asyncio.run(start_latencies(server.port, rate, SECONDS, seed)) for rate in RATES}
    finally:
        server.close()
        worker.close()
    rows: list[list[str]] = []
    for rate in RATES:
        cell = Cell(Load(runs_per_second=rate, supersteps=FEW), Deployment(servers=1, workers=1, cores=2), costs, seed)
        cell.run(2.0)
        simulated = cell.run(60.0).latencies
        shown = [
            f"{percentile(values, share) * 1e3:.0f}" for share in (0.5, 0.99) for values in (real[rate], simulated)
        ]
        rows.append([f"{rate}", *shown])
    title = "One server and one worker: from the request to the first node"
    return Table(title, ["runs/s", "p50 real, ms", "p50 simulated", "p99 real, ms", "p99 simulated"], rows)


async def start_latencies(port: int, rate: float, seconds: float, seed: int) -> list[float]:
    """Start runs at random times for some seconds, and return how long each waited for its first node, in seconds."""
    random = Random(seed)
    free: asyncio.Queue[Connection] = asyncio.Queue()
    for _ in range(CLIENTS):
        free.put_nowait(Connection(port))

    async def run() -> float:
        began = time.time()
        connection = await free.get()
        body = {"graph": f"steps{FEW}", "input": {"at": 0.0}}
        answer = await connection.post("/api/v1/workflow-runs", body)
        free.put_nowait(connection)
        while True:  # not `wait=`, because followers make the server poll
            await asyncio.sleep(1.0)
            connection = await free.get()
            record = (await connection.get(f"/api/v1/workflow-runs/{answer['data']['id']}"))["data"]
            free.put_nowait(connection)
            if record["status"] == "completed":
                return record["output"]["at"] - began

    runs: list[asyncio.Task[float]] = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        runs.append(asyncio.create_task(run()))
        await asyncio.sleep(random.expovariate(rate))
    return await asyncio.gather(*runs)
