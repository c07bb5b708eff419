"""Span attributes of model and tool calls, by the semantic conventions of OpenTelemetry for generative AI."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from statewright.data.mappings import without_none

Attributes = dict[str, Any]
_PROVIDERS: Final[Mapping[str, str]] = {
    "azure": "azure.ai.openai",
    "bedrock": "aws.bedrock",
    "gateway": "gateway",
    "gemini": "gcp.gemini",
    "google": "gcp.gemini",
    "google-gla": "gcp.gemini",
    "google-vertex": "gcp.vertex_ai",
    "grok": "x_ai",
    "mistral": "mistral_ai",
    "openai-chat": "openai",
    "openai-responses": "openai",
    "vertexai": "gcp.vertex_ai",
    "watsonx": "ibm.watsonx.ai",
    "xai": "x_ai",
}
"""Names of providers in the conventions, by the prefixes of our model names, where the two differ."""


def model_attributes(data: Mapping[str, Any]) -> Attributes:
    """Return the attributes of a model call from the data of its event."""
    prefix, _, name = str(data.get("model", "")).rpartition(":")
    requested = str(data.get("request_model") or name)
    provider = data.get("provider") or prefix or requested.rpartition(":")[0]
    attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": requested.rpartition(":")[2],
        "gen_ai.response.model": name,
        "gen_ai.usage.input_tokens": data.get("input_tokens"),
        "gen_ai.usage.output_tokens": data.get("output_tokens"),
        "gen_ai.response.finish_reasons": [str(data["finish_reason"])] if data.get("finish_reason") else None,
        "gen_ai.agent.name": data.get("agent"),
        "statewright.cost_usd": data.get("cost"),
    }
    if provider:
        provider_name = _PROVIDERS.get(str(provider), str(provider))
        attributes["gen_ai.provider.name"] = attributes["gen_ai.system"] = provider_name
    return without_none(attributes)


def tool_attributes(data: Mapping[str, Any]) -> Attributes:
    """Return the attributes of a tool call from the data of its event."""
    attributes = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": data.get("tool"),
        "gen_ai.tool.call.id": data.get("call"),
        "gen_ai.tool.type": "function",
        "gen_ai.agent.name": data.get("agent"),
    }
    return without_none(attributes)
