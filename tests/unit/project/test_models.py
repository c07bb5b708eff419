"""The section `[models]`: names for models."""

from __future__ import annotations

from pathlib import Path

from tests.unit.project.conftest import read, read_problems, read_warnings

from statewright.workflow.states.resources.chat_models import ModelSource


def test_a_model_is_read_with_its_settings(folder: Path) -> None:
    text = """
[models.local]
name = "openai-chat:llama"
base_url = "http://localhost:8000/v1"
api_key = "env:LOCAL_KEY"
temperature = 0
max_tokens = 500
timeout = 2.5
headers = {X = "y"}
settings = {top_p = 0.5}
"""
    assert read(text, folder).models == {
        "local": ModelSource(
            "openai-chat:llama",
            base_url="http://localhost:8000/v1",
            api_key="env:LOCAL_KEY",
            timeout=2.5,
            settings={"top_p": 0.5, "temperature": 0, "max_tokens": 500},
            headers={"X": "y"},
        )
    }


def test_invalid_models_are_problems(folder: Path) -> None:
    messages = read_problems('[models.a]\ntemperature = 3\nheaders = {X = 1}\napi_key = "env:"', folder)
    assert [message.split(": ", 1)[1] for message in messages] == [
        "'name' is missing. Write name = \"openai:gpt-5\".",
        "It must be a number from 0 to 2, but is a number.",
        "It must be a string, but is a number.",
        "The text after env: is not a valid variable name. Write env:NAME.",
    ]


def test_4_1_11_a_key_in_the_file_causes_a_warning(folder: Path) -> None:
    (warning,) = read_warnings('[models.a]\nname = "openai:x"\napi_key = "hunter2-hunter2"', folder)
    assert "looks like a secret" in warning
    assert "hunter2" not in warning
