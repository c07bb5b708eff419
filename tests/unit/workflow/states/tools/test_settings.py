"""What tools may do."""

from __future__ import annotations

from statewright.workflow.states.tools import ToolRegistry, ToolSettings


def test_nothing_is_allowed_until_somebody_says_so() -> None:
    settings = ToolSettings()
    assert (settings.root, settings.allow_hosts, settings.allow_shell) == (None, (), False)
    assert ToolRegistry(settings=settings).names == ()
