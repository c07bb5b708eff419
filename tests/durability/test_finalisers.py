"""Finalisers of dropped objects take no lock, wait for nothing, and leave nothing locked."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("finalisers.py")
SIZE = "full" if os.environ.get("STATEWRIGHT_FULL") == "1" else "small"
GUARD = 3600
"""Seconds after which the script counts as hung."""


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_finalisers_take_no_locks(kind: str) -> None:
    command = [sys.executable, "-X", "faulthandler", str(SCRIPT), kind, SIZE]
    done = subprocess.run(command, capture_output=True, text=True, timeout=GUARD, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("dropped "), done.stdout
    assert "Exception ignored" not in done.stderr, done.stderr
