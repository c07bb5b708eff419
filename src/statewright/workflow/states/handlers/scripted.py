"""Scripted states: fixed outputs, for tests of workflows and for runs without a model."""

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
"""An output; a list of outputs by call number, the last of which repeats; or outputs by the text of the item."""
Script = Mapping[str, Scripted]
"""Outputs by state id."""

SUMMARY: Final = "summary"
"""The key of the summary of a history that is too long."""
FINAL_SUMMARY: Final = "final_summary"
"""The key of the summary at the end of a run."""
_FIELD: Final = re.compile(r"\$([A-Za-z_]\w*)")


class ScriptedStateHandler:
    """Returns the outputs of a scripted state that is not an assistant."""

    def __init__(self, state_id: str, script: Scripted) -> None:
        self._state_id = state_id
        self._script = script

    async def perform(self, call: Call) -> Outcome:
        return Outcome(fill_item_fields(select_output(self._state_id, self._script, call.number, call), call))


class ScriptModel:
    """A chat model that answers from a script. A request with corrections gets the next output of a list."""

    def __init__(self, script: Script) -> None:
        self._script = script

    async def complete(self, request: ModelRequest) -> ModelResponse:
        name, call = str(request.metadata["state"]), cast("Call | None", request.metadata["call"])
        if call is None:
            output = select_output(name, self._script[name], 0, None)
        else:
            earlier_answers = sum(message.role == "assistant" for message in request.messages[len(call.history) :])
            output = select_output(name, self._script[name], call.number + earlier_answers, call)
            output = fill_item_fields(output, call)
        return ModelResponse(Message(output, role="assistant"))


def select_output(state_id: str, script: Scripted, number: int, call: Call | None) -> str:
    """Return the output for a call, by its number and its item. Raises ModelError if the script has none."""
    if isinstance(script, str):
        return script
    if isinstance(script, list):
        if not script:
            raise ModelError(f"The script of state {state_id!r} is an empty list. Add an output.")
        return select_output(state_id, script[min(number, len(script) - 1)], 0, call)
    item = call.item if call is not None else None
    key = next((key for key in _list_item_keys(item) if key in script), None)
    if key is None:
        hint = suggestion(as_text(item), script, noun="It has outputs for")
        raise ModelError(f"The script of state {state_id!r} has no output for the item {as_text(item)[:200]!r}. {hint}")
    return select_output(state_id, script[key], number, call)


def _list_item_keys(item: Any) -> list[str]:
    """Return the keys under which a script may have the output for an item."""
    return [as_text(item), json.dumps(item), json.dumps(item, separators=(",", ":"), ensure_ascii=False)]


def fill_item_fields(output: str, call: Call) -> str:
    """Fill in `$item`, and `$name` for the fields of an item that is a map."""
    if "$" not in output or not call.has_item:
        return output
    item: Any = call.item
    fields = cast("dict[str, Any]", item) if isinstance(item, dict) else {}

    def get_value(match: re.Match[str]) -> str:
        name = match[1]
        if name in fields:
            return as_text(fields[name])
        return as_text(item) if name == "item" else match[0]

    return _FIELD.sub(get_value, output)


def check_script(script: Mapping[str, Any], state_ids: list[str]) -> None:
    """Raise InvalidConfig for a script with an unknown state, or with outputs that are not text."""
    names = {*state_ids, SUMMARY, FINAL_SUMMARY}
    for name, outputs in script.items():
        if name not in names:
            raise InvalidConfig(
                f"The script names {name!r}, which is not a state. {suggestion(name, names, noun='States')}"
            )
        _check_outputs(name, outputs)


def _check_outputs(name: str, outputs: Any) -> None:
    if isinstance(outputs, str):
        return
    if isinstance(outputs, list | Mapping):
        inner = cast("list[Any]", list(outputs.values()) if isinstance(outputs, Mapping) else outputs)  # pyright: ignore
        for output in inner:
            _check_outputs(name, output)
        return
    raise InvalidConfig(
        f"The script of {name!r} contains {outputs!r}. Use a text, a list of texts by call number, or a map by item."
    )
