"""Imports of optional libraries, with an error message that names the extra to install.

Without extras, the package can run graphs and most commands of the command line. All other features need an extra.
"""

from __future__ import annotations

from types import TracebackType

from statewright.errors import MissingLibrary


class optional:  # noqa: N801  # reads as a statement: `with optional("Metrics need", extra="metrics"): import ...`
    """Raise MissingLibrary in place of an ImportError, if an optional library cannot be imported.

    The message is `purpose`, which ends with a verb, followed by the name of the library and the `extra` to install.
    """

    def __init__(self, purpose: str, *, extra: str) -> None:
        self._purpose = purpose
        self._extra = extra

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if isinstance(error, ImportError) and not isinstance(error, MissingLibrary):
            raise MissingLibrary(missing_library(self._purpose, error, f"statewright[{self._extra}]")) from error


def missing_library(purpose: str, error: ImportError, package: str) -> str:
    """Return the message about a library that cannot be imported. `package` is the argument of `pip install`."""
    # A library that is installed but broken raises a plain ImportError, whose message says more than its name.
    is_absent = isinstance(error, ModuleNotFoundError) and error.name is not None
    need = f"the library {error.name!r}, which is not installed" if is_absent else f"a missing library ({error})"
    return f"{purpose} {need}. Run `pip install '{package}'`."
