"""One implementation of each method for both clients: `Client` blocks, `AsyncClient` awaits.

A resource defines each method as a function that returns a `Call` or a flow. Decorators turn it into a method whose
result type depends on the client that the resource belongs to."""

from __future__ import annotations

import functools
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, Self, TypeVar, overload

from statewright.api.resource import LARGEST_PAGE
from statewright.client.call import Call
from statewright.client.flow import Flow, all_of, page_of, send
from statewright.client.settings import ClientSettings

P = ParamSpec("P")
T = TypeVar("T")
F = TypeVar("F", covariant=True)
"""The kind of client that a resource belongs to: `Sync` or `Async`."""


class Sync:
    """Marks the client whose methods block and return results."""


class Async:
    """Marks the client whose methods are coroutines."""


class Driver(Protocol):
    """Performs the effects of flows."""

    def run(self, flow: Flow[Any]) -> Any:
        """Return the result of a flow, or an awaitable of it."""
        ...

    def iterate(self, flow: Flow[Any]) -> Any:
        """Return an iterator, or an asynchronous one, over the items of a flow."""
        ...


class Namespace(Generic[F]):
    """The methods of one resource."""

    def __init__(self, driver: Driver, settings: ClientSettings) -> None:
        self._driver = driver
        self._settings = settings

    def _all(self, path: str, read: Callable[[Any], Any], **params: Any) -> Flow[None]:
        """Yield all items of a list."""
        return all_of(page_of(path, read, page=1, page_size=LARGEST_PAGE, **params), self._settings)

    def _send(self, call: Call[T]) -> Flow[T]:
        return send(call, self._settings)


class _Method(Generic[P, T]):
    """A method that performs a flow by the driver of its instance."""

    def __init__(self, flow: Callable[Concatenate[Any, P], Flow[Any]]) -> None:
        self._flow = flow
        functools.update_wrapper(self, flow)  # pyright: ignore[reportArgumentType]


class FlowMethod(_Method[P, T]):
    """A method that returns the result of a flow, or a coroutine of it."""

    @overload
    def __get__(self, instance: None, owner: Any) -> Self: ...
    @overload
    def __get__(self, instance: Namespace[Sync], owner: Any) -> Callable[P, T]: ...
    @overload
    def __get__(self, instance: Namespace[Async], owner: Any) -> Callable[P, Coroutine[Any, Any, T]]: ...
    def __get__(self, instance: Any, owner: Any) -> Any:
        return self if instance is None else _bind(instance, self._flow, instance._driver.run)


class IteratingMethod(_Method[P, T]):
    """A method that returns an iterator over the items of a flow."""

    @overload
    def __get__(self, instance: None, owner: Any) -> Self: ...
    @overload
    def __get__(self, instance: Namespace[Sync], owner: Any) -> Callable[P, Generator[T]]: ...
    @overload
    def __get__(self, instance: Namespace[Async], owner: Any) -> Callable[P, AsyncGenerator[T]]: ...
    def __get__(self, instance: Any, owner: Any) -> Any:
        return self if instance is None else _bind(instance, self._flow, instance._driver.iterate)


def _bind(instance: Namespace[Any], flow: Callable[..., Flow[Any]], drive: Callable[[Flow[Any]], Any]) -> Any:
    @functools.wraps(flow)
    def method(*args: Any, **kwargs: Any) -> Any:
        return drive(flow(instance, *args, **kwargs))

    return method


def flow_method(flow: Callable[Concatenate[Any, P], Flow[T]]) -> FlowMethod[P, T]:
    """Create a method from a generator function."""
    return FlowMethod(flow)


def request(call: Callable[Concatenate[Any, P], Call[T]]) -> FlowMethod[P, T]:
    """Create a method from a function that returns a `Call`."""

    @functools.wraps(call)
    def flow(instance: Namespace[Any], *args: P.args, **kwargs: P.kwargs) -> Flow[T]:
        return send(call(instance, *args, **kwargs), instance._settings)  # pyright: ignore[reportPrivateUsage]

    return FlowMethod(flow)


def items(of: type[T]) -> Callable[[Callable[Concatenate[Any, P], Flow[Any]]], IteratingMethod[P, T]]:
    """Create an iterating method from a generator function; `of`, the type of its items, is for type checkers."""
    return IteratingMethod
