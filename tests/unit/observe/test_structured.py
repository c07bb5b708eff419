"""Logs as structured events."""

from __future__ import annotations

import io
import json
import logging
import subprocess
import sys
from typing import Any

import pytest

from statewright import START, StateGraph
from statewright.errors import InvalidConfig, NotFound
from statewright.observe.capture import Tee
from statewright.observe.logs import LogFormat, bound, configure_logging

log = logging.getLogger("statewright.tests")


def events(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_an_event_is_one_line_of_json_with_its_fields() -> None:
    stream = io.StringIO()
    with configure_logging(stream=stream), bound(request_id="req-1"):
        log.info(
            "Run %s has\nended", "r-1", extra={"status": "completed", "seconds": 1.5, "when": object, "_library": 1}
        )
    (event,) = events(stream)
    assert event.pop("timestamp").endswith("Z")
    assert event == {
        "level": "info",
        "logger": "statewright.tests",
        "event": "Run r-1 has\nended",
        "status": "completed",
        "seconds": 1.5,
        "when": "<class 'object'>",
        "request_id": "req-1",
    }
    assert list(events(stream)[0])[:4] == ["timestamp", "level", "logger", "event"]


@pytest.mark.parametrize("log_format", ["json", "console"])
def test_the_coloured_copy_of_a_message_is_dropped(log_format: LogFormat) -> None:
    stream = io.StringIO()
    with configure_logging(log_format, stream=stream):
        log.info("Started process [%d]", 7, extra={"color_message": "Started process [\x1b[36m%d\x1b[0m]"})
    assert "Started process [7]" in stream.getvalue()
    assert "color_message" not in stream.getvalue()


def test_logs_of_a_node_have_the_fields_of_its_run() -> None:
    stream = io.StringIO()
    graph = StateGraph({"x": int}).add_node("n", lambda state: log.warning("here", extra={"node": "own"}))
    with configure_logging(stream=stream):
        graph.add_edge(START, "n").compile().invoke({"x": 1}, run_id="run")
    (event,) = events(stream)
    assert (event["run_id"], event["node"], event["attempt"]) == ("run", "own", 1)


def test_an_error_has_the_code_of_the_api() -> None:
    stream = io.StringIO()
    with configure_logging(stream=stream):
        try:
            raise NotFound("Run 'r' does not exist. token=abc")
        except NotFound:
            log.exception("A request failed")
    (event,) = events(stream)
    assert (event["error_code"], event["api_code"]) == ("SW-not-found", "NOT_FOUND")
    assert event["error"] == "NotFound: Run 'r' does not exist. token=[redacted]"
    assert event["exception"].startswith("Traceback")
    assert "token=abc" not in stream.getvalue()
    assert "exc_info" not in event


def test_secrets_are_redacted_by_key_and_by_shape() -> None:
    stream = io.StringIO()
    with configure_logging(stream=stream):
        log.info("with sk-abcdefghijklmnop", extra={"headers": {"Authorization": "x", "accept": "y"}})
    (event,) = events(stream)
    assert event["event"] == "with [redacted]"
    assert event["headers"] == {"Authorization": "[redacted]", "accept": "y"}


def test_without_a_terminal_text_has_no_colours() -> None:
    stream = io.StringIO()
    with configure_logging("console", stream=stream):
        log.info("Ready", extra={"port": 8000})
    assert "Ready" in stream.getvalue()
    assert "port=8000" in stream.getvalue()
    assert "\x1b" not in stream.getvalue()


def test_undoing_the_configuration_restores_the_logger() -> None:
    logger, stream = logging.getLogger("statewright"), io.StringIO()
    before = (list(logger.handlers), logger.level)
    configured = configure_logging(stream=stream, level="debug")
    log.debug("logged")
    configured.undo()
    configured.undo()
    log.warning("not logged")
    assert (list(logger.handlers), logger.level) == before
    assert [event["event"] for event in events(stream)] == ["logged"]


def test_levels_set_by_other_code_are_kept() -> None:
    logger = logging.getLogger("statewright")
    before = logger.level
    with configure_logging(stream=io.StringIO()):
        logger.setLevel(logging.ERROR)
    assert logger.level == logging.ERROR
    logger.setLevel(before)


def test_the_level_and_the_loggers_can_be_chosen() -> None:
    stream = io.StringIO()
    other = logging.getLogger("another.library")
    with configure_logging(stream=stream, level=logging.WARNING, loggers=["statewright", "another"]):
        log.info("too quiet")
        log.warning("own")
        other.warning("foreign")
    assert [event["event"] for event in events(stream)] == ["own", "foreign"]


def test_other_loggers_are_not_changed() -> None:
    stream = io.StringIO()
    with configure_logging(stream=stream):
        logging.getLogger("another.library").error("foreign")
    assert stream.getvalue() == ""


def test_logs_bypass_tees_of_the_stream() -> None:
    captured: list[str] = []
    stream = io.StringIO()
    with configure_logging(stream=Tee(stream, captured.append)):  # type: ignore[arg-type]
        log.info("once")
    assert len(events(stream)) == 1
    assert captured == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"format": "jsn"}, "format cannot be 'jsn'. Did you mean 'json'\\? Formats: console, json."),
        ({"level": "inf"}, "level cannot be 'inf'. Did you mean 'INFO'\\? Levels: "),
    ],
)
def test_invalid_options_are_refused_without_effect(options: Any, message: str) -> None:
    logger = logging.getLogger("statewright")
    before = list(logger.handlers)
    with pytest.raises(InvalidConfig, match=message):
        configure_logging(**options)
    assert logger.handlers == before


MISSING = """
import sys
sys.modules["structlog"] = None
from statewright.errors import InvalidConfig
from statewright.observe import configure_logging
try:
    configure_logging()
except InvalidConfig as error:
    print(error)
"""


def test_a_missing_library_is_named() -> None:
    output = subprocess.run([sys.executable, "-c", MISSING], capture_output=True, text=True, check=True).stdout
    assert "the library 'structlog', which is not installed. Run `pip install 'statewright[server]'`." in output
    assert len(output.splitlines()) == 1
