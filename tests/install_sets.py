"""Environments with the distributions that `pip install WHEEL[EXTRA]` would install, created without a network.

The required distributions are found in the metadata of the wheel and of the environment of the tests. Their files are
linked into a new virtual environment, as whole folders if no other distribution has files in these.
"""

from __future__ import annotations

import os
import subprocess
import sys
import venv
import zipfile
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from email.parser import Parser
from functools import cache
from importlib.metadata import Distribution, distribution, distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]


def build_wheel(folder: Path) -> Path:
    """Build the wheel of the project into a folder."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    environment = {**os.environ, "STATEWRIGHT_WITHOUT_PAGE": "1"}  # unless `make test` has built it
    subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


@dataclass(frozen=True)
class Installation:
    """A virtual environment with the wheel and some of its extras."""

    folder: Path

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    @property
    def statewright(self) -> Path:
        return self.folder / "bin" / "statewright"

    def run(self, *command: str | Path, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a command in a clean environment; its first word is a program of the installation."""
        program, *words = (str(word) for word in command)
        return subprocess.run(
            [str(self.folder / "bin" / program), *words],
            cwd=cwd,
            env=self.environment(**variables),
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            check=False,
        )

    def environment(self, **variables: str) -> dict[str, str]:
        return {"PATH": os.environ.get("PATH", ""), "HOME": str(self.folder), "PYTHONWARNINGS": "error", **variables}


def install(wheel: Path, extras: Iterable[str], folder: Path, python: Path | None = None) -> Installation:
    """Create an environment with a wheel, some of its extras, and the distributions that they require.

    By default it has the Python of the tests. `python` is another one of the same version.
    """
    if python is None:
        venv.create(folder, symlinks=True, with_pip=False)
    else:
        subprocess.run([python, "-m", "venv", "--symlinks", "--without-pip", folder], check=True, capture_output=True)
    installation = Installation(folder)
    (packages,) = folder.glob("lib/python*/site-packages")
    _link(required_distributions(_requirements_in(wheel), frozenset(extras)), packages)
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(packages)
    script = f"#!{installation.python}\nimport sys\nfrom statewright.cli.main import main\nsys.exit(main())\n"
    installation.statewright.write_text(script, encoding="utf-8")
    installation.statewright.chmod(0o755)
    return installation


def required_distributions(requirements: Iterable[str], extras: frozenset[str]) -> list[Distribution]:
    """Return the distributions that some requirements with extras need, each once."""
    waiting = list(_selected(requirements, extras))
    seen: dict[tuple[str, frozenset[str]], Distribution] = {}
    while waiting:
        requirement = waiting.pop()
        key = (canonicalize_name(requirement.name), frozenset(requirement.extras))
        if key in seen:
            continue
        if key[0] == "statewright":  # an extra may name other extras of the package
            waiting += _selected(requirements, key[1])
            continue
        seen[key] = distribution(requirement.name)
        waiting += _selected(seen[key].requires or (), key[1])
    return list({item.name: item for item in seen.values()}.values())


def _selected(requirements: Iterable[str], extras: frozenset[str]) -> Iterator[Requirement]:
    for text in requirements:
        requirement = Requirement(text)
        marker = requirement.marker
        if marker is None or any(marker.evaluate({"extra": extra}) for extra in extras or {""}):
            yield requirement


def _requirements_in(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return Parser().parsestr(archive.read(name).decode()).get_all("Requires-Dist") or []


def _link(selected: Iterable[Distribution], packages: Path) -> None:
    for item in selected:
        for name in _linked_names(item):
            target = packages / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.symlink_to(Path(str(item.locate_file(name))))


def _linked_names(item: Distribution) -> set[str]:
    """Return the files and folders that belong to a distribution alone, including those in shared folders."""
    names: set[str] = set()
    for file in _files_of(item):
        parts = file.split("/")
        depth = 1
        while depth < len(parts) and "/".join(parts[:depth]) in _shared_folders():
            depth += 1
        names.add("/".join(parts[:depth]))
    return names


@cache
def _shared_folders() -> frozenset[str]:
    """Return the folders in which several distributions of the environment of the tests have files."""
    owners: dict[str, set[str]] = defaultdict(set)
    for item in distributions():
        for folder in {folder for file in _files_of(item) for folder in _folders_above(file)}:
            owners[folder].add(item.name)
    return frozenset(folder for folder, names in owners.items() if len(names) > 1)


def _folders_above(file: str) -> Iterator[str]:
    end = file.find("/")
    while end != -1:
        yield file[:end]
        end = file.find("/", end + 1)


def _files_of(item: Distribution) -> list[str]:
    # `Distribution.files` is slow: it creates a path for each of tens of thousands of files.
    record = item.read_text("RECORD") or ""
    files = (line.rsplit(",", 2)[0].strip('"') for line in record.splitlines())
    return [file for file in files if not file.startswith(("..", "/", "__pycache__"))]
