"""Detection of ended processes, as far as this host can know."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from statewright import process_identity
from statewright.process_identity import host_id, host_key, is_process_gone, started_at


def test_the_current_process_is_running() -> None:
    started = started_at(os.getpid())
    assert host_id() == host_id() != ""
    assert started == started_at(os.getpid()) is not None
    assert not is_process_gone(host_id(), os.getpid(), started)
    assert not is_process_gone(host_key(), os.getpid(), started)


def test_a_process_is_gone_once_it_has_ended_or_its_id_is_reused() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        started = started_at(other.pid) or ""
        assert not is_process_gone(host_key(), other.pid, started)
        assert is_process_gone(host_key(), other.pid, started + "1")
        other.kill()
    assert is_process_gone(host_key(), other.pid, started)
    assert started_at(other.pid) is None


def test_a_process_of_another_host_or_unknown_start_time_is_not_gone() -> None:
    assert not is_process_gone("elsewhere", 1, "1")
    assert not is_process_gone(host_id(), os.getpid(), "")


def test_a_process_is_not_gone_if_no_file_descriptor_is_free() -> None:
    started = started_at(os.getpid()) or ""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, limits[1]))
    try:
        with pytest.raises(OSError, match="Too many open files"):
            os.open("/dev/null", os.O_RDONLY)
        is_gone = is_process_gone(host_id(), os.getpid(), started)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert not is_gone


def test_a_process_that_proc_hides_is_gone_once_it_has_ended(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        started = started_at(other.pid) or ""
        monkeypatch.setattr(process_identity, "_PROC", tmp_path)
        assert not is_process_gone(host_id(), other.pid, started)
        other.kill()
    assert is_process_gone(host_id(), other.pid, started)
