"""One implementation, two faces: methods that block for `Client`, and are awaited for `AsyncClient`.

A namespace says of each method what it asks, as a `Call` or a conversation. The decorators make methods of that, whose
result type depends on the face that the namespace belongs to.
"""

from __future__ import annotations

import functools
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, Self, TypeVar, overload

from statewright.client.call import Call
from statewright.client.flow.effects import Flow
from statewright.client.flow.send import ask
from statewright.client.settings import ClientSettings

P = ParamSpec("P")
T = TypeVar("T")
F = TypeVar("F", covariant=True)


class Sync:
    """The face whose methods return what they ask for."""


class Async:
    """The face whose methods are awaited."""


class Driver(Protocol):
    """Does what conversations need."""

    def run(self, talk: Flow[Any]) -> Any:
        """The result of a conversation, or what is awaited for it."""
        ...

    def iterate(self, talk: Flow[Any]) -> Any:
        """The items of a conversation, as they come."""
        ...


class Namespace(Generic[F]):
    """Methods that belong together."""

    def __init__(self, driver: Driver, settings: ClientSettings) -> None:
        self._driver = driver
        self._settings = settings

    def _ask(self, call: Call[T]) -> Flow[T]:
        return ask(call, self._settings)


class Conversation(Generic[P, T]):
    """A method that returns, or gives when it is awaited, what a conversation ends with."""

    def __init__(self, talk: Callable[Concatenate[Any, P], Flow[T]]) -> None:
        self._talk = talk
        functools.update_wrapper(self, talk)  # pyright: ignore[reportArgumentType]

    @overload
    def __get__(self, at: None, owner: Any) -> Self: ...
    @overload
    def __get__(self, at: Namespace[Sync], owner: Any) -> Callable[P, T]: ...
    @overload
    def __get__(self, at: Namespace[Async], owner: Any) -> Callable[P, Coroutine[Any, Any, T]]: ...
    def __get__(self, at: Any, owner: Any) -> Any:
        return self if at is None else _bound(at, self._talk, at._driver.run)


class Iteration(Generic[P, T]):
    """A method whose items come as they are asked for; each iterator is for one loop."""

    def __init__(self, talk: Callable[Concatenate[Any, P], Flow[Any]], item: type[T] | None = None) -> None:
        self._talk = talk
        functools.update_wrapper(self, talk)  # pyright: ignore[reportArgumentType]

    @overload
    def __get__(self, at: None, owner: Any) -> Self: ...
    @overload
    def __get__(self, at: Namespace[Sync], owner: Any) -> Callable[P, Generator[T]]: ...
    @overload
    def __get__(self, at: Namespace[Async], owner: Any) -> Callable[P, AsyncGenerator[T]]: ...
    def __get__(self, at: Any, owner: Any) -> Any:
        return self if at is None else _bound(at, self._talk, at._driver.iterate)


def _bound(at: Namespace[Any], talk: Callable[..., Flow[Any]], drive: Callable[[Flow[Any]], Any]) -> Any:
    @functools.wraps(talk)
    def method(*args: Any, **kwargs: Any) -> Any:
        return drive(talk(at, *args, **kwargs))

    return method


def conversation(talk: Callable[Concatenate[Any, P], Flow[T]]) -> Conversation[P, T]:
    """A method from a generator function."""
    return Conversation(talk)


def request(call: Callable[Concatenate[Any, P], Call[T]]) -> Conversation[P, T]:
    """A method from a function that says what is asked."""

    @functools.wraps(call)
    def talk(at: Namespace[Any], *args: P.args, **kwargs: P.kwargs) -> Flow[T]:
        return ask(call(at, *args, **kwargs), at._settings)  # pyright: ignore[reportPrivateUsage]

    return Conversation(talk)


def items(of: type[T]) -> Callable[[Callable[Concatenate[Any, P], Flow[Any]]], Iteration[P, T]]:
    """A method from a generator function that gives items of a type."""
    return lambda talk: Iteration(talk, of)
