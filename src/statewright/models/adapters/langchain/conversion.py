"""Convert our requests for LangChain models, and LangChain's messages and chunks to our responses and events.

The fields that are needed to send a LangChain message to its provider again unchanged, such as reasoning blocks with
their signatures, are recorded in the metadata of our message. Message ids are not sent, because they mean nothing to a
provider.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, cast

from statewright.langchain_forms import DUPLICATE_KWARGS, LANGCHAIN_RECORD, content_of, reasoning_of, text_of
from statewright.messages import Message, ToolCall, langchain_calls, read_tool_call
from statewright.models.adapters.conversion import find_finish_reason, sampling_settings
from statewright.models.conversation.prepare import starting_with_user
from statewright.models.model import (
    FinishReason,
    ModelEvent,
    ModelRequest,
    ModelResponse,
    OutputForm,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    ToolSpec,
    Usage,
)

_SENT_FIELDS: Final = ("content", "additional_kwargs", "response_metadata")
"""The recorded fields that are sent to the provider again."""


def langchain_messages(request: ModelRequest, instruction: str = "") -> list[Any]:
    """Return the system prompt and the conversation as LangChain messages. `instruction` is added to the prompt."""
    from langchain_core.messages import SystemMessage

    system = "\n\n".join(text for text in (request.system, instruction) if text)
    return [*([SystemMessage(system)] if system else []), *map(_to_langchain, starting_with_user(request.messages))]


def request_settings(request: ModelRequest) -> dict[str, Any]:
    """Return the settings of a request that are set, as keyword arguments for LangChain's models."""
    model = {} if request.model is None else {"model": request.model}
    return {**model, **sampling_settings(request), **request.extra}


def tool_options(request: ModelRequest) -> dict[str, Any]:
    """Return the keyword arguments of `bind_tools` for a request."""
    choice = {} if request.tool_choice == "auto" else {"tool_choice": request.tool_choice}
    parallel = request.parallel_tool_calls
    return choice if parallel is None else {**choice, "parallel_tool_calls": parallel}


def function_schema(tool: ToolSpec) -> dict[str, Any]:
    """Return a tool in OpenAI's function format, which `bind_tools` of every model accepts."""
    function = {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)}
    strict = {} if tool.strict is None else {"strict": tool.strict}
    return {"type": "function", "function": {**function, **strict}}


def titled_schema(form: OutputForm) -> dict[str, Any]:
    """Return the schema with a title and a description, which LangChain needs to make a function of it."""
    return {"description": "The answer.", **form.schema, "title": form.name}


def output_instruction(form: OutputForm) -> str:
    """Return an instruction to answer according to a schema, for models without structured output."""
    schema = json.dumps(dict(form.schema), ensure_ascii=False)
    return f"Answer with JSON alone, without any other text, as this JSON Schema describes it: {schema}"


# -- messages


def _to_langchain(message: Message) -> Any:
    from langchain_core.messages import HumanMessage, SystemMessage, ToolMessage

    content: Any = message.content
    match message.role:
        case "assistant":
            return _to_ai_message(message)
        case "tool":
            return ToolMessage(content, tool_call_id=message.tool_call_id or "", name=message.name)
        case "system":
            return SystemMessage(content, name=message.name)
        case _:
            return HumanMessage(content, name=message.name)


def _to_ai_message(message: Message) -> Any:
    from langchain_core.messages import AIMessage

    valid = [
        {"name": call.name, "args": call.arguments, "id": call.id, "type": "tool_call"}
        for call in message.tool_calls
        if call.invalid is None
    ]
    invalid = [
        {"name": call.name, "args": call.invalid, "id": call.id, "error": None, "type": "invalid_tool_call"}
        for call in message.tool_calls
        if call.invalid is not None
    ]
    fields: dict[str, Any] = {"content": message.content, **_recorded_fields(message)}
    return AIMessage(**fields, name=message.name, tool_calls=valid, invalid_tool_calls=invalid)


def _recorded_fields(message: Message) -> Mapping[str, Any]:
    """Return the recorded fields of a LangChain message; none if our message was changed after the conversion."""
    provider: Any = (message.metadata or {}).get("provider")
    record: Any = cast(Mapping[str, Any], provider).get(LANGCHAIN_RECORD) if isinstance(provider, Mapping) else None
    if not isinstance(record, Mapping):
        return {}
    fields = {name: value for name, value in cast(Mapping[str, Any], record).items() if name in _SENT_FIELDS}
    if "content" in fields and not _has_same_content(fields["content"], message):
        return {}
    extra: Mapping[str, Any] = fields.get("additional_kwargs") or {}
    return {**fields, "additional_kwargs": {name: extra[name] for name in extra if name not in DUPLICATE_KWARGS}}


def _has_same_content(content: str | Sequence[str | Mapping[str, Any]], message: Message) -> bool:
    """Return True if recorded content has the same text as a message, and no calls that the message does not have."""
    if isinstance(content, str):
        return content == message.text
    blocks: list[Mapping[str, Any]] = [
        {"type": "text", "text": block} if isinstance(block, str) else block for block in content
    ]
    text = "".join(block.get("text") or "" for block in blocks if block.get("type") == "text")
    call_ids = {
        block.get("call_id") or block.get("id")
        for block in blocks
        if block.get("type") in ("tool_use", "function_call")
    }
    return text == message.text and call_ids <= {call.id for call in message.tool_calls}


# -- responses


def convert_response(
    answer: Any, calls: Sequence[ToolCall], response_metadata: Mapping[str, Any], model: str
) -> ModelResponse:
    """Return the answer of a LangChain model as a response.

    The answer's calls and metadata are parameters, because ChunkMerger merges those of a stream in its own way. `model`
    is the name to use if the metadata has none.
    """
    return ModelResponse(
        _message(answer, calls),
        _usage(answer.usage_metadata or {}),
        response_metadata.get("model_name") or response_metadata.get("model") or model,
        _finish_reason(response_metadata, calls),
    )


def convert_answer_call(response: ModelResponse, form: OutputForm) -> ModelResponse:
    """Convert a call of the answer tool, which is named `form.name`, to a response with the call's arguments as text.

    If the response calls other tools too, it keeps only their calls, because the model answers again after their
    results.
    """
    calls = response.message.tool_calls
    others = tuple(call for call in calls if call.name != form.name)
    if others or not calls:
        return replace(response, message=replace(response.message, tool_calls=others))
    # The record of the LangChain message contains the call too. It is dropped, since the call will have no result.
    metadata = {name: value for name, value in (response.message.metadata or {}).items() if name != "provider"}
    message = Message(calls[0].written, role="assistant", metadata=metadata or None)
    is_cut_short = response.finish_reason in ("length", "refused")  # otherwise it is `tools`
    return replace(response, message=message, finish_reason=response.finish_reason if is_cut_short else "stop")


# -- the message


def _message(answer: Any, calls: Sequence[ToolCall]) -> Message:
    metadata: dict[str, Any] = {}
    if reasoning := reasoning_of(answer):
        metadata["reasoning"] = reasoning
    if fields := _fields_to_record(answer):
        metadata["provider"] = {LANGCHAIN_RECORD: fields}
    return Message(content_of(answer), role="assistant", tool_calls=tuple(calls), metadata=metadata or None)


def _fields_to_record(answer: Any) -> dict[str, Any]:
    """Return the fields to record if an answer has more than text and calls; usually none."""
    extra = {
        name: value
        for name, value in answer.additional_kwargs.items()
        if value is not None and name not in DUPLICATE_KWARGS
    }
    if isinstance(answer.content, str) and not extra:
        return {}
    provider = answer.response_metadata.get("model_provider")
    response_metadata = {"model_provider": provider} if provider else {}
    return {"content": answer.content, "additional_kwargs": extra, "response_metadata": response_metadata}


# -- usage and finish reason


def _usage(usage: Mapping[str, Any]) -> Usage:
    input_details: Mapping[str, Any] = usage.get("input_token_details") or {}
    output_details: Mapping[str, Any] = usage.get("output_token_details") or {}
    return Usage(
        input_tokens=usage.get("input_tokens") or 0,
        output_tokens=usage.get("output_tokens") or 0,
        cached_tokens=input_details.get("cache_read") or 0,
        reasoning_tokens=output_details.get("reasoning") or 0,
    )


def _finish_reason(response_metadata: Mapping[str, Any], calls: Sequence[ToolCall]) -> FinishReason | None:
    reason = find_finish_reason(response_metadata)
    return "tools" if calls and reason in (None, "stop") else reason


# -- streams


@dataclass(slots=True)
class _PartialCall:
    """A tool call whose chunks are still arriving."""

    key: Any
    """The index or id that the chunks of this call have in common."""
    position: int
    """The index of the call in the answer, from 0."""
    id: str = ""
    name: str = ""
    arguments: str = ""

    def add(self, chunk: Any) -> ToolCallDelta:
        """Add a chunk, and return its event. The event has the id and the name only if the call had none before."""
        call_id, name, arguments = (chunk.get(key) or "" for key in ("id", "name", "args"))
        delta = ToolCallDelta(
            self.position, (not self.id and call_id) or None, (not self.name and name) or None, str(arguments)
        )
        self.id, self.name = self.id or call_id, self.name or name
        self.arguments += delta.arguments
        return delta


class ChunkMerger:
    """Converts the chunks of one answer to events, and merges them into one message."""

    def __init__(self) -> None:
        self._chunks: list[Any] = []
        self.response_metadata: dict[str, Any] = {}
        """The metadata of all chunks. It is merged here, because LangChain would concatenate repeated strings."""
        self._calls: list[_PartialCall] = []

    def add(self, chunk: Any) -> Iterator[ModelEvent]:
        """Add a chunk, and yield its events."""
        self._chunks.append(chunk)
        self.response_metadata.update({name: value for name, value in chunk.response_metadata.items() if value})
        if reasoning := reasoning_of(chunk):
            yield ReasoningDelta(reasoning)
        if text := text_of(chunk):
            yield TextDelta(text)
        for call_chunk in _call_chunks(chunk):
            yield self._call_of(call_chunk).add(call_chunk)

    def merge(self) -> Any:
        """Return all chunks merged into one LangChain message; None if there were no chunks."""
        if len(self._chunks) < 2:
            return self._chunks[0] if self._chunks else None
        first, *others = self._chunks
        return first + others

    def calls(self) -> list[ToolCall]:
        """Return the calls with the arguments as they arrived; LangChain would complete truncated arguments."""
        return [read_tool_call(call.id, call.name, call.arguments) for call in self._calls]

    def _call_of(self, chunk: Any) -> _PartialCall:
        """Return the call to which a chunk belongs; it is added if it is new.

        It is the call with the same index, or else the same id; if the chunk has neither, the last call.
        """
        key = chunk.get("index")
        if key is None:
            key = chunk.get("id") or (self._calls[-1].key if self._calls else None)
        call = next((call for call in self._calls if call.key == key), None)
        if call is None:
            call = _PartialCall(key, len(self._calls))
            self._calls.append(call)
        return call


def _call_chunks(chunk: Any) -> list[Any]:
    """Return the tool call chunks in a chunk of an answer.

    A model that cannot stream yields a single message instead of chunks, with complete calls.
    """
    call_chunks = getattr(chunk, "tool_call_chunks", None)
    if call_chunks is not None:
        return call_chunks
    calls = enumerate(langchain_calls(chunk))
    return [{"index": index, "id": call.id, "name": call.name, "args": call.written} for index, call in calls]
