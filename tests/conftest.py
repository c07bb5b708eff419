"""What all tests share: one closing line that names what was skipped, and why."""

from __future__ import annotations

import gc
import signal
from collections import Counter
from typing import Any

from hypothesis import HealthCheck, settings
from tests.work import FULL, examples


def pytest_terminal_summary(terminalreporter: Any) -> None:
    skipped = terminalreporter.stats.get("skipped", [])
    if skipped:
        reasons = Counter(str(report.longrepr[2]).removeprefix("Skipped: ") for report in skipped)
        named = "; ".join(f"{count}x {reason}" for reason, count in sorted(reasons.items()))
        terminalreporter.write_line(f"skipped: {named}")


def pytest_collection_modifyitems(config: Any, items: list[Any]) -> None:
    """Leave what is marked `full` to `make test-full`: costly variants of what other tests show too."""
    if FULL:
        return
    left_out = [item for item in items if item.get_closest_marker("full")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker("full")]


def pytest_collection() -> None:
    """Make a million objects without looking, again and again, for some that nobody needs."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Let the collector leave alone what stays to the end."""
    gc.freeze()
    gc.enable()
    gc.set_threshold(10_000, 20, 20)


_module: list[Any] = [None]


def pytest_runtest_setup(item: Any) -> None:
    """Let the collector leave alone what other modules have left too: tests that call it would wait a second each."""
    if item.path != _module[0]:
        _module[0] = item.path
        gc.collect()
        gc.freeze()


def pytest_configure(config: Any) -> None:
    """A shell lets what it starts in the background ignore Ctrl-C, children included; some tests are about it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


# Examples are the same in each run, and none of them may take too long: how fast a machine is says nothing of the code.
settings.register_profile(
    "statewright",
    max_examples=examples(100),
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("statewright")
