"""Arguments that are injected by name."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest

from statewright.agents.kwargs_injection import acall_with_kwargs, call_with_kwargs
from statewright.errors import InvalidConfig

KNOWN = {"network": "N", "state": "S", "call_count": 2}


class CallableObject:
    def __call__(self, state: Any) -> Any:
        return state

    def method(self, call_count: Any) -> Any:
        return call_count


class UnhashableCallable:
    __hash__ = None  # type: ignore[assignment]

    def __call__(self, network: Any) -> Any:
        return network


def by_keyword(*, state: Any) -> Any:
    return state


@pytest.mark.parametrize(
    ("function", "answer"),
    [
        (lambda: "nothing", "nothing"),
        (lambda state: state, "S"),
        (lambda call_count, network: (network, call_count), ("N", 2)),
        (by_keyword, "S"),
        (lambda state, other=7: (state, other), ("S", 7)),
        (lambda **known: sorted(known), ["call_count", "network", "state"]),
        (lambda state, **rest: (state, sorted(rest)), ("S", ["call_count", "network"])),
        (lambda everything: (everything.state, everything.call_count), ("S", 2)),
        (lambda *args: args, ()),
        (CallableObject(), "S"),
        (CallableObject().method, 2),
        (partial(lambda state, extra: (state, extra), extra=1), ("S", 1)),
        (UnhashableCallable(), "N"),
    ],
)
def test_a_function_receives_the_arguments_that_it_names(function: Any, answer: Any) -> None:
    assert call_with_kwargs(function, KNOWN) == answer
    assert asyncio.run(acall_with_kwargs(function, KNOWN)) == answer


def test_coroutines_are_awaited() -> None:
    async def coroutine(state: Any) -> Any:
        await asyncio.sleep(0)
        return state

    assert asyncio.run(acall_with_kwargs(coroutine, KNOWN)) == "S"
    assert asyncio.run(acall_with_kwargs(lambda state: coroutine(state), KNOWN)) == "S"


def test_an_unknown_parameter_is_an_error_that_lists_the_known_ones() -> None:
    def function(network: Any, sate: Any) -> None: ...

    with pytest.raises(InvalidConfig, match=r"function has an unknown parameter 'sate'.*call_count, network, state"):
        call_with_kwargs(function, KNOWN)


def test_an_unknown_parameter_next_to_a_known_one_is_an_error() -> None:
    with pytest.raises(InvalidConfig, match="'zzz'"):
        call_with_kwargs(lambda zzz, state: None, KNOWN)


def test_an_exception_of_the_function_is_raised() -> None:
    def fail(state: Any) -> None:
        raise TypeError("unhashable, says the function")

    with pytest.raises(TypeError, match="says the function"):
        call_with_kwargs(fail, KNOWN)


def test_a_function_can_be_called_with_different_sets_of_names() -> None:
    function = lambda state, other="none": (state, other)  # noqa: E731  # one object for both calls
    assert call_with_kwargs(function, {"state": 1}) == (1, "none")
    assert call_with_kwargs(function, {"state": 1, "other": 2}) == (1, 2)
