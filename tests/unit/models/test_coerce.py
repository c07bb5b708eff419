"""Conversion of values to chat models."""

import pytest
from langchain_core.language_models.fake_chat_models import ParrotFakeChatModel

from statewright.errors import InvalidConfig, StatewrightError
from statewright.models import ChatModel, ScriptedModel
from statewright.models.adapters.langchain.model import LangChainModel
from statewright.models.coerce import as_chat_model, is_langchain_model


def test_a_chat_model_stays_what_it_is() -> None:
    model = ScriptedModel([])
    assert as_chat_model(model) is model


def test_a_model_of_langchain_is_wrapped() -> None:
    model = as_chat_model(ParrotFakeChatModel())
    assert isinstance(model, LangChainModel)
    assert isinstance(model, ChatModel)


def test_a_name_is_connected_to() -> None:
    with pytest.raises(StatewrightError, match="nowhere"):
        as_chat_model("nowhere:gpt")


@pytest.mark.parametrize(
    ("value", "found"),
    [(None, "None of type NoneType"), (7, "7 of type int"), ("  ", "empty"), (ScriptedModel, "class ScriptedModel")],
)
def test_anything_else_is_refused(value: object, found: str) -> None:
    with pytest.raises(InvalidConfig, match=f"{found}.*openai:"):
        as_chat_model(value)


def test_models_of_langchain_are_told_by_their_classes() -> None:
    class BaseChatModel:
        """Of somebody else."""

    assert is_langchain_model(ParrotFakeChatModel())
    assert not is_langchain_model(BaseChatModel())
