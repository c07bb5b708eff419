"""`statewright chat` with input from a pipe: its output and its exit codes."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.unit.cli.conftest import Command, CommandResult

CREW = """
from statewright import START, MessagesState, StateGraph, interrupt, wait_for_event
from statewright.agents import Agent, Network, create_agent, tool
from statewright.messages import ToolCall
from statewright.models import ScriptedModel

calls = []

@tool(approve=True)
def delete(path: str) -> str:
    \"\"\"Deletes a file.\"\"\"
    calls.append(path)
    return f"{path} is gone"

@tool
def ask(question: str) -> str:
    \"\"\"Asks the user.\"\"\"
    return str(interrupt(question))

def answer(request):
    last = request.messages[-1]
    if last.role == "tool":
        return f"So: {last.text}"
    if last.text == "fail":
        raise ValueError("the model\\nfell over")
    if last.text.startswith("delete"):
        return [ToolCall(name, "delete", {"path": name}) for name in last.text.split()[1:]]
    if last.text == "ask":
        return ToolCall("1", "ask", {"question": "Which one?"})
    return f"You said {last.text!r}, message {len(request.messages)}."

model = ScriptedModel(answer)
graph = create_agent(model, [delete, ask], retries=0)
agent = Agent("helper", model=model, tools=[delete, ask], max_iter=3, retries=0)
planner = Agent("planner", model=ScriptedModel(["A plan."], repeat_last=True))
writer = Agent("writer", model=ScriptedModel(["A text."], repeat_last=True))
team = Network("team", agents=[planner, writer], router=lambda call_count: ["planner", "writer", None][call_count])
def paid(state):
    return {"messages": [("assistant", f"Paid {wait_for_event('paid')}")]}

shop = StateGraph(MessagesState).add_node("paid", paid).add_edge(START, "paid")
stopping = create_agent(model, [ask], interrupt_before=["tools"], retries=0)
"""
Talk = Callable[..., CommandResult]


@pytest.fixture
def talk(folder: Path, statewright: Command, monkeypatch: pytest.MonkeyPatch) -> Talk:
    """Return a function that pipes lines into `chat`, by default on thread `t`."""
    (folder / "crew.py").write_text(CREW, encoding="utf-8")

    def send(target: str, *lines: str, options: tuple[str, ...] = ("-q", "--thread", "t")) -> CommandResult:
        monkeypatch.setattr(sys, "stdin", io.StringIO("".join(f"{line}\n" for line in lines)))
        return statewright("chat", target, *options)

    return send


@pytest.mark.parametrize("target", ["crew.py:graph", "crew.py:agent"])
def test_each_line_is_a_turn_of_one_conversation(talk: Talk, target: str) -> None:
    result = talk(target, "hello", "", "again")
    assert result == CommandResult(0, "You said 'hello', message 1.\nYou said 'again', message 3.\n", "")


@pytest.mark.parametrize("target", ["crew.py:graph", "crew.py:agent"])
def test_another_process_continues_the_conversation(talk: Talk, target: str) -> None:
    talk(target, "hello")
    assert talk(target, "again").out == "You said 'again', message 3.\n"
    assert talk(target, "new", options=("-q",)).out == "You said 'new', message 1.\n"


def test_the_first_line_shows_how_to_continue_later(talk: Talk) -> None:
    result = talk("crew.py:graph", options=("--thread", "t", "--db", "my.db"))
    assert result == CommandResult(
        0, "", "Thread t. Continue it later with: statewright chat crew.py:graph --thread t --database my.db\n"
    )
    assert Path("my.db").exists()
    unsaved = talk("crew.py:graph", "hello", options=("--thread", "t", "--database", "memory:"))
    assert unsaved.err.startswith("Thread t. Nothing is saved.\n")


def test_token_usage_is_shown_after_each_turn(talk: Talk) -> None:
    assert talk("crew.py:graph", "hello", options=()).err.splitlines()[-1].startswith("2 tokens in, ")


@pytest.mark.parametrize("target", ["crew.py:graph", "crew.py:agent"])
def test_tool_calls_are_approved_refused_and_edited(talk: Talk, target: str) -> None:
    result = talk(target, "delete a", "y", "delete b", "too dear", "delete c", 'e {"path": "d"}')
    assert result.out.splitlines() == [
        "So: a is gone",
        "So: Error: The call of 'delete' was refused: too dear.",
        "So: d is gone",
    ]
    assert '→ delete {"path": "a"}\n? Allow the call of delete?\n' in result.err
    assert "← delete: a is gone\n" in result.err
    assert "✗ delete: Error: The call of 'delete' was refused: too dear.\n" in result.err


def test_several_questions_are_asked_one_after_another(talk: Talk) -> None:
    result = talk("crew.py:graph", "delete a b", "y", "n")
    assert result.err.count("? Allow the call of delete?") == 2
    assert "← delete: a is gone\n" in result.err
    assert "✗ delete: Error: The call of 'delete' was refused.\n" in result.err


@pytest.mark.parametrize("target", ["crew.py:graph", "crew.py:agent"])
def test_an_open_question_is_asked_again_by_another_process(talk: Talk, target: str) -> None:
    result = talk(target, "ask")
    assert (result.code, result.out) == (3, "")
    assert talk(target, "that one", "and more").out.splitlines()[0] == "So: that one"


def test_commands_do_not_answer_a_question(talk: Talk) -> None:
    result = talk("crew.py:graph", "ask", "/thread", "/help", "7")
    assert result.err.count("? Which one?") == 3
    assert result.out == "So: 7\n"


def test_a_question_can_be_skipped(talk: Talk) -> None:
    result = talk("crew.py:graph", "ask", "/skip", "hello")
    assert (result.code, result.out) == (0, "You said 'hello', message 4.\n")


def test_new_starts_another_thread_even_at_a_question(talk: Talk) -> None:
    result = talk("crew.py:graph", "ask", "/new", "hello", options=("--thread", "t"))
    assert result.out == "You said 'hello', message 1.\n"
    assert result.err.count("Continue it later with") == 2


def test_the_conversation_continues_after_an_error_of_the_model(talk: Talk) -> None:
    result = talk("crew.py:graph", "fail", "hello")
    line, location = result.err.splitlines()
    assert line == "Error: ValueError: the model fell over (in node 'model', step 1, attempt 1)"
    assert re.fullmatch(r"  at crew\.py:\d+ in \w+", location)
    assert (result.code, result.out) == (0, "You said 'hello', message 2.\n")


def test_the_exit_code_is_1_if_the_last_turn_failed(talk: Talk) -> None:
    assert talk("crew.py:graph", "hello", "fail").code == 1
    retried = talk("crew.py:graph", "/retry", options=("--thread", "t"))
    assert retried.code == 1
    assert "The last turn was not finished. /retry continues it." in retried.err
    assert "fell over" in retried.err


def test_a_finished_turn_cannot_be_retried(talk: Talk) -> None:
    assert "There is nothing to retry" in talk("crew.py:graph", "hello", "/retry").err


def test_history_lists_the_messages(talk: Talk) -> None:
    talk("crew.py:agent", "hello")
    assert talk("crew.py:agent", "/history").err == "you: hello\nhelper: You said 'hello', message 1.\n"
    assert talk("crew.py:agent", "/history", options=("-q",)).err == "There are no messages yet.\n"


def test_exit_ends_the_conversation(talk: Talk) -> None:
    assert talk("crew.py:graph", "/exit", "hello") == CommandResult(0, "", "")


def test_an_unknown_command_is_not_sent_as_a_message(talk: Talk) -> None:
    result = talk("crew.py:graph", "/hepl", "/usr/bin is a folder")
    assert "Command '/hepl' does not exist. Did you mean '/help'?" in result.err
    assert result.out == "You said '/usr/bin is a folder', message 1.\n"


def test_the_agents_of_a_network_are_named(talk: Talk) -> None:
    assert talk("crew.py:team", "hello").out == "planner: A plan.\nwriter: A text.\n"


def test_a_graph_continues_after_a_breakpoint(talk: Talk) -> None:
    result = talk("crew.py:stopping", "ask", "go", "this")
    assert "? The run stopped before tools. Any input continues it; /skip leaves it stopped." in result.err
    assert result.out == "So: this\n"


def test_a_run_that_waits_for_an_event_is_continued_with_resume(talk: Talk, statewright: Command) -> None:
    result = talk("crew.py:shop", "hello")
    assert result.code == 3
    assert "event 'paid'. Continue it with `statewright resume`." in result.err
    statewright("resume", "t", "crew.py:shop", "--event", "paid=5")
    assert talk("crew.py:shop", "/history").err == "you: hello\nassistant: Paid 5\n"


def test_resume_prints_the_answer_of_the_agent(talk: Talk, statewright: Command) -> None:
    waiting = statewright("run", "crew.py:agent", "--input", "delete a", "--thread", "t")
    assert (waiting.code, waiting.out) == (3, "")
    assert statewright("resume", "t", "crew.py:agent", "--answer", "yes") == CommandResult(0, "So: a is gone\n", "")


@pytest.mark.parametrize("target", ["crew.py:agent", "crew.py:team"])
def test_agents_and_networks_are_drawn_and_checked(talk: Talk, statewright: Command, target: str) -> None:
    talk("crew.py:graph")
    assert "route" in statewright("draw", target).out
    assert statewright("check", target).out.startswith("ok: ")


@pytest.mark.parametrize(
    ("target", "options", "message"),
    [
        ("none.py", (), "File 'none.py' does not exist"),
        ("crew.py:nobody", (), "has no graph 'nobody'"),
        (
            "crew.py:graph",
            ("--model", "openai-chat:x", "--base-url", "http://127.0.0.1:9/v1"),
            "are chosen in its code",
        ),
        ("crew.py:agent", ("--model", "opnai:x"), "Did you mean 'openai'"),
        ("crew.py:agent", ("--model", "other=openai:x"), "Agents: helper"),
    ],
)
def test_usage_errors_are_reported_before_the_first_turn(
    talk: Talk, target: str, options: tuple[str, ...], message: str
) -> None:
    result = talk(target, "hello", options=options)
    assert (result.code, result.out) == (2, "")
    assert message in result.err
