"""MCP servers over stdio: started once, used, and ended when no longer needed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest
from tests.mcp_servers import by_name, call, eventually, everything, is_alive, is_lost, program, small, wild
from tests.work import longer_and_longer

from statewright.agents.mcp import McpServer, McpTools
from statewright.agents.tools import ToolContext
from statewright.errors import ToolError


def test_tools_have_qualified_names_and_the_schema_of_the_server(shared_tools: McpTools) -> None:
    add = by_name(shared_tools)["add"]
    assert (add.name, add.description) == ("e-add", "Add two numbers.")
    assert {name: part["type"] for name, part in add.parameters["properties"].items()} == {
        "a": "integer",
        "b": "integer",
    }


def test_answers_are_structured_content_text_or_parts(shared_tools: McpTools) -> None:
    by_remote_name = by_name(shared_tools)
    assert call(by_remote_name["add"], a=1, b=2) == {"result": 3}
    assert call(by_remote_name["person"], name="x") == {"name": "x", "tags": ["a", "ü"]}
    assert call(by_remote_name["say"], text="héllo") == "héllo"
    assert call(by_remote_name["lines"]) == "one\ntwo"
    text, image = call(by_remote_name["picture"])
    assert (text, image) == (
        {"type": "text", "text": "a dot"},
        {"type": "image", "data": "ZG90", "mime_type": "image/png"},
    )
    assert call(by_remote_name["document"])[1]["text"] == "notes"


def test_an_error_of_the_server_becomes_a_tool_error_with_its_text(shared_tools: McpTools) -> None:
    by_remote_name = by_name(shared_tools)
    with pytest.raises(ToolError, match=r"^Tool 'e-fail' failed: .*no such file"):
        call(by_remote_name["fail"], text="no such file")
    with pytest.raises(ToolError, match=r"(?s)Tool 'e-add' failed: .*unable to parse"):
        call(by_remote_name["add"], a="x", b=1)


def test_arguments_that_cannot_be_encoded_do_not_affect_the_connection(shared_tools: McpTools) -> None:
    by_remote_name = by_name(shared_tools)
    before = call(by_remote_name["process"])
    for wrong in ("\ud800", object(), float("nan")):
        with pytest.raises(ToolError, match=r"cannot be written as JSON"):
            call(by_remote_name["say"], text=wrong)
    assert call(by_remote_name["process"]) == before


@pytest.mark.parametrize("inherit_env", [False, True])
def test_environment_variables_are_passed_only_with_inherit_env(
    monkeypatch: pytest.MonkeyPatch, inherit_env: bool
) -> None:
    monkeypatch.setenv("OUR_API_KEY", "secret")
    monkeypatch.setenv("LC_TIME", "C.UTF-8")
    monkeypatch.setenv("BOTH", "from here")
    with McpTools([everything(env={"BOTH": "from there"}, inherit_env=inherit_env)]) as tools:
        variable = by_name(tools)["variable"]
        assert call(variable, name="OUR_API_KEY") == {"result": "secret" if inherit_env else "not set"}
        assert call(variable, name="LC_TIME") == {"result": "C.UTF-8"}
        assert call(variable, name="BOTH") == {"result": "from there"}


def test_progress_goes_to_the_stream_writer(shared_tools: McpTools) -> None:
    updates: list[dict[str, object]] = []
    context = ToolContext(stream_writer=updates.append, tool_call_id="c1")
    assert call(by_name(shared_tools)["count"], context, to=2) == {"result": 2}
    assert [(update["tool"], update["call"], update["progress"], update["message"]) for update in updates] == [
        ("e-count", "c1", 1, "step 1"),
        ("e-count", "c1", 2, "step 2"),
    ]


def test_a_call_that_times_out_is_cancelled_on_the_server(tmp_path: Path) -> None:
    file = tmp_path / "hang"
    for seconds in longer_and_longer():
        with McpTools([everything(timeout=seconds)]) as tools:
            hang = by_name(tools)["hang"]
            with pytest.raises(ToolError, match=rf"did not answer the call of 'hang' within {seconds:g} s.*an effect"):
                call(hang, file=str(file))
            if file.exists():
                assert eventually(lambda: file.read_text(encoding="utf-8") == "cancelled")
                break


def test_a_call_that_times_out_does_not_end_the_server_process(tmp_path: Path) -> None:
    patient, hasty = small(), small(timeout=0.3)
    with McpTools([patient]) as tools, McpTools([hasty]) as others:
        process = by_name(tools)["process"]
        before = call(process)
        with pytest.raises(ToolError, match=r"did not answer the call of 'hang' within 0\.3 s"):
            call(by_name(others)["hang"], file=str(tmp_path / "hang"))
        assert call(process) == before


def test_a_crash_fails_the_call_and_the_next_call_restarts_the_server() -> None:
    with McpTools([everything()]) as tools:
        by_remote_name = by_name(tools)
        before = call(by_remote_name["process"])
        with pytest.raises(ToolError, match=r"(?s)lost during the call of 'crash'.*not repeated.*out of memory"):
            call(by_remote_name["crash"], words="out of memory")
        assert call(by_remote_name["process"]) != before


def test_a_server_that_died_between_calls_is_restarted_without_an_error() -> None:
    server = small()
    with McpTools([server]) as tools:
        process = by_name(tools)["process"]
        before = call(process)["result"]
        os.kill(before, signal.SIGKILL)
        assert eventually(lambda: is_lost(server))
        assert call(process)["result"] != before


def test_the_client_waits_for_a_server_that_starts_slowly(tmp_path: Path) -> None:
    with McpTools([small("--wait", str(tmp_path / "go"))]) as tools:
        timer = threading.Timer(1, (tmp_path / "go").touch)
        timer.start()
        assert call(by_name(tools)["add"], a=1, b=1) == {"result": 2}
        timer.join()


def test_a_server_that_does_not_start_in_time_is_ended() -> None:
    tools = McpTools([program("--mute", "initialize", "--die", "x", file="wild.py", connect_timeout=0.5)])
    with pytest.raises(
        ToolError, match=r"MCP server 'e' .*could not be started: .*within 0\.5 s.*raise connect_timeout"
    ):
        tools.load()
    tools.close()


def test_the_error_names_a_command_that_does_not_exist() -> None:
    with pytest.raises(ToolError, match=r"MCP server 'm' \(command 'no-such-program'\) could not be started: FileNot"):
        McpTools([McpServer.stdio("m", "no-such-program")]).load()


def test_the_error_contains_the_standard_error_of_a_server_that_ends_at_once() -> None:
    code = "import sys; sys.exit('there is no configuration')"
    with pytest.raises(ToolError, match=r"(?s)could not be started.*standard error:\nthere is no configuration$"):
        McpTools([McpServer.stdio("m", sys.executable, ["-c", code])]).load()


def test_secrets_are_masked_in_errors() -> None:
    with McpTools([everything(env={"KEY": "hunter2-hunter2"})]) as tools:
        with pytest.raises(ToolError) as caught:
            call(by_name(tools)["fail_with"], name="KEY")
        assert "refused ***" in str(caught.value)
        with pytest.raises(ToolError) as caught:
            call(by_name(tools)["crash"], words="key hunter2-hunter2")
        assert str(caught.value).endswith("\nkey ***")
        assert "hunter2" not in str(caught.value)


# -- misbehaving servers of the older protocol


def test_output_that_is_not_a_message_is_ignored() -> None:
    with McpTools([wild()]) as tools:
        assert json.loads(call(by_name(tools)["echo"], x=1))["x"] == 1


def test_tools_that_a_server_adds_later_are_listed() -> None:
    for server in (everything(), wild()):
        with McpTools([server]) as tools:
            before = set(by_name(tools))
            call(by_name(tools)["grow"], name="grown")
            assert eventually(lambda: len(set(by_name(tools)) - before) == 1), server  # noqa: B023


def test_tools_that_change_while_they_are_listed_are_listed_again() -> None:
    with McpTools([wild("--restless")]) as tools:
        before = set(by_name(tools))
        assert len(set(by_name(tools)) - before) == 1


def test_all_pages_of_a_list_are_read() -> None:
    with McpTools([wild("--pages", "5")]) as tools:
        by_remote_name = by_name(tools)
        assert len(by_remote_name) == 107
        assert json.loads(call(by_remote_name["t5_19"]))["tool"] == "t5_19"


def test_an_endless_list_of_tools_is_an_error() -> None:
    with pytest.raises(ToolError, match=r"did not list its tools: .*more than 1000 pages"):
        McpTools([wild("--endless")]).load()


def test_a_server_that_does_not_list_its_tools_is_an_error() -> None:
    message = ""
    for seconds in longer_and_longer(1):  # the same limit applies to the start and to the list
        with pytest.raises(ToolError) as caught:
            McpTools([wild("--mute", "tools/list", connect_timeout=seconds)]).load()
        message = str(caught.value)
        if "could not be started" not in message:
            break
    assert "did not list its tools: " in message
    with pytest.raises(ToolError, match=r"(?s)did not list its tools: .*no more of this"):
        McpTools([wild("--die", "tools/list")]).load()


def test_names_that_providers_reject_are_converted() -> None:
    with McpTools([wild()]) as tools:
        by_remote_name = by_name(tools)
        spaced, dotted, long = (
            by_remote_name["with space"].name,
            by_remote_name["with.space"].name,
            by_remote_name["x" * 80].name,
        )
        assert spaced.startswith("e-with_space-")
        assert len({spaced, dotted}) == 2
        assert len(long) == 64
        assert json.loads(call(by_remote_name["with.space"]))["tool"] == "with.space"


def test_invalid_answers_are_errors() -> None:
    with McpTools([wild()]) as tools:
        by_remote_name = by_name(tools)
        for name in ("nonsense", "liar"):
            with pytest.raises(ToolError, match=f"failed to call '{name}': "):
                call(by_remote_name[name])
        assert json.loads(call(by_remote_name["echo"]))["tool"] == "echo"


def test_annotations_of_the_server_are_kept() -> None:
    with McpTools([wild()]) as tools:
        assert by_name(tools)["echo"].annotations == {"readOnlyHint": True}


# -- shutdown


def test_closing_ends_the_server_process() -> None:
    with McpTools([wild()]) as tools:
        process = json.loads(call(by_name(tools)["echo"]))["pid"]
        assert is_alive(process)
    assert not is_alive(process)


@pytest.mark.parametrize("ending", ["pass", "raise SystemExit(3)", "raise ValueError('x')"])
@pytest.mark.sampled(3)
def test_the_end_of_the_interpreter_ends_the_server_silently(ending: str) -> None:
    code = f"""
        from tests.mcp_servers import by_name, call, small
        from statewright.agents.mcp import McpTools
        tools = McpTools([small()])
        print(call(by_name(tools)["process"])["result"], flush=True)
        {ending}
    """
    command = [sys.executable, "-W", "error", "-c", textwrap.dedent(code)]
    completed = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert not is_alive(int(completed.stdout))
    assert completed.stderr == "" or ("ValueError: x" in completed.stderr and completed.stderr.count("Error") == 1)


def test_a_killed_client_leaves_no_server_process() -> None:
    code = """
        import os, signal
        from tests.mcp_servers import by_name, call, small
        from statewright.agents.mcp import McpTools
        tools = McpTools([small()])
        print(call(by_name(tools)["process"])["result"], flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    """
    completed = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=600, check=False
    )
    assert eventually(lambda: not is_alive(int(completed.stdout)))


def test_the_error_without_the_sdk_says_what_to_install() -> None:
    code = """
        import sys
        sys.modules["mcp.client"] = None
        from statewright.agents.mcp import McpServer, McpTools
        try:
            McpTools([McpServer.stdio("m", "x")]).load()
        except Exception as error:
            print(type(error).__name__, error)
    """
    completed = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=600, check=False
    )
    assert "ToolError MCP servers need the library 'mcp" in completed.stdout
    assert "Run `pip install 'statewright[mcp]'`." in completed.stdout, completed.stderr
