"""Configuration of all tests: a summary of skipped tests, the selection of tests, garbage collection, Hypothesis."""

from __future__ import annotations

import gc
import os
import signal
from collections import Counter
from typing import Any

from hypothesis import HealthCheck, settings
from tests.work import FULL, examples


def pytest_terminal_summary(terminalreporter: Any) -> None:
    skipped = terminalreporter.stats.get("skipped", [])
    if skipped:
        reasons = Counter(str(report.longrepr[2]).removeprefix("Skipped: ") for report in skipped)
        summary = "; ".join(f"{count}x {reason}" for reason, count in sorted(reasons.items()))
        terminalreporter.write_line(f"skipped: {summary}")


def pytest_collection_modifyitems(config: Any, items: list[Any]) -> None:
    """Deselect costly variants of other tests, except in `make test-full`: all that are marked `full`, and those marked
    `sampled(n)` except every `n`th of a module (every tenth, if no number is given).
    """
    if FULL:
        return
    counts = Counter[tuple[Any, int]]()
    deselected = {item for item in items if _is_costly(item, counts)}
    if deselected:
        config.hook.pytest_deselected(items=list(deselected))
        items[:] = [item for item in items if item not in deselected]


def _is_costly(item: Any, counts: Counter[tuple[Any, int]]) -> bool:
    """Return whether a test is deselected. `counts` are the numbers of sampled tests so far, by module and `n`."""
    if item.get_closest_marker("full"):
        return True
    sampled = item.get_closest_marker("sampled")
    if sampled is None:
        return False
    key = item.path, *(sampled.args or (10,))
    counts[key] += 1
    return counts[key] % key[1] != 1


def pytest_collection() -> None:
    """Disable the garbage collector, which would examine a million live objects again and again."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Exclude the collected tests, which live to the end, from garbage collection."""
    gc.freeze()
    gc.enable()
    gc.set_threshold(10_000, 20, 20)


_module: list[Any] = [None]


def pytest_runtest_setup(item: Any) -> None:
    """Exclude the objects of earlier modules too: otherwise each call of `gc.collect` in a test takes a second."""
    if item.path != _module[0]:
        _module[0] = item.path
        gc.collect()
        gc.freeze()


def pytest_configure(config: Any) -> None:
    """Prepare the environment of programs that tests start.

    Ctrl-C is restored, which background processes of a shell and their children ignore. The paths in PYTHONPATH are
    made absolute, since the programs run in other folders.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if paths := os.environ.get("PYTHONPATH"):
        os.environ["PYTHONPATH"] = os.pathsep.join(map(os.path.abspath, paths.split(os.pathsep)))


# Examples are the same in each run, and have no deadline, because the speed of a machine says nothing about the code.
settings.register_profile(
    "statewright",
    max_examples=examples(100),
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("statewright")
