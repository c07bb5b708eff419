"""Chat shows each piece of an answer before the model has produced the next one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.integration.cli.conftest import InProcessTerminal, Statewright
from tests.provider_server import Answer, ProviderServer

Start = Callable[..., InProcessTerminal]

PROVIDERS = ["openai-chat:gpt-4.1", "openai:gpt-5", "anthropic:claude-opus-5", "google:gemini-2.5-pro"]
BROKEN = "the answer broke off; trying again"

AGENT = """
from statewright.agents import create_agent
from statewright.models.providers import connect_model

graph = create_agent(connect_model({name!r}, base_url={url!r}, api_key="k"), [])
"""
LANGCHAIN_AGENT = """
import time
from pathlib import Path

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult

from statewright import START, MessagesState, StateGraph
from statewright.agents import create_agent


class Waiting(BaseChatModel):
    @property
    def _llm_type(self):
        return "waiting"

    def _generate(self, messages, stop=None, run_manager=None, **options):
        return ChatResult(generations=[ChatGeneration(message=AIMessage("was not streamed"))])

    def _stream(self, messages, stop=None, run_manager=None, **options):
        yield ChatGenerationChunk(message=AIMessageChunk("first"))
        while not Path("go").exists():
            time.sleep(0.02)
        yield ChatGenerationChunk(message=AIMessageChunk(" second"))


graph = create_agent(Waiting(), [])
"""


def write_agent(folder: Path, model: str, server: ProviderServer) -> None:
    url = server.openai_url if model.startswith("openai") else server.url
    (folder / "agent.py").write_text(AGENT.format(name=model, url=url), encoding="utf-8")


@pytest.fixture
def server() -> Iterator[ProviderServer]:
    with ProviderServer() as server:
        yield server


@pytest.mark.parametrize("name", PROVIDERS)
def test_the_first_piece_of_every_provider_is_shown_before_the_second_is_sent(
    terminal: Start, server: ProviderServer, folder: Path, name: str
) -> None:
    may_go_on = threading.Event()
    server.script([Answer("first second", hold_before=("second", may_go_on))])
    write_agent(folder, name, server)
    talk = terminal("chat", "agent.py", "--quiet")
    try:
        talk.wait_for("> ")
        talk.type("hi\n")
        talk.wait_for("first")
    finally:
        may_go_on.set()
    assert talk.wait_for("second") == " "
    talk.wait_for("> ")
    talk.type("\x04")
    assert talk.end() == 0


def test_the_first_piece_of_a_langchain_model_is_shown_before_the_second_is_produced(
    terminal: Start, folder: Path
) -> None:
    pytest.importorskip("langchain_core")
    (folder / "agent.py").write_text(LANGCHAIN_AGENT, encoding="utf-8")
    talk = terminal("chat", "agent.py", "--quiet")
    talk.wait_for("> ")
    talk.type("hi\n")
    try:
        talk.wait_for("first")
    finally:
        (folder / "go").touch()
    assert talk.wait_for("second") == " "
    talk.wait_for("> ")
    talk.type("\x04")
    assert talk.end() == 0


@pytest.mark.parametrize("name", PROVIDERS)
def test_an_interrupted_answer_is_separated_from_the_next(
    terminal: Start, server: ProviderServer, folder: Path, name: str
) -> None:
    may_go_on = threading.Event()
    broken = Answer("first second third", cut_before="third")
    server.script([broken, Answer("once more second", hold_before=("second", may_go_on))])
    write_agent(folder, name, server)
    talk = terminal("chat", "agent.py", "--quiet")
    try:
        talk.wait_for("> ")
        talk.type("hi\n")
        talk.wait_for("first second")
        talk.wait_for("once more")  # shown before the rest has been sent
    finally:
        may_go_on.set()
    assert f"first second\r\n\x1b[2m({BROKEN})\x1b[0m\r\nonce more" in talk.seen
    assert talk.wait_for("second") == " "
    talk.wait_for("> ")
    talk.type("\x04")
    assert talk.end() == 0


def test_the_note_about_an_interrupted_answer_is_printed_on_standard_error(
    statewright: Statewright, server: ProviderServer, folder: Path
) -> None:
    server.script([Answer("one two three", cut_after=3), Answer("one two three")])
    write_agent(folder, "openai-chat:gpt-4.1", server)
    result = statewright("chat", "agent.py", "--quiet", stdin="hi\n")
    assert (result.returncode, result.stdout) == (0, "one two\none two three\n")
    assert result.stderr == f"({BROKEN})\n"
