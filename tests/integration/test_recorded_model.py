"""Cassettes across processes: recorded in one, replayed in another, and complete after a kill."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from statewright.models.recorded.cassette import Cassette
from statewright.models.recorded.recorded_model import VARIABLE

PROGRAM = """
import asyncio, itertools, sys
from statewright.messages import Message
from statewright.models import ModelRequest, ScriptedModel
from statewright.models.recorded.recorded_model import RecordedModel

async def main(path, count):
    model = RecordedModel(path, lambda: ScriptedModel(lambda request: request.messages[0].text.upper() * 50))
    for n in itertools.count() if count == "all" else range(int(count)):
        print((await model.complete(ModelRequest((Message(f"m{n}"),)))).text[:3], flush=True)

asyncio.run(main(*sys.argv[1:]))
"""


def command(path: Path, count: str) -> list[str]:
    return [sys.executable, "-c", PROGRAM, str(path), count]


def run_program(path: Path, count: str, record: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, VARIABLE: record}
    return subprocess.run(command(path, count), env=environment, capture_output=True, text=True, timeout=600)


def test_a_cassette_recorded_in_one_process_is_replayed_in_another(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    assert run_program(path, "3", "new").stdout.split() == ["M0M", "M1M", "M2M"]
    before = path.read_bytes()
    assert run_program(path, "3", "none").stdout.split() == ["M0M", "M1M", "M2M"]
    assert path.read_bytes() == before
    failed = run_program(path, "4", "none")
    assert "has no answer for this request" in failed.stderr
    assert "STATEWRIGHT_RECORD=new" in failed.stderr
    assert run_program(path, "3", "all").returncode == 0
    assert path.read_bytes() == before, "recording the same answers again gives the same file"


def test_a_killed_recording_leaves_a_complete_file(tmp_path: Path) -> None:
    for number in range(5):
        path = tmp_path / f"{number}.json"
        recording = subprocess.Popen(
            command(path, "all"), env={**os.environ, VARIABLE: "new"}, stdout=subprocess.PIPE, text=True
        )
        assert recording.stdout is not None
        assert recording.stdout.readline().strip() == "M0M"
        time.sleep(0.03 * number)
        recording.kill()
        recording.wait()
        printed = len(recording.stdout.read().split()) + 1
        recording.stdout.close()
        stored = len(Cassette(path).records)
        assert stored >= printed, "every answer that a caller received is on the cassette"
