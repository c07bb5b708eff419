"""The command lines, addresses, variables, probes and metrics in the deployment files and their guide exist."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from psycopg import pq
from tests.unit.deploy import deploy_files
from tests.unit.deploy.deploy_files import DEPLOY, GUIDE, ROOT, calls_in_text, command_lines, parse, texts

from statewright.server.routes.health import router
from statewright.storage.locations import parse_postgres_url

COMMANDS = command_lines()
TEXTS = texts()
CALLS = [(path, tuple(call)) for path, text in TEXTS.items() for call in calls_in_text(text)]
OF_COMPOSE = {"POSTGRES_USER", "POSTGRES_DB", "POSTGRES_PASSWORD"}
"""Variables of the image of Postgres."""


@pytest.mark.parametrize("place", COMMANDS)
def test_the_command_line_accepts_every_command(place: str) -> None:
    parse(COMMANDS[place])


@pytest.mark.parametrize(("path", "call"), CALLS, ids=lambda value: " ".join(value) if isinstance(value, tuple) else "")
def test_the_command_line_accepts_every_call_in_the_guide_and_in_comments(path: Path, call: Sequence[str]) -> None:
    parse(call)


EVERY_FORM = """Use `statewright workers ls`.
```sh
x exec a -- statewright keys create me | cat
  /opt/bin/statewright \\
  db migrate
key="$(kubectl exec a -- statewright keys create p --scope metrics:read)"
build statewright .
```
"""


def test_calls_are_found_in_all_the_forms_of_the_guide() -> None:
    assert [list(call) for call in calls_in_text(EVERY_FORM)] == [
        ["keys", "create", "me"],
        ["db", "migrate"],
        ["keys", "create", "p", "--scope", "metrics:read"],
        ["workers", "ls"],
    ]
    assert len([path for path, _ in CALLS if path == GUIDE]) > 10


@pytest.mark.parametrize("arguments", [["serve", "--prot", "1"], ["worker", "--port", "x"], ["db", "migrate", "more"]])
def test_a_wrong_command_line_is_noticed(arguments: Sequence[str]) -> None:
    with pytest.raises(Exception, match=r"No such option|valid integer|unexpected extra argument"):
        parse(arguments)


def test_every_variable_is_read_by_statewright_or_by_the_library_of_postgres() -> None:
    source = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py"))
    of_statewright = set(re.findall(r'"(STATEWRIGHT_[A-Z_]+)"', source))
    of_postgres = {option.envvar.decode() for option in pq.Conninfo.get_defaults() if option.envvar}
    for path, text in TEXTS.items():
        names = set(re.findall(r"\b(?:STATEWRIGHT_|PG)[A-Z_]+\b", text)) | set(
            re.findall(r"\bPOSTGRES_[A-Z_]+\b", text)
        )
        assert names - of_statewright - of_postgres - OF_COMPOSE == set(), path


def test_every_address_of_a_database_is_valid() -> None:
    addresses = [match for text in TEXTS.values() for match in re.findall(r"postgresql://[^\s'\"`]+", text)]
    assert len(addresses) >= 5
    for address in addresses:
        location = parse_postgres_url(address)
        pq.Conninfo.parse(location.url.encode())
        assert "password" not in location.url, address


def test_every_path_of_a_probe_is_a_route() -> None:
    routes = {route.path for route in router.routes if hasattr(route, "path")}
    paths = {
        container[f"{probe}Probe"]["httpGet"]["path"]
        for container in deploy_files.containers().values()
        for probe in ("startup", "readiness", "liveness")
        if f"{probe}Probe" in container
    }
    paths |= set(re.findall(r"http://127\.0\.0\.1:\d+(/\w+)", "".join(TEXTS.values())))
    assert {"/live", "/ready"} <= paths <= {*routes, "/api"}


def test_the_ports_are_those_on_which_the_processes_listen() -> None:
    for name, container in deploy_files.containers().items():
        if "ports" in container:
            assert [port["containerPort"] for port in container["ports"]] == [parse(container["args"])["port"]], name
    for name, service in deploy_files.services().items():
        for port in service.get("ports", ()):
            assert int(port.rpartition(":")[2]) == parse(service["command"])["port"], name
    dockerfile = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    default = parse(COMMANDS["Dockerfile"])["port"]
    assert re.findall(r"^EXPOSE (\d+)|http://127\.0\.0\.1:(\d+)/live", dockerfile, re.M) == [
        (str(default), ""),
        ("", str(default)),
    ]
    assert default == deploy_files.PORT


def test_no_file_holds_a_password() -> None:
    """The examples have values that cannot be used by accident, and the files with the real ones are ignored."""
    for path, text in TEXTS.items():
        values = re.findall(r"^\s*(?:POSTGRES_PASSWORD|PGPASSWORD|password|admin-token)\s*[:=][ \t]*(\S+)", text, re.M)
        assert all(value.startswith(("change-me", "${POSTGRES_PASSWORD", "'...'")) for value in values), path
    ignored = (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()
    assert {"deploy/.env", "deploy/models.env", "deploy/kubernetes/secret.yaml"} <= set(ignored)
