"""Webhooks over real connections: receivers that fail, delay, redirect, never end, and check signatures."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from tests.stream_server import listening

from statewright.async_futures import aresolve
from statewright.errors import Unauthorized
from statewright.runs import Announce, Delivery, InMemoryLedger, Insert, Ledger, Run, Webhook
from statewright.service.webhooks import (
    Answer,
    Deliverer,
    HttpPost,
    WebhookSettings,
    add_webhook,
    change_webhook,
    deliveries_of,
    get_webhook,
    send_test,
    verify,
)
from statewright.storage.sqlite import SqliteDatabase, SqliteLedger
from statewright.testing import FakeClock

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


def status(code: int, *headers: str) -> bytes:
    return "\r\n".join([f"HTTP/1.1 {code} Scripted", "content-length: 0", *headers, "", ""]).encode()


@dataclass
class Request:
    line: str
    headers: dict[str, str]
    body: bytes


Reply = bytes | Callable[[asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Receiver:
    """A server for one event loop that answers from a script and repeats the last reply."""

    replies: list[Reply] = field(default_factory=lambda: [OK])
    requests: list[Request] = field(default_factory=list)
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook?from=a"

    @asynccontextmanager
    async def listening(self, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None) -> AsyncIterator[Receiver]:
        async with listening(self._serve, host, tls=tls) as self.port:
            yield self

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
            await self._answer(reader, writer)
            writer.close()
            await writer.wait_closed()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().strip().split("\r\n")
        headers = dict(
            header.lower().split(": ", 1) if "signature" not in header else header.split(": ", 1) for header in lines
        )
        body = await reader.readexactly(int(headers["content-length"]))
        self.requests.append(Request(line, headers, body))
        reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        if isinstance(reply, bytes):
            writer.write(reply)
            await writer.drain()
        else:
            await reply(writer)


SETTINGS = WebhookSettings(allow_hosts=["127.0.0.1"], timeout=600)
"""The timeout is long, since a message that is sent again on a slow machine would arrive twice."""
PATIENCE = 600.0
"""A sweep ends only at everything is sent, even on a slow machine."""


@pytest.fixture(params=["memory", "sqlite"])
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Ledger]:
    if request.param == "memory":
        yield InMemoryLedger()
        return
    with SqliteDatabase(tmp_path / "runs.db") as database:
        yield SqliteLedger(database)


class Sender:
    """A ledger with a run and a webhook, and the deliverer that sends its messages."""

    def __init__(self, ledger: Ledger, settings: WebhookSettings = SETTINGS) -> None:
        self.ledger = ledger
        self.settings = settings
        self.clock = FakeClock(datetime.now(UTC))
        self.deliverer = Deliverer(ledger, self.clock, settings, patience=PATIENCE)
        self.webhook_id = ""
        self.secret = ""

    async def set_up(self, url: str) -> None:
        now = self.clock.now()
        run = Run(id="run_1", workspace_id="a", graph="g", thread_id="t", created_at=now, updated_at=now)
        await aresolve(self.ledger.write([Insert(run)]))
        webhook, secret = await add_webhook(self.ledger, "a", url, now=now, settings=self.settings)
        self.webhook_id, self.secret = webhook.id, str(secret)

    async def announce(self, count: int = 1) -> None:
        payload, now = {"workflowRunId": "run_1", "output": {"text": "fünf €"}}, self.clock.now()
        await aresolve(
            self.ledger.write([Announce("a", "workflow.completed", payload, now, "run_1") for _ in range(count)])
        )

    async def sweep(self) -> datetime | None:
        return await self.deliverer.sweep(self.clock.now())

    async def exhaust(self) -> None:
        while (due := await self.sweep()) is not None:
            self.clock.advance(due - self.clock.now())

    async def deliveries(self) -> list[Delivery]:
        deliveries, _ = await deliveries_of(self.ledger, "a", self.webhook_id)
        return deliveries

    async def webhook(self) -> Webhook:
        return await get_webhook(self.ledger, "a", self.webhook_id)

    async def events(self) -> list[str]:
        return [event.type for event in await aresolve(self.ledger.events("run_1"))]


def test_a_message_is_signed_and_rejected_if_replayed_or_changed(ledger: Ledger) -> None:
    async def run() -> None:
        async with Receiver().listening() as receiver:
            sender = Sender(ledger)
            await sender.set_up(receiver.url)
            await sender.announce()
            assert await sender.sweep() is None
            (request,), (delivery,) = receiver.requests, await sender.deliveries()
            assert request.line == "POST /hook?from=a HTTP/1.1"
            assert request.headers["host"] == f"127.0.0.1:{receiver.port}"
            assert request.headers["content-type"] == "application/json"
            assert request.headers["statewright-event"] == "workflow.completed"
            assert request.headers["statewright-delivery"] == delivery.id
            assert json.loads(request.body) == {
                "id": delivery.id,
                "type": "workflow.completed",
                "createdAt": sender.clock.now().isoformat().replace("+00:00", "Z"),
                "data": {"workflowRunId": "run_1", "output": {"text": "fünf €"}},
            }
            signature, now = request.headers["statewright-signature"], sender.clock.now()
            verify(sender.secret, signature, request.body, now=now)
            for secret, body, at in (
                (sender.secret, request.body, now + timedelta(seconds=301)),
                (sender.secret, request.body.replace(b"run_1", b"run_2"), now),
                ("whsec_other", request.body, now),
            ):
                with pytest.raises(Unauthorized):
                    verify(secret, signature, body, now=at)
            assert (delivery.status, delivery.response_status, await sender.events()) == (
                "delivered", 200, ["WEBHOOK_DELIVERED"],
            )  # fmt: skip
            await sender.deliverer.close()

    asyncio.run(run())


def test_a_failed_delivery_is_retried_with_the_same_message(ledger: Ledger) -> None:
    async def run() -> None:
        async with Receiver([status(500), status(429), status(404), OK]).listening() as receiver:
            sender = Sender(ledger)
            await sender.set_up(receiver.url)
            await sender.announce()
            await sender.exhaust()
            assert len(receiver.requests) == 4
            assert len({request.body for request in receiver.requests}) == 1
            assert len({request.headers["statewright-delivery"] for request in receiver.requests}) == 1
            signatures = [request.headers["statewright-signature"] for request in receiver.requests]
            assert len(set(signatures)) == 4
            verify(sender.secret, signatures[-1], receiver.requests[-1].body, now=sender.clock.now())
            (delivery,) = await sender.deliveries()
            assert (delivery.status, delivery.attempts) == ("delivered", 4)

    asyncio.run(run())


def test_status_410_disables_the_webhook_until_it_is_enabled_again(ledger: Ledger) -> None:
    async def run() -> None:
        async with Receiver([status(410), OK]).listening() as receiver:
            sender = Sender(ledger)
            await sender.set_up(receiver.url)
            await sender.announce()
            assert await sender.sweep() is None
            webhook = await sender.webhook()
            assert (webhook.active, webhook.disabled_reason) == (False, "The receiver answered 410: it is gone.")
            await sender.announce()
            await sender.sweep()
            assert len(receiver.requests) == 1
            changed = await change_webhook(
                ledger, "a", webhook.id, active=True, rotate_secret=True, now=sender.clock.now(), settings=SETTINGS
            )
            await send_test(ledger, "a", webhook.id, now=sender.clock.now())
            await sender.sweep()
            request = receiver.requests[-1]
            assert request.headers["statewright-event"] == "webhook.test"
            for secret in (sender.secret, str(changed.secret)):  # both are valid during a rotation
                verify(secret, request.headers["statewright-signature"], request.body, now=sender.clock.now())
            assert await sender.events() == ["WEBHOOK_FAILED"]

    asyncio.run(run())


def test_repeated_failures_disable_the_webhook(ledger: Ledger) -> None:
    async def run() -> None:
        async with Receiver([status(503)]).listening() as receiver:
            sender = Sender(ledger, WebhookSettings(allow_hosts=["127.0.0.1"], retry_after=[], disable_after=4))
            await sender.set_up(receiver.url)
            for _ in range(3):
                await sender.announce()
                await sender.exhaust()
            assert (await sender.webhook()).failures == 3
            await sender.announce()
            await sender.exhaust()
            webhook = await sender.webhook()
            assert (webhook.active, webhook.failures) == (False, 4)
            assert webhook.disabled_reason == "4 messages in a row have failed permanently."

    asyncio.run(run())


def test_concurrent_deliverers_send_each_message_once(ledger: Ledger) -> None:
    async def run() -> None:
        async with Receiver().listening() as receiver:
            sender = Sender(ledger)
            await sender.set_up(receiver.url)
            await sender.announce(60)
            others = [Deliverer(ledger, sender.clock, SETTINGS, patience=PATIENCE) for _ in range(3)]
            await asyncio.gather(*(deliverer.sweep(sender.clock.now()) for deliverer in [sender.deliverer, *others]))
            await asyncio.gather(*(deliverer.close() for deliverer in [sender.deliverer, *others]))
            assert len({request.headers["statewright-delivery"] for request in receiver.requests}) == 60
            assert len(receiver.requests) == 60
            assert {delivery.status for delivery in await sender.deliveries()} == {"delivered"}
            assert await sender.events() == ["WEBHOOK_DELIVERED"] * 60

    asyncio.run(run())


# -- single messages


def answer_to(reply: Reply, *, timeout: float = 600.0, url: str | None = None) -> tuple[Answer, Receiver]:
    """Send a message to a receiver with this reply, and return the answer and the receiver."""

    async def run() -> tuple[Answer, Receiver]:
        async with Receiver([reply]).listening() as receiver:
            post = HttpPost(WebhookSettings(allow_hosts=["127.0.0.1"], timeout=timeout))
            answer = await post(url or receiver.url, b"{}", {"content-type": "application/json"})
            return answer, receiver

    return asyncio.run(run())


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
def test_redirects_are_not_followed(code: int) -> None:
    async def run() -> None:
        async with Receiver().listening() as inside, Receiver().listening() as receiver:
            receiver.replies = [status(code, f"location: http://127.0.0.1:{inside.port}/secrets")]
            post = HttpPost(SETTINGS)
            answer = await post(receiver.url, b"{}", {})
            assert answer.status == code
            assert "redirects are not followed" in str(answer.error)
            assert (len(receiver.requests), inside.requests) == (1, [])

    asyncio.run(run())


async def never_answer(writer: asyncio.StreamWriter) -> None:
    await asyncio.Event().wait()


async def trickle(writer: asyncio.StreamWriter) -> None:
    """Send an endless head, one byte at a time."""
    for byte in b"HTTP/1.1 200 OK\r\n" + b"x-a: " + b"y" * 1000:
        writer.write(bytes([byte]))
        await writer.drain()
        await asyncio.sleep(0.02)


@pytest.mark.parametrize("reply", [never_answer, trickle])
def test_a_slow_receiver_times_out(reply: Reply) -> None:
    answer, _ = answer_to(reply, timeout=0.2)
    assert answer == Answer(None, "The receiver did not answer within 0.2 s.")


def test_the_body_of_a_long_answer_is_not_read() -> None:
    sent = 0

    async def flood(writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000000\r\n\r\n")
        for _ in range(15_000):
            writer.write(b"x" * 65536)
            await writer.drain()
            sent += 65536

    answer, _ = answer_to(flood)
    assert answer == Answer(200)
    assert sent < 50_000_000  # as much as fits into the buffers of the system


def test_the_status_counts_even_if_the_body_never_arrives() -> None:
    async def send_half(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 201 Created\r\ncontent-length: 10\r\n\r\nhalf")
        await writer.drain()
        await asyncio.Event().wait()

    answer, _ = answer_to(send_half, timeout=600)
    assert answer == Answer(201)


@pytest.mark.parametrize(
    "reply",
    [b"", b"SSH-2.0-OpenSSH_9\r\n", b"HTTP/1.1 ", b"HTTP/1.1 99999 X\r\n\r\n", b"\x00" * 100,
     b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 50_000, b"HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n"],
    ids=["nothing", "ssh", "cut", "status", "zeros", "long head", "length"],
)  # fmt: skip
def test_an_invalid_http_answer_is_a_reported_failure(reply: bytes) -> None:
    answer, receiver = answer_to(reply)
    assert answer.status is None
    assert str(answer.error).startswith(f"127.0.0.1:{receiver.port} could not be reached: ")


def test_a_refused_connection_is_a_reported_failure() -> None:
    answer, receiver = answer_to(OK, url="http://127.0.0.1:9/")
    assert str(answer.error).startswith("127.0.0.1:9 could not be reached: ConnectError")
    assert receiver.requests == []


def test_each_message_has_its_own_connection() -> None:
    async def run() -> None:
        peers: set[Any] = set()

        async def keep_open(writer: asyncio.StreamWriter) -> None:
            peers.add(writer.get_extra_info("peername"))
            writer.write(OK)
            await writer.drain()
            await asyncio.Event().wait()  # the receiver would keep it open

        async with Receiver([keep_open]).listening() as receiver:
            post = HttpPost(SETTINGS)
            for _ in range(3):
                assert await post(receiver.url, b"{}", {}) == Answer(200)
            assert {request.headers["connection"] for request in receiver.requests} == {"close"}
            assert len(peers) == 3

    asyncio.run(run())


# -- names and certificates


@dataclass
class Certificates:
    """A server's certificate, and a context that trusts it."""

    served: ssl.SSLContext
    trusted: ssl.SSLContext


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """A self-signed certificate of `hooks.test`."""
    folder = tmp_path_factory.mktemp("tls")
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "hooks.test")])
    names = x509.SubjectAlternativeName([x509.DNSName("hooks.test"), x509.IPAddress(ip_address("127.0.0.1"))])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(names, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem, own = folder / "certificate.pem", folder / "key.pem"
    pem.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    own.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    served = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    served.load_cert_chain(pem, own)
    return Certificates(served, ssl.create_default_context(cafile=str(pem)))


def resolver(*addresses: str) -> Callable[[str, int], Awaitable[Sequence[str]]]:
    async def resolve(host: str, port: int) -> Sequence[str]:
        return addresses

    return resolve


def over_tls(certificates: Certificates, host: str, *, trusted: bool = True, addresses: Sequence[str] = ()) -> Any:
    async def run() -> Any:
        server_names: list[str | None] = []
        certificates.served.sni_callback = lambda _, name, __: server_names.append(name)
        async with Receiver().listening(tls=certificates.served) as receiver:
            settings = WebhookSettings(
                allow_hosts=[host],
                ssl_context=certificates.trusted if trusted else None,
                resolve=resolver(*(addresses or ["127.0.0.1"])),
            )
            post = HttpPost(settings)
            answer = await post(f"https://{host}:{receiver.port}/", b"{}", {})
            return answer, receiver, server_names

    return asyncio.run(run())


def test_tls_and_the_host_header_use_the_name_of_the_url(certificates: Certificates) -> None:
    """Only the resolver of the settings knows the name, so it is not looked up a second time."""
    answer, receiver, server_names = over_tls(certificates, "hooks.test")
    assert answer == Answer(200)
    assert receiver.requests[0].headers["host"] == f"hooks.test:{receiver.port}"
    assert server_names == ["hooks.test"]


def test_tls_works_with_an_ip_address(certificates: Certificates) -> None:
    answer, receiver, _ = over_tls(certificates, "127.0.0.1")
    assert answer == Answer(200)
    assert receiver.requests[0].headers["host"] == f"127.0.0.1:{receiver.port}"


@pytest.mark.parametrize(("host", "trusted"), [("other.test", True), ("hooks.test", False)])
def test_a_wrong_certificate_is_rejected_before_anything_is_sent(
    certificates: Certificates, host: str, trusted: bool
) -> None:
    answer, receiver, _ = over_tls(certificates, host, trusted=trusted)
    assert answer.status is None
    assert "certificate verify failed" in answer.error
    assert receiver.requests == []


def test_the_next_address_is_tried_if_one_is_unreachable(certificates: Certificates) -> None:
    answer, receiver, _ = over_tls(certificates, "hooks.test", addresses=["127.0.0.2", "127.0.0.1"])
    assert answer == Answer(200)
    assert len(receiver.requests) == 1


def test_nothing_is_sent_to_a_name_that_resolves_to_loopback() -> None:
    async def run() -> None:
        async with Receiver().listening() as receiver:
            settings = WebhookSettings(allow_http=True, resolve=resolver("127.0.0.1"))
            answer = await HttpPost(settings)(f"http://hooks.test:{receiver.port}/", b"{}", {})
            assert "not public" in str(answer.error)
            assert receiver.requests == []

    asyncio.run(run())


def test_nothing_is_sent_to_a_name_that_is_rebound_to_loopback(ledger: Ledger) -> None:
    """The name had a public address when the webhook was added."""

    async def run() -> None:
        async with Receiver().listening() as receiver:
            answers = iter([["93.184.216.34"], ["93.184.216.34"]])

            async def rebinding(host: str, port: int) -> Sequence[str]:
                return next(answers, ["127.0.0.1"])

            sender = Sender(ledger, WebhookSettings(allow_http=True, resolve=rebinding))
            await sender.set_up(f"http://hooks.test:{receiver.port}/")
            assert next(answers) == ["93.184.216.34"]
            await sender.announce()
            await sender.sweep()
            (delivery,) = await sender.deliveries()
            assert (delivery.status, delivery.attempts, delivery.response_status) == ("pending", 1, None)
            assert "not public" in str(delivery.error)
            assert receiver.requests == []

    asyncio.run(run())
