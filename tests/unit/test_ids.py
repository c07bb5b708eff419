"""Ids that name work are hashes of where it comes from; ids that name events are drawn."""

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
    draw_checkpoint_id,
    interrupt_id,
    is_interrupt_id,
    short_id,
    task_id,
    whole_id,
)


def test_ids_of_work_depend_on_every_part() -> None:
    assert task_id("c", 1) == task_id("c", 1)
    ids = {task_id("c", 1), task_id("c", 2), task_id("d", 1), task_id("c1", 1), task_id("c", 11)}
    assert len(ids) == 5
    assert interrupt_id(task_id("c", 1), 0) != interrupt_id(task_id("c", 1), "0")


def test_an_interrupt_id_is_known_by_its_form() -> None:
    assert is_interrupt_id(interrupt_id(task_id("c", 1), "key"))
    assert not any(map(is_interrupt_id, ("yes", "g" * 32, 7, None)))


def test_checkpoint_ids_are_uuids_of_version_7_in_order() -> None:
    ids = [draw_checkpoint_id() for _ in range(1000)]
    assert ids == sorted(set(ids))
    assert {uuid.UUID(one).version for one in ids} == {7}


def test_a_checkpoint_id_tells_when_it_was_drawn() -> None:
    before = datetime.now(UTC) - timedelta(milliseconds=1)
    at = creation_time_of(draw_checkpoint_id())
    assert at is not None
    assert before <= at <= datetime.now(UTC)
    others = ("", "first", task_id("c", 1)[:12] + "4" + "0" * 19, "0" * 12 + "7" + "z" * 19, "z" * 12 + "7" + "8" * 19)
    assert {creation_time_of(one) for one in others} == {None}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_process_draws_other_ids() -> None:
    code = "import os; from statewright.ids import draw_run_id; os.fork(); os.write(1, f'{draw_run_id()}\\n'.encode())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert len(set(done.stdout.split())) == 2


TASK = task_id("c", 1)


@pytest.mark.parametrize("after", ["", "-0", "-12", "-é", "0"])
def test_an_id_of_a_task_is_kept_in_half_the_bytes_with_what_came_after_it(after: str) -> None:
    assert short_id(TASK + after) == bytes.fromhex(TASK) + after.encode()
    assert whole_id(short_id(TASK + after)) == TASK + after


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
def test_any_other_id_is_kept_as_it_is(text: str) -> None:
    assert short_id(text) == text
    assert whole_id(short_id(text)) == text


@given(st.one_of(st.text(), st.text("0123456789abcdefAF -", max_size=40), st.text().map(TASK.__add__)))
def test_every_short_id_can_be_made_whole(text: str) -> None:
    assert whole_id(short_id(text)) == text


@pytest.mark.parametrize("name", ["", None, 7, b"t", "\ud800", "half \udfff of a pair"])
def test_what_is_no_name_is_refused_and_shown(name: object) -> None:
    with pytest.raises(InvalidConfig, match=r"thread_id is .*Give ") as refused:
        checked_name("thread_id", name)
    assert repr(name) in str(refused.value)
    str(refused.value).encode()  # it can be printed


@pytest.mark.parametrize("name", ["t", " ", "\0", "\N{GRINNING FACE}", "é"])
def test_every_text_is_a_name(name: str) -> None:
    assert checked_name("thread_id", name) is name
