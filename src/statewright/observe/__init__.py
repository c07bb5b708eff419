"""Observability of runs: metrics, traces, structured logs, and captured output of nodes.

Instruments never alter what they observe. Third-party libraries are imported when an instrument is created, so that
importing this package is cheap.
"""

from statewright.observe.capture import CaptureLimits, LogCapture
from statewright.observe.logs import ConfiguredLogging, LogFormat, bound, configure_logging, error_fields
from statewright.observe.metrics import Metrics
from statewright.observe.tracing import Tracing, tracing_from_environment
from statewright.redaction import Redactor

__all__ = [
    "CaptureLimits",
    "ConfiguredLogging",
    "LogCapture",
    "LogFormat",
    "Metrics",
    "Redactor",
    "Tracing",
    "bound",
    "configure_logging",
    "error_fields",
    "tracing_from_environment",
]
