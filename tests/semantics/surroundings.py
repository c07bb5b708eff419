"""Repetition of the rules in other surroundings: with all threads in SQLite files, and with all graphs inside others.

The fixture `surroundings` has a parameter for each, because a graph must behave the same with any storage and at any
level of nesting. By default each rule is tested once with each driver on SQLite, and only the basic rules inside other
graphs; STATEWRIGHT_FULL=1 tests all combinations, in all modules that are listed here.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.semantics.nested import FORMS, nest
from tests.work import FULL

import statewright
from statewright import CompiledGraph
from statewright.checkpoint import (
    InMemorySaver as SaverInMemory,
)  # `_replace` skips this name
from statewright.storage.sqlite import SqliteSaver

ON_SQLITE = "on-sqlite"
NESTED = {f"in-a-{form}": form for form in FORMS}
DEPTH = 2
THREAD_METHODS = ("get_state", "resume_due", "aresume_due", "send_event", "asend_event")
"""Methods that a test calls on the graph itself, and that are redirected to the wrapper, which has the thread."""
SQLITE_MODULES = {
    *("test_threads", "test_interrupts", "test_waits", "test_journal", "test_subgraphs", "test_functional"),
    *("test_busy", "test_attempts", "test_known_defects", "test_forked_calls"),
    *("test_states_cases", "test_states_interrupts", "test_states_iteration"),
    *("test_steps_cases", "test_steps_conversations", "test_steps_waits"),
    *(("test_properties", "test_states_properties") if FULL else ()),
}
NESTED_MODULES = {"test_rules"}
if FULL:
    NESTED_MODULES |= {"test_state", "test_control_flow", "test_superstep", "test_interrupts", "test_asking_and_errors"}
IN_MEMORY_ONLY = (
    "finished_calls_leave_no_namespaces",  # these access the dict of the saver
    "calls_are_removed_with_their_task",
    "refused_and_nothing_is_written",  # compares histories during a commit
    "returns_command",  # a case: the result of an entrypoint is saved, and a Command cannot be stored
)
ABOUT_ONE_GRAPH = (
    # commits, events, ids, due tasks: a parent has its own
    "test_7_1_durability",
    "test_8_1_only_durable_events",
    "test_arrivals_are_part_of_the_checkpoint",
    "test_a_waiting_idle_node_is_part_of_the_checkpoint",
    "test_waiting_gathered_sends_are_part_of_the_checkpoint",
    "test_a_task_keeps_its_id_through_fork",
    "test_task_ids_do_not_change",
    "test_new_input_is_a_separate_commit",
    "test_a_run_can_be_forked_before_its_first_node",
    "test_a_drained_run_stops_at_the_next_boundary",
    "test_finished_results_are_kept_and_only_the_failed_task_runs_again",
    "test_execution_info_identifies",
    "test_the_config_of_a_node_contains",
    # the tasks of a snapshot: a parent has one
    "test_siblings_finish_and_all_open_questions_are_reported_together",
    "test_plain_siblings_of_a_failing_task_are_left_behind",
    # fresh input discards the task of the parent, with the results in it
    "test_arrivals_are_cleared_by_new_input_after_a_failure",
    # notes of an exception name the nodes of every level
    "test_5_5_a_failure_keeps",
    "test_the_nodes_own_exception_is_raised_with_a_note",
    # breakpoints, gotos of a caller and recursion limits apply to the called graph
    "test_6_3_a_run_may_stop",
    "test_a_run_stops_before_or_after_a_node",
    "test_a_star_stops_at_every_node",
    "test_a_breakpoint_in_a_loop",
    "test_an_answer_at_a_breakpoint",
    "test_a_resume_may_include_an_update_and_a_goto",
    "test_the_recursion_limit_counts",
    "test_a_run_that_ends_at_its_limit",
    "test_work_up_to_the_limit_is_saved_and_the_thread_continues",
    "test_managed_values_are_computed",
    # a parent exists, and is validated too
    "test_parent_is_refused_without_a_parent_graph",
    "test_an_unchanged_field_is_not_validated_again",
    "test_validate_all_returns_an_instance",
)


def parametrize(metafunc: pytest.Metafunc) -> None:
    """Parametrize a test with the surroundings that suit it."""
    module, name = metafunc.module.__name__.rpartition(".")[2], metafunc.function.__name__
    others = []
    if module in SQLITE_MODULES and not any(part in name for part in IN_MEMORY_ONLY):
        others.append(ON_SQLITE)
    if (
        module in NESTED_MODULES
        and "driver" in metafunc.fixturenames
        and not any(part in name for part in ABOUT_ONE_GRAPH)
    ):
        others += NESTED
    if others:
        metafunc.parametrize("surroundings", ["plain", *others], indirect=True)


def items_for_memory_only(items: list[pytest.Item]) -> list[pytest.Item]:
    """Return the cases that need a saver in memory, of tests whose other cases run with any saver."""
    return [item for item in items if ON_SQLITE in item.name and any(part in item.name for part in IN_MEMORY_ONLY)]


def repeated_items(items: list[pytest.Item]) -> list[pytest.Item]:
    """Return the tests on SQLite that repeat another one with the same driver and other parameters.

    The cases of `test_case` are rules of their own, and are not returned.
    """
    seen: set[tuple[str, object]] = set()
    repeated: list[pytest.Item] = []
    for item in items:
        params = getattr(getattr(item, "callspec", None), "params", {})
        if params.get("surroundings") != ON_SQLITE or item.nodeid.partition("[")[0].endswith("::test_case"):
            continue
        key = (item.nodeid.partition("[")[0], params.get("driver"))
        if key in seen:
            repeated.append(item)
        seen.add(key)
    return repeated


@pytest.fixture(autouse=True)
def surroundings(request: pytest.FixtureRequest) -> Iterator[str]:
    """Run the test in its surroundings, and yield their name."""
    chosen: str = getattr(request, "param", "plain")
    if chosen == ON_SQLITE:
        with _on_sqlite(request.getfixturevalue("tmp_path")) as name:
            yield name
    elif chosen in NESTED:
        _nest(request.getfixturevalue("driver"), NESTED[chosen], request.getfixturevalue("monkeypatch"))
        yield chosen
    else:
        yield chosen


@contextmanager
def _on_sqlite(folder: Path) -> Iterator[str]:
    """Replace InMemorySaver by a SqliteSaver, each with a file of its own; close all savers at the end."""
    numbers = itertools.count()
    savers: list[SqliteSaver] = []

    class SaverOfATest(SqliteSaver):
        def __init__(self, *_: Any) -> None:
            super().__init__(folder / f"{next(numbers)}.db")
            savers.append(self)

    _replace(SaverInMemory, SaverOfATest)
    try:
        yield ON_SQLITE
    finally:
        _replace(SaverOfATest, SaverInMemory)
        while savers:
            savers.pop().close()
        assert statewright.InMemorySaver is SaverInMemory


def _replace(current: type, replacement: type) -> None:
    """Replace the class of the name InMemorySaver in the library and in all tests."""
    for name, module in list(sys.modules.items()):
        namespace = getattr(module, "__dict__", {})
        is_relevant = name in ("statewright", "statewright.checkpoint") or name.startswith("tests.")
        if is_relevant and namespace.get("InMemorySaver") is current:
            namespace["InMemorySaver"] = replacement


def _nest(driver: Any, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a driver run graphs inside other graphs.

    The wrapper of a graph is created once in a test, so that a thread continues in the wrapper in which it started.
    """
    wrappers: dict[int, tuple[Any, Any]] = {}

    def nested(app: Any) -> Any:
        if type(app) is not CompiledGraph:  # an entrypoint has no state that a parent could share
            return app
        entry = wrappers.get(id(app))
        if entry is None:
            entry = wrappers[id(app)] = (app, nest(app, form, DEPTH, awaits=driver.name == "async"))
            for method in THREAD_METHODS:
                setattr(app, method, getattr(entry[1], method))
        return entry[1]

    invoke, batch = driver.invoke, driver.batch
    monkeypatch.setattr(driver, "invoke", lambda app, *args, **options: invoke(nested(app), *args, **options))
    monkeypatch.setattr(driver, "batch", lambda app, *args, **options: batch(nested(app), *args, **options))
