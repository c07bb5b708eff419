"""Measure a Python source tree and write a report: a fan-out, a join, and a conditional edge.

    python examples/audit/audit.py FOLDER [REPORT]

`plan` finds the files and sends each to `measure`. When all files are measured, `judge` evaluates the results, and the
graph continues with `rank` if a function exceeds the limits, or directly with `report`.
"""

from __future__ import annotations

import operator
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict

from measure import FileMeasure, FunctionMeasure, measure_file
from progress import show_progress
from report import write_report

from statewright import START, CompiledGraph, Send, StateGraph

SKIPPED = {"__pycache__", "node_modules", "build", "dist", "out", "site-packages"}
LONG, DEEP, COMPLEX = 50, 5, 15
"""Limits of a function: lines, nesting, complexity."""

Finding = tuple[str, FunctionMeasure]
"""A file, and one of its functions that exceeds the limits."""


class Order(TypedDict):
    """The input: the folder to measure, and the path of the report."""

    root: str
    report: str


class Audit(Order):
    """The state: the input, the measurements, and the conclusions."""

    files: list[str]
    measures: Annotated[list[FileMeasure], operator.add]
    findings: list[Finding]
    advice: list[str]


class OneFile(TypedDict):
    """The input of `measure`: the argument of a Send."""

    root: str
    path: str


def plan(state: Audit) -> dict[str, Any]:
    """Find the Python files, in a deterministic order."""
    return {"files": sorted(str(path) for path in python_files(Path(state["root"])))}


def fan_out(state: Audit) -> list[Send] | Literal["judge"]:
    """Send each file to a task of its own; without files, continue with the next node."""
    return [Send("measure", OneFile(root=state["root"], path=path)) for path in state["files"]] or "judge"


def measure(task: OneFile) -> dict[str, Any]:
    """Measure one file. The results of all tasks are joined in the order of the files."""
    return {"measures": [measure_file(Path(task["root"]), Path(task["path"]))]}


def judge(state: Audit) -> dict[str, Any]:
    """Pick the functions that exceed the limits."""
    findings = [
        (file.path, function) for file in state["measures"] for function in file.functions if stands_out(function)
    ]
    return {"findings": findings}


def after_judge(state: Audit) -> Literal["rank", "report"]:
    return "rank" if state["findings"] else "report"


def rank(state: Audit) -> dict[str, Any]:
    """Sort by difficulty, and suggest an improvement for each."""
    ranked = sorted(state["findings"], key=lambda finding: hardness(finding[1]), reverse=True)
    return {"findings": ranked, "advice": [advice_for(function) for _, function in ranked]}


def report(state: Audit) -> None:
    """Write the report, with a drawing of this graph."""
    write_report(Path(state["report"]), state, build().get_graph().draw_mermaid())


def build() -> CompiledGraph:
    """Return the compiled graph."""
    graph = StateGraph(Audit, input_schema=Order, name="audit")
    graph.add_node("plan", plan)
    graph.add_node("measure", measure)
    graph.add_node("judge", judge)
    graph.add_node("rank", rank)
    graph.add_node("report", report)
    graph.add_edge(START, "plan")
    graph.add_conditional_edges("plan", fan_out, ["measure", "judge"])
    graph.add_edge("measure", "judge")
    graph.add_conditional_edges("judge", after_judge)
    graph.add_edge("rank", "report")
    graph.set_finish_point("report")
    return graph.compile()


def python_files(root: Path) -> Iterator[Path]:
    """Yield the Python files under a folder, or the file itself. Caches, environments and links are skipped."""
    if root.is_file():
        yield root
        return
    for folder, folders, files in os.walk(root):
        folders[:] = [name for name in folders if name not in SKIPPED and not name.startswith(".")]
        yield from (Path(folder, name) for name in files if name.endswith(".py"))


def stands_out(function: FunctionMeasure) -> bool:
    return function.length >= LONG or function.nesting >= DEEP or function.complexity >= COMPLEX


def hardness(function: FunctionMeasure) -> float:
    """Return by how much a function exceeds the three limits together."""
    return function.length / LONG + function.nesting / DEEP + function.complexity / COMPLEX


def advice_for(function: FunctionMeasure) -> str:
    """Suggest an improvement for the measure that exceeds its limit most."""
    by_excess = {
        "split it: one idea per function": function.length / LONG,
        "return early, or give the inner block a name": function.nesting / DEEP,
        "turn branches into data, or into functions of their own": function.complexity / COMPLEX,
    }
    return max(by_excess, key=by_excess.__getitem__)


def main() -> int:
    root = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    report_path = Path(sys.argv[2] if len(sys.argv) > 2 else "out/audit.md")
    if not root.exists():
        print(
            f"File or folder {str(root)!r} does not exist. Choose another one: make demo path=FOLDER", file=sys.stderr
        )
        return 2
    started = time.perf_counter()
    state = show_progress(build(), Order(root=str(root), report=str(report_path)))
    functions = [(file.path, function) for file in state["measures"] for function in file.functions]
    path, longest = max(functions, key=lambda entry: entry[1].length, default=("", None))
    print(f"Measured in {time.perf_counter() - started:.1f} s; the report is {report_path}.")
    if longest is not None:
        print(f"The longest function is {longest.name} in {path}, line {longest.line}.")
    print(f"files: {len(state['files'])}")
    print(f"functions: {len(functions)}")
    print(f"longest function: {longest.length if longest is not None else 0}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
