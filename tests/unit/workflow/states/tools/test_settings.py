"""The settings of tools."""

from __future__ import annotations

from statewright.workflow.states.tools import ToolRegistry, ToolSettings


def test_by_default_nothing_is_allowed() -> None:
    settings = ToolSettings()
    assert (settings.root, settings.allow_hosts, settings.allow_shell) == (None, (), False)
    assert ToolRegistry(settings=settings).names == ()
