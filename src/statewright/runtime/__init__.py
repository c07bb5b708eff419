"""The superstep runtime: a pure core that decides what happens, and two thin drivers that perform it."""

from statewright.runtime.compiled import CompiledGraph
from statewright.runtime.concurrency.control import RunControl
from statewright.runtime.config import ChangedQuestions, Durability, OnBusy, OnUnfinished
from statewright.runtime.core.program import Validate
from statewright.runtime.instrument import Instrument
from statewright.runtime.lifecycle.snapshot import StateSnapshot, TaskSnapshot
from statewright.runtime.lifecycle.start import TIMED_OUT, read_answers
from statewright.runtime.lifecycle.thread_state import diff
from statewright.runtime.options import CallOptions, GraphOutput, StreamPart
from statewright.runtime.state_graph import MessagesStateGraph, StateGraph
from statewright.runtime.streaming.iterate import Step, StepIterator
from statewright.runtime.streaming.modes import StreamMode, StreamVersion
from statewright.runtime.tasks.context import RUN_ENDED, get_config, get_runtime, get_store, get_stream_writer
from statewright.runtime.tasks.interrupt import interrupt, sleep, wait_for_event
from statewright.runtime.tasks.scope import part_of_attempt

__all__ = [
    "RUN_ENDED",
    "TIMED_OUT",
    "CallOptions",
    "ChangedQuestions",
    "CompiledGraph",
    "Durability",
    "GraphOutput",
    "Instrument",
    "MessagesStateGraph",
    "OnBusy",
    "OnUnfinished",
    "RunControl",
    "StateGraph",
    "StateSnapshot",
    "Step",
    "StepIterator",
    "StreamMode",
    "StreamPart",
    "StreamVersion",
    "TaskSnapshot",
    "Validate",
    "diff",
    "get_config",
    "get_runtime",
    "get_store",
    "get_stream_writer",
    "interrupt",
    "part_of_attempt",
    "read_answers",
    "sleep",
    "wait_for_event",
]
