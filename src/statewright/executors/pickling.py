"""Values as bytes for other processes.

Functions and classes are pickled by name: the worker imports them. That is fast, and the worker runs exactly the code
of the module. Objects without an importable name (lambdas, local functions, definitions in a notebook) need
cloudpickle, which is used if it is installed; it is not a dependency, because programs whose nodes are in modules do
not need it.
"""

from __future__ import annotations

import pickle
import sys
from importlib import import_module
from importlib.util import find_spec
from typing import Any


def dumps(value: Any) -> bytes:
    """Return a value as bytes, with cloudpickle if plain pickle fails. Raises the error of plain pickle."""
    try:
        return pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    except Exception as error:
        data = _cloudpickled(value)
        if data is None:
            raise error from None
        return data


def dumps_function(function: Any) -> bytes:
    """Return a function with its settings as bytes.

    Definitions in a main module that a worker cannot import again, such as a notebook, are pickled by value.
    """
    try:
        data = pickle.dumps(function, pickle.HIGHEST_PROTOCOL)
    except Exception as error:
        data, failure = b"", error
    else:
        if b"__main__" not in data or _can_import_main():
            return data
        failure = pickle.PicklingError("it is defined in an interactive session, which a worker cannot import")
    by_value = _cloudpickled(function)
    if by_value is None:
        raise failure
    return by_value


def _cloudpickled(value: Any) -> bytes | None:
    """Return a value as bytes with cloudpickle; None if it is not installed, or fails, too."""
    if find_spec("cloudpickle") is None:
        return None
    cloudpickle: Any = import_module("cloudpickle")
    try:
        return cloudpickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    except Exception:
        return None


def _can_import_main() -> bool:
    main = sys.modules.get("__main__")
    return getattr(main, "__spec__", None) is not None or getattr(main, "__file__", None) is not None
