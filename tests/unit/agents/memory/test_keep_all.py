"""The strategy that sends the complete conversation."""

from typing import Any

from statewright.agents.memory import KeepAll


def test_everything_is_sent_that_can_be(talk: Any, shown: Any) -> None:
    assert shown(KeepAll(), talk("s1 u1 c1 r1 r8 a1 c2")) == "s1 u1 c1 r1 a1"
