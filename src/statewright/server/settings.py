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
"""Bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """Settings of the operator. Raises InvalidConfig for an insecure combination."""

    host: str = "127.0.0.1"
    port: int = 8123
    auth: Auth = "keys"
    """With `none` every caller owns the default workspace; refused unless the host is a loopback address."""
    admin_token: str | None = None
    """The value of `x-admin-token` that managing workspaces needs; None disables it over HTTP."""
    cors_origins: Sequence[str] = ()
    """Origins of web pages that may call the server, such as `https://example.org`."""
    allowed_hosts: Sequence[str] = ()
    """Host names that are accepted in addition to loopback ones while no keys are required."""
    max_body: int = 2 * MIB
    """The largest body of a request, in bytes."""
    title: str = "Statewright"
    heartbeat: float = 15.0
    """Seconds without an event after which a stream sends a heartbeat."""
    drain_timeout: float = 30.0
    """Seconds that requests have to finish when the server stops."""
    metrics: MetricsAccess | None = None
    """Access to `/metrics`, which names the graphs of all workspaces: for everyone (`open`), for the operator and keys
    with the scope `metrics:read` (`keys`), or for no one (`off`). None is `open` on loopback, and `keys` elsewhere."""
    metrics_port: int | None = None
    """A separate port for `/metrics` that requires no key; None for no such port."""
    metrics_host: str = "127.0.0.1"
    """The address of that port."""
    keep_alive: float = 75.0
    """Seconds that an idle connection is kept open for the next request. Clients that keep connections for longer than
    the server see some of their requests fail: httpx keeps them for 5 seconds, most proxies for 60."""
    read_timeout: float = 30.0
    """Seconds that a client has to send the head of a request, and again to send its body."""
    write_timeout: float = 60.0
    """Seconds after which the connection of a client that does not read is closed."""
    max_connections: int = 5000
    """The limit of open connections; more are refused with 503."""
    max_streams: int = 1000
    """The limit of open event streams of a workspace; more are refused with 429."""

    def __post_init__(self) -> None:
        if self.auth not in get_args(Auth):
            raise InvalidConfig(f"auth={self.auth!r}: " + suggestion(str(self.auth), get_args(Auth), noun="Known"))
        if self.auth == "none" and not is_loopback(self.host):
            raise InvalidConfig(
                f"auth='none' on host {self.host!r} would give access to anyone who can reach it. "
                f"Bind to 127.0.0.1, or require keys: auth='keys'."
            )
        self._check_origins()
        if self.metrics is not None and self.metrics not in get_args(MetricsAccess):
            modes = get_args(MetricsAccess)
            raise InvalidConfig(f"metrics={self.metrics!r}: " + suggestion(str(self.metrics), modes, noun="Known"))
        for name in ("keep_alive", "read_timeout", "write_timeout", "max_connections", "max_streams"):
            if getattr(self, name) <= 0:
                raise InvalidConfig(f"{name} is {getattr(self, name)}. Give a number above zero.")
        if self.max_body < 1 or self.heartbeat <= 0 or self.drain_timeout < 0:
            raise InvalidConfig("max_body and heartbeat must be above zero, and drain_timeout must not be negative.")
        if self.admin_token is not None and len(self.admin_token) < 16:
            raise InvalidConfig(
                "admin_token has fewer than 16 characters, and could be guessed. Generate a longer one."
            )

    @property
    def metrics_access(self) -> MetricsAccess:
        """Access to `/metrics`, as set or derived from the host."""
        return self.metrics or ("open" if is_loopback(self.host) else "keys")

    def _check_origins(self) -> None:
        for origin in self.cors_origins:
            scheme, _, host = origin.partition("://")
            if scheme not in ("http", "https") or not host or set(host) & set("/*?#@ "):
                raise InvalidConfig(
                    f"cors_origins has {origin!r}, which is not a valid origin. Write scheme, host and port as "
                    f"browsers do: 'https://app.example.org'; wildcards are not supported, because requests carry keys."
                )


def is_loopback(host: str) -> bool:
    """Return True if a host can only be reached from its own machine."""
    name = host.strip("[]").rstrip(".").lower()
    if name == "localhost":
        return True
    try:
        return ip_address(name.partition("%")[0]).is_loopback
    except ValueError:
        return False
