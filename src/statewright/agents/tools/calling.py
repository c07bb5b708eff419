"""One call of a tool, whoever wants it: what comes of it is plain JSON, and says nothing of credentials.

What a tool raises is raised as it is, with a note that names the tool: the retry policy of the state tells by its kind
whether to try again. See `docs/decisions/0026-tools.md`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from statewright.agents.tools.credentials import Credentials
from statewright.agents.tools.gathering import gathered
from statewright.agents.tools.http_error import HttpError
from statewright.agents.tools.tool import Tool, ToolContext
from statewright.encodable import encodable_text
from statewright.errors import ToolError, add_note
from statewright.messages import Message
from statewright.redaction import text_of


async def call_tool(
    tool: Tool, arguments: Mapping[str, Any], *, context: ToolContext, kept: tuple[type, ...] = ()
) -> Any:
    """What a tool answers: text, or a value of JSON. Answers of the types in `kept` are given as they are.

    What a generator yields is a list. Of a message the content counts where messages are not kept.

    Raises ToolError for a call that is wrong, and what the tool itself raises.
    """
    clean: Exception | None = None
    try:
        answer = await tool.call(arguments, context=context)
        if isinstance(answer, kept):
            return answer
        answer = await gathered(tool.name, answer, in_place=context.in_place)
        content = answer.content if isinstance(answer, Message) else answer
        return context.credentials.hidden_in(as_json(tool.name, content))
    except Exception as error:
        clean = without_secrets(error, context.credentials)
        if clean is None:
            if not isinstance(error, ToolError):
                add_note(error, f"Raised by tool {tool.name!r}.")
            raise
    # Outside of the handler: the error that told too much must not hang on as the context of this one.
    add_note(clean, f"Raised by tool {tool.name!r}.")
    raise clean


def as_json(tool: str, answer: Any) -> Any:
    """An answer as text or as plain JSON: dataclasses and models become maps, what is not finite None.

    Raises ToolError for what JSON cannot say.
    """
    if isinstance(answer, str):
        return encodable_text(str(answer))
    if answer is None or isinstance(answer, bool | int):
        return answer
    from pydantic_core import PydanticSerializationError, to_json

    try:
        return json.loads(to_json(answer, inf_nan_mode="null", bytes_mode="utf8"))
    except (PydanticSerializationError, ValueError, RecursionError) as error:
        raise ToolError(
            f"Tool {tool!r} answered a {type(answer).__name__}, which cannot be written as JSON: {error}. "
            f"Answer with text, numbers, lists and maps."
        ) from error


def without_secrets(error: Exception, credentials: Credentials) -> Exception | None:
    """Return an error that says the same without the secrets in it; None if it contains none.

    It is of a kind that the retry policy treats alike: a broken connection stays one, a status is kept.
    """
    if not credentials.appear_in(text_of(error)):
        return None
    text = credentials.hidden_in(f"{type(error).__name__}: {error}")
    status = getattr(error, "status", None)
    status = getattr(getattr(error, "response", None), "status_code", None) if status is None else status
    if isinstance(status, int):
        return HttpError(text, status=status, retry_after=getattr(error, "retry_after", None))
    for kind in (ConnectionError, TimeoutError):
        if isinstance(error, kind):
            return kind(text)
    return ToolError(text)
