"""States that answer from a script: for tests of workflows, and to try one without a model."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final, cast

from statewright.agents import as_text
from statewright.errors import InvalidConfig, ModelError, suggestion
from statewright.messages import Message
from statewright.models import ModelRequest, ModelResponse
from statewright.workflow.states.handlers.call import Call, Outcome

Scripted = str | list[str] | Mapping[str, "Scripted"]
"""An output; outputs by the number of the call, the last of which repeats; or outputs by the text of the item."""
Script = Mapping[str, Scripted]
"""What each state answers."""

SUMMARY: Final = "summary"
"""Under this name: what a history is summarised to, in place."""
FINAL_SUMMARY: Final = "final_summary"
"""Under this name: the summary at the end of a run."""
_FIELD: Final = re.compile(r"\$([A-Za-z_]\w*)")


class ScriptedState:
    """Answers for one state."""

    def __init__(self, state_id: str, script: Scripted) -> None:
        self._state_id = state_id
        self._script = script

    async def perform(self, call: Call) -> Outcome:
        return Outcome(filled_in(scripted_output(self._state_id, self._script, call.number, call), call))


class ScriptModel:
    """A chat model that answers for states from a script: asked again, it gives the next output of a list."""

    def __init__(self, script: Script) -> None:
        self._script = script

    async def complete(self, request: ModelRequest) -> ModelResponse:
        name, call = str(request.metadata["state"]), cast("Call | None", request.metadata["call"])
        if call is None:
            return _said(scripted_output(name, self._script[name], 0, None))
        again = sum(message.role == "assistant" for message in request.messages[len(call.history) :])
        return _said(filled_in(scripted_output(name, self._script[name], call.number + again, call), call))


def _said(text: str) -> ModelResponse:
    return ModelResponse(Message(text, role="assistant"))


def scripted_output(state_id: str, script: Scripted, number: int, call: Call | None) -> str:
    """The output for a call. Raises ModelError where the script has none."""
    if isinstance(script, str):
        return script
    if isinstance(script, list):
        if not script:
            raise ModelError(f"The script of state {state_id!r} is an empty list. Give it an output.")
        return scripted_output(state_id, script[min(number, len(script) - 1)], 0, call)
    item = call.item if call is not None else None
    found = next((name for name in _names_of(item) if name in script), None)
    if found is None:
        known = suggestion(as_text(item), script, noun="It has outputs for")
        raise ModelError(
            f"The script of state {state_id!r} has no output for the item {as_text(item)[:200]!r}. {known}"
        )
    return scripted_output(state_id, script[found], number, call)


def _names_of(item: Any) -> list[str]:
    """The texts under which a script may know an item."""
    return [as_text(item), json.dumps(item), json.dumps(item, separators=(",", ":"), ensure_ascii=False)]


def filled_in(output: str, call: Call) -> str:
    """The output with `$item`, and `$name` for the fields of an item that is a map."""
    if "$" not in output or not call.has_item:
        return output
    item: Any = call.item
    fields = cast("dict[str, Any]", item) if isinstance(item, dict) else {}

    def value(found: re.Match[str]) -> str:
        name = found[1]
        if name in fields:
            return as_text(fields[name])
        return as_text(item) if name == "item" else found[0]

    return _FIELD.sub(value, output)


def check_script(script: Mapping[str, Any], state_ids: list[str]) -> None:
    """Raise InvalidConfig for a script that names no state, or whose outputs are no texts."""
    known = {*state_ids, SUMMARY, FINAL_SUMMARY}
    for name, outputs in script.items():
        if name not in known:
            raise InvalidConfig(
                f"The script names {name!r}, which is no state. {suggestion(name, known, noun='States')}"
            )
        _check_outputs(name, outputs)


def _check_outputs(name: str, outputs: Any) -> None:
    if isinstance(outputs, str):
        return
    if isinstance(outputs, list | Mapping):
        inner = cast("list[Any]", list(outputs.values()) if isinstance(outputs, Mapping) else outputs)  # pyright: ignore
        for one in inner:
            _check_outputs(name, one)
        return
    raise InvalidConfig(
        f"The script of {name!r} holds {outputs!r}. Give a text, a list of texts by number of call, or a map by item."
    )
