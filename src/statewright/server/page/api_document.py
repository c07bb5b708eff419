"""The API's document as a page: operations by resource with their parameters, bodies and responses, and the schemas.

It is rendered on the server from our own OpenAPI document, without scripts and without other hosts, so that it can be
read offline. The usual renderers are a megabyte of script, and much of that edits and sends requests, which `curl` and
the client do better.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any, Final
from weakref import WeakKeyDictionary

from fastapi import FastAPI

from statewright.server.page.static_page import render_frame

Json = Mapping[str, Any]
_METHODS: Final = ("get", "post", "put", "patch", "delete")
_LIMITS: Final = ("default", "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems", "pattern")
_RENDERED: Final[WeakKeyDictionary[FastAPI, str]] = WeakKeyDictionary()
"""The page of each application, because the document never changes."""


def render_api_document(app: FastAPI) -> str:
    """Return the page of an application's API."""
    if app not in _RENDERED:
        _RENDERED[app] = _render(app.openapi())
    return _RENDERED[app]


def _render(document: Json) -> str:
    by_tag: dict[str, list[str]] = defaultdict(list)
    for path, item in document["paths"].items():
        for method in _METHODS:
            if method in item:
                tag = (item[method].get("tags") or ["other"])[0]
                by_tag[tag].append(_operation(method, path, item[method]))
    info = document["info"]
    contents = "".join(f'<a href="#{escape(tag)}">{escape(tag)}</a>' for tag in (*by_tag, "schemas"))
    operations = "".join(f'<h2 id="{escape(tag)}">{escape(tag)}</h2>{"".join(items)}' for tag, items in by_tag.items())
    schemas = "".join(
        f'<details id="schema-{escape(name)}"><summary class="mono">{escape(name)}</summary>'
        f"{_text(schema.get('description', ''))}{_properties(schema)}</details>"
        for name, schema in sorted(document["components"]["schemas"].items())
    )
    return render_frame(
        f"{info['title']}: API",
        f"<h1>{escape(info['title'])}: API</h1>{_text(info.get('description', ''))}"
        f'<p><a href="/openapi.json">OpenAPI document</a>, version {escape(info["version"])}</p>'
        f'<nav>{contents}</nav>{operations}<h2 id="schemas">Schemas</h2>{schemas}',
    )


def _operation(method: str, path: str, operation: Json) -> str:
    scope = operation.get("x-scope")
    return (
        f'<details id="{escape(operation["operationId"])}"><summary><b>{method.upper()}</b> '
        f'<span class="mono">{escape(path)}</span> <span class="quiet">{escape(operation.get("summary", ""))}</span>'
        f"</summary>{_text(operation.get('description', ''))}"
        + (f'<p class="quiet">Scope: <code>{escape(scope)}</code></p>' if scope else "")
        + _parameters(operation)
        + _body(operation)
        + _responses(operation)
        + "</details>"
    )


def _parameters(operation: Json) -> str:
    rows = [
        (f"{parameter['name']}{'' if parameter.get('required') else '?'}", parameter["in"], parameter)
        for parameter in operation.get("parameters", ())
    ]
    if not rows:
        return ""
    cells = "".join(
        f"<tr><td><code>{escape(name)}</code></td><td>{place}</td><td>{_type(parameter['schema'])}</td>"
        f"<td>{escape(parameter.get('description', ''))}</td></tr>"
        for name, place, parameter in rows
    )
    return f"<table><tr><th>parameter</th><th>in</th><th>type</th><th></th></tr>{cells}</table>"


def _body(operation: Json) -> str:
    types = [_type(media.get("schema", {})) for media in operation.get("requestBody", {}).get("content", {}).values()]
    return f"<p>Body: {', '.join(types)}</p>" if types else ""


def _responses(operation: Json) -> str:
    rows = "".join(
        f"<tr><td>{status}</td><td>{escape(response.get('description', ''))}</td>"
        f"<td>{', '.join(_type(media.get('schema', {})) for media in response.get('content', {}).values())}</td></tr>"
        for status, response in operation["responses"].items()
    )
    return f"<table><tr><th>status</th><th>response</th><th>type</th></tr>{rows}</table>"


def _properties(schema: Json) -> str:
    required = schema.get("required", ())
    rows = "".join(
        f"<tr><td><code>{escape(name)}{'' if name in required else '?'}</code></td><td>{_type(form)}</td>"
        f"<td>{escape(form.get('description', ''))}</td></tr>"
        for name, form in schema.get("properties", {}).items()
    )
    return f"<table>{rows}</table>" if rows else f"<p>{_type(schema)}</p>"


def _type(schema: Json) -> str:
    """Return a schema as short HTML, with links to the schemas that it names."""
    return " ".join(_type_words(schema))


def _type_words(schema: Json) -> Iterator[str]:
    alternatives = schema.get("anyOf") or schema.get("oneOf") or schema.get("allOf")
    if "$ref" in schema:
        name = escape(schema["$ref"].rpartition("/")[2])
        yield f'<a href="#schema-{name}">{name}</a>'
    elif alternatives:
        yield " or ".join(_type(alternative) for alternative in alternatives)
    elif schema.get("type") == "array":
        yield f"list of {_type(schema.get('items', {}))}"
    elif "enum" in schema or "const" in schema:
        values = schema.get("enum", [schema.get("const")])
        yield " or ".join(f"<code>{escape(str(value))}</code>" for value in values)
    else:
        yield escape(str(schema.get("type", "anything")))
    limits = [f"{limit} {schema[limit]!r}" for limit in _LIMITS if limit in schema]
    if limits:
        yield f'<span class="quiet">({escape(", ".join(limits))})</span>'


def _text(text: str) -> str:
    """Return paragraphs of text, in which backticks mark code, as HTML."""
    paragraphs = [paragraph for paragraph in escape(text).split("\n\n") if paragraph.strip()]
    return "".join(f"<p>{_with_code(paragraph)}</p>" for paragraph in paragraphs)


def _with_code(text: str) -> str:
    parts = text.split("`")
    if len(parts) % 2 == 0:  # an unpaired backtick
        return text
    return "".join(f"<code>{part}</code>" if index % 2 else part for index, part in enumerate(parts))
