"""Print a run: each step as it happens, and at the end the plan and the diff."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import unified_diff
from pathlib import Path

from state import Plan
from workspace import PROJECT, files_of

from statewright.messages import Message, read_tool_call
from statewright.models import MessageChunk

WIDTH = 100
"""Maximum number of characters of a tool result that are printed."""


class Steps:
    """Prints the messages of a run: model output, word by word, and a line for each tool call."""

    def __init__(self) -> None:
        self._speaking: str | None = None
        self._call_by_index: dict[tuple[str | None, int], str] = {}
        self._arguments_by_call: dict[str, str] = {}

    def show(self, message: Message) -> None:
        """Print a message, or a piece of one."""
        if isinstance(message, MessageChunk):
            self._show_chunk(message)
        elif message.role == "tool":
            self._show_result(message)

    def end(self) -> None:
        """End the current line, if any."""
        if self._speaking is not None:
            print(flush=True)
        self._speaking = None

    def _show_chunk(self, chunk: MessageChunk) -> None:
        if chunk.text and chunk.id != self._speaking:
            self.end()
            print(f"{chunk.name}: ", end="")
            self._speaking = chunk.id
        print(chunk.text, end="", flush=True)
        for delta in chunk.tool_call_chunks:
            # Only the first piece of a call has its id; the others are identified by their index in the response.
            call = self._call_by_index.setdefault((chunk.id, delta.index), delta.id or "")
            self._arguments_by_call[call] = self._arguments_by_call.get(call, "") + delta.arguments

    def _show_result(self, message: Message) -> None:
        self.end()
        arguments = self._arguments_by_call.get(message.tool_call_id or "", "")
        path = read_tool_call("", "", arguments).arguments.get("path", "")
        lines = message.text.splitlines() or [""]
        more = f" ... ({len(lines)} lines)" if len(lines) > 1 else ""
        print(f"  {message.name} {path}".rstrip() + f" -> {lines[0][:WIDTH]}{more}", flush=True)


def plan_lines(plan: Plan) -> Iterator[str]:
    """Yield the lines of the plan."""
    yield plan.thoughts
    yield plan.details
    yield from (f"- {edit.filename}: {edit.idea} {edit.reasoning}" for edit in plan.edits)


def diff_lines(repo: Path) -> Iterator[str]:
    """Yield the diff of the copy of the project."""
    for name in sorted({*files_of(PROJECT), *files_of(repo)}):
        yield from unified_diff(_lines(PROJECT / name), _lines(repo / name), f"a/{name}", f"b/{name}", lineterm="")


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []
