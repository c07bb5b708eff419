"""The HTTP client of commands that talk to a server: its address, API key and error messages.

The key is read from the environment, because every process on the machine can read a command line.
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
"""Retries while a run is followed; enough for a restart of the server."""

UrlOption = Annotated[
    str | None,
    typer.Option("--url", metavar="URL", help=f"The URL of the server. Default: ${URL_VARIABLE}, or {DEFAULT_URL}."),
]
RunArgument = Annotated[str, typer.Argument(metavar="RUN", help="The id of the run.")]


@contextmanager
def open_client(url: str | None, *, patient: bool = False) -> Generator[Client]:
    """Open a client of the server that the command line names, and turn its errors into messages.

    A `patient` client keeps trying while the server restarts, but must reach it at the beginning.
    """
    address = url or os.environ.get(URL_VARIABLE) or DEFAULT_URL
    try:
        connected = Client(
            address, os.environ.get(KEY_VARIABLE) or None, retries=_PATIENT_RETRIES if patient else _RETRIES
        )
    except InvalidConfig as error:
        if not str(error).startswith("base_url="):  # the key is wrong, for example
            raise
        raise UsageError(f"{address!r} is not the URL of a server. Give one such as {DEFAULT_URL}.") from error
    with connected as client:
        try:
            if patient:
                client.health()
            yield client
        except Unauthorized as error:
            raise UsageError(
                f"{format_error(error)} The key is taken from the variable {KEY_VARIABLE}; "
                f"`statewright keys create NAME` creates one, on the machine with the database of the server."
            ) from error
        except ServiceError as error:
            if not is_unreachable(error):
                raise
            exit_with(
                f"Error: {_unreachable_message(address, error, is_explicit=bool(url or os.environ.get(URL_VARIABLE)))}",
                FAILED,
            )


def is_unreachable(error: ServiceError) -> bool:
    """Return True if there was no answer from any server."""
    details: Any = error.details
    return isinstance(error, ServiceUnreachable) and isinstance(details, dict) and "repeatable" in details


def _unreachable_message(address: str, error: ServiceError, *, is_explicit: bool) -> str:
    if is_explicit:
        return f"No server answers at {address}: {error.details['reason']}. Check --url and {URL_VARIABLE}."
    return (
        f"No server answers at {address}. Start one in the folder of the project with `statewright dev`, "
        f"or give its address with --url or {URL_VARIABLE}."
    )
