"""The functions behind task steps, by the names that definitions use.

A definition may come from anywhere, so a name in it can reach what was registered, and functions of modules that
whoever serves it has allowed, and nothing else: no text makes Python import something.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeVar, cast

from statewright.errors import InvalidConfig, suggestion

Handler = Callable[..., Any]
"""`fn(ctx)` or `fn(ctx, step)`, plain or a coroutine function. Answers a StepResult, a map with its keys, or None."""
H = TypeVar("H", bound=Handler)


class UnknownHandler(LookupError):
    """No handler has the name; `hint` says which ones there are. Becomes a problem of the definition."""

    def __init__(self, message: str, hint: str) -> None:
        self.hint = hint
        super().__init__(message)


class Handlers:
    """Handlers by name, and the modules whose functions may be named as `module:function`."""

    def __init__(self, handlers: Mapping[str, Handler] | None = None, *, modules: Iterable[str] = ()) -> None:
        """Raises InvalidConfig for what is no function."""
        self._by_name: dict[str, Handler] = {}
        self.modules = frozenset(modules)
        for name, function in (handlers or {}).items():
            self.register(name, function)

    @property
    def names(self) -> tuple[str, ...]:
        """The registered names, sorted."""
        return tuple(sorted(self._by_name))

    def task_handler(self, name: str) -> Callable[[H], H]:
        """A decorator that registers a function under a name."""

        def register(function: H) -> H:
            self.register(name, function)
            return function

        return register

    def register(self, name: str, function: Handler) -> None:
        """Let steps call a function by a name. A module that is loaded again may register its functions again.

        Raises InvalidConfig for what is no function, and for a name that another one has.
        """
        if not callable(function) or _arity(function) is None:
            raise InvalidConfig(f"The handler {name!r} is {function!r}. Give a function fn(ctx) or fn(ctx, step).")
        known = self._by_name.get(name)
        if known is not None and _origin(known) != _origin(function):
            raise InvalidConfig(f"Two functions want to be the handler {name!r}: {known!r} and {function!r}.")
        self._by_name[name] = function

    def allowing(self, *modules: str) -> Handlers:
        """The same registrations, those to come included, with more modules whose functions may be named."""
        more = Handlers(modules=self.modules.union(modules))
        more._by_name = self._by_name
        return more

    def has(self, name: str) -> bool:
        """Whether a function was registered under the name."""
        return name in self._by_name

    def find(self, name: str) -> Handler:
        """The handler of a name. Raises UnknownHandler."""
        if name in self._by_name:
            return self._by_name[name]
        module, colon, attribute = name.partition(":")
        if not colon:
            raise UnknownHandler(f"There is no handler {name!r}.", suggestion(name, self._by_name, noun="Handlers"))
        if module not in self.modules:
            hint = suggestion(module, self.modules, noun="Allowed modules")
            raise UnknownHandler(f"Handlers may not come from module {module!r}.", f"{hint} {self._told_names()}")
        return self._imported(module, attribute)

    def _told_names(self) -> str:
        return f"Handlers: {', '.join(self.names) or 'none'}."

    def _imported(self, module: str, attribute: str) -> Handler:
        try:
            held = vars(importlib.import_module(module))
        except Exception as error:
            raise UnknownHandler(
                f"Module {module!r} cannot be imported: {type(error).__name__}: {error}.", self._told_names()
            ) from error
        own = {name: value for name, value in held.items() if _is_own(name, value, module)}
        if attribute not in own:
            hint = suggestion(attribute, own, noun="Functions")
            raise UnknownHandler(f"Module {module!r} defines no function {attribute!r} that takes a context.", hint)
        return own[attribute]


registered: Final = Handlers()
"""The handlers of `@task_handler`."""


def task_handler(name: str) -> Callable[[H], H]:
    """A decorator that registers a function as the handler of that name, for every workflow of the process."""
    return registered.task_handler(name)


def as_handlers(given: Handlers | Mapping[str, Handler] | None) -> Handlers:
    """The handlers that are meant: those of `@task_handler` if nobody gives any."""
    if given is None:
        return registered
    return given if isinstance(given, Handlers) else Handlers(given)


def takes_step(function: Handler) -> bool:
    """Whether a handler wants the step beside the context."""
    return _arity(function) == 2


def _arity(function: Handler) -> int | None:
    """With how many arguments a handler is called; None if it takes neither one nor two."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return 1  # a builtin that does not say
    for count in (2, 1):
        try:
            signature.bind(*(None,) * count)
        except TypeError:
            continue
        return count
    return None


def _is_own(name: str, value: object, module: str) -> bool:
    """Whether a name of a module is a function that it defines itself for others."""
    is_function = inspect.isfunction(value) and not name.startswith("_")
    return is_function and value.__module__ == module and _arity(cast(Handler, value)) is not None


def _origin(function: Handler) -> tuple[str, str] | int:
    """Where a function stands in its program: the same when its module is loaded again."""
    name: str | None = getattr(function, "__qualname__", None)
    return (function.__module__, name) if name is not None and "<" not in name else id(function)
