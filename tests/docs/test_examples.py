"""The examples run on real and on unusual input."""

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


def figures(result: Ended) -> dict[str, int]:
    lines = [line.rpartition(": ") for line in result.stdout.splitlines()]
    return {name: int(number) for name, colon, number in lines if colon and number.isdigit()}


def test_the_audit_measures_the_project_itself(tmp_path: Path) -> None:
    # In another process: if garbage of other tests is collected while Python 3.11 parses in several threads, as the
    # example does, the parser may fail (python/cpython#106905).
    command = [sys.executable, str(ROOT / "examples/audit/audit.py"), str(ROOT / "src")]
    result = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=600, check=False)
    assert result.returncode == 0, result.stderr
    numbers = figures(result)
    assert numbers["files"] == sum(1 for _ in (ROOT / "src").rglob("*.py"))
    assert numbers["functions"] > 300
    report = (tmp_path / "out/audit.md").read_text(encoding="utf-8")
    assert "```mermaid" in report
    assert "| files |" in report


def test_the_audit_counts_files_and_functions(tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/a.py").write_text("def f():\n    if 1:\n        return 2\n# TODO: more\n", encoding="utf-8")
    (tmp_path / "tree/broken.py").write_text("def (", encoding="utf-8")
    (tmp_path / "tree/latin.py").write_bytes(b"# caf\xe9\n")
    (tmp_path / "tree/again").symlink_to(tmp_path / "tree")
    result = audit("tree", cwd=tmp_path)
    assert figures(result) == {"files": 3, "functions": 1, "longest function": 3}
    assert "broken.py" in (tmp_path / "out/audit.md").read_text(encoding="utf-8")


def test_the_audit_of_an_empty_folder_reports_zero(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert figures(audit("empty", cwd=tmp_path)) == {"files": 0, "functions": 0, "longest function": 0}


def test_the_audit_accepts_one_file(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text("def f(): ...\n", encoding="utf-8")
    assert figures(audit("one.py", cwd=tmp_path))["files"] == 1


def test_a_missing_path_is_reported_in_one_line_with_exit_code_2(tmp_path: Path) -> None:
    result = audit("nowhere", cwd=tmp_path)
    assert (result.returncode, len(result.stderr.splitlines())) == (2, 1)


def test_the_workflow_of_states_reports_the_same_numbers_as_the_graph(tmp_path: Path) -> None:
    flow_input = json.dumps({"root": str(ROOT / "src/statewright/channels")})
    flow = ROOT / "examples/audit/flow.yaml"
    result = programs.statewright("run", flow, "--input", flow_input, "--database", "memory:", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    expected = figures(audit(ROOT / "src/statewright/channels", cwd=tmp_path))
    assert {name: figures(result)[name] for name in expected} == expected
    assert (tmp_path / "out/audit-flow.md").exists()
