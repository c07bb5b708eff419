"""The positions of the problems because of which a project cannot be loaded: of each the file, the line and the text.

Workflow files report positions themselves. An error of Python code belongs to the innermost line of the user's own
code. An invalid graph has no position, since it is found when the whole graph is compiled, so each of its problems
belongs to the line with most of the names that the problem quotes: `Edge 'plan' -> 'cat': ...` is where both stand.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from statewright.cli.console.failure import UsageError, find_user_frame
from statewright.errors import InvalidGraph, Problem, WorkflowError
from statewright.errors.base import code_of
from statewright.server.context.reload_status import LoadFailure, LoadProblem

_MAX_TEXT: Final = 500_000
"""Characters of a file that are shown."""
_QUOTED: Final = re.compile(r"'([^']+)'")


@dataclass(frozen=True, slots=True)
class FailedEntry:
    """An entry of a project that cannot be served."""

    error: Exception
    entry: Sequence[Problem]
    """The same error as problems of the entry in the project file."""
    file: Path | None
    """The file that the entry names, if it is known."""


class FailedEntries(Exception):
    """The cause of a WorkflowError about a project: all errors of its entries."""

    def __init__(self, entries: Sequence[FailedEntry]) -> None:
        super().__init__(f"{len(entries)} entries of the project cannot be served.")
        self.entries = entries


def describe_failure(error: BaseException, folder: Path) -> LoadFailure:
    """Describe an error that was raised while a project was loaded. Files are named relative to its folder."""
    problems = list(dict.fromkeys(_locate(error, None)))
    texts = {file: text for file in _files_of(problems) if (text := _read(file)) is not None}
    names = {file: _display(file, folder) for file in _files_of(problems)}
    shown = [replace(problem, file=names.get(problem.file or "")) for problem in problems]
    return LoadFailure(problems=shown, texts={names[file]: text for file, text in texts.items()})


def _files_of(problems: Sequence[LoadProblem]) -> list[str]:
    return list(dict.fromkeys(problem.file for problem in problems if problem.file is not None))


def _read(file: str) -> str | None:
    with suppress(OSError, UnicodeDecodeError):
        text = Path(file).read_text(encoding="utf-8")
        return text if len(text) <= _MAX_TEXT else None
    return None


def _display(file: str, folder: Path) -> str:
    path = Path(file).resolve()
    return path.relative_to(folder.resolve()).as_posix() if path.is_relative_to(folder.resolve()) else str(path)


# -- the position of an error


def _locate(error: BaseException, file: Path | None) -> Iterator[LoadProblem]:
    """Yield the problems of an error. `file` is where they are if nothing else is known."""
    match error:
        case WorkflowError(__cause__=FailedEntries() as failed):
            for entry in failed.entries:
                yield from _locate_entry(entry, error.source)
        case WorkflowError():
            source = Path(error.source) if Path(error.source).is_file() else file
            yield from (_problem_in(source, problem, error.code) for problem in error.problems)
        case InvalidGraph():
            yield from (_locate_by_names(problem, error, file) for problem in error.problems)
        case _:
            yield _locate_in_code(error, file)


def _locate_entry(failed: FailedEntry, project_file: str) -> Iterator[LoadProblem]:
    """Yield the problems of an entry, at the entry itself if they have no file of their own."""
    located = list(_locate(failed.error, failed.file))
    if any(problem.line is not None or problem.file is not None for problem in located):
        yield from located
        return
    source = Path(project_file) if Path(project_file).is_file() else None
    yield from (_problem_in(source, problem, code_of(failed.error)) for problem in failed.entry)


def _problem_in(file: Path | None, problem: Problem, code: str) -> LoadProblem:
    where = f"In {problem.path!r}: " if problem.path and not problem.line else ""
    return LoadProblem(
        file=str(file.resolve()) if file is not None else None,
        line=problem.line or None,
        column=problem.column or None,
        code=code,
        message=f"{where}{problem.message}",
        suggestion=problem.suggestion,
    )


def _locate_in_code(error: BaseException, file: Path | None) -> LoadProblem:
    raised = error.__cause__ if isinstance(error, UsageError) and error.__cause__ is not None else error
    if isinstance(raised, SyntaxError) and raised.filename:
        message = f"{raised.msg[:1].upper()}{raised.msg[1:]}."
        path, column = str(Path(raised.filename).resolve()), raised.offset or None
        return LoadProblem(file=path, line=raised.lineno, column=column, code="SyntaxError", message=message)
    frame = find_user_frame(raised)
    source = Path(frame.filename) if frame is not None else file
    message = str(raised) if isinstance(raised, UsageError) else f"{type(raised).__name__}: {raised}"
    return LoadProblem(
        file=str(source.resolve()) if source is not None else None,
        line=frame.lineno if frame is not None else None,
        code=code_of(raised),
        message=message,
    )


def _locate_by_names(problem: str, error: InvalidGraph, file: Path | None) -> LoadProblem:
    frame = find_user_frame(error)
    source = Path(frame.filename) if frame is not None else file
    line = _find_line(source, _QUOTED.findall(problem)) or (frame.lineno if frame is not None else None)
    name = str(source.resolve()) if source is not None else None
    return LoadProblem(file=name, line=line, code=error.code, message=problem)


def _find_line(file: Path | None, names: Sequence[str]) -> int | None:
    """Return the first line of a file that quotes most of the names; None if no line quotes any."""
    text = _read(str(file)) if file is not None else None
    if text is None:
        return None
    quoted = [set(re.findall(r"[\"']([^\"']+)[\"']", line)) for line in text.splitlines()]
    counts = [len(words.intersection(names)) for words in quoted]
    best = max(counts, default=0)
    return counts.index(best) + 1 if best else None
