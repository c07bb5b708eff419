"""The tools of the agents. A model sees the name, the docstring and the arguments of each function.

The runtime injects `repo` and `network`; the model does not see these parameters. Tools that take the network are
called one after another, so one answer may write a file and then run the tests.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from state import Edit, Plan, Run
from workspace import files_of, replace_file, run_suite

from statewright.agents import InjectedState, ModelRetry

Repo = Annotated[str, InjectedState("repo")]
"""A parameter that receives the field `repo` of the state."""


def list_files(repo: Repo) -> str:
    """List all files of the project, one per line."""
    return "\n".join(files_of(Path(repo)))


def read_file(path: str, repo: Repo) -> str:
    """Read a file of the project."""
    file = inside(repo, path)
    if not file.is_file():
        raise ModelRetry(f"File {path!r} does not exist. Files: {', '.join(files_of(Path(repo)))}.")
    return file.read_text(encoding="utf-8")


def create_plan(thoughts: str, details: str, edits: list[Edit], network: Run) -> str:
    """Submit the plan to fix the issue. Call it once you have read what you need.

    Args:
        thoughts: What is wrong, and why.
        details: What will be changed.
        edits: The files to change, each with the idea and the reason.
    """
    network.state.data.plan = Plan(thoughts, details, edits)
    return f"The plan has {len(edits)} edit{'' if len(edits) == 1 else 's'}."


def write_file(path: str, content: str, network: Run) -> str:
    """Write a whole file of the project, replacing an existing one. Tests cannot be changed."""
    repo = network.state.data.repo
    file = inside(repo, path)
    if file.is_relative_to(inside(repo, "tests")):
        raise ModelRetry(f"{path!r} is a test, and stays as it is. Change the code.")
    # A call that was in progress when the process died is repeated: writing the whole file twice is harmless.
    replace_file(file, content)
    return f"{len(content.splitlines())} lines were written."


def run_tests(network: Run) -> str:
    """Run the tests of the project."""
    passed, output = run_suite(Path(network.state.data.repo))
    return f"{'passed' if passed else 'failed'}\n{output}"


def done(summary: str, network: Run) -> str:
    """Report that the issue is fixed. Rejected while a test fails.

    Args:
        summary: What was changed, in a sentence or two.
    """
    passed, output = run_suite(Path(network.state.data.repo))
    if not passed:
        raise ModelRetry(f"The tests do not pass yet.\n{output}")
    network.state.data.done = True
    return summary


def inside(repo: str, path: str) -> Path:
    """Resolve a path in the project. Raises ModelRetry if it is outside of the project."""
    root = Path(repo).resolve()
    resolved = (root / path).resolve()
    if not resolved.is_relative_to(root):
        raise ModelRetry(f"{path!r} is not in the project. Name files as list_files does.")
    return resolved
