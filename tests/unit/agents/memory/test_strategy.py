"""The port of memory strategies."""

from statewright.agents.memory import KeepAll, MemoryContext, MemoryStrategy
from statewright.models import ScriptedModel


def test_whatever_selects_is_a_strategy() -> None:
    assert isinstance(KeepAll(), MemoryStrategy)
    assert not isinstance(ScriptedModel([]), MemoryStrategy)


def test_nothing_of_a_context_has_to_be_given() -> None:
    assert MemoryContext() == MemoryContext(query=None, thread_id=None, store=None, on_response=None)
