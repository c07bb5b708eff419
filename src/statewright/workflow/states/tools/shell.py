"""The built-in tool that runs programs: never through a shell, for a limited time, without the caller's secrets."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import sys
from pathlib import Path
from subprocess import DEVNULL, PIPE
from typing import Any, Final

from statewright.agents import as_text
from statewright.errors import ToolError
from statewright.workflow.states.tools.settings import ToolSettings

_KEPT: Final = frozenset(
    ["PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "TZ", "TMPDIR", "TEMP", "TMP", "SYSTEMROOT", "PATHEXT"]
)
"""Of the environment; the rest may hold keys."""
_GRACE: Final = 0.5
"""Seconds to wait for outputs that a program has left to others."""


class Shell:
    """Runs programs in one folder."""

    def __init__(self, settings: ToolSettings) -> None:
        self._folder = settings.root or settings.folder or Path()
        self._seconds = settings.shell_seconds
        self._limit = settings.output_limit

    async def run_command(self, command: list[Any] | str) -> dict[str, Any]:
        """Run a program, and answer with its exit code and what it printed. There are no pipes and no wildcards.

        Args:
            command: The program and its arguments: a list, or a text that is split at spaces as a shell would.
        """
        argv = argv_of(command)
        transport, program = await self._started(argv)
        try:
            async with asyncio.timeout(self._seconds):
                await program.exited.wait()
            await program.settled()
        except TimeoutError:
            raise ToolError(
                f"The command {argv[0]!r} took longer than {self._seconds:g} s and was stopped. Let it do less."
            ) from None
        finally:
            _stop(transport)
            await program.exited.wait()
        return {"exit_code": transport.get_returncode(), "stdout": program.text(1), "stderr": program.text(2)}

    async def _started(self, argv: list[str]) -> tuple[asyncio.SubprocessTransport, _Program]:
        environment = {name: value for name, value in os.environ.items() if name in _KEPT or name.startswith("LC_")}
        try:
            return await asyncio.get_running_loop().subprocess_exec(
                lambda: _Program(self._limit),
                *argv,
                stdin=DEVNULL,
                stdout=PIPE,
                stderr=PIPE,
                cwd=self._folder,
                env=environment,
                start_new_session=True,
            )
        except FileNotFoundError:
            where = "" if self._folder.is_dir() else f", nor a folder {str(self._folder)!r}"
            raise ToolError(f"There is no program {argv[0][:200]!r}{where}.") from None
        except (OSError, ValueError) as error:
            raise ToolError(f"The program {argv[0][:200]!r} cannot be started: {error}.") from None


def argv_of(command: list[Any] | str) -> list[str]:
    """The program and its arguments. Raises ToolError for a text with a quote that does not end, or for nothing."""
    try:
        argv = shlex.split(command) if isinstance(command, str) else list(map(as_text, command))
    except ValueError as error:
        raise ToolError(f"The command {command[:200]!r} cannot be split: {error}. Give a list of arguments.") from None
    if not argv or not argv[0]:
        raise ToolError("The command is empty. Give a program and its arguments.")
    return argv


class _Program(asyncio.SubprocessProtocol):
    """What a program prints, up to a limit; beyond it is read and dropped, so that the program is not held up.

    Not asyncio's `Process`: that is over only when everybody who was given the outputs has closed them.
    """

    def __init__(self, limit: int) -> None:
        self.exited = asyncio.Event()
        self._limit = limit
        self._kept = {1: bytearray(), 2: bytearray()}
        self._total = {1: 0, 2: 0}
        self._open = {1, 2}
        self._closed = asyncio.Event()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        kept = self._kept[fd]
        kept += data[: self._limit - len(kept)]
        self._total[fd] += len(data)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        self._open.discard(fd)
        if not self._open:
            self._closed.set()

    def process_exited(self) -> None:
        self.exited.set()

    async def settled(self) -> None:
        """Wait until all is read, or for a moment if somebody else holds the outputs open."""
        try:
            async with asyncio.timeout(_GRACE):
                await self._closed.wait()
        except TimeoutError:
            return

    def text(self, fd: int) -> str:
        kept, total = bytes(self._kept[fd]), self._total[fd]
        dropped = f"\n[The first {len(kept)} of {total} bytes.]" if total > len(kept) else ""
        return kept.decode(errors="replace") + dropped


def _stop(transport: asyncio.SubprocessTransport) -> None:
    """End the program and what it has started, if anything of it is left."""
    try:
        if sys.platform != "win32":
            os.killpg(transport.get_pid(), signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass
    transport.close()
