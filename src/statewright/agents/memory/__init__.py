"""Memory strategies, which select the part of a long conversation to send to a model."""

from statewright.agents.memory.conversation import MemoryStats, estimate_tokens, memory_stats
from statewright.agents.memory.retrieval import Retrieval
from statewright.agents.memory.strategy import MemoryContext, MemoryStrategy
from statewright.agents.memory.windows import Buffer, KeepAll, SlidingWindow, Summarizing

__all__ = [
    "Buffer",
    "KeepAll",
    "MemoryContext",
    "MemoryStats",
    "MemoryStrategy",
    "Retrieval",
    "SlidingWindow",
    "Summarizing",
    "estimate_tokens",
    "memory_stats",
]
