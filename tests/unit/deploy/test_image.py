"""The image contains what it needs and nothing else, and Compose runs it without permissions."""

from __future__ import annotations

import fnmatch
import json
import re
import tomllib

import pytest
from tests.unit.deploy.deploy_files import DEPLOY, ROOT, containers, instructions, load, pods, services

DOCKERFILE = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
STAGES = DOCKERFILE.split("\nFROM ")[1:]
BUILD, FINAL = (instructions(f"FROM {stage}") for stage in STAGES)


def of(stage: list[tuple[str, str]], word: str) -> list[str]:
    return [rest for name, rest in stage if name == word]


def test_the_wheel_is_built_in_a_stage_of_its_own_and_installed_in_the_final_one() -> None:
    assert of(BUILD, "FROM")[0].endswith(" AS build")
    assert any("hatchling build -t wheel -d /dist" in command for command in of(BUILD, "RUN"))
    assert any("from=build,source=/dist" in command for command in of(FINAL, "RUN"))
    assert of(FINAL, "COPY") == []
    assert not re.search(r"apt-get|gcc|build-essential", DOCKERFILE)


def test_both_stages_have_a_python_that_the_package_supports() -> None:
    (version,) = re.findall(r"^ARG PYTHON_VERSION=(.+)$", DOCKERFILE, re.M)
    assert {line.split()[0] for line in (*of(BUILD, "FROM"), *of(FINAL, "FROM"))} == {
        "python:${PYTHON_VERSION}-slim-bookworm"
    }
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert f"Programming Language :: Python :: {version}" in project["classifiers"]
    (extras,) = of(FINAL, "ARG")
    assert extras.startswith("EXTRAS=")
    assert set(extras.removeprefix("EXTRAS=").split(",")) <= project["optional-dependencies"].keys()


def test_the_context_has_all_files_that_are_copied() -> None:
    included = [
        line[1:] for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines() if line[:1] == "!"
    ]
    copied = [name for rest in of(BUILD, "COPY") for name in rest.split()[:-1]]
    copied += re.findall(r"type=bind,source=([^,/\s]+)", DOCKERFILE)
    assert set(copied) == set(included)
    assert all((ROOT / name).exists() for name in copied)
    needed = {"pyproject.toml", "README.md", "LICENSE", "src"}  # by [project] and [tool.hatch.build]
    assert needed <= set(copied)
    assert not fnmatch.filter(copied, ".env*")


def test_the_process_is_no_root_and_receives_signals_itself() -> None:
    (user,) = of(FINAL, "USER")
    uid, gid = user.split(":")
    assert any(f"useradd --uid {uid} --gid {gid} " in command for command in of(FINAL, "RUN"))
    assert {pod["securityContext"]["runAsUser"] for pod in pods().values()} == {int(uid)}
    assert int(uid) > 0
    for word in ("ENTRYPOINT", "CMD"):
        (value,) = of(FINAL, word)
        assert isinstance(json.loads(value), list)  # the exec form: without a shell between
    assert json.loads(of(FINAL, "ENTRYPOINT")[0]) == ["statewright"]
    assert all("command" not in container for container in containers().values())
    names = [name for name, _ in FINAL]
    assert max(index for index, name in enumerate(names) if name == "RUN") < names.index("USER")


def test_the_image_is_checked_by_its_own_python() -> None:
    (check,) = of(FINAL, "HEALTHCHECK")
    command = json.loads(check.partition("CMD ")[2])
    assert command[:2] == ["python", "-c"]
    compile(command[2], "HEALTHCHECK", "exec")


# -- Compose


def test_the_parts_start_in_order() -> None:
    (document,) = load(DEPLOY / "compose.yaml")
    assert "healthcheck" in document["services"]["postgres"]
    assert services()["migrate"]["depends_on"] == {"postgres": {"condition": "service_healthy"}}
    assert services()["migrate"]["restart"] == "no"
    for name in ("server", "worker"):
        assert services()[name]["depends_on"] == {"migrate": {"condition": "service_completed_successfully"}}
        assert services()[name]["restart"] == "unless-stopped"
    assert services()["worker"]["deploy"]["replicas"] == 2
    (mount,) = document["services"]["postgres"]["volumes"]
    assert mount.partition(":")[0] in document["volumes"]


@pytest.mark.parametrize("name", services())
def test_a_service_of_compose_runs_without_permissions(name: str) -> None:
    service = services()[name]
    assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"])
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert all(volume.endswith(":ro") for volume in service["volumes"])
    for volume in service["volumes"]:
        assert (DEPLOY / volume.partition(":")[0] / "statewright.toml").is_file()


def test_the_variables_of_compose_are_in_the_example_and_the_password_is_required() -> None:
    text = (DEPLOY / "compose.yaml").read_text(encoding="utf-8")
    used = set(re.findall(r"\$\{(\w+)", text))
    example = set(re.findall(r"^(\w+)=", (DEPLOY / "env.example").read_text(encoding="utf-8"), re.M))
    assert used == example
    assert not re.search(r"\$\{POSTGRES_PASSWORD(?!:\?)", text)


def test_the_server_is_opened_on_loopback_only() -> None:
    assert all(port.startswith("127.0.0.1:") for service in services().values() for port in service.get("ports", ()))
