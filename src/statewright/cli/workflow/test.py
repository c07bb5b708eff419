"""`statewright test`: run the test cases of a workflow without calling models."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple
from xml.etree import ElementTree

import typer

from statewright.cli.console.failure import FAILED, UsageError, report_os_errors
from statewright.cli.console.printing import say
from statewright.cli.workflow.load import is_workflow

if TYPE_CHECKING:
    from statewright.workflow.states import Workflow


class CaseResult(NamedTuple):
    """The result of a test case, which passed if it has no failures."""

    file: str
    name: str
    seconds: float
    failures: Sequence[str]


def test(
    target: Annotated[str, typer.Argument(metavar="FILE", help="A workflow in YAML.")],
    cases: Annotated[list[Path], typer.Argument(metavar="CASES", help="JSON files with test cases.")],
    junit: Annotated[Path | None, typer.Option("--junit", metavar="PATH", help="Also write a JUnit report.")] = None,
) -> None:
    """Run the test cases of a workflow with scripted outputs instead of models. Exits with 1 if a case fails."""
    from statewright.workflow.states import load_workflow

    if not is_workflow(target):
        raise UsageError(f"{target!r} is not a workflow in YAML. Test Python graphs with pytest.")
    workflow = load_workflow(Path(target))
    results = [result for path in cases for result in _run_file(workflow, path)]
    for result in results:
        say(f"{'FAIL' if result.failures else 'ok':4}  {result.name}")
        for failure in result.failures:
            say(f"      {failure}")
    failed = sum(bool(result.failures) for result in results)
    say(f"{len(results) - failed} of {len(results)} cases passed")
    if junit is not None:
        _write_report(junit, target, results)
    if failed:
        raise SystemExit(FAILED)


def _run_file(workflow: Workflow, path: Path) -> list[CaseResult]:
    from statewright.workflow.states.cases import read_cases, run_case

    results: list[CaseResult] = []
    for number, case in enumerate(read_cases(path), 1):
        started_at = time.perf_counter()
        failures = run_case(workflow, case)
        name = f"{case.get('id', number)}  {case.get('rule', '')}".rstrip()
        results.append(CaseResult(str(path), name, time.perf_counter() - started_at, failures))
    return results


def _write_report(path: Path, target: str, results: Sequence[CaseResult]) -> None:
    suite = ElementTree.Element(
        "testsuite",
        name=target,
        tests=str(len(results)),
        failures=str(sum(bool(result.failures) for result in results)),
        time=f"{sum(result.seconds for result in results):.3f}",
    )
    for result in results:
        case = ElementTree.SubElement(
            suite, "testcase", classname=result.file, name=result.name, time=f"{result.seconds:.3f}"
        )
        if result.failures:
            failure = ElementTree.SubElement(case, "failure", message=result.failures[0])
            failure.text = "\n".join(result.failures)
    with report_os_errors(f"The report cannot be written to {str(path)!r}"):
        ElementTree.ElementTree(suite).write(path, encoding="utf-8", xml_declaration=True)
