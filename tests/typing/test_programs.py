"""User programs under strict type checkers: correct programs are clean, and errors are reported at their lines.

A comment marks each line of a wrong program that the checkers must report, `# pyright=<rule> mypy=<code>`, or only one
of the two. No other line may be reported.
"""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import pytest

HERE = Path(__file__).parent
CORRECT = sorted((HERE / "correct").glob("*.py"))
WRONG = sorted((HERE / "wrong").glob("*.py"))
EXAMPLES = sorted(path for path in (HERE.parents[1] / "examples").iterdir() if any(path.glob("*.py")))
MARK = re.compile(r"# (?:pyright=(?P<pyright>\w+))? ?(?:mypy=(?P<mypy>[\w-]+))?$")
Reports = dict[Path, dict[int, set[str]]]
"""The rules that a checker reports, by file and line."""


def collect(reports: Iterable[tuple[str, int, str]]) -> Reports:
    by_file: Reports = defaultdict(lambda: defaultdict(set))
    for file, line, rule in reports:
        by_file[HERE.joinpath(file).resolve()][line].add(rule)
    return by_file


@pytest.fixture(scope="module")
def pyright_reports() -> Reports:
    command = [sys.executable, "-m", "pyright", "--project", str(HERE), "--outputjson"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    report = json.loads(result.stdout)
    example_count = sum(1 for folder in EXAMPLES for _ in folder.rglob("*.py"))
    assert report["summary"]["filesAnalyzed"] == len(CORRECT) + len(WRONG) + example_count, result.stderr
    return collect(
        (entry["file"], entry["range"]["start"]["line"] + 1, entry.get("rule", "syntax"))
        for entry in report["generalDiagnostics"]
    )


@pytest.fixture(scope="module")
def mypy_reports() -> Reports:
    command = [sys.executable, "-m", "mypy", "--config-file", "mypy.ini", "--output", "json", "correct", "wrong"]
    result = subprocess.run(command, capture_output=True, text=True, check=False, cwd=HERE)
    assert result.returncode in (0, 1), result.stdout + result.stderr
    entries = map(json.loads, filter(None, result.stdout.splitlines()))
    return collect((entry["file"], entry["line"], entry["code"]) for entry in entries if entry["severity"] == "error")


def expected(path: Path, checker: str) -> dict[int, str]:
    """Return the rule that a checker must name, by line."""
    lines = enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
    marks = ((number, MARK.search(line)) for number, line in lines)
    return {number: mark[checker] for number, mark in marks if mark is not None and mark[checker] is not None}


@pytest.mark.parametrize("checker", ["pyright", "mypy"])
@pytest.mark.parametrize("path", [*CORRECT, *WRONG], ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_checker_reports_exactly_the_marked_lines(path: Path, checker: str, request: pytest.FixtureRequest) -> None:
    reports: Reports = request.getfixturevalue(f"{checker}_reports")
    by_line, rules = reports[path.resolve()], expected(path, checker)
    assert by_line.keys() == rules.keys(), by_line
    assert all(rule in by_line[line] for line, rule in rules.items()), by_line


@pytest.mark.parametrize("path", CORRECT, ids=lambda path: path.stem)
def test_a_correct_program_runs(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"typed_program_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, module)  # where the annotations of a state are resolved
    spec.loader.exec_module(module)
    module.main()


@pytest.mark.parametrize("path", WRONG, ids=lambda path: path.stem)
def test_a_wrong_program_has_marked_lines(path: Path) -> None:
    assert expected(path, "pyright") or expected(path, "mypy")


examples = pytest.mark.parametrize("folder", EXAMPLES, ids=lambda path: path.name)


@examples
def test_the_examples_are_clean_for_pyright(folder: Path, pyright_reports: Reports) -> None:
    assert {path: lines for path, lines in pyright_reports.items() if path.is_relative_to(folder) and lines} == {}


@examples
def test_the_examples_are_clean_for_mypy(folder: Path) -> None:
    modules = [path.name for path in sorted(folder.glob("*.py"))]
    command = [sys.executable, "-m", "mypy", "--config-file", str(HERE / "mypy.ini"), *modules]
    result = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    assert result.returncode == 0, result.stdout + result.stderr


def test_every_example_is_configured_for_pyright() -> None:
    settings = json.loads((HERE / "pyrightconfig.json").read_text(encoding="utf-8"))
    roots = {HERE.joinpath(environment["root"]).resolve() for environment in settings["executionEnvironments"]}
    assert roots == {HERE, *EXAMPLES}


def test_there_are_enough_programs() -> None:
    assert len(CORRECT) >= 20
    assert len(WRONG) >= 20
