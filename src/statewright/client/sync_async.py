"""Methods that are written once for both clients. In `Client` they block, and in `AsyncClient` they are coroutines.

A resource defines each method as a function that returns a `Call`, as a coroutine function, or as an asynchronous
generator function. The decorators `request`, `Method` and `IteratingMethod`, in this order, convert these functions to
methods whose result type depends on the client.
"""

from __future__ import annotations

import functools
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar, overload

from statewright.api.resource import MAX_PAGE_SIZE
from statewright.client.call import Call
from statewright.client.connection import Connection
from statewright.client.send import get_page, iter_items, send

P = ParamSpec("P")
T = TypeVar("T")
F = TypeVar("F", covariant=True)
"""The kind of client that a resource belongs to: `Sync` or `Async`."""


class Sync:
    """Marks the client whose methods block and return results."""


class Async:
    """Marks the client whose methods are coroutines."""


class Namespace(Generic[F]):
    """Base class of the resources, whose methods are called like `client.runs.start(...)`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def _send(self, call: Call[T]) -> Coroutine[Any, Any, T]:
        return send(call, self._connection)

    def _iter_all(self, path: str, read: Callable[[Any], T], **params: Any) -> AsyncGenerator[T]:
        """Yield all items of a list, which are read page by page."""
        return iter_items(get_page(path, read, page=1, page_size=MAX_PAGE_SIZE, **params), self._connection)


class Method(Generic[P, T]):
    """A method of a resource that returns the result of a coroutine, or in the asynchronous client the coroutine."""

    def __init__(self, function: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]) -> None:
        self._function = function
        functools.update_wrapper(self, function)  # pyright: ignore[reportArgumentType]

    @overload
    def __get__(self, instance: None, owner: Any) -> Self: ...
    @overload
    def __get__(self, instance: Namespace[Sync], owner: Any) -> Callable[P, T]: ...
    @overload
    def __get__(self, instance: Namespace[Async], owner: Any) -> Callable[P, Coroutine[Any, Any, T]]: ...
    def __get__(self, instance: Any, owner: Any) -> Any:
        return self if instance is None else _bind(instance, self._function, instance._connection.run)


class IteratingMethod(Generic[P, T]):
    """A method of a resource that returns a generator, or in the asynchronous client an asynchronous generator."""

    def __init__(self, function: Callable[Concatenate[Any, P], AsyncGenerator[T]]) -> None:
        self._function = function
        functools.update_wrapper(self, function)  # pyright: ignore[reportArgumentType]

    @overload
    def __get__(self, instance: None, owner: Any) -> Self: ...
    @overload
    def __get__(self, instance: Namespace[Sync], owner: Any) -> Callable[P, Generator[T]]: ...
    @overload
    def __get__(self, instance: Namespace[Async], owner: Any) -> Callable[P, AsyncGenerator[T]]: ...
    def __get__(self, instance: Any, owner: Any) -> Any:
        return self if instance is None else _bind(instance, self._function, instance._connection.iterate)


def _bind(instance: Namespace[Any], function: Callable[..., Any], convert: Callable[[Any], Any]) -> Any:
    """Return a method that is bound to `instance`, and converts the result of the function."""

    @functools.wraps(function)
    def method(*args: Any, **kwargs: Any) -> Any:
        return convert(function(instance, *args, **kwargs))

    return method


def request(call: Callable[Concatenate[Any, P], Call[T]]) -> Method[P, T]:
    """Convert a function that returns a `Call` to a method that sends the call and returns its parsed answer."""

    @functools.wraps(call)
    def function(instance: Namespace[Any], *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, T]:
        return send(call(instance, *args, **kwargs), instance._connection)  # pyright: ignore[reportPrivateUsage]

    return Method(function)
