"""Tokens, which travel along transitions."""

import pytest

from statewright.serde.serde import Serde
from statewright.workflow.states.engine.token import Iteration, Token, continue_branch
from statewright.workflow.states.engine.visit import ItemRef, Visit

INNER = Iteration("l", "0/2", ItemRef("l", "xs", 2), 2, 5, True)


@pytest.mark.parametrize(
    "token",
    [
        Token(),
        Token(("1.0", "2.0"), "0/2"),
        Token(("1.0",), "0/2.2/5", INNER),
        Token(("1.0",), "0/2.2/5", Iteration("l", "", ItemRef("p"), 0, 1, visible_keys=("u", "v"))),
        Token(("1.0",), "0/2", None, "l", "0"),
    ],
)
def test_tokens_survive_storage(token: Token) -> None:
    serde = Serde()
    assert serde.decode(serde.encode(token)) == token


def test_encoded_tokens_are_small() -> None:
    assert len(Serde().encode(Token(("12.3",), "1/3.999/1000", INNER))) < 100


def test_2_6_a_continued_branch_keeps_its_item_and_is_no_longer_first() -> None:
    token = continue_branch(Token(("l",), "0/2.2/5", INNER), Visit("p", "p", "x"))
    assert (token.after, token.path) == (("p",), "0/2.2/5")
    assert token.iteration is not None
    assert (token.iteration.item, token.iteration.is_first, token.iteration.index) == (INNER.item, False, 2)


def test_2_6_override_task_replaces_the_item() -> None:
    token = continue_branch(Token(("l",), "", INNER), Visit("p", "p", "x"), item=ItemRef("p"))
    assert token.iteration is not None
    assert token.iteration.item == ItemRef("p")
    assert INNER.item == ItemRef("l", "xs", 2)
