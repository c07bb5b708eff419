"""The build of the page: when it is needed, and what distributions contain."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]


@pytest.fixture
def build_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script, for a project in an empty folder."""
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    sys.modules.pop("build_page", None)
    import build_page  # type: ignore[import-not-found]

    monkeypatch.setattr(build_page, "SOURCES", tmp_path / "ui")
    monkeypatch.setattr(build_page, "BUILT", tmp_path / "built")
    (tmp_path / "ui" / "src").mkdir(parents=True)
    (tmp_path / "ui" / "package.json").write_text("{}")
    (tmp_path / "ui" / "src" / "main.ts").write_text("one")
    return build_page


def pretend_to_build(build_page: Any) -> None:
    build_page.BUILT.mkdir()
    (build_page.BUILT / "index.html").write_text("")
    (build_page.BUILT / build_page.STAMP).write_text(build_page.fingerprint())


def test_the_page_is_built_again_only_if_its_sources_have_changed(build_page: Any) -> None:
    assert not build_page.is_current()
    pretend_to_build(build_page)
    assert build_page.is_current()
    (build_page.SOURCES / "node_modules").mkdir()
    (build_page.SOURCES / "node_modules" / "package.js").write_text("x")
    assert build_page.is_current()
    (build_page.SOURCES / "src" / "main.ts").write_text("two")
    assert not build_page.is_current()


def test_a_distribution_without_sources_has_a_page_that_is_never_built(build_page: Any) -> None:
    pretend_to_build(build_page)
    (build_page.SOURCES / "package.json").unlink()
    assert build_page.is_current()
    assert build_page.main([]) == 0


def test_a_failed_build_is_an_error_unless_it_is_optional(
    build_page: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse() -> None:
        raise build_page.CannotBuild("Node is missing.")

    monkeypatch.setattr(build_page, "build", refuse)
    assert (build_page.main([]), build_page.main(["--if-possible"])) == (1, 0)
    assert capsys.readouterr().err.count("Node is missing.") == 2


def test_wheels_and_source_distributions_contain_the_built_page(tmp_path: Path) -> None:
    """The wheel is built from the source distribution, with a page of one file."""
    project = tmp_path / "project"
    for name in ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE", "CHANGELOG.md"):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, project / name)
    (project / "scripts").mkdir()
    shutil.copy(ROOT / "scripts" / "build_page.py", project / "scripts")
    built = project / "src" / "statewright" / "server" / "page" / "built"
    built.mkdir(parents=True)
    (built / "index.html").write_text("the page")
    (project / "src" / "statewright" / "__init__.py").write_text("")

    def build(target: str, folder: Path) -> Path:
        command = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(tmp_path / target)]
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
        (result,) = (tmp_path / target).iterdir()
        return result

    with tarfile.open(build("sdist", project)) as archive:
        archive.extractall(tmp_path / "unpacked", filter="data")
    (unpacked,) = (tmp_path / "unpacked").iterdir()
    with zipfile.ZipFile(build("wheel", unpacked)) as wheel:
        assert wheel.read("statewright/server/page/built/index.html") == b"the page"
