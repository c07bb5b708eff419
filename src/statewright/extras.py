"""Optional libraries: how their absence is reported.

The bare package runs graphs and most of the command line. Everything else is installed by an extra, and a library that
is missing is one sentence that names the extra, wherever it is noticed.
"""

from __future__ import annotations

from types import TracebackType

from statewright.errors import MissingLibrary


class optional:  # noqa: N801  # reads as a statement: `with optional("Metrics need", extra="metrics"): import ...`
    """Raise MissingLibrary in place of the ImportError of an optional library.

    `purpose` begins the sentence, verb included; `extra` installs what is missing.
    """

    def __init__(self, purpose: str, *, extra: str) -> None:
        self._purpose = purpose
        self._extra = extra

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, ImportError) and not isinstance(error, MissingLibrary):
            raise MissingLibrary(missing_library(self._purpose, error, f"statewright[{self._extra}]")) from error


def missing_library(purpose: str, error: ImportError, package: str) -> str:
    """Return the sentence about a library that cannot be imported; `package` installs it."""
    # A library that is installed and broken fails with its own words, which say more than its name.
    absent = isinstance(error, ModuleNotFoundError) and error.name is not None
    what = f"the library {error.name!r}, which is not installed" if absent else f"a library that is missing ({error})"
    return f"{purpose} {what}. Run `pip install '{package}'`."
