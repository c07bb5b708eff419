"""Servers on one database under load, killed repeatedly with SIGKILL, and stopped for longer than their lease.

    python -m tests.durability.siege --kills 300 --seed 1
    python -m tests.durability.siege --database postgres --servers 4 --kills 500 --restarts 20

The database is a SQLite file, or a Postgres server, which is restarted now and then.

Clients start runs with idempotency keys, send signals with ids, and repeat each request until it is answered; a webhook
receives the end of each run. Questions are answered through two servers concurrently, with different answers. Steps
write their effects to a log outside the database: see `effects_log`. Now and then a server is stopped with SIGSTOP
until another one has taken over its runs, and then continued. When all servers are idle, these invariants hold:

- Each accepted run completed exactly once, with the same output as without any kill; there are no other runs. No run
  waits: no timer and no signal was lost.
- The log of a run has no gaps, begins with its start, ends with its end, and contains each step exactly once.
- The webhook was called at least once for each run.
- A question has at most one accepted answer, and that is the one in the run.
- No effect was executed twice without a crash between the effect and its record. A server that renewed its lease too
  late, on a busy machine, counts as crashed: see `served.watch_lease`.

The kills are drawn by a seeded generator; their effect depends on the machine.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx
from tests.durability.effects_log import EffectsLog, read_lines, tokens, violations
from tests.durability.served import EXPECTED
from tests.durability.siege_storage import STORAGES, SiegeStorage
from tests.stream_server import listening

CLIENTS: Final = 6
KINDS: Final = ("steps", "timer", "signal", "parent", "wide", "json", "asks", "pays", "pays")
MAX_RUNS_BETWEEN_KILLS: Final = 30
PATIENCE: Final = 300.0
"""Seconds without progress after which a server is considered stuck.

Within this time, a message to a webhook is sent again if the server was killed while sending it.
"""


class Server:
    """A server process, and its successors at the same URL."""

    def __init__(self, folder: Path, name: str, location: str) -> None:
        self._folder = folder
        self._location = location
        self._port = free_port()
        self.url = f"http://127.0.0.1:{self._port}"
        self.log = folder / f"server-{name}.log"
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def start(self) -> None:
        folder = self._folder
        arguments = [self._location, str(self._port), str(folder / "effects.log")]
        with self.log.open("ab") as log:
            command = [sys.executable, "-m", "tests.durability.served", *arguments]
            self.process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)

    async def wait_until_ready(self) -> None:
        deadline = time.monotonic() + PATIENCE
        async with httpx.AsyncClient() as client:
            while time.monotonic() < deadline:
                with suppress(httpx.TransportError):
                    if (await client.get(f"{self.url}/ready")).status_code == 200:
                        return
                assert self.process is not None
                assert self.process.poll() is None, f"The server did not start: {self.log.read_text()[-2000:]}"
                await asyncio.sleep(0.05)
        raise AssertionError("The server is not ready.")

    def kill(self) -> None:
        assert self.process is not None
        os.kill(self.pid, signal.SIGKILL)
        self.process.wait()

    def end(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.kill()


class Siege:
    """A database, servers on it, the clients, and the records of their requests."""

    def __init__(self, folder: Path, options: Options) -> None:
        self.folder = folder
        self.options = options
        self.kills = options.kills
        self.random = random.Random(options.seed)
        self.storage: SiegeStorage = STORAGES[options.database](folder, options.seed)
        self.servers = [Server(folder, name, self.storage.location) for name in "abcdefgh"[: options.servers]]
        self.records = Records()
        self.effects = EffectsLog(folder / "effects.log")
        self.ending = asyncio.Event()
        """Set when the clients are to stop."""
        self.stops = self.restarts = 0
        self.late = 0
        """How often a server renewed its lease too late, stopped servers included."""
        self.quota = MAX_RUNS_BETWEEN_KILLS
        """The number of accepted runs at which the clients pause until the next kill."""
        self.min_accepted = 0
        """The number of runs that had to be accepted before kills."""

    # -- kills and stops

    async def run(self) -> None:
        for server in self.servers:
            server.start()
            await server.wait_until_ready()
        async with listening(Receiver(self.records).receive) as port:
            await self.subscribe(f"http://127.0.0.1:{port}/hook")
            clients = [asyncio.create_task(self.run_client(index)) for index in range(CLIENTS)]
            for number in range(self.kills):
                await self.wait_for_accepted(self.random.randint(0, 6), clients)
                await asyncio.sleep(self.random.uniform(0, 0.3))
                await self.kill(number, self.random.choice(self.servers))
            self.ending.set()
            await asyncio.gather(*clients)
            await self.wait_until_idle()
            await self.check()
        for server in self.servers:
            assert server.process is not None
            server.process.terminate()
            assert server.process.wait(PATIENCE) == 0, "The server did not exit normally on SIGTERM."

    async def wait_for_accepted(self, count: int, clients: list[asyncio.Task[None]]) -> None:
        """Wait until a number of further runs are accepted, so that a kill can lose something on any machine."""
        self.min_accepted += count
        target = len(self.records.accepted) + count
        self.quota = len(self.records.accepted) + MAX_RUNS_BETWEEN_KILLS
        deadline = time.monotonic() + PATIENCE
        while len(self.records.accepted) < target:
            assert time.monotonic() < deadline, "No more runs are accepted."
            for client in clients:
                if client.done():
                    client.result()
            await asyncio.sleep(0.01)

    async def kill(self, number: int, server: Server) -> None:
        """Kill a server and start another in its place; sometimes stop it for a while first."""
        if number % max(2, self.kills // self.options.stops) == 1:
            await self.stop(server)
        if self.options.restarts and number % max(2, self.kills // self.options.restarts) == 0:
            self.restarts += await self.storage.restart()
        self.effects.write("killed", pid=server.pid)
        server.kill()
        server.start()
        await server.wait_until_ready()

    async def stop(self, server: Server) -> None:
        """Stop a server until another one has taken over its runs, then let both run."""
        self.stops += 1
        self.effects.write("stopped", pid=server.pid)
        await self.storage.stop_process(server.pid)
        try:
            deadline = time.monotonic() + PATIENCE
            while await asyncio.to_thread(self.storage.has_worker, server.pid):
                assert time.monotonic() < deadline, "No other server takes over from a stopped one."
                await asyncio.sleep(0.05)
        finally:
            os.kill(server.pid, signal.SIGCONT)
        await self.wait_for_accepted(self.random.randint(0, 6), [])

    # -- clients

    async def subscribe(self, url: str) -> None:
        async with httpx.AsyncClient() as client:
            await self.request(client, "POST", "/api/v1/webhooks", {"url": url, "events": ["workflow.completed"]})

    async def run_client(self, index: int) -> None:
        """Start runs until the siege ends, and send the signals and answers that they wait for."""
        rng = random.Random(f"{index} {self.random.random()}")
        async with httpx.AsyncClient(timeout=5) as client:
            number = 0
            while not self.ending.is_set():
                number += 1
                await self.start_run(client, f"{index}-{number}", rng.choice(KINDS), number)
                await asyncio.sleep(rng.uniform(0, 0.4))
                while len(self.records.accepted) >= self.quota and not self.ending.is_set():
                    await asyncio.sleep(0.05)  # more runs would only make the check at the end longer

    async def start_run(self, client: httpx.AsyncClient, key: str, kind: str, number: int) -> None:
        body = {"graph": kind, "input": {"n": number}, "idempotencyKey": key}
        response = await self.request(client, "POST", "/api/v1/workflow-runs", body)
        run_id = response["data"]["id"]
        self.records.accepted[run_id] = (kind, number)
        if kind in ("signal", "json"):
            payload = {"signalType": "go", "payload": {"n": number}, "signalId": key}
            await self.request(client, "POST", f"/api/v1/workflow-runs/{run_id}/signals", payload)
        elif kind == "asks":
            await self.answer(client, run_id)

    async def answer(self, client: httpx.AsyncClient, run_id: str) -> None:
        """Answer the question of a run through two servers at once, until the run has an answer."""
        path = f"/api/v1/interrupts?runId={run_id}"
        for number in itertools.count():
            while not (waits := (await self.request(client, "GET", path))["data"]):
                run = (await self.request(client, "GET", f"/api/v1/workflow-runs/{run_id}"))["data"]
                if run["status"] == "completed":
                    return
                await asyncio.sleep(0.05)
            servers = self.random.sample(self.servers, 2)
            answers = zip(servers, (f"{name}{number}" for name in "ab"), strict=True)
            question_id = waits[0]["id"]
            await asyncio.gather(
                *(self.answer_through(server, client, run_id, question_id, text) for server, text in answers)
            )
            if self.records.answers[run_id]:
                return

    async def answer_through(
        self, server: Server, client: httpx.AsyncClient, run_id: str, question_id: str, text: str
    ) -> None:
        path = f"{server.url}/api/v1/workflow-runs/{run_id}/resume"
        with suppress(httpx.TransportError):  # the final state shows whether the answer was accepted
            response = await client.post(path, json={"answers": {question_id: text}})
            if response.status_code < 400:
                self.records.answers[run_id].append(text)
            else:
                assert response.status_code in (404, 409, 503), f"{response.status_code} {response.text}"

    async def request(self, client: httpx.AsyncClient, method: str, path: str, body: Any = None) -> Any:
        """Send a request to the servers in turn until one of them answers, and return the response."""
        deadline = time.monotonic() + PATIENCE
        for server in itertools.cycle(self.random.sample(self.servers, len(self.servers))):
            with suppress(httpx.TransportError):
                response = await client.request(method, f"{server.url}{path}", json=body)
                if response.status_code < 400:
                    return response.json()
                assert response.status_code == 503, f"{method} {path}: {response.status_code} {response.text}"
            assert time.monotonic() < deadline, f"{method} {path} was not answered."
            await asyncio.sleep(0.02)
        raise AssertionError  # unreachable: the cycle of servers is endless

    # -- checks

    async def wait_until_idle(self) -> None:
        """Wait until every run has ended and every message was delivered."""
        deadline, progress = time.monotonic() + PATIENCE, (0, 0)
        async with httpx.AsyncClient(timeout=10) as client:
            while True:
                active = 0
                for status in ("pending", "running", "waiting", "paused"):
                    path = f"/api/v1/workflow-runs?status={status}&pageSize=1"
                    active += (await self.request(client, "GET", path))["meta"]["total"]
                missing = self.records.accepted.keys() - self.records.received.keys()
                if not active and not missing:
                    return
                if (active, len(missing)) != progress:
                    deadline, progress = time.monotonic() + PATIENCE, (active, len(missing))
                if time.monotonic() > deadline:
                    examples = sorted(missing)[:5]
                    raise AssertionError(
                        f"{active} runs have not ended, {len(missing)} ends were not delivered: {examples}..."
                    )
                await asyncio.sleep(0.2)

    async def check(self) -> None:
        async with httpx.AsyncClient(timeout=30) as client:
            await self.check_run_count(client)
            lines = read_lines(self.folder / "effects.log")
            self.late = sum(line.kind == "late" for line in lines)
            assert not (found := violations(lines)), found
            executed = tokens(lines)
            for run_id, (kind, number) in self.records.accepted.items():
                run = (await self.request(client, "GET", f"/api/v1/workflow-runs/{run_id}"))["data"]
                self.records.check_run(run, kind, number)
                self.check_effects(run, kind, executed)
                events = await self.request(client, "GET", f"/api/v1/workflow-runs/{run_id}/events?pageSize=100")
                self.records.check_events(run, events["data"])

    def check_effects(self, run: Any, kind: str, executed: Mapping[str, set[str]]) -> None:
        """Check that the tokens in a run belong to executed effects."""
        if kind == "pays":
            _, paid, shipped, _ = run["output"]["log"]
            assert paid in executed[f"{run['id']} pay"], run
            assert shipped in executed[f"{run['id']} ship"], run

    async def check_run_count(self, client: httpx.AsyncClient) -> None:
        """Check that there are no runs besides the accepted ones and their children."""
        parents = sum(kind == "parent" for kind, _ in self.records.accepted.values())
        total = (await self.request(client, "GET", "/api/v1/workflow-runs?pageSize=1"))["meta"]["total"]
        assert total == len(self.records.accepted) + parents, (
            f"{total} runs for {len(self.records.accepted)} + {parents}"
        )


@dataclass
class Records:
    """The accepted runs and answers, and the received webhook messages."""

    accepted: dict[str, tuple[str, int]] = field(default_factory=dict[str, tuple[str, int]])
    """The kind and the number of each accepted run."""
    received: Counter[str] = field(default_factory=Counter[str])
    """The number of received messages by run."""
    answers: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict[str, list[str]](list))
    """The accepted answers by run."""

    def check_run(self, run: Any, kind: str, number: int) -> None:
        assert run["status"] == "completed", f"{run['id']} of {kind} is {run['status']}: {run['error']}"
        log = run["output"]["log"]
        if kind == "asks":
            accepted = self.answers[run["id"]]
            assert len(accepted) <= 1, f"{run['id']} has accepted {accepted}"
            assert len(log) == 3, log
            assert not accepted or log[1] == accepted[0], f"{run['id']} has accepted {accepted}, and has {log}"
        elif kind != "pays":
            expected = EXPECTED.get(kind) or ["one", number, "three"]
            assert log == expected, f"{run['id']} of {kind} has {run['output']}"
        steps = [step["stepName"] for step in run["stepRuns"]]
        assert len(steps) == len(set(steps)), f"{run['id']} has steps twice: {steps}"
        assert {step["status"] for step in run["stepRuns"]} == {"completed"}, run["stepRuns"]

    def check_events(self, run: Any, events: list[Any]) -> None:
        message = f"{run['id']}: {[event['eventType'] for event in events]}"
        own_events = [event for event in events if not event["eventType"].startswith("WEBHOOK_")]
        assert [event["seq"] for event in events] == list(range(1, len(events) + 1)), message
        counts = Counter(event["eventType"] for event in own_events)
        assert counts["WORKFLOW_STARTED"] == counts["WORKFLOW_COMPLETED"] == 1, message
        assert own_events[0]["eventType"] == "WORKFLOW_STARTED", message
        assert own_events[-1]["eventType"] == "WORKFLOW_COMPLETED", message
        for kind in ("STEP_STARTED", "STEP_COMPLETED"):
            names = [event["payload"]["stepName"] for event in own_events if event["eventType"] == kind]
            assert sorted(names) == sorted(step["stepName"] for step in run["stepRuns"]), message
        assert counts["SIGNAL_RECEIVED"] <= 1, message
        assert self.received[run["id"]] >= 1, f"The end of {run['id']} was not delivered."


class Receiver:
    """Receives webhook messages."""

    def __init__(self, records: Records) -> None:
        self._records = records

    async def receive(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError, ValueError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
            length = int(head.partition("content-length:")[2].split("\r\n")[0])
            message = json.loads(await reader.readexactly(length))
            self._records.received[message["data"]["workflowRunId"]] += 1
            writer.write(b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n")
            await writer.drain()
        writer.close()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@dataclass(frozen=True, slots=True)
class Options:
    """How many servers there are, and what happens to them."""

    kills: int
    seed: int
    database: str = "sqlite"
    servers: int = 2
    stops: int = 1
    restarts: int = 0


async def besiege(options: Options) -> Siege:
    """Run a siege. Raises AssertionError if something was lost or done twice."""
    with tempfile.TemporaryDirectory(prefix="siege-") as folder:
        siege = Siege(Path(folder), options)
        siege.storage.open()
        try:
            await siege.run()
        except BaseException:
            for server in siege.servers:
                print(server.log.read_text()[-3000:], file=sys.stderr)
            raise
        finally:
            for server in siege.servers:
                server.end()
            siege.storage.close()
        return siege


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--database", choices=STORAGES, default="sqlite")
    parser.add_argument("--servers", type=int, default=2)
    parser.add_argument("--stops", type=int, help="how often a server is stopped beyond its lease; a 25th by default")
    parser.add_argument("--restarts", type=int, default=0, help="how often the database server is restarted")
    arguments = parser.parse_args()
    stops = arguments.stops or max(1, arguments.kills // 25)
    options = Options(**{**vars(arguments), "stops": stops})
    started_at = time.monotonic()
    siege = asyncio.run(besiege(options))
    print(
        f"{options.kills} kills, {siege.stops} stops and {siege.restarts} restarts of the database, "
        f"{siege.late} leases renewed too late, "
        f"{len(siege.records.accepted)} runs accepted, each completed once; {siege.records.received.total()} messages "
        f"received; {time.monotonic() - started_at:.0f} s."
    )


if __name__ == "__main__":
    main()
