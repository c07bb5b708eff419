"""The port of memory strategies."""

from statewright.agents.memory import KeepAll, MemoryContext, MemoryStrategy
from statewright.models import ScriptedModel


def test_the_port_is_checked_by_its_methods() -> None:
    assert isinstance(KeepAll(), MemoryStrategy)
    assert not isinstance(ScriptedModel([]), MemoryStrategy)


def test_all_fields_of_a_context_are_optional() -> None:
    assert MemoryContext() == MemoryContext(query=None, thread_id=None, store=None, on_response=None)
