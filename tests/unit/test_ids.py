"""Ids of tasks and interrupts are hashes of their origin; ids of runs and checkpoints are drawn."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statewright.errors import InvalidConfig
from statewright.ids import (
    checked_name,
    creation_time_of,
    interrupt_id,
    is_interrupt_id,
    new_checkpoint_id,
    short_id,
    task_id,
    whole_id,
)


def test_ids_of_tasks_and_interrupts_depend_on_every_part() -> None:
    assert task_id("c", 1) == task_id("c", 1)
    ids = {task_id("c", 1), task_id("c", 2), task_id("d", 1), task_id("c1", 1), task_id("c", 11)}
    assert len(ids) == 5
    assert interrupt_id(task_id("c", 1), 0) != interrupt_id(task_id("c", 1), "0")


def test_an_interrupt_id_is_recognized_by_its_format() -> None:
    assert is_interrupt_id(interrupt_id(task_id("c", 1), "key"))
    assert not any(map(is_interrupt_id, ("yes", "g" * 32, 7, None)))


def test_checkpoint_ids_are_ordered_uuids_of_version_7() -> None:
    ids = [new_checkpoint_id() for _ in range(1000)]
    assert ids == sorted(set(ids))
    assert {uuid.UUID(drawn).version for drawn in ids} == {7}


def test_a_checkpoint_id_contains_its_creation_time() -> None:
    before = datetime.now(UTC) - timedelta(milliseconds=1)
    at = creation_time_of(new_checkpoint_id())
    assert at is not None
    assert before <= at <= datetime.now(UTC)
    others = ("", "first", task_id("c", 1)[:12] + "4" + "0" * 19, "0" * 12 + "7" + "z" * 19, "z" * 12 + "7" + "8" * 19)
    assert {creation_time_of(other) for other in others} == {None}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_process_draws_other_ids() -> None:
    code = "import os; from statewright.ids import new_run_id; os.fork(); os.write(1, f'{new_run_id()}\\n'.encode())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert len(set(done.stdout.split())) == 2


TASK = task_id("c", 1)


@pytest.mark.parametrize("suffix", ["", "-0", "-12", "-é", "0"])
def test_a_task_id_and_its_suffix_are_stored_in_half_the_bytes(suffix: str) -> None:
    assert short_id(TASK + suffix) == bytes.fromhex(TASK) + suffix.encode()
    assert whole_id(short_id(TASK + suffix)) == TASK + suffix


@pytest.mark.parametrize(
    "text",
    [
        "",
        "short",
        TASK[:31],
        TASK[:30],
        TASK.upper(),
        "g" * 32,
        TASK[:16] + " " + TASK[16:],
        "ab " * 16,
        "٣" * 32,
        "é" * 40,
    ],
)
def test_any_other_id_is_unchanged(text: str) -> None:
    assert short_id(text) == text
    assert whole_id(short_id(text)) == text


@given(st.one_of(st.text(), st.text("0123456789abcdefAF -", max_size=40), st.text().map(TASK.__add__)))
def test_every_short_id_can_be_restored(text: str) -> None:
    assert whole_id(short_id(text)) == text


@pytest.mark.parametrize("name", ["", None, 7, b"t", "\ud800", "half \udfff of a pair"])
def test_an_invalid_name_is_rejected_and_quoted(name: object) -> None:
    with pytest.raises(InvalidConfig, match=r"thread_id is .*Give ") as caught:
        checked_name("thread_id", name)
    assert repr(name) in str(caught.value)
    str(caught.value).encode()  # it can be printed


def test_a_name_with_a_null_character_is_rejected() -> None:
    with pytest.raises(InvalidConfig, match="contains a null character"):
        checked_name("thread_id", "a\0b")


@pytest.mark.parametrize("name", ["t", " ", "\n", "\N{GRINNING FACE}", "é"])
def test_any_text_is_a_valid_name(name: str) -> None:
    assert checked_name("thread_id", name) is name
