"""A server asked by a command: where it is, with which key, and what is said if it does not answer.

The key is taken from the environment: what stands on a command line can be read by every program of the machine.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from statewright.cli.console.failure import FAILED, WrongUse, end, told
from statewright.errors import InvalidConfig, ServiceError, ServiceUnreachable, Unauthorized

if TYPE_CHECKING:
    from statewright.client import Client

URL_VARIABLE: Final = "STATEWRIGHT_URL"
KEY_VARIABLE: Final = "STATEWRIGHT_API_KEY"
_USUAL: Final = 2
"""How often a request is sent again; people would rather know."""
_PATIENT: Final = 10

UrlOption = Annotated[
    str | None,
    typer.Option(
        "--url", metavar="URL", help=f"The URL of the server. Default: ${URL_VARIABLE}, or port 8123 of this machine."
    ),
]
RunArgument = Annotated[str, typer.Argument(metavar="RUN", help="The id of the run.")]


@contextmanager
def asking(url: str | None, *, patient: bool = False) -> Generator[Client]:
    """A client of the server that a command line means; what it refuses is told as that deserves.

    A `patient` one holds out while the server is started anew, once it has answered at all.
    """
    from statewright.client import DEFAULT_URL, Client

    address = url or os.environ.get(URL_VARIABLE) or DEFAULT_URL
    try:
        opened = Client(address, os.environ.get(KEY_VARIABLE) or None, retries=_PATIENT if patient else _USUAL)
    except InvalidConfig as error:
        if not str(error).startswith("base_url="):  # the key, say
            raise
        raise WrongUse(f"{address!r} is not the URL of a server. Give one such as {DEFAULT_URL}.") from error
    with opened as client:
        try:
            if patient:
                client.health()
            yield client
        except Unauthorized as error:
            raise WrongUse(
                f"{told(error)} The key is taken from the variable {KEY_VARIABLE}; "
                f"`statewright keys create NAME` makes one, beside the database of the server."
            ) from error
        except ServiceError as error:
            if not is_unreachable(error):
                raise
            end(f"Error: {_nobody(address, error, is_chosen=bool(url or os.environ.get(URL_VARIABLE)))}", FAILED)


def is_unreachable(error: ServiceError) -> bool:
    """Whether no server has answered at all."""
    details: Any = error.details
    return isinstance(error, ServiceUnreachable) and isinstance(details, dict) and "repeatable" in details


def _nobody(address: str, error: ServiceError, *, is_chosen: bool) -> str:
    if is_chosen:
        return f"No server answers at {address}: {error.details['reason']}. Check --url and {URL_VARIABLE}."
    return (
        f"No server answers at {address}. Start one in the folder of the project with `statewright dev`, "
        f"or say where it is with --url or {URL_VARIABLE}."
    )
