"""No JSON Schema makes the process read a file or call a host, wherever the schema is used."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, TypedDict

import pytest

from statewright import START, Command, InMemorySaver, StateGraph, interrupt, wait_for_event
from statewright.agents import create_react_agent, create_tool
from statewright.data.json_schema import UnusableSchema, json_schema_validator
from statewright.errors import StatewrightError, WorkflowError
from statewright.models import ScriptedModel
from statewright.workflow.states import load_workflow

SECRET = "db-password-1234"


class State(TypedDict, total=False):
    answer: Any


class ExternalDocuments:
    """A host and a file to which schemas refer, and the requests that the host received."""

    def __init__(self, folder: Path) -> None:
        self.requests: list[str] = []
        documents = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                documents.requests.append(self.path)
                body = json.dumps({"const": SECRET}).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()
        self.address = f"http://127.0.0.1:{self.server.server_port}/schema.json"
        path = folder / "secret.json"
        path.write_text(json.dumps({"const": SECRET}))
        self.file = path.as_uri()


@pytest.fixture
def external(tmp_path: Path) -> Iterator[ExternalDocuments]:
    documents = ExternalDocuments(tmp_path)
    yield documents
    documents.server.shutdown()
    documents.server.server_close()


REFERENCES: dict[str, Callable[[str], dict[str, Any]]] = {
    "ref": lambda uri: {"type": "object", "properties": {"a": {"$ref": uri}}},
    "ref with a fragment": lambda uri: {"type": "object", "properties": {"a": {"$ref": f"{uri}#/x"}}},
    "dynamic ref": lambda uri: {"type": "object", "properties": {"a": {"$dynamicRef": uri}}},
    "meta schema": lambda uri: {"$schema": uri, "type": "object", "properties": {}},
    "relative to its id": lambda uri: {"$id": uri, "type": "object", "properties": {"a": {"$ref": "other.json"}}},
    "in definitions": lambda uri: {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/x"}},
        "$defs": {"x": {"allOf": [{"not": {"$ref": uri}}]}},
    },
    "draft 4": lambda uri: {
        "$schema": "http://json-schema.org/draft-04/schema#",
        "type": "object",
        "properties": {"a": {"$ref": uri}},
    },
}


def in_validator(schema: dict[str, Any]) -> None:
    json_schema_validator(schema, extra="states")


def as_output_schema(schema: dict[str, Any]) -> None:
    text = (
        "enable_summarization_node: false\nassistants: [{id: a, system_prompt: p}]\nstates:\n"
        f"- id: s\n  assistant_id: a\n  next: {{state_id: end}}\n  output_schema: {json.dumps(json.dumps(schema))}\n"
    )
    load_workflow(text).compile(script={"s": '{"a": 1}'}).invoke({})


def as_tool_parameters(schema: dict[str, Any]) -> None:
    create_tool(name="t", description="d", parameters=schema, handler=lambda arguments: "done")


def as_response_format(schema: dict[str, Any]) -> None:
    model = ScriptedModel(["done", '{"a": 1}'])
    create_react_agent(model, tools=[], response_format=schema).invoke({"messages": [("user", "x")]})


def as_question_schema(schema: dict[str, Any]) -> None:
    graph = StateGraph(State).add_node("ask", lambda state: {"answer": interrupt("?", schema=schema)})
    app = graph.add_edge(START, "ask").compile(InMemorySaver())
    app.invoke({}, thread_id="t")
    app.invoke(Command(resume={"a": 1}), thread_id="t")


def as_event_schema(schema: dict[str, Any]) -> None:
    graph = StateGraph(State).add_node("wait", lambda state: {"answer": wait_for_event("e", schema=schema)})
    app = graph.add_edge(START, "wait").compile(InMemorySaver())
    app.invoke({}, thread_id="t")
    app.invoke(Command(resume={"a": 1}), thread_id="t")


@pytest.mark.parametrize("location", ["address", "file"])
@pytest.mark.parametrize("form", REFERENCES)
@pytest.mark.parametrize(
    "use",
    [
        in_validator,
        as_output_schema,
        as_tool_parameters,
        as_response_format,
        as_question_schema,
        as_event_schema,
    ],
    ids=lambda use: use.__name__,
)
def test_4_1_a_schema_cannot_refer_to_other_documents(
    external: ExternalDocuments, use: Callable[[dict[str, Any]], None], form: str, location: str
) -> None:
    schema = REFERENCES[form](getattr(external, location))

    with pytest.raises((StatewrightError, UnusableSchema)) as raised:
        use(schema)
    assert external.requests == []
    assert "References to anything outside the schema are refused" in str(raised.value)
    assert SECRET not in str(raised.value)


def test_4_1_a_refused_output_schema_is_reported_at_its_line(external: ExternalDocuments) -> None:
    schema = json.dumps(REFERENCES["ref"](external.address))
    text = (
        "assistants: [{id: a, system_prompt: p}]\n"
        "states:\n"
        "- id: s\n"
        "  assistant_id: a\n"
        f"  output_schema: {json.dumps(schema)}\n"
        "  next: {state_id: end}\n"
    )

    with pytest.raises(WorkflowError) as raised:
        load_workflow(text)
    (problem,) = raised.value.problems
    assert (problem.line, problem.path) == (5, "states[0].output_schema")
    assert external.requests == []


def test_4_1_a_schema_may_refer_to_itself() -> None:
    schema = {"$defs": {"n": {"type": "integer"}}, "type": "object", "properties": {"a": {"$ref": "#/$defs/n"}}}
    as_output_schema(schema)
    as_response_format(schema)
    as_question_schema(schema)
