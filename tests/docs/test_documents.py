"""The code in the documents runs, their links have targets, and their headings are complete."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from statewright import errors
from statewright.cli.commands import build_members

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.M | re.S)
LINK = re.compile(r"\]\(([^)#]+)\)")
WITH_CODE = [path for path in DOCUMENTS if BLOCK.search(path.read_text(encoding="utf-8"))]


@pytest.mark.parametrize("path", WITH_CODE, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_python_block_runs(path: Path) -> None:
    """The blocks of one document share a namespace, as a reader would expect."""
    names: dict[str, object] = {"__name__": "document"}
    for block in BLOCK.findall(path.read_text(encoding="utf-8")):
        exec(compile(block, str(path), "exec", dont_inherit=True), names)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_relative_link_has_a_target(path: Path) -> None:
    links = [link for link in LINK.findall(path.read_text(encoding="utf-8")) if "://" not in link]
    assert [link for link in links if not (path.parent / link).exists()] == []


def test_every_error_has_a_heading() -> None:
    text = (ROOT / "docs/guide/errors.md").read_text(encoding="utf-8")
    classes = [name for name in errors.__all__ if name[0].isupper() and name != "Problem"]
    assert [name for name in classes if f"## {name}\n" not in text] == []


def test_every_command_has_a_heading() -> None:
    text = (ROOT / "docs/guide/cli.md").read_text(encoding="utf-8")
    headings = set(re.findall("^#+ (.+)$", text, re.M))
    commands = build_members()
    groups = {name: group.commands for name, group in commands.items() if hasattr(group, "commands")}
    nested = [f"{group} {name}" for group, members in groups.items() for name in members]
    assert [name for name in [*commands, *nested] if name not in headings] == []


def test_decisions_are_numbered_without_gaps() -> None:
    numbers = sorted(int(path.name[:4]) for path in (ROOT / "docs/decisions").glob("*.md"))
    assert numbers == list(range(1, len(numbers) + 1))
