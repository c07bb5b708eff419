"""Programs that run in this process as if in their own: with arguments, streams, output and an exit code.

A new process spends most of its time importing modules that this one has imported already. The changes of a program to
the process are undone when it has ended: folder, environment, modules, path, warnings, log handlers and signals. Tests
of signals, kills and other operations of the system start a real process instead.
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
    stdin: str = "",
    env: Mapping[str, str] | None = None,
    terminal: Mapping[str, IO[str]] | None = None,
) -> Ended:
    """Run the command line. `stdin` is its piped input; the streams in `terminal` replace pipes."""
    from statewright.cli.main import main

    return run_on_this_thread(main, ["statewright", *map(str, words)], cwd=cwd, stdin=stdin, env=env, terminal=terminal)


def script(path: Path, *words: object, cwd: Path, stdin: str = "", env: Mapping[str, str] | None = None) -> Ended:
    """Run a Python file like `python FILE WORD...`."""

    def run() -> None:
        sys.path.insert(0, str(path.parent))
        runpy.run_path(str(path), run_name="__main__")

    return run_on_this_thread(run, [str(path), *map(str, words)], cwd=cwd, stdin=stdin, env=env)


def run_on_this_thread(
    program: Program,
    argv: list[str],
    *,
    cwd: Path | None = None,
    stdin: str = "",
    env: Mapping[str, str] | None = None,
    terminal: Mapping[str, IO[str]] | None = None,
) -> Ended:
    """Run a program with arguments, input, folder and environment; return its output and exit code."""
    with contextlib.ExitStack() as files:
        out, err = (files.enter_context(tempfile.TemporaryFile()) for _ in range(2))
        streams: dict[str, IO[str]] = {
            "stdin": io.TextIOWrapper(io.BytesIO(stdin.encode()), encoding="utf-8"),
            "stdout": io.TextIOWrapper(os.fdopen(os.dup(out.fileno()), "wb"), encoding="utf-8"),
            "stderr": io.TextIOWrapper(
                os.fdopen(os.dup(err.fileno()), "wb"), encoding="utf-8", errors="backslashreplace", line_buffering=True
            ),
        }
        with as_in_a_process(argv, {**streams, **(terminal or {})}, cwd, env):
            code = _exit_code(program)
        for stream in streams.values():
            stream.close()
        outputs = [_read_all(file) for file in (out, err)]
    return subprocess.CompletedProcess(argv, code, *outputs)


def _read_all(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode()


def _exit_code(program: Program) -> int:
    """Run a program and return its exit code, like the interpreter: an error prints a traceback, and the code is 1."""
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
    """Provide the environment of a process for a block, and undo the changes to it afterwards."""
    before = Path.cwd()
    environ, path, modules = dict(os.environ), list(sys.path), dict(sys.modules)
    attributes = {name: getattr(sys, name) for name in ("argv", "dont_write_bytecode", *_STREAMS)}
    in_main_thread = threading.current_thread() is threading.main_thread()
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    root = logging.getLogger()
    levels = (list(root.handlers), root.level)
    temporary, tempfile.tempdir = tempfile.tempdir, None  # so that it is read from the environment again
    os.chdir(cwd or before)
    os.environ.update(env or {})
    folder = Path.cwd()
    sys.argv, sys.dont_write_bytecode = argv, True  # so that a file that changes within a second is compiled again
    for name, stream in streams.items():
        setattr(sys, name, stream)
    try:
        with warnings.catch_warnings():
            _warn_as_python_does()
            yield
            gc.collect()  # closes objects that the end of a process would close silently
    finally:
        for name, value in attributes.items():
            setattr(sys, name, value)
        os.chdir(before)
        os.environ.clear()
        os.environ.update(environ)
        root.handlers[:], root.level = levels
        tempfile.tempdir = temporary
        if in_main_thread:
            for number, handler in handlers.items():
                signal.signal(number, handler)
        own = {folder, *map(Path, set(sys.path) - set(path))}
        sys.path[:] = path
        for name in [name for name, module in sys.modules.items() if modules.get(name) is not module]:
            if _is_within(sys.modules[name], own):
                del sys.modules[name]
                sys.modules.update({name: modules[name]} if name in modules else {})


def _warn_as_python_does() -> None:
    """Replace the filters of the tests, which turn warnings into errors, by the defaults of Python."""
    warnings.simplefilter("default")
    for kind in (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning):
        warnings.simplefilter("ignore", kind)


def _is_within(module: object, folders: set[Path]) -> bool:
    file = getattr(module, "__file__", None)
    return file is not None and any(Path(file).is_relative_to(folder) for folder in folders)


class Screen:
    """A terminal for the streams of a program in this process. Its output is read from `ours`."""

    def __init__(self, columns: int = 100) -> None:
        self.env = {"TERM": "xterm", "COLUMNS": str(columns)}
        self.ours, self._theirs = pty.openpty()

    @contextlib.contextmanager
    def streams(self, *names: str) -> Iterator[dict[str, IO[str]]]:
        """Open the terminal for the named streams, or for all."""
        with contextlib.ExitStack() as opened:
            yield {name: opened.enter_context(self._stream(name)) for name in names or _STREAMS}

    def _stream(self, name: str) -> TextIO:
        mode = "r" if name == "stdin" else "w"
        stream = open(os.dup(self._theirs), mode, encoding="utf-8", errors="replace")  # noqa: SIM115
        stream.reconfigure(line_buffering=True)
        return stream

    def hang_up(self) -> None:
        """End the reader, after the program has ended and its streams are closed."""
        os.close(self._theirs)

    def close(self) -> None:
        os.close(self.ours)


def on_a_screen(
    *words: object, cwd: Path | None = None, streams: tuple[str, ...] = _STREAMS, columns: int = 100, **env: str
) -> tuple[Ended, str]:
    """Run the command line with a terminal for some of its streams; return its end and the output of the terminal."""
    screen = Screen(columns)
    output: list[str] = []
    reader = threading.Thread(target=lambda: output.extend(_read_terminal(screen.ours)))
    reader.start()
    try:
        with screen.streams(*streams) as terminal:
            ended = statewright(*words, cwd=cwd, env={**screen.env, **env}, terminal=terminal)
    finally:
        screen.hang_up()
        reader.join()
        screen.close()
    return ended, "".join(output)


def _read_terminal(terminal: int) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    while True:
        try:
            chunk = os.read(terminal, 65536)
        except OSError:  # raised on Linux once no program has the terminal open
            return
        if not chunk:
            return
        yield decoder.decode(chunk)
