"""The built-in tool that runs programs: without a shell, with a timeout, and without secrets from the environment."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import sys
from contextlib import suppress
from pathlib import Path
from subprocess import DEVNULL, PIPE
from typing import Any, Final

from statewright.agents import as_text
from statewright.errors import ToolError

_INHERITED_VARIABLES: Final = frozenset(
    ["PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "TZ", "TMPDIR", "TEMP", "TMP", "SYSTEMROOT", "PATHEXT"]
)
"""The environment variables that programs inherit. Other variables may contain secrets."""
_DRAIN_SECONDS: Final = 0.5
"""Seconds to wait for further output after a program has exited, if its child processes hold the pipes open."""


class Shell:
    """Runs programs in one folder."""

    def __init__(self, folder: Path, *, limit: int, seconds: float) -> None:
        """`limit` is the maximum size of each output in bytes, `seconds` the timeout of a program."""
        self._folder = folder
        self._limit = limit
        self._seconds = seconds

    async def run_command(self, command: list[Any] | str) -> dict[str, Any]:
        """Run a program, and return its exit code and its output. Pipes and wildcards are not supported.

        Args:
            command: The program and its arguments, as a list or as one text that is split like in a shell.
        """
        argv = split_command(command)
        transport, program = await self._start(argv)
        try:
            async with asyncio.timeout(self._seconds):
                await program.exited.wait()
            await program.drain()
        except TimeoutError:
            raise ToolError(
                f"The command {argv[0]!r} was stopped after {self._seconds:g} s. Split its work, or raise "
                f"shell_seconds."
            ) from None
        finally:
            _stop(transport)
            await program.exited.wait()
        return {"exit_code": transport.get_returncode(), "stdout": program.get_text(1), "stderr": program.get_text(2)}

    async def _start(self, argv: list[str]) -> tuple[asyncio.SubprocessTransport, _Program]:
        names = [name for name in os.environ if name in _INHERITED_VARIABLES or name.startswith("LC_")]
        try:
            return await asyncio.get_running_loop().subprocess_exec(
                lambda: _Program(self._limit),
                *argv,
                stdin=DEVNULL,
                stdout=PIPE,
                stderr=PIPE,
                cwd=self._folder,
                env={name: os.environ[name] for name in names},
                start_new_session=True,  # a new process group, so that `_stop` can kill the program with its children
            )
        except FileNotFoundError:
            missing = f"Program {argv[0][:200]!r}" if self._folder.is_dir() else f"Folder {str(self._folder)!r}"
            raise ToolError(f"{missing} does not exist.") from None
        except (OSError, ValueError) as error:
            raise ToolError(f"The program {argv[0][:200]!r} cannot be started: {error}.") from None


def split_command(command: list[Any] | str) -> list[str]:
    """Split a command into program and arguments. Raises ToolError for an unclosed quote or an empty command."""
    try:
        argv = shlex.split(command) if isinstance(command, str) else list(map(as_text, command))
    except ValueError as error:
        raise ToolError(f"The command {command[:200]!r} cannot be split: {error}. Pass a list of arguments.") from None
    if not argv or not argv[0]:
        raise ToolError("The command is empty. Pass a program and its arguments.")
    return argv


class _Program(asyncio.SubprocessProtocol):
    """Collects the output of a program up to a limit in bytes, by file descriptor (1 is stdout, 2 is stderr).

    Output beyond the limit is read and dropped, so that the program does not block. asyncio's `Process` is not used,
    because it waits until all child processes that inherited the pipes have closed them.
    """

    def __init__(self, limit: int) -> None:
        self.exited = asyncio.Event()
        self._limit = limit
        self._output = {1: bytearray(), 2: bytearray()}
        self._total_sizes = {1: 0, 2: 0}
        self._open_pipes = {1, 2}
        self._pipes_closed = asyncio.Event()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        buffer = self._output[fd]
        buffer += data[: self._limit - len(buffer)]
        self._total_sizes[fd] += len(data)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        self._open_pipes.discard(fd)
        if not self._open_pipes:
            self._pipes_closed.set()

    def process_exited(self) -> None:
        self.exited.set()

    async def drain(self) -> None:
        """Wait until all output is read, or for `_DRAIN_SECONDS` if another process holds the pipes open."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_DRAIN_SECONDS):
                await self._pipes_closed.wait()

    def get_text(self, fd: int) -> str:
        """Return the collected output, followed by a note if more output was dropped."""
        output, total_size = bytes(self._output[fd]), self._total_sizes[fd]
        note = f"\n[The first {len(output)} of {total_size} bytes.]" if total_size > len(output) else ""
        return output.decode(errors="replace") + note


def _stop(transport: asyncio.SubprocessTransport) -> None:
    """Kill the program and its children, if they are still running."""
    with suppress(ProcessLookupError, PermissionError):
        if sys.platform != "win32":
            os.killpg(transport.get_pid(), signal.SIGKILL)
    transport.close()
