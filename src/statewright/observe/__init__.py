"""Instruments that tell the world what runs do: metrics, traces, logs. None alters what it sees.

Libraries that they need are loaded when one is made, so importing this costs nothing but our own modules.
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
