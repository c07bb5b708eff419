"""Instruments that tell the world what runs do: metrics, traces, logs. None alters what it sees.

Libraries that they need are loaded when one is made, so importing this costs nothing but our own modules.
"""

from statewright.observe.captured import CaptureLimits
from statewright.observe.exporting import tracing_from_environment
from statewright.observe.fields import bound, error_fields
from statewright.observe.logs import LogCapture
from statewright.observe.metrics import Metrics
from statewright.observe.structured import ConfiguredLogging, LogFormat, configure_logging
from statewright.observe.tracing import Tracing
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
