"""The tools of `flow.yaml`: plain functions that receive the arguments of a state and return a map."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from audit import COMPLEX, DEEP, LONG, advice_for, hardness, python_files, stands_out
from measure import FunctionMeasure, measure_file


def find_files(root: str) -> dict[str, Any]:
    """Find the Python files of a folder."""
    return {"root": root, "files": sorted(str(path) for path in python_files(Path(root)))}


def measure(root: str, path: str) -> dict[str, Any]:
    """Measure one file, and return the figures for the summary."""
    file = measure_file(Path(root), Path(path))
    longest = max(file.functions, key=lambda function: function.length, default=None)
    return {
        "measured": {
            "file": file.path,
            "lines": file.lines,
            "functions": len(file.functions),
            "longest": longest.length if longest is not None else 0,
            "problem": file.problem,
            "hard": [asdict(function) for function in file.functions if stands_out(function)],
        }
    }


def judge(measured: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    """Pick the functions that exceed the limits."""
    hard = [{"file": file["file"], **function} for file in measured or [] for function in file["hard"]]
    return {"found": len(hard), "findings": hard}


def rank(findings: list[dict[str, Any]]) -> dict[str, Any]:
    """Sort by difficulty, and suggest an improvement for each."""
    ranked = sorted(findings, key=lambda finding: hardness(_function(finding)), reverse=True)
    return {"findings": [{**finding, "advice": advice_for(_function(finding))} for finding in ranked]}


def _function(finding: dict[str, Any]) -> FunctionMeasure:
    return FunctionMeasure(**{name: finding[name] for name in ("name", "line", "length", "nesting", "complexity")})


def write(root: str, measured: list[dict[str, Any]] | None = None, findings: list[dict[str, Any]] | None = None) -> str:
    """Write the report, and return a short summary."""
    files, hard = measured or [], findings or []
    report = Path("out/audit-flow.md")
    report.parent.mkdir(parents=True, exist_ok=True)
    rows = [
        f"| {finding['file']}:{finding['line']} | {finding['name']} | {finding['length']} | {finding['advice']} |"
        for finding in hard
    ]
    limits = f"{LONG} lines, {DEEP} levels or a complexity of {COMPLEX}"
    head = [
        "# Audit",
        "",
        f"Functions over {limits}:",
        "",
        "| where | function | lines | advice |",
        "|---|---|---|---|",
    ]
    report.write_text("\n".join([*head, *rows]) + "\n", encoding="utf-8")
    return (
        f"The YAML workflow measured {root}, too; its report is {report}.\n"
        f"files: {len(files)}\n"
        f"functions: {sum(file['functions'] for file in files)}\n"
        f"longest function: {max((file['longest'] for file in files), default=0)}\n"
        f"functions that stand out: {len(hard)}"
    )
