"""Files and modules that are imported."""

from __future__ import annotations

from pathlib import Path

import pytest

from statewright.cli.console.failure import UsageError
from statewright.cli.workflow.load import import_from_folder, import_target


def test_a_file_and_a_module_by_its_name_are_imported(folder: Path) -> None:
    (folder / "parts").mkdir()
    (folder / "parts" / "told.py").write_text("NAME = 'told'\n", encoding="utf-8")
    assert vars(import_target("parts/told.py"))["NAME"] == "told"
    assert vars(import_target("parts.told"))["NAME"] == "told"


@pytest.mark.parametrize("name", ["no_such_module", "no_such_package.module"])
def test_what_is_neither_is_said_so(folder: Path, name: str) -> None:
    with pytest.raises(UsageError, match="no file and no module"):
        import_target(name)


def test_a_module_that_misses_another_one_names_that(folder: Path) -> None:
    (folder / "lacking.py").write_text("import there_is_no_such_module\n", encoding="utf-8")
    with pytest.raises(UsageError, match=r"cannot be imported: ModuleNotFoundError: .*there_is_no_such_module"):
        import_target("lacking")


def test_a_project_names_files_and_modules_from_its_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "project" / "pkg").mkdir(parents=True)
    (folder / "project" / "pkg" / "__init__.py").write_text("NAME = 'package'\n", encoding="utf-8")
    (folder / "project" / "pkg" / "inner.py").write_text("from pkg import NAME\n", encoding="utf-8")
    (folder / "project" / "lone.py").write_text("from pkg.inner import NAME\n", encoding="utf-8")
    for named in ("pkg", "pkg.inner", "lone", "lone.py", "pkg/inner.py"):
        assert vars(import_from_folder(folder / "project", named))["NAME"] == "package"


def test_a_module_that_a_project_does_not_have_is_told(folder: Path) -> None:
    with pytest.raises(UsageError, match="no file and no module 'unknown_here'"):
        import_from_folder(folder, "unknown_here")
    with pytest.raises(UsageError, match="There is no file"):
        import_from_folder(folder, "unknown_here.py")
