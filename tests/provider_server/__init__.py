"""A small server that speaks as providers of chat models do: real HTTP over loopback, with answers from a script.

    with ProviderServer(["hello"]) as server:
        model = connect_model("openai-chat:test", base_url=server.openai_url, api_key="k")

It serves OpenAI's chat completions and responses, Anthropic's messages and Google's generateContent, each whole and
streamed. One script serves all: an `Answer` is written in the form of the endpoint that was asked. `Failure`, `Cut` and
`Raw` are what goes wrong. `server.requests` holds what was asked.
"""

from tests.provider_server.answer import Answer, Call, Cut, Failure, Raw, Reply
from tests.provider_server.server import Asked, ProviderServer

__all__ = ["Answer", "Asked", "Call", "Cut", "Failure", "ProviderServer", "Raw", "Reply"]
