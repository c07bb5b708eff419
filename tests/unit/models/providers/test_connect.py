"""Connecting to a model by its name."""

import subprocess
import sys

import pytest

from statewright.errors import MissingApiKey, ModelError
from statewright.models import ChatModel
from statewright.models.providers import connect_model


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY", "OLLAMA_BASE_URL", "HEROKU_INFERENCE_KEY"):
        monkeypatch.delenv(name, raising=False)


def run(code: str) -> str:
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600, check=False)
    return process.stdout + process.stderr


def test_a_connected_model_is_a_chat_model_and_shows_its_name() -> None:
    model = connect_model("anthropic:claude-opus-5", api_key="secret")
    assert isinstance(model, ChatModel)
    assert repr(model) == "PydanticAIModel('anthropic:claude-opus-5')"


def test_the_api_key_is_read_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    assert connect_model("openai:gpt-5").name == "openai:gpt-5"


def test_connecting_without_an_api_key_is_an_error() -> None:
    with pytest.raises(MissingApiKey, match="OPENAI_API_KEY"):
        connect_model("openai:gpt-5")
    with pytest.raises(MissingApiKey, match="ANTHROPIC_API_KEY"):
        connect_model("anthropic:claude-opus-5", base_url="http://127.0.0.1:1")


def test_the_key_variable_is_named_for_providers_that_check_their_own_key() -> None:
    with pytest.raises(MissingApiKey, match=r"'heroku:claude' needs an API key.*HEROKU_INFERENCE_KEY"):
        connect_model("heroku:claude")


def test_a_missing_address_is_a_model_error() -> None:
    with pytest.raises(ModelError, match=r"'ollama:llama' cannot be connected.*OLLAMA_BASE_URL"):
        connect_model("ollama:llama")


def test_a_bare_name_with_a_base_url_uses_chat_completions() -> None:
    assert connect_model("llama", base_url="http://127.0.0.1:1").name == "openai-chat:llama"


def test_a_missing_library_is_named() -> None:
    with pytest.raises(ModelError, match=r"'groq:llama'.*pip install 'pydantic-ai-slim\[groq\]'"):
        connect_model("groq:llama", api_key="k")


def test_without_pydantic_ai_the_extra_is_named() -> None:
    code = "import sys; sys.modules['pydantic_ai'] = None\nfrom statewright.models.providers import connect_model\n"
    assert "pip install 'statewright[models]'" in run(code + "connect_model('openai:gpt-5', api_key='k')")


def test_without_the_library_of_a_vendor_the_extra_is_named() -> None:
    code = "import sys; sys.modules['anthropic'] = None\nfrom statewright.models.providers import connect_model\n"
    assert "pip install 'statewright[models]'" in run(code + "connect_model('anthropic:claude', api_key='k')")


def test_importing_the_package_does_not_load_vendor_libraries() -> None:
    code = "import statewright.models.providers, sys; print([n for n in ('pydantic_ai', 'openai') if n in sys.modules])"
    assert run(code).strip() == "[]"
