"""The written rules once more, with every thread in a SQLite file."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MODULES = [
    "test_threads",
    "test_interrupts",
    "test_waits",
    "test_journal",
    "test_subgraphs",
    "test_functional",
    "test_busy",
    "test_attempts",
    "test_known_defects",
    "test_properties",
    "test_forked_calls",
    "test_states_cases",
    "test_states_interrupts",
    "test_states_iteration",
    "test_states_properties",
    "test_steps_cases",
    "test_steps_waits",
]
IN_MEMORY_ONLY = (
    "removes_the_namespaces_of_its_calls",  # they look into the dict of the saver
    "go_with_the_task_that_made_them",
    "refused_and_nothing_is_written",  # compares histories while a commit is still under way
)


@pytest.mark.parametrize("module", MODULES)
def test_the_rules_hold_on_sqlite(module: str) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.semantics.on_sqlite", "-p", "no:cacheprovider"]
    chosen = " and ".join(f"not {name}" for name in IN_MEMORY_ONLY)
    done = subprocess.run(
        [*command, f"tests/semantics/{module}.py", "-k", chosen], cwd=ROOT, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
