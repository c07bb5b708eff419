"""Webhooks over real connections: receivers that fail, dawdle, send elsewhere, talk for ever, and check signatures."""

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


def status(code: int, *more: str) -> bytes:
    return "\r\n".join([f"HTTP/1.1 {code} Said", "content-length: 0", *more, "", ""]).encode()


@dataclass
class Request:
    line: str
    headers: dict[str, str]
    body: bytes


Reply = bytes | Callable[[asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Receiver:
    """A server for one event loop that answers from a script, the last reply again and again."""

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
        headers = dict(one.lower().split(": ", 1) if "signature" not in one else one.split(": ", 1) for one in lines)
        body = await reader.readexactly(int(headers["content-length"]))
        self.requests.append(Request(line, headers, body))
        reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        if isinstance(reply, bytes):
            writer.write(reply)
            await writer.drain()
        else:
            await reply(writer)


SETTINGS = WebhookSettings(allow_hosts=["127.0.0.1"], timeout=600)
"""No answer is late, however slow the machine: a message that is sent again arrives twice."""
PATIENCE = 600.0
"""A sweep ends when everything is sent, however slow the machine."""


@pytest.fixture(params=["memory", "sqlite"])
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Ledger]:
    if request.param == "memory":
        yield InMemoryLedger()
        return
    with SqliteDatabase(tmp_path / "runs.db") as database:
        yield SqliteLedger(database)


class House:
    """A ledger with one webhook, what sends, and a run to tell of."""

    def __init__(self, ledger: Ledger, settings: WebhookSettings = SETTINGS) -> None:
        self.ledger = ledger
        self.settings = settings
        self.clock = FakeClock(datetime.now(UTC))
        self.deliverer = Deliverer(ledger, self.clock, settings, patience=PATIENCE)
        self.webhook_id = ""
        self.secret = ""

    async def begin(self, url: str) -> None:
        now = self.clock.now()
        run = Run(id="run_1", workspace_id="a", graph="g", thread_id="t", created_at=now, updated_at=now)
        await aresolve(self.ledger.write([Insert(run)]))
        webhook, secret = await add_webhook(self.ledger, "a", url, now=now, settings=self.settings)
        self.webhook_id, self.secret = webhook.id, str(secret)

    async def announce(self, count: int = 1) -> None:
        told = {"workflowRunId": "run_1", "output": {"text": "fünf €"}}
        now = self.clock.now()
        await aresolve(
            self.ledger.write([Announce("a", "workflow.completed", told, now, "run_1") for _ in range(count)])
        )

    async def sweep(self) -> datetime | None:
        return await self.deliverer.sweep(self.clock.now())

    async def exhaust(self) -> None:
        while (due := await self.sweep()) is not None:
            self.clock.advance(due - self.clock.now())

    async def deliveries(self) -> list[Delivery]:
        found, _ = await deliveries_of(self.ledger, "a", self.webhook_id)
        return found

    async def webhook(self) -> Webhook:
        return await get_webhook(self.ledger, "a", self.webhook_id)

    async def events(self) -> list[str]:
        return [one.type for one in await aresolve(self.ledger.events("run_1"))]


def test_a_message_arrives_signed_and_a_copy_of_it_is_refused_later(ledger: Ledger) -> None:
    async def run() -> None:
        async with Receiver().listening() as receiver:
            house = House(ledger)
            await house.begin(receiver.url)
            await house.announce()
            assert await house.sweep() is None
            (got,), (delivery,) = receiver.requests, await house.deliveries()
            assert got.line == "POST /hook?from=a HTTP/1.1"
            assert got.headers["host"] == f"127.0.0.1:{receiver.port}"
            assert got.headers["content-type"] == "application/json"
            assert got.headers["statewright-event"] == "workflow.completed"
            assert got.headers["statewright-delivery"] == delivery.id
            assert json.loads(got.body) == {
                "id": delivery.id,
                "type": "workflow.completed",
                "createdAt": house.clock.now().isoformat().replace("+00:00", "Z"),
                "data": {"workflowRunId": "run_1", "output": {"text": "fünf €"}},
            }
            signature, now = got.headers["statewright-signature"], house.clock.now()
            verify(house.secret, signature, got.body, now=now)
            for secret, body, when in (
                (house.secret, got.body, now + timedelta(seconds=301)),
                (house.secret, got.body.replace(b"run_1", b"run_2"), now),
                ("whsec_other", got.body, now),
            ):
                with pytest.raises(Unauthorized):
                    verify(secret, signature, body, now=when)
            assert (delivery.status, delivery.response_status, await house.events()) == (
                "delivered", 200, ["WEBHOOK_DELIVERED"],
            )  # fmt: skip
            await house.deliverer.close()

    asyncio.run(run())


def test_a_receiver_that_fails_is_tried_again_with_the_same_message(ledger: Ledger) -> None:
    async def run() -> None:
        async with Receiver([status(500), status(429), status(404), OK]).listening() as receiver:
            house = House(ledger)
            await house.begin(receiver.url)
            await house.announce()
            await house.exhaust()
            assert len(receiver.requests) == 4
            assert len({one.body for one in receiver.requests}) == 1
            assert len({one.headers["statewright-delivery"] for one in receiver.requests}) == 1
            signatures = [one.headers["statewright-signature"] for one in receiver.requests]
            assert len(set(signatures)) == 4
            verify(house.secret, signatures[-1], receiver.requests[-1].body, now=house.clock.now())
            (delivery,) = await house.deliveries()
            assert (delivery.status, delivery.attempts) == ("delivered", 4)

    asyncio.run(run())


def test_who_answers_410_is_switched_off_and_can_be_switched_on_again(ledger: Ledger) -> None:
    async def run() -> None:
        async with Receiver([status(410), OK]).listening() as receiver:
            house = House(ledger)
            await house.begin(receiver.url)
            await house.announce()
            assert await house.sweep() is None
            webhook = await house.webhook()
            assert (webhook.active, webhook.disabled_reason) == (False, "The receiver answered 410: it is gone.")
            await house.announce()
            await house.sweep()
            assert len(receiver.requests) == 1
            changed = await change_webhook(
                ledger, "a", webhook.id, active=True, rotate_secret=True, now=house.clock.now(), settings=SETTINGS
            )
            await send_test(ledger, "a", webhook.id, now=house.clock.now())
            await house.sweep()
            got = receiver.requests[-1]
            assert got.headers["statewright-event"] == "webhook.test"
            for secret in (house.secret, str(changed.secret)):  # either will do while the secret changes
                verify(secret, got.headers["statewright-signature"], got.body, now=house.clock.now())
            assert await house.events() == ["WEBHOOK_FAILED"]

    asyncio.run(run())


def test_many_failures_switch_a_webhook_off(ledger: Ledger) -> None:
    async def run() -> None:
        async with Receiver([status(503)]).listening() as receiver:
            house = House(ledger, WebhookSettings(allow_hosts=["127.0.0.1"], retry_after=[], disable_after=4))
            await house.begin(receiver.url)
            for _ in range(3):
                await house.announce()
                await house.exhaust()
            assert (await house.webhook()).failures == 3
            await house.announce()
            await house.exhaust()
            webhook = await house.webhook()
            assert (webhook.active, webhook.failures) == (False, 4)
            assert webhook.disabled_reason == "4 messages in a row have failed permanently."

    asyncio.run(run())


def test_many_messages_by_several_processes_arrive_once_each(ledger: Ledger) -> None:
    async def run() -> None:
        async with Receiver().listening() as receiver:
            house = House(ledger)
            await house.begin(receiver.url)
            await house.announce(60)
            others = [Deliverer(ledger, house.clock, SETTINGS, patience=PATIENCE) for _ in range(3)]
            await asyncio.gather(*(one.sweep(house.clock.now()) for one in [house.deliverer, *others]))
            await asyncio.gather(*(one.close() for one in [house.deliverer, *others]))
            assert len({one.headers["statewright-delivery"] for one in receiver.requests}) == 60
            assert len(receiver.requests) == 60
            assert {one.status for one in await house.deliveries()} == {"delivered"}
            assert await house.events() == ["WEBHOOK_DELIVERED"] * 60

    asyncio.run(run())


# -- single messages


def answer_to(reply: Reply, *, timeout: float = 600.0, url: str | None = None) -> tuple[Answer, Receiver]:
    """How a message was answered, and by whom."""

    async def run() -> tuple[Answer, Receiver]:
        async with Receiver([reply]).listening() as receiver:
            sender = HttpPost(WebhookSettings(allow_hosts=["127.0.0.1"], timeout=timeout))
            found = await sender(url or receiver.url, b"{}", {"content-type": "application/json"})
            return found, receiver

    return asyncio.run(run())


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
def test_redirects_are_not_followed(code: int) -> None:
    async def run() -> None:
        async with Receiver().listening() as inside, Receiver().listening() as receiver:
            receiver.replies = [status(code, f"location: http://127.0.0.1:{inside.port}/secrets")]
            sender = HttpPost(SETTINGS)
            found = await sender(receiver.url, b"{}", {})
            assert found.status == code
            assert "redirects are not followed" in str(found.error)
            assert (len(receiver.requests), inside.requests) == (1, [])

    asyncio.run(run())


async def dawdle(writer: asyncio.StreamWriter) -> None:
    await asyncio.Event().wait()


async def trickle(writer: asyncio.StreamWriter) -> None:
    """A head that never ends: each byte is a sign of life."""
    for sign in b"HTTP/1.1 200 OK\r\n" + b"x-a: " + b"y" * 1000:
        writer.write(bytes([sign]))
        await writer.drain()
        await asyncio.sleep(0.02)


@pytest.mark.parametrize("reply", [dawdle, trickle])
def test_a_slow_receiver_has_its_time_and_no_more(reply: Reply) -> None:
    found, _ = answer_to(reply, timeout=0.2)
    assert found == Answer(None, "The receiver did not answer within 0.2 s.")


def test_a_long_answer_is_not_read_to_its_end() -> None:
    sent = 0

    async def flood(writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000000\r\n\r\n")
        for _ in range(15_000):
            writer.write(b"x" * 65536)
            await writer.drain()
            sent += 65536

    found, _ = answer_to(flood)
    assert found == Answer(200)
    assert sent < 50_000_000  # what the buffers of the system have taken


def test_an_answer_whose_text_never_comes_has_a_status_all_the_same() -> None:
    async def half(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 201 Created\r\ncontent-length: 10\r\n\r\nhalf")
        await writer.drain()
        await asyncio.Event().wait()

    found, _ = answer_to(half, timeout=600)
    assert found == Answer(201)


@pytest.mark.parametrize(
    "reply",
    [b"", b"SSH-2.0-OpenSSH_9\r\n", b"HTTP/1.1 ", b"HTTP/1.1 99999 X\r\n\r\n", b"\x00" * 100,
     b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 50_000, b"HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n"],
    ids=["nothing", "ssh", "cut", "status", "zeros", "long head", "length"],
)  # fmt: skip
def test_what_is_no_http_is_a_failure_that_is_told(reply: bytes) -> None:
    found, receiver = answer_to(reply)
    assert found.status is None
    assert str(found.error).startswith(f"127.0.0.1:{receiver.port} could not be reached: ")


def test_nobody_there_is_a_failure_that_is_told() -> None:
    found, receiver = answer_to(OK, url="http://127.0.0.1:9/")
    assert str(found.error).startswith("127.0.0.1:9 could not be reached: ConnectError")
    assert receiver.requests == []


def test_each_message_has_a_connection_of_its_own() -> None:
    async def run() -> None:
        peers: set[Any] = set()

        async def note(writer: asyncio.StreamWriter) -> None:
            peers.add(writer.get_extra_info("peername"))
            writer.write(OK)
            await writer.drain()
            await asyncio.Event().wait()  # the receiver would keep it open

        async with Receiver([note]).listening() as receiver:
            sender = HttpPost(SETTINGS)
            for _ in range(3):
                assert await sender(receiver.url, b"{}", {}) == Answer(200)
            assert {one.headers["connection"] for one in receiver.requests} == {"close"}
            assert len(peers) == 3

    asyncio.run(run())


# -- names and certificates


@dataclass
class Certificates:
    """A certificate for one name, and who trusts it."""

    served: ssl.SSLContext
    trusted: ssl.SSLContext


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """Of `hooks.test`, signed by itself."""
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
        named: list[str | None] = []
        certificates.served.sni_callback = lambda _, name, __: named.append(name)
        async with Receiver().listening(tls=certificates.served) as receiver:
            settings = WebhookSettings(
                allow_hosts=[host],
                ssl_context=certificates.trusted if trusted else None,
                resolve=resolver(*(addresses or ["127.0.0.1"])),
            )
            sender = HttpPost(settings)
            found = await sender(f"https://{host}:{receiver.port}/", b"{}", {})
            return found, receiver, named

    return asyncio.run(run())


def test_the_certificate_and_the_host_are_those_of_the_name(certificates: Certificates) -> None:
    """The name is known to the settings alone, so nothing has looked it up a second time."""
    found, receiver, named = over_tls(certificates, "hooks.test")
    assert found == Answer(200)
    assert receiver.requests[0].headers["host"] == f"hooks.test:{receiver.port}"
    assert named == ["hooks.test"]


def test_an_address_has_a_certificate_too(certificates: Certificates) -> None:
    found, receiver, _ = over_tls(certificates, "127.0.0.1")
    assert found == Answer(200)
    assert receiver.requests[0].headers["host"] == f"127.0.0.1:{receiver.port}"


@pytest.mark.parametrize(("host", "trusted"), [("other.test", True), ("hooks.test", False)])
def test_the_wrong_certificate_gets_nothing(certificates: Certificates, host: str, trusted: bool) -> None:
    found, receiver, _ = over_tls(certificates, host, trusted=trusted)
    assert found.status is None
    assert "certificate verify failed" in found.error
    assert receiver.requests == []


def test_an_address_at_which_nobody_listens_does_not_hide_the_next(certificates: Certificates) -> None:
    found, receiver, _ = over_tls(certificates, "hooks.test", addresses=["127.0.0.2", "127.0.0.1"])
    assert found == Answer(200)
    assert len(receiver.requests) == 1


def test_a_name_that_leads_to_this_machine_gets_nothing_unless_it_is_allowed() -> None:
    async def run() -> None:
        async with Receiver().listening() as receiver:
            settings = WebhookSettings(allow_http=True, resolve=resolver("127.0.0.1"))
            found = await HttpPost(settings)(f"http://hooks.test:{receiver.port}/", b"{}", {})
            assert "not public" in str(found.error)
            assert receiver.requests == []

    asyncio.run(run())


def test_a_name_that_turns_to_this_machine_gets_nothing(ledger: Ledger) -> None:
    """It was public when the webhook was made."""

    async def run() -> None:
        async with Receiver().listening() as receiver:
            answers = iter([["93.184.216.34"], ["93.184.216.34"]])

            async def rebinding(host: str, port: int) -> Sequence[str]:
                return next(answers, ["127.0.0.1"])

            house = House(ledger, WebhookSettings(allow_http=True, resolve=rebinding))
            await house.begin(f"http://hooks.test:{receiver.port}/")
            assert next(answers) == ["93.184.216.34"]
            await house.announce()
            await house.sweep()
            (delivery,) = await house.deliveries()
            assert (delivery.status, delivery.attempts, delivery.response_status) == ("pending", 1, None)
            assert "not public" in str(delivery.error)
            assert receiver.requests == []

    asyncio.run(run())
