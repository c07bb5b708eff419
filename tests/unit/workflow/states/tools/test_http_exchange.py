"""One HTTP exchange with an address that was already checked."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from statewright.errors import ToolError
from statewright.http import HttpRequest
from statewright.workflow.states.tools.guard import read_url
from statewright.workflow.states.tools.http_request import WholeResponse, exchange

LIMIT = 1_000


def fetch(url: str, addresses: list[str] | None = None, *, seconds: float = 60, **more: Any) -> WholeResponse:
    request = HttpRequest(more.pop("method", "GET"), read_url(url), more.pop("headers", {}), more.pop("body", None))
    certificates = ssl.create_default_context()

    async def run() -> WholeResponse:
        async with asyncio.timeout(seconds):
            return await exchange(
                request, addresses or ["127.0.0.1"], certificates=certificates, timeout=seconds, limit=LIMIT
            )

    return asyncio.run(run())


def test_a_response_has_status_headers_and_body(service: Any) -> None:
    service.answers["/a"] = (201, {"X-Kind": "Greeting"}, b"hi")
    answer = fetch(f"{service.url}/a", method="POST", headers={"x-own": "1"}, body=b"text")
    assert (answer.status, answer.headers["x-kind"], answer.body) == (201, "Greeting", b"hi")
    assert service.requests[0]["body"] == b"text"
    assert service.requests[0]["headers"]["x-own"] == "1"
    assert service.requests[0]["headers"]["host"] == service.host


def test_4_1_8_the_connection_uses_the_checked_address_without_resolving_the_name_again(service: Any) -> None:
    answer = fetch(f"http://moved-elsewhere.invalid:{service.server_port}/")
    assert answer.body == b"hello"
    assert service.requests[0]["headers"]["host"] == f"moved-elsewhere.invalid:{service.server_port}"


def test_the_next_address_is_tried_after_a_failure(service: Any) -> None:
    assert fetch(f"http://two.invalid:{service.server_port}/", ["127.0.0.2", "127.0.0.1"]).status == 200


def test_a_refused_connection_is_a_connection_error() -> None:
    with pytest.raises(ConnectionError, match=r"'127.0.0.1' failed: ConnectError"):
        fetch("http://127.0.0.1:1/")


def test_a_response_above_the_limit_is_rejected(service: Any) -> None:
    service.answers["/big"] = (200, {}, b"x" * (LIMIT + 1))
    service.answers["/fits"] = (200, {}, b"x" * LIMIT)
    assert len(fetch(f"{service.url}/fits").body) == LIMIT
    with pytest.raises(ToolError, match="more than 1000 bytes"):
        fetch(f"{service.url}/big")


def test_a_truncated_response_is_a_connection_error(service: Any) -> None:
    service.answers["/cut"] = (200, {"content-length": "50"}, b"only this")
    with pytest.raises(ConnectionError, match="failed: RemoteProtocolError"):
        fetch(f"{service.url}/cut")
    assert fetch(f"{service.url}/cut", method="HEAD").body == b""


@pytest.mark.parametrize("path", ["/slow", "/drip"])
def test_the_time_of_the_whole_exchange_is_limited(service: Any, path: str) -> None:
    with pytest.raises(TimeoutError):
        fetch(f"{service.url}{path}", seconds=0.4)


@pytest.mark.parametrize("headers", [{"a": "b\r\nX: y"}, {"a:": "c"}, {"a": "\u20ac"}])
def test_4_1_8_header_injection_is_rejected(service: Any, headers: dict[str, str]) -> None:
    with pytest.raises(ToolError, match="cannot be sent"):
        fetch(service.url, headers=headers)
    assert service.requests == []


class _QuietHandler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("content-length", "4")
        self.end_headers()
        self.wfile.write(b"safe")

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        pass


class _QuietServer(HTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        pass


@pytest.fixture
def tls_service(tmp_path: Path) -> Iterator[tuple[int, Path]]:
    """Yield the port of a service for `safe.example`, and the path of its certificate."""
    certificate = _create_certificate(tmp_path)
    server = _QuietServer(("127.0.0.1", 0), _QuietHandler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield server.server_port, certificate
    server.shutdown()
    server.server_close()
    thread.join()


def _create_certificate(folder: Path) -> Path:
    x509 = pytest.importorskip("cryptography.x509")
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.oid.NameOID.COMMON_NAME, "safe.example")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("safe.example")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    path = folder / "service.pem"
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.write_bytes(secret + certificate.public_bytes(serialization.Encoding.PEM))
    return path


def test_the_certificate_of_a_service_is_verified_against_its_name(
    tls_service: tuple[int, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    port, certificate = tls_service
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    assert fetch(f"https://safe.example:{port}/").body == b"safe"
    with pytest.raises(ToolError, match=r"certificate of 'other.example' cannot be trusted"):
        fetch(f"https://other.example:{port}/")


def test_an_untrusted_certificate_is_rejected(tls_service: tuple[int, Path]) -> None:
    with pytest.raises(ToolError, match=r"certificate of 'safe.example' cannot be trusted"):
        fetch(f"https://safe.example:{tls_service[0]}/")


def test_4_1_8_proxies_of_the_environment_are_not_used(service: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    assert fetch(service.url).body == b"hello"


def test_the_path_is_sent_unchanged(service: Any) -> None:
    fetch(f"{service.url}/a/../b|{{x}}?q='%2f")
    assert service.requests[0]["path"] == "/a/../b|{x}?q='%2f"
