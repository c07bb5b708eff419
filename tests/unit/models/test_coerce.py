"""Conversion of values to chat models."""

import pytest
from langchain_core.language_models.fake_chat_models import ParrotFakeChatModel

from statewright.errors import InvalidConfig, StatewrightError
from statewright.models import ChatModel, ScriptedModel
from statewright.models.adapters.langchain.model import LangChainModel
from statewright.models.coerce import as_chat_model, is_langchain_model


def test_a_chat_model_is_returned_unchanged() -> None:
    model = ScriptedModel([])
    assert as_chat_model(model) is model


def test_a_langchain_model_is_wrapped() -> None:
    model = as_chat_model(ParrotFakeChatModel())
    assert isinstance(model, LangChainModel)
    assert isinstance(model, ChatModel)


def test_a_name_is_connected() -> None:
    with pytest.raises(StatewrightError, match="nowhere"):
        as_chat_model("nowhere:gpt")


@pytest.mark.parametrize(
    ("value", "expected"),
    [(None, "None of type NoneType"), (7, "7 of type int"), ("  ", "empty"), (ScriptedModel, "class ScriptedModel")],
)
def test_other_values_are_rejected(value: object, expected: str) -> None:
    with pytest.raises(InvalidConfig, match=f"{expected}.*openai:"):
        as_chat_model(value)


def test_langchain_models_are_recognized_by_their_class() -> None:
    class BaseChatModel:
        """A class of the same name that does not come from LangChain."""

    assert is_langchain_model(ParrotFakeChatModel())
    assert not is_langchain_model(BaseChatModel())
