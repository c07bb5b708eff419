"""The written rules once more, with every graph inside others: as a node, as a call, as a stream inside a node.

By default the plainest rules two levels deep; with STATEWRIGHT_FULL=1 those of more modules.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.semantics.nested import FORMS

ROOT = Path(__file__).parents[2]
FULL = os.environ.get("STATEWRIGHT_FULL") == "1"
MODULES = ["test_rules"]
if FULL:
    MODULES += ["test_state", "test_control_flow", "test_superstep", "test_interrupts", "test_asking_and_errors"]
ABOUT_ONE_GRAPH = (
    # commits, events, ids, what is due: a parent has its own
    "test_7_1_durability",
    "test_8_1_durable_events",
    "test_arrivals_are_part_of_the_checkpoint",
    "test_an_idle_node_that_waits_is_in_the_checkpoint",
    "test_gathered_sends_that_wait_are_in_the_checkpoint",
    "test_a_task_keeps_its_id_through_fork",
    "test_task_ids_are_the_same_whenever",
    "test_fresh_input_is_a_commit_of_its_own",
    "test_a_run_can_be_forked_before_its_first_node",
    "test_a_drained_run_stops_at_the_next_boundary",
    "test_results_that_had_landed_are_kept_and_only",
    "test_execution_info_says_which",
    "test_the_config_that_a_node_gets",
    # the tasks of a snapshot: a parent has one
    "test_siblings_finish_and_everything_open_is_reported_together",
    "test_plain_siblings_of_a_failing_task_without_grace_are_left",
    # fresh input discards the task of the parent, and what had landed within it
    "test_arrivals_are_cleared_when_fresh_input",
    # notes of an exception name the nodes of every level
    "test_5_5_a_failure_keeps",
    "test_the_nodes_own_exception_is_raised_with_a_note",
    # breakpoints, gotos of a caller and recursion limits concern the graph that is called
    "test_6_3_a_run_may_stop",
    "test_a_run_stops_before_or_after_a_node",
    "test_a_star_stops_at_every_node",
    "test_a_breakpoint_in_a_loop",
    "test_an_answer_at_a_breakpoint",
    "test_a_resume_may_bring_an_update_and_a_goto",
    "test_the_recursion_limit_counts",
    "test_a_run_that_ends_at_its_limit",
    "test_what_was_done_up_to_the_limit",
    "test_managed_values_are_computed",
    # there is a parent; there is more to validate
    "test_parent_is_refused_where_there_is_no_parent",
    "test_an_unchanged_field_is_not_validated_again",
    "test_with_all_results_are_instances",
)


@pytest.mark.parametrize(("module", "form"), list(itertools.product(MODULES, FORMS)))
def test_the_rules_hold_in_every_form_of_nesting(module: str, form: str) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.semantics.on_nested", "-p", "no:cacheprovider"]
    chosen = " and ".join(f"not {name}" for name in ABOUT_ONE_GRAPH)
    done = subprocess.run(
        [*command, f"tests/semantics/{module}.py", "-k", chosen],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
        env={**os.environ, "STATEWRIGHT_NESTED_FORM": form},
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
