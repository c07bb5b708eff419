"""One list of names, shapes and spellings of secrets: each entry is masked or reported wherever this is promised.

Each function below takes a text that contains a secret, and returns what a user sees of it. Add new outputs to the
lists; an output that differs from the others fails.
"""

from __future__ import annotations

import asyncio
import base64
import html
import io
import json
import logging
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from statewright.agents import Credentials, ToolContext, ToolFunction, call_tool
from statewright.agents.mcp import McpServer
from statewright.errors import InvalidConfig
from statewright.messages import Message
from statewright.models import ModelResponse
from statewright.models.adapters.langchain.errors import mask_for, model_error
from statewright.models.providers.failure import translate_error
from statewright.models.providers.names import ProviderSecrets
from statewright.observe import CaptureLimits, configure_logging
from statewright.observe.capture import CaptureBuffer, TaskAttempt
from statewright.observe.tracing import Spans
from statewright.project import read_project
from statewright.redaction import HIDDEN, MARK, Redactor, find_secret
from statewright.storage.locations import path_of
from statewright.workflow.states.tools import Integrations
from statewright.workflow.steps import CheckedAnswer
from statewright.workflow.steps.llm.checks import content_safety
from statewright.workflow.steps.model import LlmStep, PromptMessage

SECRET = "correct-horse-battery"
NAMES = [
    "password", "passwd", "pwd", "passphrase", "passcode", "secret", "token", "api_key", "API-Key", "apiKey", "apikey",
    "X-API-Key", "access_key", "access_token", "access_tokens", "refresh_token", "private_key", "signing_key",
    "encryption_key", "auth_key", "ssh_key", "subscription-key", "authorization", "Proxy-Authorization", "cookie",
    "Set-Cookie", "credential", "credentials", "session_id", "sessionId", "PHPSESSID", "otp", "totp", "cvv", "cvc",
    "ssn", "card_number", "db_password", "clientSecret", "client_secrets", "authtoken", "PGPASSWORD", "passwords",
    "AWS_SECRET_ACCESS_KEY", "password2",
]  # fmt: skip
ONLY_AS_KEYS = ["password_hash", "token_list", "PASSWORD_FILE"]
"""Names of secrets only as keys: in text, the same words occur in explanations."""
HARMLESS_NAMES = [
    "max_tokens", "input_tokens", "tokens", "tokenizer", "keyboard", "key", "author", "monkey", "compass", "secretary",
    "laptop", "id", "assess", "model", "cookiecutter",
]  # fmt: skip


def log_line(**fields: Any) -> str:
    stream = io.StringIO()
    with configure_logging(stream=stream):
        logging.getLogger("statewright.tests").warning("here", extra=fields)
    return stream.getvalue()


def integration(name: str, value: str) -> Credentials:
    return Integrations({"a": {name: value}}).credentials("a")


def project_warning(name: str, value: str) -> str:
    """Return the warning about a value in a project file, which counts as a mark, or the value if there is none."""
    text = f"[integrations.a]\n{json.dumps(name)} = {json.dumps(value)}"
    warnings = read_project(text, Path("statewright.toml")).warnings
    assert value not in str(warnings)
    return str(warnings[0]) if warnings else value


def mcp(*args: str) -> McpServer:
    return McpServer.stdio("x", "y", args)


def provider(name: str, value: str) -> Callable[[str], str]:
    secrets = ProviderSecrets("openai", settings={"extra_headers": {name: value}})
    return secrets.mask_for({}, "")


BY_NAME: dict[str, Callable[[str, str], str]] = {
    "redactor": lambda name, value: str(Redactor().value({name: value})),
    "redactor, nested": lambda name, value: str(Redactor().value([{"a": {name: [value]}}])),
    "redactor, pairs": lambda name, value: str(Redactor().value([(name.encode(), value)])),
    "redactor, name and value": lambda name, value: str(Redactor().value({"name": name, "value": value})),
    "log": lambda name, value: log_line(**{name: value}),
    "integration": lambda name, value: str(integration(name, value).hidden_in(f"say {value}")),
    "project file": project_warning,
    "argument of an MCP server": lambda name, value: mcp(f"--{name}={value}").without_secrets(f"say {value}"),
    "next argument of an MCP server": lambda name, value: mcp(f"--{name}", value).without_secrets(f"say {value}"),
    "header of a model": lambda name, value: provider(name, value)(f"say {value}"),
    "settings of a LangChain model": lambda name, value: mask_for(object(), {name: value})(f"say {value}"),
}
IN_TEXT: dict[str, Callable[[str, str], str]] = {
    "plain": lambda name, value: Redactor().text(f"{name}={value} and more"),
    "colon": lambda name, value: Redactor().text(f"a {name}: {value}"),
    "json": lambda name, value: Redactor().text(json.dumps({name: value, "b": 1})),
    "repr": lambda name, value: Redactor().text(repr({name: value})),
    "json in json": lambda name, value: Redactor().text(json.dumps({"body": json.dumps({name: value})})),
}


@pytest.mark.parametrize("show", BY_NAME.values(), ids=BY_NAME)
def test_a_value_under_the_name_of_a_secret_is_hidden(show: Callable[[str, str], str]) -> None:
    assert [name for name in (*NAMES, *ONLY_AS_KEYS) if SECRET in show(name, SECRET)] == []


@pytest.mark.parametrize("show", IN_TEXT.values(), ids=IN_TEXT)
def test_a_value_after_the_name_of_a_secret_is_hidden_in_text(show: Callable[[str, str], str]) -> None:
    shown = {name: show(name, SECRET) for name in NAMES}
    assert [name for name, text in shown.items() if SECRET in text or MARK not in text] == []


@pytest.mark.parametrize("show", [*BY_NAME.values(), *IN_TEXT.values()], ids=[*BY_NAME, *IN_TEXT])
def test_a_value_under_another_name_is_shown(show: Callable[[str, str], str]) -> None:
    assert [name for name in HARMLESS_NAMES if SECRET not in show(name, SECRET)] == []


def test_a_count_of_tokens_is_not_a_secret() -> None:
    assert not Redactor().is_secret("max_token_count", 5)


LETTERS = "abcdefghijklmnopqrstuvwxyz"
SHAPES = {
    "private key": f"-----BEGIN EC PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\n{LETTERS}\n-----END EC PRIVATE KEY-----",
    "private key of PGP": f"-----BEGIN PGP PRIVATE KEY BLOCK-----\n\n{LETTERS}\n-----END PGP PRIVATE KEY BLOCK-----",
    "sk-": f"sk-proj-{LETTERS}_1234",
    "sk_live_": f"sk_live_{LETTERS}",
    "whsec_": f"whsec_{LETTERS}",
    "stw_": f"stw_{LETTERS}",
    "ghp_": f"ghp_{LETTERS}0123456789",
    "ghu_": f"ghu_{LETTERS}0123456789",
    "ghs_, short": "ghs_0123456789abcdef",
    "github_pat_": f"github_pat_{LETTERS}",
    "glpat-": "glpat-0123456789abcdef",
    "xoxb-": f"xoxb-1234567890-{LETTERS}",
    "xoxe-": f"xoxe-1-{LETTERS}",
    "xoxe.xoxp-": f"xoxe.xoxp-1-{LETTERS}",
    "xapp-": f"xapp-1-A0-{LETTERS}",
    "AKIA": "AKIAIOSFODNN7EXAMPLE",
    "ASIA": "ASIAIOSFODNN7EXAMPLE",
    "AIza": "AIzaSyA-1234567890abcdefghijklmnopqrstu",
    "ya29": f"ya29.{LETTERS}",
    "gsk_": f"gsk_{LETTERS}",
    "hf_": f"hf_{LETTERS}",
    "r8_": f"r8_{LETTERS}",
    "npm_": f"npm_{LETTERS}",
    "xai-": f"xai-{LETTERS}",
    "pplx-": f"pplx-{LETTERS}",
    "nvapi-": f"nvapi-{LETTERS}",
    "lsv2_": f"lsv2_pt_{LETTERS}",
    "dckr_pat_": f"dckr_pat_{LETTERS}",
    "hvs.": f"hvs.{LETTERS}",
    "SG.": f"SG.{LETTERS}.{LETTERS}",
    "signed token": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abcdefghijkl",
    "signed token without a signature": "eyJhbGciOiJub25lIn0.eyJzdWIiOiIxMjM0In0.",
    "card": "4111 1111 1111 1111",
    "card without spaces": "5500000000000004",
    "social security": "123-45-6789",
}
"""Secrets that are recognised by their shape."""
IN_CONTEXT = {
    "assignment": ("password=hunter2hunter2", "hunter2"),
    "bearer": ("Bearer abcdefgh123", "abcdefgh"),
    "header": ("Authorization: Basic dTpwdw==", "dTpwdw"),
    "header of another name": ("X-Forwarded-Authorization: Basic dTpwdw==", "dTpwdw"),
    "cookie": ("Set-Cookie: session=hunter2; path=/", "hunter2"),
    "URL": ("postgres://anna:hunter2@host/db", "hunter2"),
    "URL with an @ in the password": ("postgres://anna:hun@ter2@host/db", "ter2"),
}
"""Texts with a secret that is recognised by its context, each with the secret."""
HARMLESS_TEXTS = [
    "max_tokens=5", "the password is secret", "task-1234 skipped", "https://example.com:8080/a@b",
    "4111 1111 1111 1112", "550e8400-e29b-41d4-a716-446655440000", "2026-01-02T03:04:05",
    "an eyJ", "000-12-3456", "0.4111111111111111",
]  # fmt: skip


def captured_output(text: str) -> str:
    buffer = CaptureBuffer(CaptureLimits(), Redactor())
    buffer.add(TaskAttempt("task", "node", 1), text, {"at": "now", "level": None, "logger": None, "stream": "stdout"})
    return buffer.take("task", "now")[0]["message"]


def exported_span(text: str) -> str:
    exporter = InMemorySpanExporter()
    tracing = TracerProvider()
    tracing.add_span_processor(SimpleSpanProcessor(exporter))
    spans = Spans(tracing, Redactor())
    span = spans.open("x", {}, 1)
    spans.close(span, 2, error=ValueError(text))
    return exporter.get_finished_spans()[0].to_json()


def checked_answer(text: str) -> str:
    """Return the text, or a mark if the answer of a model may not contain it."""
    step = LlmStep(type="llm", name="a", model="m", messages=(PromptMessage(role="user", content="x"),))
    answer = ModelResponse(Message(text, role="assistant"), finish_reason="stop")
    refusal = content_safety(CheckedAnswer(answer, step))
    return text if refusal is None else MARK


def provider_error(text: str) -> str:
    mask = ProviderSecrets("openai").mask_for({}, "")
    return str(translate_error(ValueError(text), "openai:x", "the key", mask))


BY_SHAPE: dict[str, Callable[[str], str]] = {
    "redactor": lambda text: Redactor().text(f"a {text} b"),
    "redactor, value": lambda text: str(Redactor().value({"a": [text]})),
    "redactor, key": lambda text: str(Redactor().value({text: 1})),
    "redactor, after an escape": lambda text: Redactor().text(f"a\\n{text}"),
    "redactor, inside JSON": lambda text: Redactor().text(json.dumps({"text": text})),
    "output of a task": captured_output,
    "log": lambda text: log_line(note=text),
    "span": exported_span,
    "integration": lambda text: str(integration("note", text).hidden_in(f"say {text}")),
    "project file": lambda text: project_warning("note", text),
    "error of a model": provider_error,
    "error of a LangChain model": lambda text: str(model_error("m", ValueError(text), mask_for(object(), {}))),
}
ANSWER_CHECKS: dict[str, Callable[[str], str]] = {
    "content_safety": checked_answer,
    "find_secret": lambda text: MARK if find_secret(text) else text,
}


def contains_secret(shown: str, secret: str) -> bool:
    """Return True if a text contains a secret, either plainly or in JSON."""
    return any(form in shown for form in (secret, json.dumps(secret)[1:-1], json.dumps(json.dumps(secret))[3:-3]))


@pytest.mark.parametrize("show", [*BY_SHAPE.values(), *ANSWER_CHECKS.values()], ids=[*BY_SHAPE, *ANSWER_CHECKS])
def test_values_with_the_shape_of_a_secret_are_hidden(show: Callable[[str], str]) -> None:
    texts = {name: show(secret) for name, secret in SHAPES.items()}
    assert [
        name for name, text in texts.items() if contains_secret(text, SHAPES[name]) or contains_secret(text, LETTERS)
    ] == []


@pytest.mark.parametrize("show", BY_SHAPE.values(), ids=BY_SHAPE)
def test_secrets_recognised_by_their_context_are_hidden(show: Callable[[str], str]) -> None:
    assert [name for name, (text, secret) in IN_CONTEXT.items() if secret in show(text)] == []


@pytest.mark.parametrize("show", [*BY_SHAPE.values(), *ANSWER_CHECKS.values()], ids=[*BY_SHAPE, *ANSWER_CHECKS])
def test_harmless_text_is_shown(show: Callable[[str], str]) -> None:
    assert [text for text in HARMLESS_TEXTS if not contains_secret(show(text), text)] == []


@pytest.mark.parametrize(("text", "secret"), IN_CONTEXT.values(), ids=IN_CONTEXT)
def test_the_answer_of_a_model_may_contain_a_secret_recognised_only_by_its_context(text: str, secret: str) -> None:
    assert secret in checked_answer(text)


@pytest.mark.parametrize("url", ["postgres://anna:hunter2@host/db", "mysql://u:a@hunter2@h", "x://h?password=hunter2"])
def test_errors_about_a_database_url_do_not_contain_its_password(url: str) -> None:
    with pytest.raises(InvalidConfig) as caught:
        path_of(url)
    assert "hunter2" not in str(caught.value)


KNOWN = 'p"ss <wörd>/1+2&3'
SPELLINGS: dict[str, Callable[[str], str]] = {
    "plain": str,
    "JSON": json.dumps,
    "JSON in UTF-8": lambda value: json.dumps(value, ensure_ascii=False),
    "JSON by PHP": lambda value: json.dumps(value).replace("/", r"\/"),
    "JSON in JSON": lambda value: json.dumps(json.dumps(value)),
    "HTML": html.escape,
    "HTML without quotes": lambda value: html.escape(value, quote=False),
    "URL": lambda value: quote(value, safe=""),
    "path of a URL": quote,
    "form": quote_plus,
    "URL in lower case": lambda value: quote(value, safe="").replace("%C3%B6", "%c3%b6").replace("%3C", "%3c")
    .replace("%3E", "%3e").replace("%2F", "%2f").replace("%2B", "%2b"),
    "URL by JavaScript": lambda value: quote(value, safe="!'()*"),
    "Python": repr,
    "hexadecimal": lambda value: value.encode().hex(),
    "base64": lambda value: base64.b64encode(value.encode()).decode(),
    "URL-safe base64": lambda value: base64.urlsafe_b64encode(value.encode()).decode().rstrip("="),
    **{
        f"base64 after {text!r}": lambda value, text=text: base64.b64encode(f"{text}{value}".encode()).decode()
        for text in ("a", "ab", "abc", "Bearer ")
    },
}  # fmt: skip


def known_credentials() -> Credentials:
    return Integrations({"a": {"x": "env:SECRET"}}).credentials("a", {"SECRET": KNOWN})


def call_with_credentials(function: Callable[..., Any]) -> Any:
    context = ToolContext(known_credentials())
    return asyncio.run(call_tool(ToolFunction(function, name="work"), {}, context=context))


def tool_result(text: str) -> str:
    return json.dumps(call_with_credentials(lambda: {"echo": [text], text: 1}), ensure_ascii=False)


def tool_error(text: str) -> str:
    def fail() -> None:
        raise ConnectionError(text) from ValueError(text)

    with pytest.raises(ConnectionError) as caught:
        call_with_credentials(fail)
    return "".join(traceback.format_exception(caught.value))


def provider_traceback(text: str) -> str:
    mask = ProviderSecrets("openai", api_key=KNOWN).mask_for({}, "")
    return "".join(traceback.format_exception(translate_error(ValueError(text), "openai:x", "the key", mask)))


def langchain_traceback(text: str) -> str:
    mask = mask_for(object(), {"api_key": KNOWN})
    return "".join(traceback.format_exception(model_error("m", ValueError(text), mask)))


BY_VALUE: dict[str, Callable[[str], str]] = {
    "credentials": lambda text: known_credentials().hidden_in(text),
    "result of a tool": tool_result,
    "error of a tool": tool_error,
    "environment of an MCP server": lambda text: McpServer.stdio("x", "y", env={"A": KNOWN}).without_secrets(text),
    "header of an MCP server": lambda text: McpServer.http(
        "x", "http://h", headers={"A": f"Bearer {KNOWN}"}
    ).without_secrets(text),
    "URL of an MCP server": lambda text: McpServer.http("x", f"http://h?key={quote(KNOWN)}").without_secrets(text),
    "error of a model": provider_traceback,
    "error of a LangChain model": langchain_traceback,
}


@pytest.mark.parametrize("show", BY_VALUE.values(), ids=BY_VALUE)
def test_a_known_value_is_hidden_in_every_spelling(show: Callable[[str], str]) -> None:
    spellings = {name: spell(KNOWN) for name, spell in SPELLINGS.items()}
    shown = {name: show(f"before {text} after") for name, text in spellings.items()}
    assert [name for name, text in shown.items() if contains_secret(text, spellings[name].strip("\"'="))] == []
    assert [name for name, text in shown.items() if HIDDEN not in text] == []


@pytest.mark.parametrize("show", BY_VALUE.values(), ids=BY_VALUE)
def test_unknown_values_are_shown(show: Callable[[str], str]) -> None:
    assert "nothing secret" in show("nothing secret")
