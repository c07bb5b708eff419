"""The registry of the functions that task steps call by name.

Definitions are untrusted: a name refers to a registered function, or to a function of an explicitly allowed module. No
other module is imported.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeVar, cast

from statewright.errors import InvalidConfig, suggestion

Handler = Callable[..., Any]
"""`fn(ctx)` or `fn(ctx, step)`, sync or async. Returns a StepResult, a map with its keys, or None."""
H = TypeVar("H", bound=Handler)


class UnknownHandler(LookupError):
    """No handler has this name. It is reported as a problem of the definition; `hint` lists the existing handlers."""

    def __init__(self, message: str, hint: str) -> None:
        self.hint = hint
        super().__init__(message)


class Handlers:
    """Handlers by name, and the modules whose functions may be referenced as `module:function`."""

    def __init__(self, handlers: Mapping[str, Handler] | None = None, *, modules: Iterable[str] = ()) -> None:
        """Register the handlers. Raises InvalidConfig for an object that is not a function."""
        self._by_name: dict[str, Handler] = {}
        self.modules = frozenset(modules)
        for name, function in (handlers or {}).items():
            self.register(name, function)

    @property
    def names(self) -> tuple[str, ...]:
        """The registered names, sorted."""
        return tuple(sorted(self._by_name))

    def task_handler(self, name: str) -> Callable[[H], H]:
        """Return a decorator that registers a function under a name."""

        def register(function: H) -> H:
            self.register(name, function)
            return function

        return register

    def register(self, name: str, function: Handler) -> None:
        """Register a function under a name. A reloaded module may register its functions again.

        Raises InvalidConfig if the object is not a function, or if another function is registered under the name.
        """
        if not callable(function) or _count_arguments(function) is None:
            raise InvalidConfig(
                f"Handler {name!r} is {function!r}, which cannot be called with a context. "
                f"Pass a function fn(ctx) or fn(ctx, step)."
            )
        existing = self._by_name.get(name)
        if existing is not None and _make_identity_key(existing) != _make_identity_key(function):
            raise InvalidConfig(
                f"Two functions are registered as handler {name!r}: {existing!r} and {function!r}. Rename one of them."
            )
        self._by_name[name] = function

    def allowing(self, *modules: str) -> Handlers:
        """Return a registry that allows more modules. It shares all registered handlers, including later ones."""
        handlers = Handlers(modules=self.modules.union(modules))
        handlers._by_name = self._by_name
        return handlers

    def has(self, name: str) -> bool:
        """Return whether a function is registered under the name."""
        return name in self._by_name

    def find(self, name: str) -> Handler:
        """Return the handler with a name. Raises UnknownHandler."""
        if name in self._by_name:
            return self._by_name[name]
        module, colon, attribute = name.partition(":")
        if not colon:
            raise UnknownHandler(f"Handler {name!r} does not exist.", suggestion(name, self._by_name, noun="Handlers"))
        if module not in self.modules:
            hint = suggestion(module, self.modules, noun="Allowed modules")
            raise UnknownHandler(f"Module {module!r} is not allowed for handlers.", f"{hint} {self._list_names()}")
        return self._import_function(module, attribute)

    def _list_names(self) -> str:
        return f"Handlers: {', '.join(self.names) or 'none'}."

    def _import_function(self, module: str, attribute: str) -> Handler:
        try:
            namespace = vars(importlib.import_module(module))
        except Exception as error:
            raise UnknownHandler(
                f"Module {module!r} cannot be imported: {type(error).__name__}: {error}.", self._list_names()
            ) from error
        functions = {name: value for name, value in namespace.items() if _is_public_handler(name, value, module)}
        if attribute not in functions:
            hint = suggestion(attribute, functions, noun="Functions")
            raise UnknownHandler(f"Module {module!r} defines no function {attribute!r} that takes a context.", hint)
        return functions[attribute]


registered: Final = Handlers()
"""The registry that `@task_handler` fills."""


def task_handler(name: str) -> Callable[[H], H]:
    """Return a decorator that registers a function as a handler for all workflows of the process."""
    return registered.task_handler(name)


def as_handlers(handlers: Handlers | Mapping[str, Handler] | None) -> Handlers:
    """Return handlers as a registry; the registry of `@task_handler` for None."""
    if handlers is None:
        return registered
    return handlers if isinstance(handlers, Handlers) else Handlers(handlers)


def bind_step(handler: Handler, step: Any) -> Handler:
    """Return the handler as a function whose only argument is the context. A second parameter is bound to `step`."""
    if _count_arguments(handler) != 2:
        return handler

    def call(context: Any) -> Any:
        return handler(context, step)

    return call


def _count_arguments(function: Handler) -> int | None:
    """Return the number of arguments to call a handler with, which is 1 or 2; None if it accepts neither number."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return 1  # a builtin without a signature
    for count in (2, 1):  # 2 first, so that a handler with an optional second parameter receives the step
        try:
            signature.bind(*(None,) * count)
        except TypeError:
            continue
        return count
    return None


def _is_public_handler(name: str, value: object, module: str) -> bool:
    """Return whether an attribute of a module is a public function that can be called as a handler.

    Functions that the module only imports are excluded. For example, a definition must not call `system` of a module
    that contains `from os import system`.
    """
    is_function = inspect.isfunction(value) and not name.startswith("_")
    return is_function and value.__module__ == module and _count_arguments(cast(Handler, value)) is not None


def _make_identity_key(function: Handler) -> tuple[str, str, int] | int:
    """Return a key that identifies a function, and stays the same when its module is reloaded."""
    name: str | None = getattr(function, "__qualname__", None)
    if name is None or "<" in name:  # lambdas and local functions may share a name
        return id(function)
    # A method has the same name for all objects, but not the same `__self__`.
    return function.__module__, name, id(getattr(function, "__self__", None))
