"""Finding handlers by name, and protection against forbidden names."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from statewright.errors import InvalidConfig
from statewright.workflow.steps import Handlers, registered, task_handler
from statewright.workflow.steps.handlers import UnknownHandler, as_handlers, bind_step


def one(ctx: Any) -> None: ...


def two(ctx: Any, step: Any) -> None: ...


def test_the_decorator_registers_and_returns_the_function() -> None:
    handlers = Handlers()
    assert handlers.task_handler("one")(one) is one
    assert handlers.find("one") is one
    assert handlers.names == ("one",)


def test_the_global_registry_is_the_default() -> None:
    @task_handler("tests.only")
    def handler(ctx: Any) -> None: ...

    assert as_handlers(None) is registered
    assert registered.find("tests.only") is handler
    assert not Handlers().has("tests.only")
    assert as_handlers({"a": one}).find("a") is one


@pytest.mark.parametrize(
    ("function", "expected"),
    [(one, False), (two, True), (lambda ctx, step=None: None, True), (lambda *args: None, True), (print, True)],
)
def test_only_handlers_with_a_second_parameter_receive_the_step(function: Any, expected: bool) -> None:
    assert (bind_step(function, None) is not function) is expected


@pytest.mark.parametrize("function", ["text", None, lambda: None, lambda a, b, c: None, lambda *, ctx: None])
def test_functions_that_cannot_be_called_with_a_context_are_rejected(function: Any) -> None:
    with pytest.raises(InvalidConfig, match="Pass a function"):
        Handlers({"a": function})


def test_a_name_can_be_registered_for_one_function_only() -> None:
    handlers = Handlers({"a": one})
    handlers.register("a", one)
    with pytest.raises(InvalidConfig, match="Two functions are registered as handler 'a'"):
        handlers.register("a", two)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("enrch", "Handler 'enrch' does not exist. Did you mean 'enrich'? Handlers: enrich."),
        ("os:system", "Module 'os' is not allowed for handlers."),
        ("builtins:eval", "Module 'builtins' is not allowed for handlers."),
        (":x", "Module '' is not allowed for handlers."),
        ("", "Handler '' does not exist. Handlers: enrich."),
    ],
)
def test_unknown_and_forbidden_names_are_rejected(name: str, message: str) -> None:
    with pytest.raises(UnknownHandler) as caught:
        Handlers({"enrich": one}).find(name)
    assert message in f"{caught.value} {caught.value.hint}"


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    code = """
from os import system
from functools import partial
def send(ctx): return None
def _private(ctx): return None
def wrong(): return None
class Thing:
    def __init__(self, ctx): pass
"""
    (tmp_path / "mails_of_a_test.py").write_text(code, encoding="utf-8")
    (tmp_path / "broken_mails_of_a_test.py").write_text("1 / 0", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    yield "mails_of_a_test"
    sys.modules.pop("mails_of_a_test", None)


def test_functions_of_allowed_modules_are_found(module: str) -> None:
    function = Handlers(modules=[module]).find(f"{module}:send")
    assert (function.__name__, function.__module__) == ("send", module)


@pytest.mark.parametrize(
    "attribute", ["system", "_private", "wrong", "Thing", "partial", "send.__globals__", "", "x:y"]
)
def test_only_public_functions_of_a_module_are_found(module: str, attribute: str) -> None:
    with pytest.raises(UnknownHandler, match="defines no function"):
        Handlers(modules=[module]).find(f"{module}:{attribute}")


@pytest.mark.parametrize("other", ["mails_of_a_test.os", "mails_of_a_test ", "Mails_of_a_test"])
def test_a_module_is_allowed_by_its_whole_name(module: str, other: str) -> None:
    with pytest.raises(UnknownHandler, match="is not allowed for handlers"):
        Handlers(modules=[module]).find(f"{other}:send")


def test_forbidden_modules_are_not_imported(module: str) -> None:
    with pytest.raises(UnknownHandler):
        Handlers().find(f"{module}:send")
    assert module not in sys.modules


def test_a_module_that_fails_to_import_is_an_error(module: str) -> None:
    with pytest.raises(UnknownHandler, match="cannot be imported: ZeroDivisionError"):
        Handlers(modules=[f"broken_{module}"]).find(f"broken_{module}:send")


def test_allowing_adds_modules_and_shares_the_registrations(module: str) -> None:
    handlers = Handlers({"a": one})
    more = handlers.allowing(module)
    handlers.register("b", two)
    assert more.find("b") is two
    assert more.find(f"{module}:send")
    with pytest.raises(UnknownHandler):
        handlers.find(f"{module}:send")


def test_methods_of_two_objects_are_different_handlers() -> None:
    class Mailer:
        def send(self, context: object) -> str:
            return "sent"

    Mailer.send.__qualname__ = "Mailer.send"  # as if the class were defined in a module
    first, second = Mailer(), Mailer()
    handlers = Handlers({"send": first.send})
    handlers.register("send", first.send)
    with pytest.raises(InvalidConfig, match="Two functions"):
        handlers.register("send", second.send)
