"""Which process this is, and whether another one of the same machine still lives."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import datetime

from statewright.runs import Worker
from statewright.service.places import is_gone, started_of, this_place


def worker(now: datetime, **more: object) -> Worker:
    given = {"place": this_place(), "pid": os.getpid(), "process_started": started_of(os.getpid()) or "", **more}
    return Worker(id="wrk_1", capacity=1, until=now, started_at=now, **given)  # type: ignore[arg-type]


def test_this_process_lives(now: datetime) -> None:
    assert this_place() == this_place() != ""
    assert started_of(os.getpid()) == started_of(os.getpid()) is not None
    assert not is_gone(worker(now))


def test_a_process_that_has_ended_is_gone_and_so_is_one_whose_number_is_used_again(now: datetime) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        began = started_of(other.pid) or ""
        there = worker(now, pid=other.pid, process_started=began)
        assert not is_gone(there)
        assert is_gone(worker(now, pid=other.pid, process_started=began + "1"))
        other.kill()
    assert is_gone(there)
    assert started_of(other.pid) is None


def test_of_other_machines_nothing_is_known(now: datetime) -> None:
    assert not is_gone(worker(now, place="elsewhere", pid=1, process_started="1"))
    assert not is_gone(worker(now, process_started=""))
