"""The written rules once more, with every thread in a SQLite file."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from subprocess import CompletedProcess

import pytest

ROOT = Path(__file__).parents[2]
MODULES = [
    pytest.param("test_properties", marks=pytest.mark.full),  # the longest first: the others run beside it
    "test_threads",
    "test_interrupts",
    "test_waits",
    "test_journal",
    "test_subgraphs",
    "test_functional",
    "test_busy",
    "test_attempts",
    "test_known_defects",
    "test_forked_calls",
    "test_states_cases",
    "test_states_interrupts",
    "test_states_iteration",
    pytest.param("test_states_properties", marks=pytest.mark.full),
    "test_steps_cases",
    "test_steps_conversations",
    "test_steps_waits",
]
IN_MEMORY_ONLY = (
    "removes_the_namespaces_of_its_calls",  # they look into the dict of the saver
    "go_with_the_task_that_made_them",
    "refused_and_nothing_is_written",  # compares histories while a commit is still under way
    "returns_command",  # what an entrypoint returns is saved, and a Command has no stored form
)


@pytest.fixture(scope="module")
def under_way(request: pytest.FixtureRequest) -> Iterator[Mapping[str, Future[CompletedProcess[str]]]]:
    """The modules that are wanted, each run by a process of its own, two at a time."""
    wanted = [item.callspec.params["module"] for item in request.session.items if item.path == request.path]
    with ThreadPoolExecutor(2) as pool:
        yield {module: pool.submit(_on_sqlite, module) for module in wanted}


def _on_sqlite(module: str) -> CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.semantics.on_sqlite", "-p", "no:cacheprovider"]
    command += ["-p", "no:schemathesis"]  # takes long to import
    chosen = " and ".join(f"not {name}" for name in IN_MEMORY_ONLY)
    return subprocess.run(
        [*command, f"tests/semantics/{module}.py", "-k", chosen], cwd=ROOT, capture_output=True, text=True, timeout=3600
    )


@pytest.mark.parametrize("module", MODULES)
def test_the_rules_hold_on_sqlite(module: str, under_way: Mapping[str, Future[CompletedProcess[str]]]) -> None:
    done = under_way[module].result()
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
