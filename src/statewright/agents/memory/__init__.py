"""Memory strategies: what of a long conversation a model is shown."""

from statewright.agents.memory.buffer import Buffer
from statewright.agents.memory.keep_all import KeepAll
from statewright.agents.memory.retrieval import Retrieval
from statewright.agents.memory.sliding_window import SlidingWindow
from statewright.agents.memory.stats import MemoryStats, memory_stats
from statewright.agents.memory.strategy import MemoryContext, MemoryStrategy
from statewright.agents.memory.summarizing import Summarizing
from statewright.agents.memory.tokens import estimate_tokens

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
