"""Reloading of a server when its files change.

The server is a child process. After a change, a new child loads the code. Only if that succeeds, the old child is
drained and the new one starts serving, so a temporarily broken file stops nothing. Running runs continue in the new
child.
"""

from __future__ import annotations

import signal
import socket
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from statewright.cli.console.printing import say
from statewright.cli.serve.sockets import ServerProcess
from statewright.errors import StatewrightError
from statewright.extras import optional
from statewright.project import FILE_NAME, Project, find_project, load_project

_WORKFLOWS: Final = (".yaml", ".yml", ".json")
_POLL: Final = 1000
"""Milliseconds between checks that the server is still running."""
_GRACE: Final = 5.0
"""Seconds that a server has to exit, beyond the time for its steps."""


class Reloader:
    """Runs one server process, and replaces it when a file changes."""

    def __init__(self, listening: socket.socket, args: Sequence[str], target: str | None, drain: float) -> None:
        self._listening = listening
        self._args = args
        self._target = target
        self._patience = drain + _GRACE
        self._stop = threading.Event()
        self._server: ServerProcess | None = None
        self._next: ServerProcess | None = None
        self._is_first = True

    def run(self) -> int:
        """Serve until SIGTERM or SIGINT and return the exit code; return at once if the first server cannot start."""
        _require_watchfiles()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)
        if not self._replace():
            return self._next.stop(self._patience) if self._next is not None else 0
        for changed in self._changes():
            if changed:
                say(f"{', '.join(changed)} changed: reloading.", file=sys.stderr, flush=True)
                self._replace()
            elif self._server is not None and self._server.process.poll() is not None:
                say("The server has ended. It starts again after the next change.", file=sys.stderr, flush=True)
                self._server = None
        return self._server.stop(self._patience) if self._server is not None else 0

    def _on_signal(self, *_: object) -> None:
        self._stop.set()
        if self._next is not None:
            self._next.process.terminate()

    def _replace(self) -> bool:
        """Start a new server in place of the current one. False if the code cannot be loaded."""
        self._next = ServerProcess(self._listening, self._args)
        if not self._next.wait_until_ready():
            if self._server is not None:
                self._next.stop(self._patience)
                say("The server continues with the code that it loaded before.", file=sys.stderr, flush=True)
            return False
        before, self._server, self._next = self._server, self._next, None
        if before is not None:
            before.stop(self._patience)
        self._server.start(is_first=self._is_first)
        self._is_first = False
        return True

    def _changes(self) -> Iterator[list[str]]:
        """Yield the changed files after each change, and an empty list now and then, until the reloader stops."""
        from watchfiles import watch

        watched = WatchedFiles(self._target)
        for changes in watch(
            watched.folder,
            watch_filter=lambda _, path: watched.is_relevant(path),
            stop_event=self._stop,
            rust_timeout=_POLL,
            yield_on_timeout=True,
            raise_interrupt=False,
            recursive=watched.is_deep,
        ):
            if self._stop.is_set():
                return
            yield sorted({watched.display_path(path) for _, path in changes})


class WatchedFiles:
    """The files to watch: Python files in the folder of a server, and the workflow files of its project."""

    def __init__(self, target: str | None) -> None:
        self.target = target
        file = Path(target.partition(":")[0]).resolve() if target is not None else None
        self.folder = file.parent if file is not None else _project_of(Path.cwd()).folder
        self.is_deep = file is None
        """False for a single file: only its neighbours are watched, as its folder may contain anything."""
        self._target_files = {file} if file is not None else set[Path]()

    def is_relevant(self, path: str) -> bool:
        """Return True for a watched file. Files that runs write are not, else reloading would never end."""
        file = Path(path)
        parts = file.relative_to(self.folder).parts if file.is_relative_to(self.folder) else file.parts[1:]
        if any(part.startswith(".") or part == "__pycache__" for part in parts):
            return False
        if file.suffix == ".py" or file.name == FILE_NAME:
            return True
        return file.suffix in _WORKFLOWS and (file in self._target_files or file in self._project_files())

    def _project_files(self) -> set[Path]:
        """Return the files in the current version of the project file."""
        project = _project_of(self.folder) if self.target is None else None
        if project is None:
            return set()
        files = [entry.file for entry in (*project.graphs.values(), *project.workflows.values())]
        return {entry.resolve() for entry in files if entry is not None}

    def display_path(self, path: str) -> str:
        """Return the path of a file relative to the folder."""
        file = Path(path)
        return str(file.relative_to(self.folder)) if file.is_relative_to(self.folder) else path


def _project_of(folder: Path) -> Project:
    try:
        return load_project(folder)
    except StatewrightError:  # temporarily broken; the server reports it
        file = find_project(folder)
        return Project(file.parent if file is not None else folder)


def _require_watchfiles() -> None:
    with optional("Reloading (without it: --no-reload) needs", extra="server"):
        import watchfiles  # pyright: ignore[reportUnusedImport]  # noqa: F401
