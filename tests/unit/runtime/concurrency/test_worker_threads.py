"""Worker threads: jobs run on reusable daemon threads, without waiting for each other."""

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

TIMEOUT = 600.0
"""Seconds after which a test fails."""


def wait_until(condition: Callable[[], bool], seconds: float = TIMEOUT) -> bool:
    """Wait until a condition holds, and return whether it does within a time limit."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.001)
    return True


def thread_of_next_job(pool: WorkerThreads) -> threading.Thread:
    """Run a job, and return its thread."""
    ran, done = list[threading.Thread](), threading.Event()
    pool.submit(lambda: (ran.append(threading.current_thread()), done.set()))
    assert done.wait(TIMEOUT)
    return ran[0]


def test_a_job_runs_in_a_daemon_thread_of_the_pool() -> None:
    thread = thread_of_next_job(WorkerThreads())
    assert (thread.daemon, thread.name) == (True, "statewright-worker")
    assert thread is not threading.current_thread()


def test_jobs_that_wait_for_each_other_run_concurrently() -> None:
    barrier = threading.Barrier(50)
    pool, ended = WorkerThreads(), list[int]()

    def job(number: int) -> None:
        barrier.wait(TIMEOUT)
        ended.append(number)

    for number in range(50):
        pool.submit(lambda number=number: job(number))
    assert wait_until(lambda: len(ended) == 50)
    assert sorted(ended) == list(range(50))


def test_an_idle_thread_is_reused() -> None:
    pool = WorkerThreads()
    assert wait_until(lambda: thread_of_next_job(pool) is thread_of_next_job(pool))


def test_every_job_runs_once_while_idle_threads_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_threads, "IDLE_SECONDS", 0.0005)
    pool, ran = WorkerThreads(), list[int]()
    for number in range(300):
        pool.submit(lambda number=number: ran.append(number))
        if number % 10 == 0:
            time.sleep(0.001)
    assert wait_until(lambda: len(ran) >= 300)
    assert sorted(ran) == list(range(300))


def test_an_idle_thread_ends_after_its_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_threads, "IDLE_SECONDS", 0.001)
    thread = thread_of_next_job(WorkerThreads())
    assert wait_until(lambda: not thread.is_alive())


class Job:
    """A job that weak references can observe."""

    def __init__(self) -> None:
        self.done = threading.Event()

    def __call__(self) -> None:
        self.thread = threading.current_thread()
        self.done.set()


def run_and_forget(pool: WorkerThreads) -> tuple[threading.Thread, weakref.ref[Job]]:
    """Run a job, and return its thread and a weak reference to it."""
    job = Job()
    pool.submit(job)
    assert job.done.wait(TIMEOUT)
    return job.thread, weakref.ref(job)


def is_collected(job: weakref.ref[Job]) -> bool:
    gc.collect()
    return job() is None


def test_an_idle_thread_does_not_keep_its_last_job_alive() -> None:
    pool = WorkerThreads()
    first, _ = run_and_forget(pool)
    while True:
        thread, job = run_and_forget(pool)
        if thread is first:  # a thread that has run another job before
            break
    assert wait_until(lambda: is_collected(job))


def test_an_idle_thread_does_not_keep_its_first_job_alive() -> None:
    _, job = run_and_forget(WorkerThreads())
    assert wait_until(lambda: is_collected(job), 0.05)


def test_an_error_of_a_job_is_reported_and_does_not_affect_other_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    reported: list[type[BaseException]] = []
    monkeypatch.setattr(threading, "excepthook", lambda args: reported.append(args.exc_type))
    pool = WorkerThreads()

    def fail() -> Any:
        raise LookupError("no luck")

    for _ in range(3):
        pool.submit(fail)
    assert wait_until(lambda: reported == [LookupError] * 3)
    assert thread_of_next_job(pool).name == "statewright-worker"


def test_the_default_number_of_threads_is_more_than_one() -> None:
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
def test_a_forked_process_has_its_own_threads() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKING], capture_output=True, timeout=600, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")


def test_an_interrupted_submit_leaves_the_pool_usable() -> None:
    pools: list[WorkerThreads] = []

    def start() -> None:
        pools.append(WorkerThreads())
        thread_of_next_job(pools[-1])
        assert wait_until(lambda: len(pools[-1]._idle) == 1)

    for _ in interruptions(lambda: pools[-1].submit(int), start):
        assert on_another_thread(lambda: thread_of_next_job(pools[-1])).name == "statewright-worker"
