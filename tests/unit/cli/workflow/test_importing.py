"""Importing files and modules."""

from __future__ import annotations

from pathlib import Path

import pytest

from statewright.cli.console.failure import UsageError
from statewright.cli.workflow.load import import_from_folder, import_target


def test_files_and_modules_are_imported(folder: Path) -> None:
    (folder / "parts").mkdir()
    (folder / "parts" / "names.py").write_text("NAME = 'value'\n", encoding="utf-8")
    assert vars(import_target("parts/names.py"))["NAME"] == "value"
    assert vars(import_target("parts.names"))["NAME"] == "value"


@pytest.mark.parametrize("name", ["no_such_module", "no_such_package.module"])
def test_a_missing_module_is_reported(folder: Path, name: str) -> None:
    with pytest.raises(UsageError, match="is neither a file nor a module"):
        import_target(name)


def test_a_missing_dependency_of_a_module_is_named(folder: Path) -> None:
    (folder / "lacking.py").write_text("import there_is_no_such_module\n", encoding="utf-8")
    with pytest.raises(UsageError, match=r"cannot be imported: ModuleNotFoundError: .*there_is_no_such_module"):
        import_target("lacking")


def test_files_and_modules_of_a_project_are_relative_to_its_folder(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "project" / "pkg").mkdir(parents=True)
    (folder / "project" / "pkg" / "__init__.py").write_text("NAME = 'package'\n", encoding="utf-8")
    (folder / "project" / "pkg" / "inner.py").write_text("from pkg import NAME\n", encoding="utf-8")
    (folder / "project" / "lone.py").write_text("from pkg.inner import NAME\n", encoding="utf-8")
    for name in ("pkg", "pkg.inner", "lone", "lone.py", "pkg/inner.py"):
        assert vars(import_from_folder(folder / "project", name))["NAME"] == "package"


def test_a_missing_module_of_a_project_is_reported(folder: Path) -> None:
    with pytest.raises(UsageError, match="'unknown_here' is neither a file nor a module"):
        import_from_folder(folder, "unknown_here")
    with pytest.raises(UsageError, match=r"File '.*unknown_here\.py' does not exist"):
        import_from_folder(folder, "unknown_here.py")
