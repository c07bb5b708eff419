"""`scripts/setup` on machines without a usable Python."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOOLS = ("sh", "dirname", "sed", "touch")


def _stub(folder: Path, name: str, body: str) -> None:
    file = folder / name
    file.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
    file.chmod(file.stat().st_mode | stat.S_IXUSR)


@pytest.mark.parametrize("python", ["exit 1", None])
def test_without_a_usable_python_one_line_says_what_to_install(tmp_path: Path, python: str | None) -> None:
    path, project = tmp_path / "bin", tmp_path / "project"
    path.mkdir()
    for tool in TOOLS:
        location = shutil.which(tool)
        assert location is not None
        (path / tool).symlink_to(location)
    if python is not None:  # a Python that is too old, or cannot make environments: the probe fails
        _stub(path, "python3", python)
    (project / "scripts").mkdir(parents=True)
    for name in ("scripts/setup", "scripts/dev-requirements", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, project / name)
    result = subprocess.run(
        ["sh", "scripts/setup", "run"],
        cwd=project,
        env={"PATH": str(path), "HOME": os.environ.get("HOME", "/")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 2
    assert len(result.stderr.splitlines()) == 1
    assert "Python 3.11 or newer" in result.stderr
    assert not (project / ".venv").exists()
