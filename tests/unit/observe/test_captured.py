"""Captured lines of tasks: kept until they are taken, within all limits."""

from __future__ import annotations

import threading
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from statewright.observe.capture import CaptureBuffer, CaptureLimits, TaskAttempt
from statewright.redaction import Redactor

TASK = TaskAttempt("task", "node", 1)
FIELDS = {"at": "now", "level": None, "logger": None, "stream": "stdout"}


def new_buffer(**limits: Any) -> CaptureBuffer:
    return CaptureBuffer(CaptureLimits(**limits), Redactor())


def messages(buffer: CaptureBuffer, task: str = "task") -> list[str]:
    return [line["message"] for line in buffer.take(task, "now")]


def write(buffer: CaptureBuffer, *texts: str, attempt: TaskAttempt = TASK) -> None:
    for text in texts:
        buffer.write(attempt, "stdout", text, FIELDS)


def test_a_message_is_stored_with_its_fields_and_taken_once() -> None:
    buffer = new_buffer()
    buffer.add(TASK, "hello\nyou", {**FIELDS, "level": "info"})
    assert buffer.take("task", "now") == [
        {**FIELDS, "level": "info", "message": "hello\nyou", "node": "node", "attempt": 1},
    ]
    assert buffer.take("task", "now") == []


def test_written_text_becomes_lines() -> None:
    buffer = new_buffer()
    write(buffer, "a", " ", "b", "\n", "c\nd\n", "e")
    assert messages(buffer) == ["a b", "c", "d", "e"]


@given(st.text(alphabet="ab\n", max_size=40), st.lists(st.integers(0, 40)))
def test_lines_do_not_depend_on_where_the_text_is_cut(text: str, positions: list[int]) -> None:
    buffer, cuts = new_buffer(), sorted({0, len(text), *(position for position in positions if position < len(text))})
    write(buffer, *(text[begin:end] for begin, end in pairwise(cuts)))
    lines = text.split("\n")
    assert messages(buffer) == (lines if lines[-1] else lines[:-1])


def test_streams_do_not_mix_and_attempts_are_in_order() -> None:
    buffer = new_buffer()
    write(buffer, "second\n", attempt=TaskAttempt("task", "node", 2))
    buffer.write(TASK, "stdout", "o", FIELDS)
    buffer.write(TASK, "stderr", "e\n", {**FIELDS, "stream": "stderr"})
    buffer.write(TASK, "stdout", "ut\n", FIELDS)
    lines = buffer.take("task", "now")
    assert [(line["attempt"], line["stream"], line["message"]) for line in lines] == [
        (1, "stderr", "e"),
        (1, "stdout", "out"),
        (2, "stdout", "second"),
    ]


def test_the_number_of_lines_is_limited_and_the_last_reports_dropped_ones() -> None:
    buffer = new_buffer(lines=2)
    write(buffer, "1\n2\n3\n4\n", "5\n")
    buffer.add(TASK, "6", FIELDS)
    *lines, last = buffer.take("task", "now")
    assert [line["message"] for line in lines] == ["1", "2"]
    assert (last["message"], last["level"], last["logger"]) == (
        "4 more lines were dropped.",
        "warning",
        "statewright.observe",
    )
    write(buffer, "1\n2\n3\n")
    assert messages(buffer)[-1] == "1 more line was dropped."


def test_the_number_of_bytes_is_limited() -> None:
    buffer = new_buffer(size=100, line=30)
    write(buffer, *("x" * 29 + "\n" for _ in range(1000)))
    lines = messages(buffer)
    assert sum(map(len, lines[:-1])) < 130
    assert lines[-1] == "996 more lines were dropped."


def test_an_endless_line_is_limited() -> None:
    buffer = new_buffer(line=20)
    write(buffer, "begin", *("x" * 1000 for _ in range(1000)))
    first = messages(buffer)[0]
    assert first.startswith("beginxxxx")
    assert "characters left out" in first


def test_the_last_state_of_a_progress_bar_is_kept() -> None:
    buffer = new_buffer()
    write(buffer, *(f"\r{number} %" for number in range(101)), "\n")
    assert messages(buffer) == ["100 %"]


def test_secrets_and_colours_are_removed_even_across_lines() -> None:
    buffer = new_buffer()
    write(buffer, "\x1b[31mtoken=abc\x1b[0m\n", "-----BEGIN PRIVATE KEY-----\nMIIE\nabc\n-----END PRIVATE KEY-----\n")
    buffer.add(TASK, "password=x", FIELDS)
    assert messages(buffer) == ["token=[redacted]", "[redacted]", "password=[redacted]"]


def test_the_middle_of_a_long_line_is_cut_without_revealing_part_of_a_secret() -> None:
    buffer = new_buffer(line=100)
    write(buffer, "x" * 80 + " sk-" + "0123456789" * 20 + "y" * 400 + "\n")
    (line,) = messages(buffer)
    assert "012345" not in line


def test_the_least_recently_active_tasks_are_dropped_first() -> None:
    buffer = new_buffer(total=3000)
    for name in "abc":
        write(buffer, "x" * 300 + "\n", attempt=TaskAttempt(name, "node", 1))
    write(buffer, "again\n", attempt=TaskAttempt("a", "node", 1))
    write(buffer, "x" * 300 + "\n", attempt=TaskAttempt("d", "node", 1))
    assert [bool(messages(buffer, name)) for name in "abcd"] == [True, False, True, True]


def test_the_number_of_tasks_is_limited() -> None:
    buffer = new_buffer(tasks=2)
    for name in "abc":
        write(buffer, "x", attempt=TaskAttempt(name, "node", 1))
    assert [bool(messages(buffer, name)) for name in "abc"] == [False, True, True]


def test_taken_lines_do_not_count_towards_the_limit() -> None:
    buffer = new_buffer(total=1500)
    for _ in range(100):
        write(buffer, "x" * 300 + "\n")
        assert messages(buffer) == ["x" * 300]
    assert buffer._total == 0


def test_concurrent_threads_lose_no_lines() -> None:
    buffer = new_buffer(lines=10_000)

    def add_lines(number: int) -> None:
        for count in range(200):
            buffer.add(TASK, f"{number}:{count}", FIELDS)
            write(buffer, "o\n", attempt=TaskAttempt(f"task-{number}", "node", 1))

    threads = [threading.Thread(target=add_lines, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(messages(buffer))) == 1600
    assert all(len(messages(buffer, f"task-{number}")) == 200 for number in range(8))
    assert buffer._total == 0
