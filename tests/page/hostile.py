"""Texts that would do harm if a page took them for anything but texts, and a graph that puts them everywhere."""

from __future__ import annotations

import logging
from typing import Annotated, Any, TypedDict

from statewright import START, RetryPolicy, StateGraph, append, interrupt, request_approval

logger = logging.getLogger("<script>window.harm = 'logger'</script>")
SCRIPT = "<script>window.harm = 'script'; alert(1)</script>"
IMAGE = "<img src=//evil.example/x.png onerror=\"window.harm = 'image'; alert(2)\">"
LINK = "javascript:window.harm='link'"
SVG = "</text></svg><svg onload=\"window.harm = 'svg'\">"
STYLE = "\"><style>body { display: none }</style><a href='"
REVERSED = "\u202eslanosrep\u202c \u2067txt.exe\u2069"
TEXTS = (SCRIPT, IMAGE, LINK, SVG, STYLE, REVERSED)
ALL = " ".join(TEXTS)
LONG = "long " * 20_000
"""100 kB."""
GRAPH = "hostile <img src=x onerror=window.harm=1>"
NODE = "<img src=x\u00a0onerror=window.harm=2>"
FAILS = "<script>window.harm = 3<／script>"
THREAD = "<img src=x onerror=window.harm=4>"
TAGS = [text[:60] for text in TEXTS]


class Hostile(TypedDict, total=False):
    input: str
    messages: Annotated[list[Any], append]
    answer: Any
    verdict: str


# Keys of the state are names of the user, too.
Hostile.__annotations__[SCRIPT] = str


def speak(state: Any) -> Any:
    logger.error(ALL)
    print(ALL)
    calls = [{"id": ALL, "type": "tool_call", "name": IMAGE, "args": {SCRIPT: LINK}}]
    said = {"role": "assistant", "name": IMAGE, "content": ALL, "tool_calls": calls}
    return {"messages": [said, {"role": SCRIPT, "content": LONG}], SCRIPT: ALL}


def ask(state: Any) -> Any:
    schema = {
        "type": "object",
        "title": SCRIPT,
        "properties": {IMAGE: {"type": "string", "title": IMAGE, "description": ALL, "default": ALL}},
        "required": [IMAGE],
    }
    return {"answer": interrupt({"prompt": ALL, SCRIPT: LINK}, schema=schema)}


def approve(state: Any) -> Any:
    return {"verdict": request_approval(ALL, prompt=ALL, content_key=IMAGE).verdict}


def fail(state: Any) -> Any:
    raise ValueError(ALL + LONG)


def hostile() -> StateGraph:
    graph = StateGraph(Hostile, name=GRAPH).add_node(NODE, speak).add_node("ask", ask).add_node("approve", approve)
    policy = RetryPolicy(max_attempts=2, initial_interval=0.01, jitter=False, retry_on=ValueError)
    graph.add_node(FAILS, fail, retry_policy=policy)
    graph.add_edge(START, NODE).add_edge(NODE, "ask").add_edge("ask", "approve").add_edge("approve", FAILS)
    return graph
