"""Daemon threads for plain functions: every job runs, none waits for another, none is kept alive."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

import pytest
from tests.interruptions import interruptions, on_another_thread

from statewright.runtime.concurrency import worker_threads
from statewright.runtime.concurrency.worker_threads import DEFAULT_THREADS, WorkerThreads

LONG = 600.0
"""Seconds after which a test is given up. No test waits that long if it passes."""


def comes_true(condition: Callable[[], bool], seconds: float = LONG) -> bool:
    """Whether a condition holds before long."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.001)
    return True


def thread_of(pool: WorkerThreads) -> threading.Thread:
    """The thread on which the next job of a pool ran."""
    ran, done = list[threading.Thread](), threading.Event()
    pool.submit(lambda: (ran.append(threading.current_thread()), done.set()))
    assert done.wait(LONG)
    return ran[0]


def test_a_job_runs_on_a_daemon_thread_of_ours() -> None:
    thread = thread_of(WorkerThreads())
    assert (thread.daemon, thread.name) == (True, "statewright-worker")
    assert thread is not threading.current_thread()


def test_jobs_that_wait_for_each_other_all_run() -> None:
    together = threading.Barrier(50)
    pool, ended = WorkerThreads(), list[int]()

    def job(number: int) -> None:
        together.wait(LONG)
        ended.append(number)

    for number in range(50):
        pool.submit(lambda number=number: job(number))
    assert comes_true(lambda: len(ended) == 50)
    assert sorted(ended) == list(range(50))


def test_an_idle_thread_is_used_again() -> None:
    pool = WorkerThreads()
    assert comes_true(lambda: thread_of(pool) is thread_of(pool))


def test_every_job_runs_once_though_threads_end_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_threads, "IDLE_SECONDS", 0.0005)
    pool, ran = WorkerThreads(), list[int]()
    for number in range(300):
        pool.submit(lambda number=number: ran.append(number))
        if number % 10 == 0:
            time.sleep(0.001)
    assert comes_true(lambda: len(ran) >= 300)
    assert sorted(ran) == list(range(300))


def test_a_thread_that_has_nothing_to_do_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_threads, "IDLE_SECONDS", 0.001)
    thread = thread_of(WorkerThreads())
    assert comes_true(lambda: not thread.is_alive())


class Job:
    """A job that can be seen to be forgotten."""

    def __init__(self) -> None:
        self.done = threading.Event()

    def __call__(self) -> None:
        self.thread = threading.current_thread()
        self.done.set()


def forgotten_by(pool: WorkerThreads) -> tuple[threading.Thread, weakref.ref[Job]]:
    """The thread on which a job ran, and the job, if it is still there."""
    job = Job()
    pool.submit(job)
    assert job.done.wait(LONG)
    return job.thread, weakref.ref(job)


def is_gone(job: weakref.ref[Job]) -> bool:
    gc.collect()
    return job() is None


def test_a_thread_that_waits_has_forgotten_its_last_job() -> None:
    pool = WorkerThreads()
    first, _ = forgotten_by(pool)
    while True:
        thread, job = forgotten_by(pool)
        if thread is first:  # not the job with which it began
            break
    assert comes_true(lambda: is_gone(job))


def test_a_thread_that_waits_has_forgotten_its_first_job() -> None:
    _, job = forgotten_by(WorkerThreads())
    assert comes_true(lambda: is_gone(job), 0.05)


def test_what_a_job_raises_is_reported_and_hurts_no_other_job(monkeypatch: pytest.MonkeyPatch) -> None:
    reported: list[type[BaseException]] = []
    monkeypatch.setattr(threading, "excepthook", lambda args: reported.append(args.exc_type))
    pool = WorkerThreads()

    def fail() -> Any:
        raise LookupError("no luck")

    for _ in range(3):
        pool.submit(fail)
    assert comes_true(lambda: reported == [LookupError] * 3)
    assert thread_of(pool).name == "statewright-worker"


def test_there_are_threads_for_more_than_one_plain_function() -> None:
    assert 1 < DEFAULT_THREADS <= 32


FORKING = """
import os, threading
from statewright.runtime.concurrency.worker_threads import workers

def works():
    done = threading.Event()
    workers.submit(done.set)
    return done.wait(600)

assert works()
child = os.fork()
if child == 0:
    os._exit(0 if works() and works() else 1)
assert os.waitpid(child, 0)[1] == 0
"""


@pytest.mark.skipif(not hasattr(__import__("os"), "fork"), reason="the system does not fork")
def test_a_child_process_has_threads_of_its_own() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKING], capture_output=True, timeout=600, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")


def test_idle_threads_are_counted_on_however_others_were_interrupted_that_did_so() -> None:
    pools: list[WorkerThreads] = []

    def begin() -> None:
        pools.append(WorkerThreads())
        thread_of(pools[-1])
        assert comes_true(lambda: len(pools[-1]._idle) == 1)

    for _ in interruptions(lambda: pools[-1].submit(int), begin):
        assert on_another_thread(lambda: thread_of(pools[-1])).name == "statewright-worker"
