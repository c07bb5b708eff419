"""The exclusions of tests by fragments of their names select tests that exist."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import pytest
from tests.semantics.surroundings import ABOUT_ONE_GRAPH, IN_MEMORY_ONLY, SQLITE_MODULES

NESTED_MODULES = ("test_rules", "test_state", "test_control_flow", "test_superstep", "test_interrupts")
NESTED_MODULES += ("test_asking_and_errors",)


def names_in(modules: Iterable[str]) -> list[str]:
    """Return the names of the tests in modules of this folder, and those of their cases that are given in a dict."""
    texts = [(Path(__file__).parent / f"{module}.py").read_text(encoding="utf-8") for module in modules]
    return [name for text in texts for name in re.findall(r"(?:def |^    \")(\w+)", text, re.MULTILINE)]


@pytest.mark.parametrize("fragment", IN_MEMORY_ONLY)
def test_a_fragment_excludes_tests_on_sqlite(fragment: str) -> None:
    assert any(fragment in name for name in names_in({*SQLITE_MODULES, "test_properties", "test_states_properties"}))


@pytest.mark.parametrize("fragment", ABOUT_ONE_GRAPH)
def test_a_fragment_excludes_tests_of_nested_graphs(fragment: str) -> None:
    assert any(fragment in name for name in names_in(NESTED_MODULES))
