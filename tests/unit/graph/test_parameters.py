"""Reading the parameters and type hints of functions."""

import functools
from collections.abc import Sequence
from typing import Any, Literal, TypedDict

import pytest

from statewright import Command, Runtime, Send
from statewright.graph.functions.hints import declared_by_hint, literal_names, may_go_anywhere
from statewright.graph.functions.parameters import INJECTABLE, is_coroutine_function, read_parameters


class State(TypedDict):
    x: int


def bare(state): ...


def annotated(state: State, runtime: Runtime[int], config: Any = None) -> None: ...


def renamed(state: State, rt: Runtime) -> None: ...


def without_state() -> None: ...


def only_runtime(runtime: Runtime) -> None: ...


def keyword_only(state: Any, *, store: Any, writer: Any = None, unknown: int) -> None: ...


def rest(state: Any, *args: Any, **kwargs: Any) -> None: ...


def broken_hint(state: "Missing", store: Any) -> "Missing": ...  # type: ignore[name-defined]  # noqa: F821


class Callable_:  # noqa: N801
    def __call__(self, state: State, writer: Any) -> Command[Literal["a"]]: ...


class Holder:
    def method(self, state: State, config: Any) -> None: ...


@pytest.mark.parametrize(
    ("function", "takes_state", "injected", "unknown"),
    [
        (bare, True, [], []),
        (lambda state: None, True, [], []),
        (annotated, True, [("runtime", "runtime"), ("config", "config")], []),
        (renamed, True, [("rt", "runtime")], []),
        (without_state, False, [], []),
        (only_runtime, False, [("runtime", "runtime")], []),
        (keyword_only, True, [("store", "store"), ("writer", "writer")], ["unknown"]),
        (rest, True, [], []),
        (broken_hint, True, [("store", "store")], []),
        (Callable_(), True, [("writer", "writer")], []),
        (Holder().method, True, [("config", "config")], []),
        (functools.partial(keyword_only, unknown=1), True, [("store", "store"), ("writer", "writer")], []),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_read_parameters_finds_injected_and_unknown_parameters(
    function: Any, takes_state: bool, injected: Any, unknown: Any
) -> None:
    parameters = read_parameters(function)

    assert parameters.takes_state is takes_state
    assert list(parameters.injected) == injected
    assert list(parameters.unknown) == unknown


def test_injectable_parameters_are_the_documented_ones() -> None:
    assert set(INJECTABLE) == {"config", "runtime", "writer", "store", "previous", "error"}


def test_read_parameters_finds_the_type_hint_of_the_state() -> None:
    assert read_parameters(annotated).state_hint is State
    assert read_parameters(Callable_()).state_hint is State
    assert read_parameters(bare).state_hint is None
    assert read_parameters(broken_hint).state_hint is None


def test_injected_parameters_without_a_default_are_required() -> None:
    assert read_parameters(annotated).required == {"runtime"}
    assert read_parameters(keyword_only).required == {"store"}


def test_parameters_are_cached_unless_the_callable_is_unhashable() -> None:
    class Unhashable:
        __hash__ = None  # type: ignore[assignment]

        def __call__(self, state: State, store: Any) -> None: ...

    assert read_parameters(annotated) is read_parameters(annotated)
    assert read_parameters(Unhashable()).injected == (("store", "store"),)


async def coroutine(state: Any) -> None: ...


class AsyncCallable:
    async def __call__(self, state: Any) -> None: ...


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (coroutine, True),
        (functools.partial(coroutine), True),
        (functools.partial(functools.partial(coroutine)), True),
        (AsyncCallable(), True),
        (bare, False),
        (lambda state: coroutine(state), False),
        (Callable_(), False),
        (len, False),
    ],
)
def test_is_coroutine_function_recognises_coroutine_functions(function: Any, expected: bool) -> None:
    assert is_coroutine_function(function) is expected


@pytest.mark.parametrize(
    ("hint", "names"),
    [
        (Literal["a", "b"], ("a", "b")),
        (Literal["a"] | None, ("a",)),
        (list[Literal["a", "b"]], ("a", "b")),
        (Sequence[Literal["a"] | Send], ("a",)),
        (str, None),
        (None, None),
        (Literal[True], ("True",)),
    ],
)
def test_literal_names_returns_the_names_in_a_type_hint(hint: Any, names: Any) -> None:
    assert literal_names(hint) == names


@pytest.mark.parametrize(
    ("hint", "declared", "anywhere"),
    [
        (Command[Literal["a"]], ("a",), False),
        (Command[Literal["a", "b"]] | dict, ("a", "b"), False),
        (list[Command[Literal["a"]] | Command[Literal["b"]]], ("a", "b"), False),
        (Command, None, True),
        (Command | None, None, True),
        (list[Send], None, True),
        (Command[str], None, True),
        (dict, None, False),
        (None, None, False),
    ],
    ids=str,
)
def test_a_return_type_hint_declares_targets_or_none(hint: Any, declared: Any, anywhere: bool) -> None:
    assert declared_by_hint(hint) == declared
    assert (declared is None and may_go_anywhere(hint)) is anywhere
