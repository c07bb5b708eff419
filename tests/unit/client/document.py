"""A transport that responds as the OpenAPI document of the server describes.

The path, the parameters and the body of each request are checked. The response is generated from its schema: every
field has a value, and there is an additional field that is unknown to clients.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from typing import Any

import httpx
import jsonschema_rs

from statewright.server import ServerSettings, create_app
from statewright.service import Catalog, Service

UNKNOWN = "fieldOfTheFuture"


def document() -> dict[str, Any]:
    return create_app(Service(Catalog()), settings=ServerSettings(auth="none")).openapi()


class DocumentedTransport(httpx.BaseTransport):
    """Responds as the document describes, and records the parameters and fields of requests."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.document = document
        self.parameters: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
        self.fields: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
        self._paths = {path: re.compile(re.sub(r"\{[^}]+\}", "[^/]+", path)) for path in document["paths"]}

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        path = self._path_of(request)
        key = (request.method, path)
        operation = self.document["paths"][path][request.method.lower()]
        self._check_query(key, operation, request)
        self._check_body(key, operation, request)
        status, media, schema = self._response_of(operation)
        headers = {"content-type": media} if media else {}
        if media == "text/event-stream":
            run = json.dumps(self.sample({"$ref": "#/components/schemas/RunShown"})).encode()
            content = b""
            if path.endswith("/workflow-runs/stream"):  # has no end, so its client comes back with the position
                begins = "last-event-id" not in request.headers
                content = b"event: position\ndata: {}\nid: 1\n\n" if begins else b"event: run\ndata: %b\n\n" % run
            return httpx.Response(status, headers=headers, content=content)
        content = b"" if schema is None else json.dumps(self.sample(schema)).encode()
        return httpx.Response(status, headers=headers, content=content)

    def _path_of(self, request: httpx.Request) -> str:
        path = request.url.path
        match = (
            path if path in self._paths else next((p for p, form in self._paths.items() if form.fullmatch(path)), None)
        )
        assert match is not None, f"the document has no {request.method} {path}"
        assert request.method.lower() in self.document["paths"][match], f"{match} has no {request.method}"
        return match

    def _check_query(self, key: tuple[str, str], operation: dict[str, Any], request: httpx.Request) -> None:
        parameters = {
            parameter["name"]: parameter
            for parameter in operation.get("parameters", ())
            if parameter["in"] in ("query", "header")
        }
        for name in parameters:
            if parameters[name]["in"] == "header" and name in request.headers:
                self.parameters[key].add(name)
        values: defaultdict[str, list[str]] = defaultdict(list)
        for name, value in request.url.params.multi_items():
            base_name = name.partition("[")[0]
            assert base_name in parameters, f"{key} has no parameter {name!r}; it has {sorted(parameters)}"
            values[base_name].append(value)
        self.parameters[key].update(values)
        missing = [name for name, parameter in parameters.items() if parameter.get("required") and name not in values]
        assert not missing, f"{key} lacks {missing}"

    def _check_body(self, key: tuple[str, str], operation: dict[str, Any], request: httpx.Request) -> None:
        content = request.read()
        if not content:
            assert not operation.get("requestBody", {}).get("required"), f"{key} needs a body"
            return
        schema = operation["requestBody"]["content"]["application/json"]["schema"]
        body = json.loads(content)
        validator = jsonschema_rs.validator_for({**schema, "components": self.document["components"]})
        problems = [str(error) for error in validator.iter_errors(body)]
        assert not problems, f"{key}: {problems}"
        self.fields[key].update(body)

    def _response_of(self, operation: dict[str, Any]) -> tuple[int, str, Any]:
        status = min(int(code) for code in operation["responses"])
        content = operation["responses"][str(status)].get("content", {})
        media = next(iter(content), "")
        return status, media, content[media]["schema"] if media else None

    def fields_of(self, method: str, path: str) -> set[str]:
        """Return the fields that the body of an operation may have."""
        operation = self.document["paths"][path][method.lower()]
        content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
        return set(self.resolve(content.get("schema", {})).get("properties", ()))

    def resolve(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Follow references; of several options, return the first one that is not null."""
        for option in schema.get("anyOf", ()):
            if option.get("type") != "null":
                return self.resolve(option)
        if "$ref" not in schema:
            return schema
        return self.resolve(self.document["components"]["schemas"][schema["$ref"].rpartition("/")[2]])

    def sample(self, schema: dict[str, Any]) -> Any:
        """Return a valid value of a schema, with all optional fields."""
        schema = self.resolve(schema)
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return "completed" if "completed" in schema["enum"] else schema["enum"][0]
        match schema.get("type"):
            case "object" if "properties" in schema:
                return {**{name: self.sample(field) for name, field in schema["properties"].items()}, UNKNOWN: 1}
            case "object":
                return {"any": "thing"}
            case "array":
                return [self.sample(schema.get("items", {}))]
            case "string":
                return "2026-01-02T03:04:05Z" if schema.get("format") == "date-time" else "text"
            case "integer" | "number":
                return 1
            case "boolean":
                return True
            case _:
                return {"any": "thing"}
