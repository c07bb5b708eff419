"""Programs that are run in this process as in one of their own: what they are given, what they print, how they end.

A process of its own takes most of its time to import what this one has imported already. What a program changes of the
process is put back when it has ended: its folder, environment, modules, path, warnings, log handlers and signals.
Signals, kills and what the system does with a process are not seen here: such tests start one.
"""

from __future__ import annotations

import codecs
import contextlib
import contextvars
import gc
import io
import logging
import os
import pty
import runpy
import signal
import subprocess
import sys
import tempfile
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, TextIO

Program = Callable[[], object]
Ended = subprocess.CompletedProcess[str]
_STREAMS = ("stdin", "stdout", "stderr")


def statewright(
    *words: object,
    cwd: Path | None = None,
    said: str = "",
    env: Mapping[str, str] | None = None,
    terminal: Mapping[str, IO[str]] | None = None,
) -> Ended:
    """Run the command line, with what it is told by a pipe; `terminal` has streams that are given in place of pipes."""
    from statewright.cli.main import main

    return run_here(main, ["statewright", *map(str, words)], cwd=cwd, said=said, env=env, terminal=terminal)


def script(path: Path, *words: object, cwd: Path, said: str = "", env: Mapping[str, str] | None = None) -> Ended:
    """Run a Python file as `python FILE WORD...` does."""

    def run() -> None:
        sys.path.insert(0, str(path.parent))
        runpy.run_path(str(path), run_name="__main__")

    return run_here(run, [str(path), *map(str, words)], cwd=cwd, said=said, env=env)


def run_here(
    program: Program,
    argv: list[str],
    *,
    cwd: Path | None = None,
    said: str = "",
    env: Mapping[str, str] | None = None,
    terminal: Mapping[str, IO[str]] | None = None,
) -> Ended:
    """Run a program with its words, input, folder and environment; what it prints, and its exit code."""
    with contextlib.ExitStack() as files:
        out, err = (files.enter_context(tempfile.TemporaryFile()) for _ in range(2))
        streams: dict[str, IO[str]] = {
            "stdin": io.TextIOWrapper(io.BytesIO(said.encode()), encoding="utf-8"),
            "stdout": io.TextIOWrapper(os.fdopen(os.dup(out.fileno()), "wb"), encoding="utf-8"),
            "stderr": io.TextIOWrapper(
                os.fdopen(os.dup(err.fileno()), "wb"), encoding="utf-8", errors="backslashreplace", line_buffering=True
            ),
        }
        with as_in_a_process(argv, {**streams, **(terminal or {})}, cwd, env):
            code = _exit_code(program)
        for stream in streams.values():
            stream.close()
        printed = [_all_of(file) for file in (out, err)]
    return subprocess.CompletedProcess(argv, code, *printed)


def _all_of(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode()


def _exit_code(program: Program) -> int:
    """Run a program to its end, as the interpreter does: an error is a traceback on standard error and 1."""
    try:
        contextvars.Context().run(program)
    except SystemExit as ended:
        if ended.code is None or isinstance(ended.code, int):
            return ended.code or 0
        print(ended.code, file=sys.stderr)
        return 1
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


@contextlib.contextmanager
def as_in_a_process(
    argv: list[str], streams: Mapping[str, IO[str]], cwd: Path | None, env: Mapping[str, str] | None
) -> Iterator[None]:
    """Give a program what a process has, and put back afterwards what it has changed."""
    before = Path.cwd()
    environ, path, modules = dict(os.environ), list(sys.path), dict(sys.modules)
    kept = {name: getattr(sys, name) for name in ("argv", "dont_write_bytecode", *_STREAMS)}
    in_main_thread = threading.current_thread() is threading.main_thread()
    handlers = {one: signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)}
    root = logging.getLogger()
    levels = (list(root.handlers), root.level)
    temporary, tempfile.tempdir = tempfile.tempdir, None  # it is looked up in the environment again
    os.chdir(cwd or before)
    os.environ.update(env or {})
    folder = Path.cwd()
    sys.argv, sys.dont_write_bytecode = argv, True  # a file that is written twice within a second is read again
    for name, stream in streams.items():
        setattr(sys, name, stream)
    try:
        with warnings.catch_warnings():
            _warn_as_python_does()
            yield
            gc.collect()  # what the end of a process would close without a word
    finally:
        for name, value in kept.items():
            setattr(sys, name, value)
        os.chdir(before)
        os.environ.clear()
        os.environ.update(environ)
        root.handlers[:], root.level = levels
        tempfile.tempdir = temporary
        if in_main_thread:
            for one, handler in handlers.items():
                signal.signal(one, handler)
        own = {folder, *map(Path, set(sys.path) - set(path))}
        sys.path[:] = path
        for name in [name for name, module in sys.modules.items() if modules.get(name) is not module]:
            if _stands_in(sys.modules[name], own):
                del sys.modules[name]
                sys.modules.update({name: modules[name]} if name in modules else {})


def _warn_as_python_does() -> None:
    """Leave the filters of the tests, which make errors of warnings."""
    warnings.simplefilter("default")
    for kind in (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning):
        warnings.simplefilter("ignore", kind)


def _stands_in(module: object, folders: set[Path]) -> bool:
    file = getattr(module, "__file__", None)
    return file is not None and any(Path(file).is_relative_to(folder) for folder in folders)


class Screen:
    """A terminal that a program of this process may be given for its streams. Who reads `ours` sees what it shows."""

    def __init__(self, columns: int = 100) -> None:
        self.env = {"TERM": "xterm", "COLUMNS": str(columns)}
        self.ours, self._theirs = pty.openpty()

    @contextlib.contextmanager
    def streams(self, *names: str) -> Iterator[dict[str, IO[str]]]:
        """Open the terminal for all streams of a program, or for some."""
        with contextlib.ExitStack() as opened:
            yield {name: opened.enter_context(self._stream(name)) for name in names or _STREAMS}

    def _stream(self, name: str) -> TextIO:
        mode = "r" if name == "stdin" else "w"
        stream = open(os.dup(self._theirs), mode, encoding="utf-8", errors="replace")  # noqa: SIM115
        stream.reconfigure(line_buffering=True)
        return stream

    def hang_up(self) -> None:
        """Let who reads come to an end: the program has ended, and its streams are closed."""
        os.close(self._theirs)

    def close(self) -> None:
        os.close(self.ours)


def on_a_screen(
    *words: object, cwd: Path | None = None, streams: tuple[str, ...] = _STREAMS, columns: int = 100, **env: str
) -> tuple[Ended, str]:
    """Run the command line with a terminal for some of its streams: how it ends, and what the terminal shows."""
    screen = Screen(columns)
    shown: list[str] = []
    reader = threading.Thread(target=lambda: shown.extend(_shown_on(screen.ours)))
    reader.start()
    try:
        with screen.streams(*streams) as terminal:
            ended = statewright(*words, cwd=cwd, env={**screen.env, **env}, terminal=terminal)
    finally:
        screen.hang_up()
        reader.join()
        screen.close()
    return ended, "".join(shown)


def _shown_on(terminal: int) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    while True:
        try:
            chunk = os.read(terminal, 65536)
        except OSError:  # how Linux says that nobody has the terminal any more
            return
        if not chunk:
            return
        yield decoder.decode(chunk)
