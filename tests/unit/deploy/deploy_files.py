"""The deployment files as data: manifests, the Dockerfile, units of systemd, and the command lines in all of them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from statewright.cli.commands import COMMANDS
from statewright.cli.main import build_command

ROOT = Path(__file__).parents[3]
DEPLOY = ROOT / "deploy"
GUIDE = ROOT / "docs/guide/deployment.md"
KUBERNETES = DEPLOY / "kubernetes"
PORT = 8123
"""The port of the HTTP API, and of the health of workers that have an address of their own."""
Resource = Mapping[str, Any]
_BLOCK = re.compile(r"^```[a-z]*\n(.*?)^```", re.M | re.S)
_INLINE = re.compile(r"`([^`]+)`")


def texts() -> dict[Path, str]:
    """Return the text of every deployment file and of the guide."""
    files = [path for path in sorted(DEPLOY.rglob("*")) if path.is_file() and path.suffix != ".pyc"]
    return {path: path.read_text(encoding="utf-8") for path in [*files, GUIDE]}


@cache
def load(path: Path) -> Sequence[Any]:
    """Return the documents of a YAML file. They are shared by all tests, so do not change them."""
    return list(yaml.safe_load_all(path.read_text(encoding="utf-8")))


# -- Kubernetes


def manifests() -> list[Resource]:
    """Return all resources, without the files of kustomize."""
    return [
        resource
        for path in sorted(KUBERNETES.rglob("*.yaml"))
        if path.name != "kustomization.yaml"
        for resource in load(path)
    ]


def resource(kind: str, name: str) -> Resource:
    """Return the only resource of a kind with this name."""
    (match,) = (item for item in manifests() if (item["kind"], item["metadata"]["name"]) == (kind, name))
    return match


def pods() -> dict[str, Resource]:
    """Return the specifications of all pods, by the names of the resources that create them."""
    return {
        item["metadata"]["name"]: item["spec"]["template"]["spec"]
        for item in manifests()
        if item["kind"] in ("Deployment", "Job")
    }


def containers() -> dict[str, Resource]:
    """Return the containers, by the names of the resources that create their pods; each pod has one."""
    return {name: container for name, pod in pods().items() for container in pod["containers"]}


# -- Compose


def services() -> dict[str, Resource]:
    """Return the services of Compose that run Statewright."""
    (document,) = load(DEPLOY / "compose.yaml")
    return {name: service for name, service in document["services"].items() if service["image"] == "statewright"}


# -- the Dockerfile


def instructions(text: str) -> list[tuple[str, str]]:
    """Return the instructions of a Dockerfile with their arguments, with continued lines joined."""
    lines = (line for line in text.splitlines() if not line.lstrip().startswith("#"))
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    return [(word, rest.strip()) for word, _, rest in (line.partition(" ") for line in joined.splitlines() if line)]


# -- systemd


def unit(path: Path) -> dict[str, dict[str, list[str]]]:
    """Return the sections of a unit with the values of their keys."""
    sections: dict[str, dict[str, list[str]]] = {}
    section: dict[str, list[str]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            section = sections.setdefault(line.strip("[]"), {})
        elif line and not line.startswith("#"):
            key, _, value = line.partition("=")
            section.setdefault(key, []).append(value)
    return sections


def units() -> dict[str, dict[str, dict[str, list[str]]]]:
    return {path.name: unit(path) for path in sorted((DEPLOY / "systemd").glob("*.service"))}


# -- command lines


def command_lines() -> dict[str, Sequence[str]]:
    """Return the arguments of every call of Statewright in the deployment files, by the place of the call."""
    dockerfile = instructions((DEPLOY / "Dockerfile").read_text(encoding="utf-8"))
    (default,) = (yaml.safe_load(rest) for word, rest in dockerfile if word == "CMD")
    lines: dict[str, Sequence[str]] = {"Dockerfile": default}
    lines |= {f"compose.yaml: {name}": service["command"] for name, service in services().items()}
    lines |= {f"kubernetes: {name}": container["args"] for name, container in containers().items()}
    for name, sections in units().items():
        for value in sections["Service"]["ExecStart"]:
            lines[f"systemd: {name}"] = shlex.split(value.replace("%i", "8131"))[1:]
    return lines


def calls_in_text(text: str) -> Iterator[Sequence[str]]:
    """Yield the arguments of the calls of Statewright in a comment or in the guide: in blocks of code and between
    backticks.
    """
    for code in (*_BLOCK.findall(text), *_INLINE.findall(_BLOCK.sub("", text))):
        yield from _calls_in_code(code)


def _calls_in_code(code: str) -> Iterator[Sequence[str]]:
    for line in re.sub(r"\\\n\s*", "", code).splitlines():
        lexer = shlex.shlex(line.replace("$(", " ").replace('"', " "), posix=True, punctuation_chars="|&;<>()")
        lexer.whitespace_split = True
        try:
            words = list(lexer)
        except ValueError:  # prose with an apostrophe
            continue
        for index, word in enumerate(words[:-1]):
            if word.rpartition("/")[2] == "statewright" and words[index + 1] in COMMANDS:
                yield _until_operator(words[index + 1 :])


def _until_operator(words: Sequence[str]) -> Sequence[str]:
    end = next((index for index, word in enumerate(words) if set(word) <= set("|&;<>()")), len(words))
    return words[:end]


def parse(arguments: Sequence[str]) -> dict[str, Any]:
    """Parse the arguments of a call by the real command line, without executing it, and return the parameters.

    Raises the usage errors of the command line.
    """
    command, words = build_command(), list(arguments)
    while hasattr(command, "commands"):
        command = command.commands[words.pop(0)]
    loaded = command.load()
    with loaded.make_context(" ".join(arguments), words) as context:
        return context.params
