"""Reloading a development server when its files change.

The server is a child process. After a change, a new child loads the code. Only if that succeeds is the old child
drained and the new one started, so that a temporarily broken file does not stop the server. Unfinished runs continue
in the new child.
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

_WORKFLOW_SUFFIXES: Final = (".yaml", ".yml", ".json")
_POLL_INTERVAL: Final = 1000
"""Milliseconds between checks that the server is still running."""
_GRACE_PERIOD: Final = 30.0
"""Seconds that a server has to exit after the drain timeout."""


class Reloader:
    """Runs a server process, and replaces it when a file changes."""

    def __init__(self, listening: socket.socket, args: Sequence[str], target: str | None, drain: float) -> None:
        self._listening = listening
        self._args = args
        self._target = target
        self._stop_timeout = drain + _GRACE_PERIOD
        self._stop = threading.Event()
        self._server: ServerProcess | None = None
        self._next: ServerProcess | None = None
        self._is_first = True

    def run(self) -> int:
        """Serve until SIGTERM or SIGINT, and return the exit code. Return at once if the first server cannot start."""
        _require_watchfiles()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)
        if not self._replace_server():
            return self._next.stop(self._stop_timeout) if self._next is not None else 0
        for changed_files in self._watch():
            if changed_files:
                say(f"{', '.join(changed_files)} changed: reloading.", file=sys.stderr, flush=True)
                self._replace_server()
            elif self._server is not None and self._server.process.poll() is not None:
                say("The server has exited. It will restart after the next change.", file=sys.stderr, flush=True)
                self._server = None
        return self._server.stop(self._stop_timeout) if self._server is not None else 0

    def _on_signal(self, *_: object) -> None:
        self._stop.set()
        if self._next is not None:
            self._next.process.terminate()

    def _replace_server(self) -> bool:
        """Start a new server in place of the current one. Return False if its code cannot be loaded."""
        self._next = ServerProcess(self._listening, self._args)
        if not self._next.wait_until_ready():
            if self._server is not None:
                self._next.stop(self._stop_timeout)
                self._server.report_failure_of(self._next)
                say("The server keeps running the previous code.", file=sys.stderr, flush=True)
            return False
        previous, self._server, self._next = self._server, self._next, None
        if previous is not None:
            previous.stop(self._stop_timeout)
        self._server.start(is_first=self._is_first)
        self._is_first = False
        return True

    def _watch(self) -> Iterator[list[str]]:
        """Yield the changed files after each change, and an empty list every second, until the reloader stops."""
        from watchfiles import watch

        watched = WatchedFiles(self._target)
        for changes in watch(
            watched.folder,
            watch_filter=lambda _, path: watched.is_relevant(path),
            stop_event=self._stop,
            rust_timeout=_POLL_INTERVAL,
            yield_on_timeout=True,
            raise_interrupt=False,
            recursive=watched.is_recursive,
        ):
            if self._stop.is_set():
                return
            yield sorted({watched.display_path(path) for _, path in changes})


class WatchedFiles:
    """The files to watch: Python files in the folder of the server, and the workflow files of its project."""

    def __init__(self, target: str | None) -> None:
        self.target = target
        file = Path(target.partition(":")[0]).resolve() if target is not None else None
        self.folder = find_project_folder(target)
        self.is_recursive = file is None
        """False if a single file is served: subfolders of its folder may contain anything."""
        self._target_files = {file} if file is not None else set[Path]()

    def is_relevant(self, path: str) -> bool:
        """Return True for a file to watch. Files written by runs are excluded, or reloading would never end."""
        file = Path(path)
        parts = file.relative_to(self.folder).parts if file.is_relative_to(self.folder) else file.parts[1:]
        if any(part.startswith(".") or part == "__pycache__" for part in parts):
            return False
        if file.suffix == ".py" or file.name == FILE_NAME:
            return True
        return file.suffix in _WORKFLOW_SUFFIXES and (file in self._target_files or file in self._project_files())

    def _project_files(self) -> set[Path]:
        """Return the workflow files listed in the current version of the project file."""
        if self.target is not None:
            return set()
        project = _load_project_leniently(self.folder)
        files = [entry.file for entry in (*project.graphs.values(), *project.workflows.values())]
        return {file.resolve() for file in files if file is not None}

    def display_path(self, path: str) -> str:
        """Return the path of a file relative to the folder."""
        file = Path(path)
        return str(file.relative_to(self.folder)) if file.is_relative_to(self.folder) else path


def find_project_folder(target: str | None) -> Path:
    """Return the folder of a file to serve or, without one, that of the project of the current folder."""
    return Path(target.partition(":")[0]).resolve().parent if target else _load_project_leniently(Path.cwd()).folder


def _load_project_leniently(folder: Path) -> Project:
    """Return the project of a folder; an empty one if its file is broken."""
    try:
        return load_project(folder)
    except StatewrightError:  # the server reports it
        file = find_project(folder)
        return Project(file.parent if file is not None else folder)


def _require_watchfiles() -> None:
    with optional("Reloading (disable it with --no-reload) needs", extra="server"):
        import watchfiles  # pyright: ignore[reportUnusedImport]  # noqa: F401
