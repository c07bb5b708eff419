"""The progress display: its counts, and no output without a terminal."""

from __future__ import annotations

from typing import Any

import pytest

from statewright.cli.console.progress import NodeProgress, Progress


def started(task_id: str, name: str) -> dict[str, Any]:
    return {"id": task_id, "name": name, "input": {}}


def finished(task_id: str, name: str, error: str | None = None) -> dict[str, Any]:
    return {"id": task_id, "name": name, "error": error, "interrupts": [], "result": None}


def counts(node: NodeProgress) -> tuple[int, int, int]:
    return node.running, node.finished, node.failed


@pytest.mark.parametrize(
    ("parts", "counted"),
    [
        ([], {}),
        ([started("1", "a")], {"a": (1, 0, 0)}),
        ([started("1", "a"), finished("1", "a")], {"a": (0, 1, 0)}),
        ([started("1", "a"), finished("1", "a", "ValueError: no")], {"a": (0, 1, 1)}),
        ([started("1", "a"), started("2", "a"), finished("2", "a")], {"a": (1, 1, 0)}),
        ([started("1", "b"), started("2", "a")], {"b": (1, 0, 0), "a": (1, 0, 0)}),
        ([started("1", "a"), finished("1", "a"), started("2", "a"), finished("2", "a")], {"a": (0, 2, 0)}),
    ],
)
def test_tasks_are_counted_per_node(parts: list[dict[str, Any]], counted: dict[str, Any]) -> None:
    with Progress() as progress:
        for part in parts:
            progress.record(part)
    assert {name: counts(node) for name, node in progress.nodes.items()} == counted


def test_nodes_are_listed_in_the_order_in_which_they_started() -> None:
    with Progress() as progress:
        for name in ("c", "a", "b", "a"):
            progress.record(started(name, name))
    assert list(progress.nodes) == ["c", "a", "b"]


def test_there_is_no_output_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress() as progress:
        progress.record(started("1", "a"))
        progress.record(finished("1", "a"))
    assert capsys.readouterr() == ("", "")


def test_a_terminal_shows_each_node_with_its_number_of_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    with Progress() as progress:
        for part in (started("1", "fetch"), finished("1", "fetch"), started("2", "[odd]"), finished("2", "[odd]", "E")):
            progress.record(part)
    output = capsys.readouterr()
    assert output.out == ""
    assert "fetch" in output.err
    assert "1×" in output.err


def test_a_node_name_that_looks_like_markup_is_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    with Progress() as progress:
        progress.record(started("1", "odd [red] name"))
        progress.record(finished("1", "odd [red] name"))
    assert "odd [red] name" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["[/red]", "a[/]b"])
def test_a_node_name_that_looks_like_a_closing_tag_is_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    with Progress() as progress:
        progress.record(started("1", name))
    assert name in capsys.readouterr().err


def test_the_end_of_a_task_without_a_start_is_counted() -> None:
    with Progress() as progress:
        progress.record(finished("1", "a"))
    assert progress.nodes["a"].finished == 1


def test_an_error_inside_the_block_is_raised() -> None:
    with pytest.raises(ValueError, match="no luck"), Progress():
        raise ValueError("no luck")


def due(*names: str) -> dict[str, Any]:
    return {"checkpoint_id": "c", "step": 1, "values": {}, "next": list(names), "tasks": []}


def waits(task_id: str, name: str, kind: str) -> dict[str, Any]:
    return {**finished(task_id, name), "interrupts": [{"id": "i", "value": "?", "kind": kind}]}


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        ([due("a", "a", "a"), started("1", "a")], "0 of 3"),
        ([due("a", "a", "a"), started("1", "a"), finished("1", "a"), started("2", "a")], "1 of 3"),
        ([due("a"), started("1", "a"), finished("1", "a"), due("a"), started("2", "a"), finished("2", "a")], "2×"),
        ([due("a", "a"), started("1", "a"), finished("1", "a"), started("2", "a"), finished("2", "a")], "2×"),
        ([started("1", "a"), waits("1", "a", "question")], "waiting for an answer"),
        ([started("1", "a"), waits("1", "a", "timer")], "waiting for a timer"),
        (
            [started("1", "a"), waits("1", "a", "event"), started("2", "a"), waits("2", "a", "event")],
            "waiting for an event",
        ),
        (
            [started("1", "a"), finished("1", "a"), started("2", "a"), waits("2", "a", "question")],
            "1×, waiting for an answer",
        ),
    ],
)
def test_the_text_of_a_node_has_its_progress_and_waits(parts: list[dict[str, Any]], text: str) -> None:
    with Progress() as progress:
        for part in parts:
            progress.record(part)
    assert progress.nodes["a"].text == text


def test_the_time_of_concurrent_tasks_is_not_added_up(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([10.0, 13.0])
    monkeypatch.setattr("time.monotonic", lambda: next(times))
    with Progress() as progress:
        for part in (started("1", "a"), started("2", "a"), finished("1", "a"), finished("2", "a")):
            progress.record(part)
    assert progress.nodes["a"].seconds == 3.0
