"""A process that has ended is told from one that runs, as far as this host can know."""

from __future__ import annotations

import os
import subprocess
import sys

from statewright.process_identity import host_id, host_key, is_process_gone, started_at


def test_this_process_runs() -> None:
    started = started_at(os.getpid())
    assert host_id() == host_id() != ""
    assert started == started_at(os.getpid()) is not None
    assert not is_process_gone(host_id(), os.getpid(), started)
    assert not is_process_gone(host_key(), os.getpid(), started)


def test_a_process_that_has_ended_is_gone_and_so_is_one_whose_id_is_used_again() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        started = started_at(other.pid) or ""
        assert not is_process_gone(host_key(), other.pid, started)
        assert is_process_gone(host_key(), other.pid, started + "1")
        other.kill()
    assert is_process_gone(host_key(), other.pid, started)
    assert started_at(other.pid) is None


def test_of_other_hosts_and_unknown_start_times_nothing_is_known() -> None:
    assert not is_process_gone("elsewhere", 1, "1")
    assert not is_process_gone(host_id(), os.getpid(), "")
