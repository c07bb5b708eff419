"""2.9: the limits of a history, and its summary in batches."""

import pytest

from statewright.messages import Message
from statewright.models import ScriptedModel
from statewright.workflow.states.handlers.summaries import (
    MAX_BATCH_TOKENS,
    HistorySummarizer,
    count_tokens,
    replace_history,
    split_batches,
)


def message(tokens: int) -> Message:
    return Message("xxxx" * tokens)


def test_tokens_are_estimated_as_four_characters() -> None:
    assert count_tokens([]) == 0
    assert count_tokens([message(3), message(4)]) == 7


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ([1, 2, 3], [3]),
        ([MAX_BATCH_TOKENS], [1]),
        ([MAX_BATCH_TOKENS, 1], [1, 1]),
        ([MAX_BATCH_TOKENS - 1, 1, 1], [2, 1]),
        ([MAX_BATCH_TOKENS + 5, 1], [1, 1]),
        ([1, MAX_BATCH_TOKENS + 5, 1], [1, 1, 1]),
    ],
)
def test_2_9_a_long_history_is_split_into_batches(sizes: list[int], expected: list[int]) -> None:
    history = [message(size) for size in sizes]
    batches = split_batches(history)
    assert [len(batch) for batch in batches] == expected
    assert [message for batch in batches for message in batch] == history


def test_2_9_a_history_is_limited_in_messages_and_tokens() -> None:
    memory = HistorySummarizer(ScriptedModel([]), max_messages=2, max_tokens=10)
    assert not memory.is_too_long([message(5), message(5)])
    assert memory.is_too_long([message(1), message(1), message(1)])
    assert memory.is_too_long([message(5), message(6)])
    assert not memory.is_too_long([message(99)])
    assert not HistorySummarizer(None, max_messages=0, max_tokens=0).is_too_long([message(1), message(1)])


def test_2_9_a_summary_replaces_all_but_the_first_message() -> None:
    history = [Message("first"), Message("second"), Message("third")]
    assert replace_history(history, None) is history
    assert [(message.role, message.text) for message in replace_history(history, "short")] == [
        ("user", "first"),
        ("assistant", "short"),
    ]
