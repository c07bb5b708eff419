"""The section `[handlers]`."""

from __future__ import annotations

from pathlib import Path

from tests.unit.project.conftest import read, read_problems


def test_repeated_modules_are_listed_once(folder: Path) -> None:
    assert read('[handlers]\nmodules = ["a.b", "c", "a.b"]', folder).handler_modules == ("a.b", "c")


def test_invalid_module_names_are_problems(folder: Path) -> None:
    messages = read_problems('[handlers]\nmodules = ["flows/mail", "b", "mail.py"]', folder)
    assert [message.split("): ")[1].partition(". ")[0] for message in messages] == [
        "'flows/mail' is not a valid module name",
        "'mail.py' is not a valid module name",
    ]


def test_an_unknown_key_is_a_problem(folder: Path) -> None:
    assert "Did you mean 'modules'?" in read_problems('[handlers]\nmodule = "c"', folder)[0]
