"""The virtual environment of the benchmarks: peers as pinned in `peers.txt`, and the project, editable.

It is created in `.venv-bench` on first use, and again when the pins or `pyproject.toml` change. No other environment is
touched.
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
    stamp = PEERS.read_text() + (ROOT / "pyproject.toml").read_text()
    if _STAMP.exists() and _STAMP.read_text() == stamp:
        return
    print(f"Preparing {FOLDER.name} (once)", file=sys.stderr)
    venv.create(FOLDER, with_pip=True, clear=True)
    install = [_PYTHON, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*install, "-r", PEERS, "-e", f"{ROOT}[states,server]"], check=True)
    _STAMP.write_text(stamp)
