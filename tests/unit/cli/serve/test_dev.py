"""`statewright dev`: who is let in, and what is refused before anything is served."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.cli.conftest import Command

from statewright.cli.console.failure import UsageError
from statewright.cli.serve.serve import choose_auth
from statewright.cli.serve.server import ServerLocation


def test_on_this_machine_nobody_is_asked_for_a_key(folder: Path) -> None:
    assert choose_auth(ServerLocation(host="127.0.0.1", port=0, database=folder / "a.db")) == "none"
    assert not (folder / "a.db").exists()


def test_elsewhere_a_key_must_be_there(folder: Path, statewright: Command) -> None:
    place = ServerLocation(host="0.0.0.0", port=0, database=folder / "a.db")
    with pytest.raises(UsageError, match=f"statewright keys create NAME --database {folder}/a.db"):
        choose_auth(place)
    statewright("keys", "create", "me", "--database", folder / "a.db")
    assert choose_auth(place) == "keys"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--no-reload",), "There is no statewright.toml"),
        ((), "There is no statewright.toml"),
        (("flow.py", "--host", "0.0.0.0", "--no-reload"), "statewright keys create NAME"),
        (("flow.py", "--database", "memory:", "--no-reload"), "durable runs must be saved"),
        (("flow.py:nobody", "--no-reload"), "has no graph 'nobody'"),
        (("flow.py", "--base-url", "http://127.0.0.1:1", "--no-reload"), "Give --model MODEL too."),
    ],
)
def test_what_can_not_be_served_is_one_sentence(
    folder: Path, flow: Path, statewright: Command, words: tuple[str, ...], said: str
) -> None:
    flow.write_text(flow.read_text(encoding="utf-8").partition("wrong =")[0], encoding="utf-8")
    (folder / ".git").mkdir()
    ended = statewright("dev", *words)
    assert (ended.code, ended.out) == (2, "")
    assert said in ended.err


def test_a_graph_that_is_wrong_is_told_with_all_its_problems(flow: Path, statewright: Command) -> None:
    ended = statewright("dev", "flow.py:wrong", "--no-reload")
    assert ended.code == 2
    assert all(one in ended.err for one in ("'bb'", "'cc'"))
