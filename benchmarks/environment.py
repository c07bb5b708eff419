"""The virtual environment of the benchmarks: peers as pinned in `peers.txt`, and the project, editable.

Made on first use in `.venv-bench` and again when the pins or the project's own file change. No other environment is
touched, and the commands that prepare it are the ones a person would type.
"""

import os
import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / ".venv-bench"
PEERS = Path(__file__).with_name("peers.txt")
_STAMP = FOLDER / "prepared"
_PYTHON = FOLDER / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def is_entered() -> bool:
    return Path(sys.prefix).resolve() == FOLDER.resolve()


def run_inside(arguments: Sequence[str]) -> int:
    """Run the same command with the interpreter of the environment, and return its exit code."""
    _prepare()
    return subprocess.run([_PYTHON, "-m", "benchmarks", *arguments], cwd=ROOT, check=False).returncode


def quieten_peers() -> None:
    """Disable tracing in all peers. Call this before they are imported."""
    os.environ.update(LANGSMITH_TRACING="false", LANGCHAIN_TRACING_V2="false", ENABLE_INSTRUMENTATION="false")


def _prepare() -> None:
    wanted = PEERS.read_text() + (ROOT / "pyproject.toml").read_text()
    if _STAMP.exists() and _STAMP.read_text() == wanted:
        return
    print(f"Preparing {FOLDER.name} (once)", file=sys.stderr)
    venv.create(FOLDER, with_pip=True, clear=True)
    install = [_PYTHON, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*install, "-r", PEERS, "-e", f"{ROOT}[states,server]"], check=True)
    _STAMP.write_text(wanted)
