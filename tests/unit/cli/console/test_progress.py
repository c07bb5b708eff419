"""Progress: what is counted, and that nothing is said where nobody looks."""

from __future__ import annotations

from typing import Any

import pytest

from statewright.cli.console.progress import NodeProgress, Progress


def started(identity: str, name: str) -> dict[str, Any]:
    return {"id": identity, "name": name, "input": {}}


def finished(identity: str, name: str, error: str | None = None) -> dict[str, Any]:
    return {"id": identity, "name": name, "error": error, "interrupts": [], "result": None}


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
def test_tasks_are_counted_node_by_node(parts: list[dict[str, Any]], counted: dict[str, Any]) -> None:
    with Progress() as progress:
        for part in parts:
            progress.take(part)
    assert {name: counts(node) for name, node in progress.nodes.items()} == counted


def test_nodes_are_listed_in_the_order_in_which_they_started() -> None:
    with Progress() as progress:
        for name in ("c", "a", "b", "a"):
            progress.take(started(name, name))
    assert list(progress.nodes) == ["c", "a", "b"]


def test_nothing_is_said_where_standard_error_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress() as progress:
        progress.take(started("1", "a"))
        progress.take(finished("1", "a"))
    assert capsys.readouterr() == ("", "")


def test_a_terminal_shows_each_node_with_how_often_it_ran(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    with Progress() as progress:
        for part in (started("1", "fetch"), finished("1", "fetch"), started("2", "[odd]"), finished("2", "[odd]", "E")):
            progress.take(part)
    said = capsys.readouterr()
    assert said.out == ""
    assert "fetch" in said.err
    assert "1×" in said.err


def test_a_node_named_like_markup_is_shown_by_its_name(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    with Progress() as progress:
        progress.take(started("1", "odd [red] name"))
        progress.take(finished("1", "odd [red] name"))
    assert "odd [red] name" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["[/red]", "a[/]b"])
def test_a_name_that_closes_no_markup_ends_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    with Progress() as progress:
        progress.take(started("1", name))
    assert name in capsys.readouterr().err


def test_the_end_of_a_task_whose_start_was_not_seen_is_counted() -> None:
    with Progress() as progress:
        progress.take(finished("1", "a"))
    assert progress.nodes["a"].finished == 1


def test_an_error_inside_goes_on_outside() -> None:
    with pytest.raises(ValueError, match="no luck"), Progress():
        raise ValueError("no luck")


def due(*names: str) -> dict[str, Any]:
    return {"checkpoint_id": "c", "step": 1, "values": {}, "next": list(names), "tasks": []}


def waits(identity: str, name: str, kind: str) -> dict[str, Any]:
    return {**finished(identity, name), "interrupts": [{"id": "i", "value": "?", "kind": kind}]}


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        ([due("a", "a", "a"), started("1", "a")], "0 of 3"),
        ([due("a", "a", "a"), started("1", "a"), finished("1", "a"), started("2", "a")], "1 of 3"),
        ([due("a"), started("1", "a"), finished("1", "a"), due("a"), started("2", "a"), finished("2", "a")], "2×"),
        ([due("a", "a"), started("1", "a"), finished("1", "a"), started("2", "a"), finished("2", "a")], "2×"),
        ([started("1", "a"), waits("1", "a", "question")], "waits for an answer"),
        ([started("1", "a"), waits("1", "a", "timer")], "waits for a timer"),
        (
            [started("1", "a"), waits("1", "a", "event"), started("2", "a"), waits("2", "a", "event")],
            "waits for an event",
        ),
        (
            [started("1", "a"), finished("1", "a"), started("2", "a"), waits("2", "a", "question")],
            "1×, waits for an answer",
        ),
    ],
)
def test_a_node_says_how_far_it_is_and_what_it_waits_for(parts: list[dict[str, Any]], text: str) -> None:
    with Progress() as progress:
        for part in parts:
            progress.take(part)
    assert progress.nodes["a"].text == text


def test_tasks_that_run_at_the_same_time_are_not_added_up(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([10.0, 13.0])
    monkeypatch.setattr("time.monotonic", lambda: next(times))
    with Progress() as progress:
        for part in (started("1", "a"), started("2", "a"), finished("1", "a"), finished("2", "a")):
            progress.take(part)
    assert progress.nodes["a"].seconds == 3.0
