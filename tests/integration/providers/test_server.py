"""The test server that stands in for the providers."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from tests.integration.providers.conftest import ModelCaller
from tests.provider_server import Answer, ProviderServer, Request

from statewright.messages import Message

ROOT = Path(__file__).parents[3]


@pytest.fixture
def server() -> Iterator[ProviderServer]:
    with ProviderServer() as running:
        yield running


def post(server: ProviderServer, path: str = "/v1/chat/completions", **body: object) -> httpx.Response:
    return httpx.post(server.url + path, json={"model": "m", "messages": [], **body}, trust_env=False, timeout=600)


def test_requests_are_recorded(server: ProviderServer) -> None:
    server.script(["a"])
    post(server, stream=True)
    (request,) = server.requests
    assert (request.path, request.streamed, request.body["model"]) == ("/v1/chat/completions", True, "m")
    assert request.headers["content-type"] == "application/json"


def test_a_request_after_the_end_of_the_script_fails(server: ProviderServer) -> None:
    answer = post(server)
    assert answer.status_code == 500
    assert "the script has 0 answers" in answer.text


def test_the_last_answer_can_be_repeated() -> None:
    with ProviderServer(["a"], repeat_last=True) as server:
        texts = [post(server).json()["choices"][0]["message"]["content"] for _ in range(3)]
    assert texts == ["a", "a", "a"]


def test_a_scripted_function_receives_the_request(server: ProviderServer) -> None:
    def answer(request: Request) -> Answer:
        return Answer(f"model {request.body['model']}")

    server.script([answer])
    assert "model m" in post(server).text


def test_an_unknown_endpoint_gets_status_404(server: ProviderServer) -> None:
    server.script(["a"])
    assert post(server, "/v1/nothing").status_code == 404


def test_a_stopped_server_accepts_no_connections() -> None:
    with ProviderServer(["a"]) as server:
        pass
    with pytest.raises(httpx.ConnectError):
        post(server)


def test_the_server_runs_as_a_program(provider: str) -> None:
    command = [sys.executable, "-m", "tests.provider_server", "--answer", "from afar"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as program:
        try:
            assert program.stdout is not None
            with ProviderServer() as unused:
                ask = ModelCaller(unused, provider, "whole")
                url = program.stdout.readline().strip()
                ask.model = ask.connect(base_url=url + "/v1" if provider.startswith("openai") else url)
                assert [ask().text, ask().text] == ["from afar", "from afar"]
        finally:
            program.terminate()


def test_a_model_can_be_connected() -> None:
    with ProviderServer(["hello"]) as server:
        ask = ModelCaller(server, "openai-chat", "whole")
        assert ask(Message("hi")).text == "hello"
        assert server.requests[0].body["messages"][-1]["content"] == "hi"
