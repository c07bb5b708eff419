"""A server under load, killed with SIGKILL again and again.

    python -m tests.durability.siege --kills 300 --seed 1

Clients start runs with idempotency keys, send signals with ids, and ask again whenever no answer comes; a webhook
hears of every end. When the last server has come to rest, this must hold of each run that was accepted, and of no
others: it completed exactly once, with the output that it would have without any kill; its log has no gaps, begins
with its start, ends with its end, and tells each step exactly once; the webhook was told at least once. Nothing waits
any more: no timer and no signal was lost. The kills are drawn by a seeded generator; what they hit depends on the
machine.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx
from tests.durability.served import EXPECTED

CLIENTS: Final = 6
KINDS: Final = ("steps", "timer", "signal", "parent", "wide", "json")
PATIENCE: Final = 120.0
"""Seconds without any progress after which the last server counts as stuck. What was being sent to a webhook when its
sender was killed is sent again after one of them."""


class Siege:
    """One file, many servers, and the books of what was asked of them."""

    def __init__(self, folder: Path, kills: int, seed: int) -> None:
        self.path = folder / "runs.db"
        self.kills = kills
        self.random = random.Random(seed)
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.books = Books()
        self.ending = asyncio.Event()
        self.server: subprocess.Popen[bytes] | None = None
        self.log = folder / "server.log"

    # -- the server

    def start_server(self) -> None:
        command = [sys.executable, "-m", "tests.durability.served", str(self.path), str(self.port)]
        with self.log.open("ab") as log:
            self.server = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)

    async def until_ready(self) -> None:
        async with httpx.AsyncClient() as client:
            for _ in range(600):
                with suppress(httpx.TransportError):
                    if (await client.get(f"{self.url}/ready")).status_code == 200:
                        return
                assert self.server is not None
                assert self.server.poll() is None, f"The server did not start: {self.log.read_text()[-2000:]}"
                await asyncio.sleep(0.05)
        raise AssertionError("The server is not ready after 30 seconds.")

    def kill(self) -> None:
        assert self.server is not None
        os.kill(self.server.pid, signal.SIGKILL)
        self.server.wait()

    # -- the siege

    async def play(self) -> None:
        self.start_server()
        await self.until_ready()
        async with Receiver(self.books) as receiver:
            await self.subscribe(receiver.url)
            clients = [asyncio.create_task(self.client(place)) for place in range(CLIENTS)]
            for _ in range(self.kills):
                await asyncio.sleep(self.random.uniform(0.02, 0.5))
                self.kill()
                self.start_server()
                await self.until_ready()
            self.ending.set()
            await asyncio.gather(*clients)
            await self.until_rest()
            await self.check()
        assert self.server is not None
        self.server.terminate()
        assert self.server.wait(30) == 0, "The server did not end in good order on SIGTERM."

    async def subscribe(self, url: str) -> None:
        async with httpx.AsyncClient() as client:
            await self.asked(client, "POST", "/api/v1/webhooks", {"url": url, "events": ["workflow.completed"]})

    async def client(self, place: int) -> None:
        """Start runs until the siege ends, and tell those that listen."""
        mine = random.Random(f"{place} {self.random.random()}")
        async with httpx.AsyncClient(timeout=5) as client:
            number = 0
            while not self.ending.is_set():
                number += 1
                await self.start(client, f"{place}-{number}", mine.choice(KINDS), number)
                await asyncio.sleep(mine.uniform(0, 0.1))

    async def start(self, client: httpx.AsyncClient, key: str, kind: str, number: int) -> None:
        body = {"graph": kind, "input": {"n": number}, "idempotencyKey": key}
        told = await self.asked(client, "POST", "/api/v1/workflow-runs", body)
        run_id = told["data"]["id"]
        self.books.accepted[run_id] = (kind, number)
        if kind in ("signal", "json"):
            payload = {"signalType": "go", "payload": {"n": number}, "signalId": key}
            await self.asked(client, "POST", f"/api/v1/workflow-runs/{run_id}/signals", payload)

    async def asked(self, client: httpx.AsyncClient, method: str, path: str, body: Any = None) -> Any:
        """The answer to a request, which is made again until there is one."""
        for _ in range(2000):
            with suppress(httpx.TransportError):
                answer = await client.request(method, f"{self.url}{path}", json=body)
                if answer.status_code < 400:
                    return answer.json()
                assert answer.status_code == 503, f"{method} {path}: {answer.status_code} {answer.text}"
            await asyncio.sleep(0.02)
        raise AssertionError(f"{method} {path} got no answer.")

    # -- afterwards

    async def until_rest(self) -> None:
        """Wait until every run has ended and every message was delivered."""
        until, before = time.monotonic() + PATIENCE, (0, 0)
        async with httpx.AsyncClient(timeout=10) as client:
            while True:
                going = 0
                for status in ("pending", "running", "waiting", "paused"):
                    path = f"/api/v1/workflow-runs?status={status}&pageSize=1"
                    going += (await self.asked(client, "GET", path))["meta"]["total"]
                missing = self.books.accepted.keys() - self.books.heard.keys()
                if not going and not missing:
                    return
                if (going, len(missing)) != before:
                    until, before = time.monotonic() + PATIENCE, (going, len(missing))
                if time.monotonic() > until:
                    some = sorted(missing)[:5]
                    raise AssertionError(f"{going} runs have not ended, {len(missing)} ends were not told: {some}...")
                await asyncio.sleep(0.2)

    async def check(self) -> None:
        async with httpx.AsyncClient(timeout=30) as client:
            await self.check_no_others(client)
            for run_id, (kind, number) in self.books.accepted.items():
                run = (await self.asked(client, "GET", f"/api/v1/workflow-runs/{run_id}"))["data"]
                self.books.check_run(run, kind, number)
                events = await self.events(client, run_id)
                self.books.check_events(run, events)

    async def check_no_others(self, client: httpx.AsyncClient) -> None:
        """There are the runs that were accepted, and one child for each that has one."""
        parents = sum(kind == "parent" for kind, _ in self.books.accepted.values())
        total = (await self.asked(client, "GET", "/api/v1/workflow-runs?pageSize=1"))["meta"]["total"]
        assert total == len(self.books.accepted) + parents, f"{total} runs for {len(self.books.accepted)} + {parents}"

    async def events(self, client: httpx.AsyncClient, run_id: str) -> list[Any]:
        answer = await self.asked(client, "GET", f"/api/v1/workflow-runs/{run_id}/events?pageSize=100")
        return answer["data"]


@dataclass
class Books:
    """What was accepted, and what was heard."""

    accepted: dict[str, tuple[str, int]] = field(default_factory=dict[str, tuple[str, int]])
    heard: Counter[str] = field(default_factory=Counter[str])

    def check_run(self, run: Any, kind: str, number: int) -> None:
        assert run["status"] == "completed", f"{run['id']} of {kind} is {run['status']}: {run['error']}"
        wanted = EXPECTED.get(kind) or ["one", number, "three"]
        assert run["output"]["log"] == wanted, f"{run['id']} of {kind} has {run['output']}"
        steps = [step["stepName"] for step in run["stepRuns"]]
        assert len(steps) == len(set(steps)), f"{run['id']} has steps twice: {steps}"
        assert {step["status"] for step in run["stepRuns"]} == {"completed"}, run["stepRuns"]

    def check_events(self, run: Any, events: list[Any]) -> None:
        where = f"{run['id']}: {[event['eventType'] for event in events]}"
        told = [event for event in events if not event["eventType"].startswith("WEBHOOK_")]
        assert [event["seq"] for event in events] == list(range(1, len(events) + 1)), where
        counts = Counter(event["eventType"] for event in told)
        assert counts["WORKFLOW_STARTED"] == counts["WORKFLOW_COMPLETED"] == 1, where
        assert (told[0]["eventType"], told[-1]["eventType"]) == ("WORKFLOW_STARTED", "WORKFLOW_COMPLETED"), where
        for kind in ("STEP_STARTED", "STEP_COMPLETED"):
            names = [event["payload"]["stepName"] for event in told if event["eventType"] == kind]
            assert sorted(names) == sorted(step["stepName"] for step in run["stepRuns"]), where
        assert counts["SIGNAL_RECEIVED"] <= 1, where
        assert self.heard[run["id"]] >= 1, f"Nobody was told of {run['id']}."


class Receiver:
    """Hears webhooks."""

    def __init__(self, books: Books) -> None:
        self._books = books

    async def __aenter__(self) -> Receiver:
        self._server = await asyncio.start_server(self._hear, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/hook"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    async def _hear(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError, ValueError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
            length = int(head.partition("content-length:")[2].split("\r\n")[0])
            message = json.loads(await reader.readexactly(length))
            self._books.heard[message["data"]["workflowRunId"]] += 1
            writer.write(b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n")
            await writer.drain()
        writer.close()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


async def besiege(kills: int, seed: int) -> Siege:
    """Play a siege; raises AssertionError if something was lost or done twice."""
    with tempfile.TemporaryDirectory(prefix="siege-") as folder:
        siege = Siege(Path(folder), kills, seed)
        try:
            await siege.play()
        except BaseException:
            print(siege.log.read_text()[-3000:], file=sys.stderr)
            raise
        finally:
            if siege.server is not None and siege.server.poll() is None:
                siege.kill()
        return siege


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    began = time.monotonic()
    siege = asyncio.run(besiege(given.kills, given.seed))
    print(
        f"{given.kills} kills, {len(siege.books.accepted)} runs accepted, each completed once; "
        f"{siege.books.heard.total()} messages heard; {time.monotonic() - began:.0f} s."
    )


if __name__ == "__main__":
    main()
