"""The examples run, on real and on awkward input."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests import programs
from tests.programs import Ended

ROOT = Path(__file__).parents[2]


def audit(*args: object, cwd: Path) -> Ended:
    return programs.script(ROOT / "examples/audit/audit.py", *args, cwd=cwd)


def figures(done: Ended) -> dict[str, int]:
    lines = [line.rpartition(": ") for line in done.stdout.splitlines()]
    return {name: int(number) for name, colon, number in lines if colon and number.isdigit()}


def test_the_audit_measures_the_project_itself(tmp_path: Path) -> None:
    # A process of its own: Python 3.11 may mistake the collection of others' garbage for a fault of its parser, which
    # several threads of the example use (python/cpython#106905).
    command = [sys.executable, str(ROOT / "examples/audit/audit.py"), str(ROOT / "src")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    shown = figures(done)
    assert shown["files"] == sum(1 for _ in (ROOT / "src").rglob("*.py"))
    assert shown["functions"] > 300
    report = (tmp_path / "out/audit.md").read_text(encoding="utf-8")
    assert "```mermaid" in report
    assert "| files |" in report


def test_the_audit_counts_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/a.py").write_text("def f():\n    if 1:\n        return 2\n# TODO: more\n", encoding="utf-8")
    (tmp_path / "tree/broken.py").write_text("def (", encoding="utf-8")
    (tmp_path / "tree/latin.py").write_bytes(b"# caf\xe9\n")
    (tmp_path / "tree/again").symlink_to(tmp_path / "tree")
    done = audit("tree", cwd=tmp_path)
    assert figures(done) == {"files": 3, "functions": 1, "longest function": 3}
    assert "broken.py" in (tmp_path / "out/audit.md").read_text(encoding="utf-8")


def test_the_audit_of_nothing_says_so(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert figures(audit("empty", cwd=tmp_path)) == {"files": 0, "functions": 0, "longest function": 0}


def test_the_audit_takes_one_file(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text("def f(): ...\n", encoding="utf-8")
    assert figures(audit("one.py", cwd=tmp_path))["files"] == 1


def test_a_missing_path_is_one_sentence_and_exit_2(tmp_path: Path) -> None:
    done = audit("nowhere", cwd=tmp_path)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)


def test_the_workflow_of_states_finds_what_the_graph_finds(tmp_path: Path) -> None:
    """Also from the command line, which needs no code but the tools."""
    given = json.dumps({"root": str(ROOT / "src/statewright/channels")})
    flow = ROOT / "examples/audit/flow.yaml"
    done = programs.statewright("run", flow, "--input", given, "--database", "memory:", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    other = figures(audit(ROOT / "src/statewright/channels", cwd=tmp_path))
    assert {name: figures(done)[name] for name in other} == other
    assert (tmp_path / "out/audit-flow.md").exists()
