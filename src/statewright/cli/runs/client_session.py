"""The HTTP client of commands that talk to a server: its URL, API key and error messages.

The key is only read from the environment, because every process on the machine can read a command line.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from typing import Annotated, Any, Final

import typer

from statewright.cli.console.failure import FAILED, UsageError, exit_with, format_error
from statewright.client import DEFAULT_URL, Client
from statewright.errors import InvalidConfig, ServiceError, ServiceUnreachable, Unauthorized

URL_VARIABLE: Final = "STATEWRIGHT_URL"
KEY_VARIABLE: Final = "STATEWRIGHT_API_KEY"
_RETRIES: Final = 2
"""Retries of a request; few, because a user waits for the error message."""
_PATIENT_RETRIES: Final = 10
"""Retries while a run is followed; enough to survive a restart of the server."""

UrlOption = Annotated[
    str | None,
    typer.Option("--url", metavar="URL", help=f"The URL of the server. Default: ${URL_VARIABLE}, or {DEFAULT_URL}."),
]
RunArgument = Annotated[str, typer.Argument(metavar="RUN", help="The id of the run.")]


@contextmanager
def open_client(url: str | None, *, patient: bool = False) -> Generator[Client]:
    """Open a client for the server, and turn errors about its URL, key and reachability into advice.

    A `patient` client keeps trying while the server restarts, but the server must be reachable at the beginning.
    """
    explicit_url = url or os.environ.get(URL_VARIABLE)
    server_url = explicit_url or DEFAULT_URL
    try:
        client = Client(
            server_url, os.environ.get(KEY_VARIABLE) or None, retries=_PATIENT_RETRIES if patient else _RETRIES
        )
    except InvalidConfig as error:
        if not str(error).startswith("base_url="):  # e.g. an invalid key
            raise
        raise UsageError(f"{server_url!r} is not a valid server URL. Use one such as {DEFAULT_URL}.") from error
    with client:
        try:
            if patient:
                client.health()
            yield client
        except Unauthorized as error:
            raise UsageError(
                f"{format_error(error)} The key is read from the environment variable {KEY_VARIABLE}; create one with "
                f"`statewright keys create NAME` on the server's machine."
            ) from error
        except ServiceError as error:
            if not is_unreachable(error):
                raise
            if explicit_url:
                message = f"{server_url}: {error.details['reason']}. Check --url and {URL_VARIABLE}."
            else:
                message = (
                    f"{server_url}. Start one with `statewright dev` in the project folder, or set its URL with --url "
                    f"or {URL_VARIABLE}."
                )
            exit_with(f"Error: No server responds at {message}", FAILED)


def is_unreachable(error: ServiceError) -> bool:
    """Return True if no server has responded at all."""
    details: Any = error.details  # the client adds `repeatable` to the error if it has received no response
    return isinstance(error, ServiceUnreachable) and isinstance(details, dict) and "repeatable" in details
