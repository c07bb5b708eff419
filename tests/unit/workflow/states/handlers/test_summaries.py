"""2.9: how long a history may be, and in what parts it is summed up."""

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


def test_four_characters_are_a_token() -> None:
    assert count_tokens([]) == 0
    assert count_tokens([message(3), message(4)]) == 7


@pytest.mark.parametrize(
    ("sizes", "parts"),
    [
        ([1, 2, 3], [3]),
        ([MAX_BATCH_TOKENS], [1]),
        ([MAX_BATCH_TOKENS, 1], [1, 1]),
        ([MAX_BATCH_TOKENS - 1, 1, 1], [2, 1]),
        ([MAX_BATCH_TOKENS + 5, 1], [1, 1]),
        ([1, MAX_BATCH_TOKENS + 5, 1], [1, 1, 1]),
    ],
)
def test_2_9_a_long_history_is_cut_into_parts_that_a_model_can_read(sizes: list[int], parts: list[int]) -> None:
    history = [message(size) for size in sizes]
    found = split_batches(history)
    assert [len(part) for part in found] == parts
    assert [one for part in found for one in part] == history


def test_2_9_what_is_too_long_is_told_by_messages_and_by_tokens() -> None:
    memory = HistorySummarizer(ScriptedModel([]), max_messages=2, max_tokens=10)
    assert not memory.is_too_long([message(5), message(5)])
    assert memory.is_too_long([message(1), message(1), message(1)])
    assert memory.is_too_long([message(5), message(6)])
    assert not memory.is_too_long([message(99)])
    assert not HistorySummarizer(None, max_messages=0, max_tokens=0).is_too_long([message(1), message(1)])


def test_2_9_a_summary_stands_for_all_but_the_first_message() -> None:
    history = [Message("first"), Message("second"), Message("third")]
    assert replace_history(history, None) is history
    assert [(one.role, one.text) for one in replace_history(history, "short")] == [
        ("user", "first"),
        ("assistant", "short"),
    ]
