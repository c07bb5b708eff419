"""`[handlers]`."""

from __future__ import annotations

from pathlib import Path

from tests.unit.project.conftest import problems, read


def test_modules_are_named_once(folder: Path) -> None:
    assert read('[handlers]\nmodules = ["a.b", "c", "a.b"]', folder).handler_modules == ("a.b", "c")


def test_what_is_no_module_is_told(folder: Path) -> None:
    found = problems('[handlers]\nmodules = ["flows/mail", "b", "mail.py"]', folder)
    assert [one.split("): ")[1].partition(". ")[0] for one in found] == [
        "'flows/mail' is not a valid module name",
        "'mail.py' is not a valid module name",
    ]


def test_a_key_that_is_not_known_is_wrong(folder: Path) -> None:
    assert "Did you mean 'modules'?" in problems('[handlers]\nmodule = "c"', folder)[0]
