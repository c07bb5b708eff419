"""The state of the files of a development server: when they were loaded, and why a newer version could not be.

`statewright dev` loads a changed file in a new process, and replaces the server only if that succeeds. Otherwise the
new process describes the problems, with their positions and the text of the files, because the files may have changed
again by the time they are shown. The description is passed on to the server that keeps running, as a line of JSON.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadProblem:
    """A problem because of which files cannot be loaded."""

    file: str | None = None
    """The name of the file, relative to the folder of the project; None if the problem is in no file."""
    line: int | None = None
    """From 1; None if it is not known."""
    column: int | None = None
    """From 1; None if it is not known."""
    code: str
    """The code of the error, or the name of its class."""
    message: str
    suggestion: str = ""
    """A hint for fixing the problem."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadFailure:
    """The failure to load changed files."""

    problems: Sequence[LoadProblem] = ()
    texts: Mapping[str, str] = field(default_factory=dict[str, str])
    """The texts of the files with problems, by name, at the time of the failure."""

    def to_line(self) -> bytes:
        """Return the failure as one line of JSON."""
        return json.dumps(asdict(self)).encode() + b"\n"

    @classmethod
    def from_line(cls, line: bytes) -> LoadFailure:
        """Return the failure that `to_line` has written."""
        values = json.loads(line)
        return cls(problems=[LoadProblem(**problem) for problem in values["problems"]], texts=values["texts"])


@dataclass(slots=True)
class ReloadStatus:
    """The state of the files that a development server serves and watches.

    Another thread than that of the server sets the failure. Reading it needs no lock, since it is replaced as a whole.
    """

    loaded_at: datetime
    """When the version that is served was loaded."""
    failed: tuple[LoadFailure, datetime] | None = None
    """The last failure to load a changed version, and its time; None if the served version is the newest."""
