"""Summary of the HTTP API: operations with their parameters and bodies, and the fields of their schemas.

Descriptions are omitted, so that the text changes only if clients are affected. After an intended change, update it:
`python -m tests.surface.http_surface > tests/surface/http_surface.txt`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from statewright.server.app import create_app
from statewright.server.settings import ServerSettings
from statewright.service import Service

METHODS = ("get", "post", "put", "patch", "delete")
LIMITS = ("enum", "const", "default", "pattern", "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems")


def http_surface() -> str:
    """Return one line for each operation, parameter, body, response and field of the OpenAPI document."""
    document = create_app(Service({}), settings=ServerSettings(auth="none")).openapi()
    return "".join(f"{line}\n" for line in _lines(document))


def _lines(document: Mapping[str, Any]) -> Iterator[str]:
    for path, item in sorted(document["paths"].items()):
        for method in METHODS:
            if method in item:
                yield from _operation(f"{method.upper()} {path}", item[method])
    for name, schema in sorted(document["components"]["schemas"].items()):
        yield f"{name}: {_type(schema)}"
        required = schema.get("required", ())
        for field, form in sorted(schema.get("properties", {}).items()):
            yield f"  {field}{'' if field in required else '?'}: {_type(form)}"


def _operation(title: str, operation: Mapping[str, Any]) -> Iterator[str]:
    yield f"{title} ({operation['operationId']})"
    for parameter in sorted(operation.get("parameters", ()), key=lambda it: (it["in"], it["name"])):
        optional = "" if parameter.get("required") else "?"
        yield f"  {parameter['in']} {parameter['name']}{optional}: {_type(parameter['schema'])}"
    for media, content in _contents(operation.get("requestBody", {})):
        yield f"  body {media}: {_type(content.get('schema', {}))}"
    responses = dict[str, list[str]]()
    for status, response in sorted(operation["responses"].items()):
        contents = [f"{media} {_type(content.get('schema', {}))}" for media, content in _contents(response)]
        headers = [f"[{name}]" for name in sorted(response.get("headers", {}))]
        responses.setdefault(" ".join([*contents, *headers]), []).append(status)
    for content, statuses in responses.items():
        yield f"  {' '.join(statuses)}: {content}".rstrip()


def _contents(part: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    return sorted(part.get("content", {}).items())


def _type(schema: Mapping[str, Any]) -> str:
    """Return a schema as an expression in short: `array of Run`, `string or null`, `integer (minimum 1)`."""
    if "$ref" in schema:
        return schema["$ref"].rpartition("/")[2]
    alternatives = schema.get("anyOf") or schema.get("oneOf") or schema.get("allOf")
    if alternatives:
        name = " or ".join(_type(alternative) for alternative in alternatives)
    elif schema.get("type") == "array":
        name = f"array of {_type(schema.get('items', {}))}"
    elif isinstance(schema.get("additionalProperties"), dict):
        name = f"map of {_type(schema['additionalProperties'])}"
    else:
        name = schema.get("type", "any")
    if schema.get("additionalProperties") is False:
        name = f"closed {name}"
    limits = [f"{limit} {schema[limit]!r}" for limit in LIMITS if limit in schema]
    return f"{name} ({', '.join(limits)})" if limits else name


if __name__ == "__main__":
    print(http_surface(), end="")
