"""A small server with the APIs of providers of chat models: HTTP on the loopback interface, with scripted answers.

    with ProviderServer(["hello"]) as server:
        model = connect_model("openai-chat:test", base_url=server.openai_url, api_key="k")

It serves OpenAI's chat completions and responses, Anthropic's messages and Google's generateContent, each complete and
streamed. All share one script: an `Answer` is written in the format of the requested endpoint. `Failure`, `Cut` and
`Raw` are errors. `server.requests` has the received requests.
"""

from tests.provider_server.answer import Answer, Call, Cut, Failure, Raw, Reply
from tests.provider_server.server import ProviderServer, Request

__all__ = ["Answer", "Call", "Cut", "Failure", "ProviderServer", "Raw", "Reply", "Request"]
