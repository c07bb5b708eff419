"""The port of chat models."""

from statewright.models import ChatModel, ScriptedModel


def test_whatever_completes_is_a_chat_model() -> None:
    assert isinstance(ScriptedModel([]), ChatModel)
    assert not isinstance(object(), ChatModel)
