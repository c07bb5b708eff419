"""The test server that stands for the providers."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from tests.integration.providers.conftest import Asking
from tests.provider_server import Answer, Asked, ProviderServer

from statewright.messages import Message
from statewright.models import ModelRequest

ROOT = Path(__file__).parents[3]


@pytest.fixture
def server() -> Iterator[ProviderServer]:
    with ProviderServer() as running:
        yield running


def post(server: ProviderServer, path: str = "/v1/chat/completions", **body: object) -> httpx.Response:
    return httpx.post(server.url + path, json={"model": "m", "messages": [], **body}, trust_env=False, timeout=600)


def test_it_remembers_what_it_was_asked(server: ProviderServer) -> None:
    server.script(["a"])
    post(server, stream=True)
    (asked,) = server.requests
    assert (asked.path, asked.streamed, asked.body["model"]) == ("/v1/chat/completions", True, "m")
    assert asked.headers["content-type"] == "application/json"


def test_after_its_script_it_fails_and_says_so(server: ProviderServer) -> None:
    answer = post(server)
    assert answer.status_code == 500
    assert "the script has 0 answers" in answer.text


def test_the_last_answer_may_be_repeated() -> None:
    with ProviderServer(["a"], repeat_last=True) as server:
        texts = [post(server).json()["choices"][0]["message"]["content"] for _ in range(3)]
    assert texts == ["a", "a", "a"]


def test_a_function_sees_the_request(server: ProviderServer) -> None:
    def answer(asked: Asked) -> Answer:
        return Answer(f"you asked {asked.body['model']}")

    server.script([answer])
    assert "you asked m" in post(server).text


def test_an_unknown_endpoint_is_not_found(server: ProviderServer) -> None:
    server.script(["a"])
    assert post(server, "/v1/nothing").status_code == 404


def test_a_stopped_server_is_gone() -> None:
    with ProviderServer(["a"]) as server:
        pass
    with pytest.raises(httpx.ConnectError):
        post(server)


def test_it_runs_as_a_program(provider: str) -> None:
    command = [sys.executable, "-m", "tests.provider_server", "--answer", "from afar"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as program:
        try:
            assert program.stdout is not None
            with ProviderServer() as unused:
                ask = Asking(unused, provider, "whole")
                url = program.stdout.readline().strip()
                ask.model = ask.connect(base_url=url + "/v1" if provider.startswith("openai") else url)
                assert [ask().text, ask().text] == ["from afar", "from afar"]
        finally:
            program.terminate()


def test_a_model_is_connected_as_the_docstring_says() -> None:
    with ProviderServer(["hello"]) as server:
        ask = Asking(server, "openai-chat", "whole")
        assert ask(Message("hi")).text == "hello"
        assert ModelRequest([Message("hi")]).messages[0].text in str(server.requests[0].body)
