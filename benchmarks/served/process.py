"""A server in a separate process, which ends with this one."""

import atexit
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from benchmarks.environment import ROOT

PATIENCE = 60.0
"""Seconds until a server must have started."""


class Served:
    """A running server on a loopback port."""

    def __init__(
        self, command: Sequence[str], port: int, ready: str, folder: Path, *, patience: float = PATIENCE
    ) -> None:
        self.port = port
        self.folder = folder
        self._log = (folder / "server.log").open("wb")
        self.process = subprocess.Popen(command, cwd=folder, stdout=self._log, stderr=subprocess.STDOUT, env=_quiet())
        atexit.register(self.close)
        self._await(ready, patience)

    def _await(self, ready: str, patience: float) -> None:
        until = time.monotonic() + patience
        while time.monotonic() < until and self.process.poll() is None:
            with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{self.port}{ready}", timeout=2) as answer:
                if answer.status == 200:
                    return
            time.sleep(0.05)
        raise RuntimeError(f"The server did not start: {(self.folder / 'server.log').read_text()[-2000:]}")

    def close(self) -> None:
        """Stop the server, and delete its data."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
        self._log.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def ours() -> Served:
    """Start our server on a new file."""
    folder, port = _reserve()
    return Served(
        [sys.executable, "-m", "benchmarks.served.ours", str(folder / "runs.db"), str(port)], port, "/ready", folder
    )


def theirs() -> Served:
    """Start `langgraph dev`, with more concurrent jobs than there are clients; it keeps everything in memory."""
    folder, port = _reserve()
    config = folder / "langgraph.json"
    config.write_text(json.dumps({"graphs": {"three": "benchmarks.served.theirs:graph"}, "dependencies": [str(ROOT)]}))
    command = [str(Path(sys.executable).with_name("langgraph")), "dev", "--config", str(config), "--port", str(port)]
    options = ["--no-browser", "--no-reload", "--n-jobs-per-worker", "16", "--server-log-level", "error"]
    return Served([*command, *options], port, "/ok", folder)


def _reserve() -> tuple[Path, int]:
    """Return a new folder and a free port."""
    return Path(tempfile.mkdtemp(prefix="statewright-bench-")), free_port()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _quiet() -> dict[str, str]:
    switches = ("LANGSMITH_TRACING", "LANGCHAIN_TRACING_V2")
    quiet = {**dict.fromkeys(switches, "false"), "LANGGRAPH_CLI_NO_ANALYTICS": "1"}
    sources = os.pathsep.join([str(ROOT), str(ROOT / "src")])  # this version, even if another one is installed
    return {**os.environ, **quiet, "PYTHONPATH": sources}
