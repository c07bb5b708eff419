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

StateScript = str | list[str] | Mapping[str, "StateScript"]
"""The outputs of one state: the same output for every call; a list with one output per call, the last of which repeats;
or a mapping from the items of an iteration, as text, to either of these."""
Script = Mapping[str, StateScript]
"""The outputs of each state, by state id. The keys `SUMMARY` and `FINAL_SUMMARY` may be present too."""

SUMMARY: Final = "summary"
"""The key in a script for the text that replaces a history when it is too long."""
FINAL_SUMMARY: Final = "final_summary"
"""The key in a script for the summary that is written at the end of a run. It belongs to no state."""
_FIELD: Final = re.compile(r"\$([A-Za-z_]\w*)")


class ScriptedStateHandler:
    """Performs a state by returning its outputs from a script. For states that are not assistants."""

    def __init__(self, state_id: str, script: StateScript) -> None:
        self._state_id = state_id
        self._script = script

    async def perform(self, call: Call) -> Outcome:
        return Outcome(fill_item_fields(select_output(self._state_id, self._script, call.number, call), call))


class WorkflowScriptModel:
    """A chat model that answers with the outputs in a script.

    When an assistant asks for a correction of its last answer, the model answers with the next output of the list.
    """

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


def select_output(state_id: str, script: StateScript, number: int, call: Call | None) -> str:
    """Return the output for a call of a state. Raises ModelError if the script contains no output for it.

    `number` is the index in a list of outputs. `call` is None for the final summary, which has no item.
    """
    if isinstance(script, str):
        return script
    if isinstance(script, list):
        if not script:
            raise ModelError(f"The script of state {state_id!r} is an empty list. Add an output.")
        return select_output(state_id, script[min(number, len(script) - 1)], 0, call)
    item = call.item if call is not None else None
    key = next((key for key in _list_candidate_keys(item) if key in script), None)
    if key is None:
        hint = suggestion(as_text(item), script, noun="Items in the script")
        raise ModelError(f"The script of state {state_id!r} has no output for the item {as_text(item)[:200]!r}. {hint}")
    return select_output(state_id, script[key], number, call)


def _list_candidate_keys(item: Any) -> list[str]:
    """Return the keys under which a script may contain the output for an item: its text, or one of two JSON forms."""
    return [as_text(item), json.dumps(item), json.dumps(item, separators=(",", ":"), ensure_ascii=False)]


def fill_item_fields(output: str, call: Call) -> str:
    """Replace `$item` in an output with the item of the branch and, if the item is a map, `$name` with its fields."""
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
    """Raise InvalidConfig if a script names an unknown state, or contains outputs that are not strings."""
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
        f"The script of {name!r} contains {outputs!r}. Use a string, a list with one string per call, or a map from "
        f"items to either."
    )
