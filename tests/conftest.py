"""What all tests share: one closing line that names what was skipped, and why."""

from __future__ import annotations

import signal
from collections import Counter
from typing import Any

from hypothesis import HealthCheck, settings


def pytest_terminal_summary(terminalreporter: Any) -> None:
    skipped = terminalreporter.stats.get("skipped", [])
    if skipped:
        reasons = Counter(str(report.longrepr[2]).removeprefix("Skipped: ") for report in skipped)
        named = "; ".join(f"{count}x {reason}" for reason, count in sorted(reasons.items()))
        terminalreporter.write_line(f"skipped: {named}")


def pytest_configure(config: Any) -> None:
    """A shell lets what it starts in the background ignore Ctrl-C, children included; some tests are about it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


# Examples are the same in each run, and none of them may take too long: how fast a machine is says nothing of the code.
settings.register_profile("statewright", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("statewright")
