"""A short run of `chaos`: `make chaos` runs longer ones."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.work import FULL

ROOT = Path(__file__).resolve().parents[2]
KILLS = 120 if FULL else 13  # one of each shape


@pytest.mark.skipif(os.name != "posix", reason="no SIGKILL on this system")
def test_no_promise_is_broken_by_kill_9() -> None:
    command = [sys.executable, "-m", "tests.durability.chaos", "--kills", str(KILLS), "--seed", "7"]
    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=3600, check=False)

    output = process.stdout + process.stderr
    assert process.returncode == 0, output
    assert output.splitlines()[-1] == f"{KILLS} kills, 0 broken promises", output
