"""`statewright chat` with lines that come from a pipe: what is said, and how it ends."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.unit.cli.conftest import Command, Ended

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
Talk = Callable[..., Ended]


@pytest.fixture
def talk(folder: Path, statewright: Command, monkeypatch: pytest.MonkeyPatch) -> Talk:
    """Pipes lines into `chat` on a thread that is called `t`."""
    (folder / "crew.py").write_text(CREW, encoding="utf-8")

    def said(target: str, *lines: str, options: tuple[str, ...] = ("-q", "--thread", "t")) -> Ended:
        monkeypatch.setattr(sys, "stdin", io.StringIO("".join(f"{line}\n" for line in lines)))
        return statewright("chat", target, *options)

    return said


@pytest.mark.parametrize("target", ["crew.py:graph", "crew.py:agent"])
def test_each_line_is_a_turn_of_one_conversation(talk: Talk, target: str) -> None:
    done = talk(target, "hello", "", "again")
    assert done == Ended(0, "You said 'hello', message 1.\nYou said 'again', message 3.\n", "")


@pytest.mark.parametrize("target", ["crew.py:graph", "crew.py:agent"])
def test_another_process_goes_on_where_the_conversation_was(talk: Talk, target: str) -> None:
    talk(target, "hello")
    assert talk(target, "again").out == "You said 'again', message 3.\n"
    assert talk(target, "new", options=("-q",)).out == "You said 'new', message 1.\n"


def test_the_start_says_how_to_come_back(talk: Talk) -> None:
    done = talk("crew.py:graph", options=("--thread", "t", "--db", "my.db"))
    assert done == Ended(
        0, "", "Thread t. Continue it later with: statewright chat crew.py:graph --thread t --database my.db\n"
    )
    assert Path("my.db").exists()
    unsaved = talk("crew.py:graph", "hello", options=("--thread", "t", "--database", "memory:"))
    assert unsaved.err.startswith("Thread t. Nothing is saved.\n")


def test_costs_are_told_after_each_turn(talk: Talk) -> None:
    assert talk("crew.py:graph", "hello", options=()).err.splitlines()[-1].startswith("2 tokens in, ")


@pytest.mark.parametrize("target", ["crew.py:graph", "crew.py:agent"])
def test_calls_are_approved_refused_and_changed_in_place(talk: Talk, target: str) -> None:
    done = talk(target, "delete a", "y", "delete b", "too dear", "delete c", 'e {"path": "d"}')
    assert done.out.splitlines() == [
        "So: a is gone",
        "So: Error: The call of 'delete' was refused: too dear.",
        "So: d is gone",
    ]
    assert '→ delete {"path": "a"}\n? May delete be called?\n' in done.err
    assert "← delete: a is gone\n" in done.err
    assert "✗ delete: Error: The call of 'delete' was refused: too dear.\n" in done.err


def test_several_questions_are_asked_one_after_the_other(talk: Talk) -> None:
    done = talk("crew.py:graph", "delete a b", "y", "n")
    assert done.err.count("? May delete be called?") == 2
    assert "← delete: a is gone\n" in done.err
    assert "✗ delete: Error: The call of 'delete' was refused.\n" in done.err


@pytest.mark.parametrize("target", ["crew.py:graph", "crew.py:agent"])
def test_a_question_that_is_left_open_is_asked_again_by_another_process(talk: Talk, target: str) -> None:
    left = talk(target, "ask")
    assert (left.code, left.out) == (3, "")
    assert talk(target, "that one", "and more").out.splitlines()[0] == "So: that one"


def test_commands_do_not_answer_a_question(talk: Talk) -> None:
    done = talk("crew.py:graph", "ask", "/thread", "/help", "7")
    assert done.err.count("? Which one?") == 3
    assert done.out == "So: 7\n"


def test_a_question_can_be_skipped(talk: Talk) -> None:
    done = talk("crew.py:graph", "ask", "/skip", "hello")
    assert (done.code, done.out) == (0, "You said 'hello', message 4.\n")


def test_new_begins_another_thread_also_at_a_question(talk: Talk) -> None:
    done = talk("crew.py:graph", "ask", "/new", "hello", options=("--thread", "t"))
    assert done.out == "You said 'hello', message 1.\n"
    assert done.err.count("Continue it later with") == 2


def test_an_error_of_the_model_is_one_line_and_the_conversation_goes_on(talk: Talk) -> None:
    done = talk("crew.py:graph", "fail", "hello")
    line, place = done.err.splitlines()
    assert line == "Error: ValueError: the model fell over (in node 'model', step 1, attempt 1)"
    assert re.fullmatch(r"  at crew\.py:\d+ in \w+", place)
    assert (done.code, done.out) == (0, "You said 'hello', message 2.\n")


def test_a_last_turn_that_failed_is_told_by_the_exit_code(talk: Talk) -> None:
    assert talk("crew.py:graph", "hello", "fail").code == 1
    again = talk("crew.py:graph", "/retry", options=("--thread", "t"))
    assert again.code == 1
    assert "The last turn was not finished. /retry continues it." in again.err
    assert "fell over" in again.err


def test_there_is_nothing_to_retry_after_a_whole_turn(talk: Talk) -> None:
    assert "There is nothing to retry" in talk("crew.py:graph", "hello", "/retry").err


def test_history_tells_what_was_said(talk: Talk) -> None:
    talk("crew.py:agent", "hello")
    assert talk("crew.py:agent", "/history").err == "you: hello\nhelper: You said 'hello', message 1.\n"
    assert talk("crew.py:agent", "/history", options=("-q",)).err == "There are no messages yet.\n"


def test_exit_leaves_what_comes_after_it(talk: Talk) -> None:
    assert talk("crew.py:graph", "/exit", "hello") == Ended(0, "", "")


def test_a_command_that_does_not_exist_is_said_to_nobody(talk: Talk) -> None:
    done = talk("crew.py:graph", "/hepl", "/usr/bin is a folder")
    assert "There is no command '/hepl'. Did you mean '/help'?" in done.err
    assert done.out == "You said '/usr/bin is a folder', message 1.\n"


def test_the_agents_of_a_network_are_named(talk: Talk) -> None:
    assert talk("crew.py:team", "hello").out == "planner: A plan.\nwriter: A text.\n"


def test_a_graph_that_stops_at_a_breakpoint_goes_on_when_it_is_told_to(talk: Talk) -> None:
    done = talk("crew.py:stopping", "ask", "go", "this")
    assert "? The run stopped before tools. Any input continues it, /skip leaves it." in done.err
    assert done.out == "So: this\n"


def test_what_waits_for_an_event_is_left_to_resume(talk: Talk, statewright: Command) -> None:
    done = talk("crew.py:shop", "hello")
    assert done.code == 3
    assert "event 'paid'. Continue it with `statewright resume`." in done.err
    statewright("resume", "t", "crew.py:shop", "--event", "paid=5")
    assert talk("crew.py:shop", "/history").err == "you: hello\nassistant: Paid 5\n"


def test_the_end_of_a_resumed_run_is_what_the_agent_said(talk: Talk, statewright: Command) -> None:
    waiting = statewright("run", "crew.py:agent", "--input", "delete a", "--thread", "t")
    assert (waiting.code, waiting.out) == (3, "")
    assert statewright("resume", "t", "crew.py:agent", "--answer", "yes") == Ended(0, "So: a is gone\n", "")


@pytest.mark.parametrize("target", ["crew.py:agent", "crew.py:team"])
def test_agents_and_networks_are_drawn_and_checked(talk: Talk, statewright: Command, target: str) -> None:
    talk("crew.py:graph")
    assert "route" in statewright("draw", target).out
    assert statewright("check", target).out.startswith("ok: ")


@pytest.mark.parametrize(
    ("target", "options", "said"),
    [
        ("none.py", (), "There is no file 'none.py'"),
        ("crew.py:nobody", (), "has no graph 'nobody'"),
        ("crew.py:graph", ("--model", "openai-chat:x", "--base-url", "http://127.0.0.1:9/v1"), "has chosen its models"),
        ("crew.py:agent", ("--model", "opnai:x"), "Did you mean 'openai'"),
        ("crew.py:agent", ("--model", "other=openai:x"), "Agents: helper"),
    ],
)
def test_wrong_use_is_told_before_anything_is_said(
    talk: Talk, target: str, options: tuple[str, ...], said: str
) -> None:
    done = talk(target, "hello", options=options)
    assert (done.code, done.out) == (2, "")
    assert said in done.err
