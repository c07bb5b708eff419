"""The port on which a server listens, taken before anything else is done."""

from __future__ import annotations

import errno
import socket

from statewright.cli.failure import WrongUse

BACKLOG = 2048
"""How many connections may wait while nobody takes them, as between two processes."""


def listening_on(host: str, port: int) -> socket.socket:
    """A socket that listens; port 0 is any free one. Raises WrongUse for what is taken, or not of this machine."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError) as error:
        raise WrongUse(
            f"There is no address {host!r}: {error}. Give --host 127.0.0.1, or one of this machine."
        ) from None
    taken = socket.socket(family, kind, protocol)
    try:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(address)
        taken.listen(BACKLOG)
    except OSError as error:
        taken.close()
        raise WrongUse(_refused(host, port, error)) from None
    return taken


def _refused(host: str, port: int, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"Port {port} of {host} is taken. Stop what listens there, or choose another with --port."
    if error.errno == errno.EACCES:
        return f"Port {port} is only for administrators. Choose one above 1023 with --port."
    return f"Nobody can listen on {host}, port {port}: {error.strerror}. Give --host 127.0.0.1, or one of this machine."


def address_of(listening: socket.socket) -> str:
    """The address of a socket as a URL. One that listens everywhere is reached on this machine."""
    host, port = listening.getsockname()[:2]
    if host in ("0.0.0.0", "::"):
        host = "127.0.0.1"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
