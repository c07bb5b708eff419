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
TOLD = {"at": "now", "level": None, "logger": None, "stream": "stdout"}


def captured(**limits: Any) -> CaptureBuffer:
    return CaptureBuffer(CaptureLimits(**limits), Redactor())


def messages(kept: CaptureBuffer, task: str = "task") -> list[str]:
    return [line["message"] for line in kept.take(task, "now")]


def write(kept: CaptureBuffer, *texts: str, place: TaskAttempt = TASK) -> None:
    for text in texts:
        kept.write(place, "stdout", text, TOLD)


def test_a_message_is_stored_with_its_fields_and_taken_once() -> None:
    kept = captured()
    kept.add(TASK, "hello\nyou", {**TOLD, "level": "info"})
    assert kept.take("task", "now") == [
        {**TOLD, "level": "info", "message": "hello\nyou", "node": "node", "attempt": 1},
    ]
    assert kept.take("task", "now") == []


def test_written_text_becomes_lines() -> None:
    kept = captured()
    write(kept, "a", " ", "b", "\n", "c\nd\n", "e")
    assert messages(kept) == ["a b", "c", "d", "e"]


@given(st.text(alphabet="ab\n", max_size=40), st.lists(st.integers(0, 40)))
def test_lines_do_not_depend_on_how_they_were_written(text: str, places: list[int]) -> None:
    kept, cuts = captured(), sorted({0, len(text), *(place for place in places if place < len(text))})
    write(kept, *(text[begin:end] for begin, end in pairwise(cuts)))
    lines = text.split("\n")
    assert messages(kept) == (lines if lines[-1] else lines[:-1])


def test_streams_do_not_mix_and_attempts_are_in_order() -> None:
    kept = captured()
    write(kept, "second\n", place=TaskAttempt("task", "node", 2))
    kept.write(TASK, "stdout", "o", TOLD)
    kept.write(TASK, "stderr", "e\n", {**TOLD, "stream": "stderr"})
    kept.write(TASK, "stdout", "ut\n", TOLD)
    lines = kept.take("task", "now")
    assert [(line["attempt"], line["stream"], line["message"]) for line in lines] == [
        (1, "stderr", "e"),
        (1, "stdout", "out"),
        (2, "stdout", "second"),
    ]


def test_the_number_of_lines_is_limited_and_the_last_reports_dropped_ones() -> None:
    kept = captured(lines=2)
    write(kept, "1\n2\n3\n4\n", "5\n")
    kept.add(TASK, "6", TOLD)
    *lines, last = kept.take("task", "now")
    assert [line["message"] for line in lines] == ["1", "2"]
    assert (last["message"], last["level"], last["logger"]) == (
        "4 more lines were dropped.",
        "warning",
        "statewright.observe",
    )
    write(kept, "1\n2\n3\n")
    assert messages(kept)[-1] == "1 more line was dropped."


def test_the_number_of_bytes_is_limited() -> None:
    kept = captured(size=100, line=30)
    write(kept, *("x" * 29 + "\n" for _ in range(1000)))
    lines = messages(kept)
    assert sum(map(len, lines[:-1])) < 130
    assert lines[-1] == "996 more lines were dropped."


def test_an_endless_line_is_limited() -> None:
    kept = captured(line=20)
    write(kept, "begin", *("x" * 1000 for _ in range(1000)))
    first = messages(kept)[0]
    assert first.startswith("beginxxxx")
    assert "characters left out" in first


def test_the_last_state_of_a_progress_bar_is_kept() -> None:
    kept = captured()
    write(kept, *(f"\r{number} %" for number in range(101)), "\n")
    assert messages(kept) == ["100 %"]


def test_secrets_and_colours_are_removed_even_across_lines() -> None:
    kept = captured()
    write(kept, "\x1b[31mtoken=abc\x1b[0m\n", "-----BEGIN PRIVATE KEY-----\nMIIE\nabc\n-----END PRIVATE KEY-----\n")
    kept.add(TASK, "password=x", TOLD)
    assert messages(kept) == ["token=[redacted]", "[redacted]", "password=[redacted]"]


def test_the_middle_of_a_long_line_is_cut_without_revealing_part_of_a_secret() -> None:
    kept = captured(line=100)
    write(kept, "x" * 80 + " sk-" + "0123456789" * 20 + "y" * 400 + "\n")
    (line,) = messages(kept)
    assert "012345" not in line


def test_silent_tasks_are_dropped_first() -> None:
    kept = captured(total=3000)
    for name in "abc":
        write(kept, "x" * 300 + "\n", place=TaskAttempt(name, "node", 1))
    write(kept, "again\n", place=TaskAttempt("a", "node", 1))
    write(kept, "x" * 300 + "\n", place=TaskAttempt("d", "node", 1))
    assert [bool(messages(kept, name)) for name in "abcd"] == [True, False, True, True]


def test_the_number_of_tasks_is_limited() -> None:
    kept = captured(tasks=2)
    for name in "abc":
        write(kept, "x", place=TaskAttempt(name, "node", 1))
    assert [bool(messages(kept, name)) for name in "abc"] == [False, True, True]


def test_taken_lines_do_not_count() -> None:
    kept = captured(total=1500)
    for _ in range(100):
        write(kept, "x" * 300 + "\n")
        assert messages(kept) == ["x" * 300]
    assert kept._total == 0


def test_concurrent_threads_lose_no_lines() -> None:
    kept = captured(lines=10_000)

    def say(number: int) -> None:
        for count in range(200):
            kept.add(TASK, f"{number}:{count}", TOLD)
            write(kept, "o\n", place=TaskAttempt(f"task-{number}", "node", 1))

    threads = [threading.Thread(target=say, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(messages(kept))) == 1600
    assert all(len(messages(kept, f"task-{number}")) == 200 for number in range(8))
    assert kept._total == 0
