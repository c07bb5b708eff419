"""Settings of the HTTP server: address, access and limits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final, Literal, get_args

from statewright.errors import InvalidConfig, suggestion

Auth = Literal["keys", "none"]
MetricsAccess = Literal["open", "keys", "off"]
MIB: Final = 1024 * 1024
"""Bytes in a mebibyte."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """Settings of the HTTP server. Raises InvalidConfig for invalid values and insecure combinations."""

    host: str = "127.0.0.1"
    port: int = 8123
    auth: Auth = "keys"
    """With `none`, every caller has full access to the default workspace; only allowed on a loopback address."""
    admin_token: str | None = None
    """The token required to manage workspaces, sent as `x-admin-token`. None disables managing them over HTTP, unless
    `auth` is `none`."""
    cors_origins: Sequence[str] = ()
    """Origins of web pages that may call the server, such as `https://example.org`."""
    allowed_hosts: Sequence[str] = ()
    """Host names accepted in addition to loopback names if `auth` is `none`."""
    max_body: int = 2 * MIB
    """The maximum size of a request body, in bytes."""
    title: str = "Statewright"
    heartbeat: float = 15.0
    """Seconds without an event after which a stream sends a heartbeat."""
    drain_timeout: float = 30.0
    """Seconds for open requests to complete when the server stops."""
    metrics: MetricsAccess | None = None
    """Access to `/metrics`, which reveals the graph names of all workspaces: `open` to everyone, `keys` for the admin
    token and keys with the scope `metrics:read`, or `off`. None means `open` on loopback and `keys` elsewhere."""
    metrics_port: int | None = None
    """An additional port that serves metrics without authentication; None for no such port."""
    metrics_host: str = "127.0.0.1"
    """The address on which `metrics_port` listens."""
    keep_alive: float = 75.0
    """Seconds for which an idle connection is kept open. This time must exceed the keep-alive time of clients, or some
    of their requests will fail on a connection that has just been closed. (httpx uses 5 seconds, most proxies 60.)"""
    read_timeout: float = 30.0
    """Seconds within which a client must send the head of a request, and as many again to send its body."""
    write_timeout: float = 60.0
    """Seconds after which the connection of a client that does not read the response is closed."""
    max_connections: int = 5000
    """The maximum number of open connections; further connections are rejected with 503."""
    max_streams: int = 1000
    """The maximum number of open event streams per workspace; further streams are rejected with 429."""

    page: bool = True
    """True to serve the web page under `/ui/`."""
    session_idle: float = 12 * 3600.0
    """Seconds after its last use at which a session of the web page ends."""

    def __post_init__(self) -> None:
        if self.auth not in get_args(Auth):
            raise InvalidConfig(f"auth={self.auth!r}: " + suggestion(str(self.auth), get_args(Auth), noun="Known"))
        if self.auth == "none" and not is_loopback(self.host):
            raise InvalidConfig(
                f"auth='none' on host {self.host!r} would give access to anyone who can reach it. "
                f"Bind to 127.0.0.1, or require API keys with auth='keys'."
            )
        self._check_origins()
        if self.metrics is not None and self.metrics not in get_args(MetricsAccess):
            modes = get_args(MetricsAccess)
            raise InvalidConfig(f"metrics={self.metrics!r}: " + suggestion(str(self.metrics), modes, noun="Known"))
        for name in ("keep_alive", "read_timeout", "write_timeout", "max_connections", "max_streams", "session_idle"):
            if getattr(self, name) <= 0:
                raise InvalidConfig(f"{name} is {getattr(self, name)}, but must be positive.")
        if self.max_body < 1 or self.heartbeat <= 0 or self.drain_timeout < 0:
            raise InvalidConfig("max_body and heartbeat must be positive, and drain_timeout must not be negative.")
        if self.admin_token is not None and len(self.admin_token) < 16:
            raise InvalidConfig("admin_token has fewer than 16 characters and could be guessed. Use a longer one.")

    @property
    def metrics_access(self) -> MetricsAccess:
        """Access to `/metrics`, as set or derived from the host."""
        return self.metrics or ("open" if is_loopback(self.host) else "keys")

    def _check_origins(self) -> None:
        for origin in self.cors_origins:
            scheme, _, host = origin.partition("://")
            if scheme not in ("http", "https") or not host or set(host) & set("/*?#@ "):
                raise InvalidConfig(
                    f"cors_origins contains {origin!r}, which is not a valid origin. Use scheme, host and optional "
                    f"port, e.g. 'https://app.example.org'. Wildcards are not supported, because requests carry keys."
                )


def is_loopback(host: str) -> bool:
    """Return True if the host is a loopback name or address, which can only be reached from the same machine."""
    name = host.strip("[]").rstrip(".").lower()
    if name == "localhost":
        return True
    try:
        return ip_address(name.partition("%")[0]).is_loopback
    except ValueError:
        return False
