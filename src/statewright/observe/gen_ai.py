"""Span attributes of model and tool calls by the OpenTelemetry conventions for generative AI."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

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
"""Provider names of the conventions, where they differ from our prefixes of model names."""


def model_attributes(told: Mapping[str, Any]) -> Attributes:
    """Return the attributes of a model call from the data of its event."""
    prefix, _, bare = str(told.get("model", "")).rpartition(":")
    requested = str(told.get("request_model") or bare)
    provider = told.get("provider") or prefix or requested.rpartition(":")[0]
    found = {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": requested.rpartition(":")[2],
        "gen_ai.response.model": bare,
        "gen_ai.usage.input_tokens": told.get("input_tokens"),
        "gen_ai.usage.output_tokens": told.get("output_tokens"),
        "gen_ai.response.finish_reasons": [str(told["finish_reason"])] if told.get("finish_reason") else None,
        "gen_ai.agent.name": told.get("agent"),
        "statewright.cost_usd": told.get("cost"),
    }
    if provider:
        name = _PROVIDERS.get(str(provider), str(provider))
        found["gen_ai.provider.name"] = found["gen_ai.system"] = name
    return {key: value for key, value in found.items() if value is not None}


def tool_attributes(told: Mapping[str, Any]) -> Attributes:
    """Return the attributes of a tool call from the data of its event."""
    found = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": told.get("tool"),
        "gen_ai.tool.call.id": told.get("call"),
        "gen_ai.tool.type": "function",
        "gen_ai.agent.name": told.get("agent"),
    }
    return {key: value for key, value in found.items() if value is not None}
