"""The copy of the project that the agents work on: its files, and its tests."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

PROJECT = Path(__file__).with_name("project")
TEST_TIMEOUT = 60  # seconds


def copy_project() -> Path:
    """Copy the project to a new temporary folder."""
    caches = shutil.ignore_patterns("__pycache__")
    return shutil.copytree(PROJECT, Path(tempfile.mkdtemp(prefix="code_network-")) / PROJECT.name, ignore=caches)


def files_of(repo: Path) -> list[str]:
    """Return the paths of the files of a project."""
    paths = (path.relative_to(repo) for path in repo.rglob("*") if path.is_file())
    return sorted(path.as_posix() for path in paths if not path.name.startswith(".") and path.suffix != ".pyc")


def replace_file(path: Path, content: str) -> None:
    """Write a file atomically, and create the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.new")
    draft.write_text(content, encoding="utf-8")
    os.replace(draft, path)


def run_suite(repo: Path) -> tuple[bool, str]:
    """Run the tests of a project; return whether they pass, and their output."""
    # Without bytecode: after two edits within one second, Python would run the compiled code of the first.
    command = [sys.executable, "-B", "-m", "unittest"]
    try:
        done = subprocess.run(command, cwd=repo, capture_output=True, text=True, timeout=TEST_TIMEOUT, check=False)
    except subprocess.TimeoutExpired:
        return False, f"The tests were stopped: they took longer than {TEST_TIMEOUT} seconds."
    return done.returncode == 0, (done.stdout + done.stderr).strip()
