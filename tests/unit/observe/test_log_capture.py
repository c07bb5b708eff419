"""Capture of logs and printed lines by task; other output is unaffected."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
from collections.abc import Generator
from typing import Any

import pytest

from statewright import START, Instrument, RetryPolicy, StateGraph, append
from statewright.events import Event
from statewright.observe.capture import CaptureLimits, LogCapture
from statewright.testing import FakeClock

log = logging.getLogger("tests.node")


class Ids(Instrument):
    def __init__(self) -> None:
        self.by_node: dict[str | None, str] = {}

    def on_task_started(self, event: Event) -> None:
        self.by_node[event.node] = event.task_id or ""


class Bench:
    def __init__(self, **options: Any) -> None:
        self.ids = Ids()
        self.capture = LogCapture(clock=FakeClock(), level=logging.INFO, **options)

    def run(self, *, drives_async: bool = False, options: Any = None, **nodes: Any) -> None:
        graph = StateGraph({"log": append})
        for name, node in nodes.items():
            graph.add_node(name, node, **(options or {})).add_edge(START, name)
        app = graph.compile(instruments=[self.ids])
        with self.capture:
            asyncio.run(app.ainvoke({})) if drives_async else app.invoke({})

    def said(self, node: str) -> list[tuple[Any, ...]]:
        lines = self.capture.take(self.ids.by_node[node])
        return [(line["stream"], line["level"], line["logger"], line["message"]) for line in lines]


@pytest.fixture(autouse=True)
def _as_it_was() -> Generator[None]:
    """Every test leaves logging and the streams as they were."""
    root = logging.getLogger()
    before = (sys.stdout, sys.stderr, root.level, list(root.handlers))
    yield
    assert (sys.stdout, sys.stderr, root.level, list(root.handlers)) == before


def plain(state: Any) -> None:
    log.info("got %s", 1)
    log.debug("not wanted")
    print("printed", 2)
    print("to stderr", file=sys.stderr)


async def coroutine(state: Any) -> None:
    log.info("got %s", 1)
    await asyncio.sleep(0)
    log.debug("not wanted")
    print("printed", 2)
    print("to stderr", file=sys.stderr)


SAID = [
    ("log", "info", "tests.node", "got 1"),
    ("stdout", None, None, "printed 2"),
    ("stderr", None, None, "to stderr"),
]


@pytest.mark.parametrize("drives_async", [False, True])
def test_output_of_nodes_is_captured_and_relayed(drives_async: bool, capsys: pytest.CaptureFixture[str]) -> None:
    bench = Bench()
    bench.run(drives_async=drives_async, plain=plain, coroutine=coroutine)
    assert (bench.said("plain"), bench.said("coroutine")) == (SAID, SAID)
    assert bench.said("plain") == []
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("printed 2\n" * 2, "to stderr\n" * 2)


def test_a_line_says_when_where_and_in_which_attempt() -> None:
    bench = Bench()
    tries: list[int] = []

    def flaky(state: Any) -> None:
        tries.append(1)
        print("try", len(tries))
        if len(tries) < 2:
            raise ValueError("no")

    policy = RetryPolicy(max_attempts=2, initial_interval=0.0, jitter=False, retry_on=ValueError)
    bench.run(options={"retry_policy": policy}, n=flaky)
    lines = bench.capture.take(bench.ids.by_node["n"])
    at = "2026-01-01T00:00:00Z"
    assert [(line["at"], line["node"], line["attempt"], line["message"]) for line in lines] == [
        (at, "n", 1, "try 1"),
        (at, "n", 2, "try 2"),
    ]


def test_an_error_is_kept_with_its_traceback_and_without_secrets() -> None:
    bench = Bench()

    def node(state: Any) -> None:
        try:
            raise ValueError("password=hunter2")
        except ValueError:
            log.exception("It went wrong")

    bench.run(n=node)
    ((_, level, _, message),) = bench.said("n")
    assert level == "error"
    assert message.startswith("It went wrong\nTraceback (most recent call last):")
    assert message.endswith("ValueError: password=[redacted]")


def test_outside_of_tasks_nothing_is_kept(capsys: pytest.CaptureFixture[str]) -> None:
    bench = Bench()
    with bench.capture:
        log.info("outside")
        print("outside")
    assert bench.capture._buffer._tasks == {}
    assert capsys.readouterr().out == "outside\n"


def test_arguments_that_do_not_fit_are_kept_as_they_are(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()
    record = logging.LogRecord("tests", logging.INFO, "", 1, "%d of", ("x",), None)
    bench.run(n=lambda state: bench.capture._capture_record(record))
    assert bench.said("n") == [("log", "info", "tests", "%d of")]


def test_limits_hold() -> None:
    bench = Bench(limits=CaptureLimits(lines=3))

    def node(state: Any) -> None:
        for number in range(10):
            print(number)

    bench.run(n=node)
    assert [message for *_, message in bench.said("n")] == ["0", "1", "2", "7 more lines were dropped."]


def test_installing_twice_is_installing_once_and_the_rest_is_put_back() -> None:
    root, streams = logging.getLogger(), (sys.stdout, sys.stderr)
    handlers, level = list(root.handlers), root.level
    capture = LogCapture(level=logging.DEBUG)
    assert capture.install() is capture.install()
    assert len(root.handlers) == len(handlers) + 1
    assert root.level == logging.DEBUG
    capture.uninstall()
    capture.uninstall()
    assert ((sys.stdout, sys.stderr), root.handlers, root.level) == (streams, handlers, level)


def test_whoever_came_after_it_stays() -> None:
    first, second = LogCapture(), LogCapture()
    before = sys.stdout
    first.install()
    second.install()
    theirs = sys.stdout
    first.uninstall()
    assert sys.stdout is theirs
    second.uninstall()
    sys.stdout, sys.stderr = before, sys.stderr.original  # type: ignore[union-attr]


def test_levels_set_by_other_code_are_kept() -> None:
    root = logging.getLogger()
    before = root.level
    with LogCapture(level=logging.DEBUG):
        root.setLevel(logging.ERROR)
    assert root.level == logging.ERROR
    root.setLevel(before)


PROGRAM = """
import logging, sys, warnings
from statewright import START, StateGraph
from statewright.observe import LogCapture

def node(state):
    logging.getLogger("n").warning("inside")

graph = StateGraph({"x": int}).add_node("n", node).add_edge(START, "n")
app = graph.compile()
capture = LogCapture()
if sys.argv[1] == "with":
    capture.install()
logging.getLogger("a").warning("outside %s", 1)
logging.getLogger("a").info("too quiet")
print("printed")
warnings.warn("warned")
app.invoke({"x": 1})
logging.basicConfig(stream=sys.stdout, force=False)
sys.stderr.flush()
if sys.argv[1] == "with":
    tasks = list(capture._buffer._tasks)
    print([[line["message"] for line in capture.take(task)] for task in tasks])
"""


def test_a_program_without_handlers_writes_the_same_output() -> None:
    """Python shows warnings of programs that have set up no handler. Having one of ours must not hide them."""
    shown = {
        how: subprocess.run([sys.executable, "-c", PROGRAM, how], capture_output=True, text=True, check=True)
        for how in ("with", "without")
    }
    assert shown["with"].stderr == shown["without"].stderr
    assert "outside 1\n" in shown["with"].stderr
    assert shown["with"].stderr.count("inside\n") == 1
    assert shown["with"].stdout == shown["without"].stdout + "[['inside']]\n"
