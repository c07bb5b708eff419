"""Python files and modules, imported for what stands in them."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

from statewright.cli.failure import WrongUse


def module_of(named: str) -> ModuleType:
    """A file, imported as a module that can import its neighbours; or a module by its name, from the current folder.

    What a process has imported before is not executed again.

    Raises WrongUse for what cannot be imported, with the line of the file that failed.
    """
    path = Path(named)
    if not path.exists() and path.suffix != ".py" and all(part.isidentifier() for part in named.split(".")):
        sys.path.insert(0, str(Path.cwd()))
        return _imported(lambda: importlib.import_module(named), path)
    if not path.is_file():
        raise WrongUse(f"There is no file {str(path)!r}. Give the path of a Python file that holds a graph.")
    if path.suffix != ".py":
        raise WrongUse(f"{str(path)!r} is not a Python file. Give a file that ends in .py.")
    sys.path.insert(0, str(path.resolve().parent))
    return _imported(lambda: _from_file(path), path)


def module_in(folder: Path, named: str) -> ModuleType:
    """A module as a project in a folder names it: `file.py`, relative to the folder, or a name that it imports.

    Raises WrongUse, like `module_of`.
    """
    if named.endswith(".py"):
        return module_of(str(folder / named))
    sys.path.insert(0, str(folder.resolve()))
    return _imported(lambda: importlib.import_module(named), Path(named))


def _from_file(path: Path) -> ModuleType:
    present = sys.modules.get(path.stem)
    if present is not None and _is_of_file(present, path):
        return present
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None  # it is a file that ends in .py
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(path.stem, None)  # half a module is not there, as for `import`
        raise
    return module


def _is_of_file(module: ModuleType, path: Path) -> bool:
    file = getattr(module, "__file__", None)
    return file is not None and Path(file).resolve() == path.resolve()


def _imported(load_module: Callable[[], ModuleType], path: Path) -> ModuleType:
    try:
        return load_module()
    except ModuleNotFoundError as error:
        if not f"{path}.".startswith(f"{error.name}."):
            raise WrongUse(f"{path} cannot be imported: ModuleNotFoundError: {error}{_where(error, path)}") from error
        raise WrongUse(f"There is no file and no module {str(path)!r}. Give the path of a Python file.") from error
    except Exception as error:
        raise WrongUse(f"{path} cannot be imported: {type(error).__name__}: {error}{_where(error, path)}") from error


def _where(error: Exception, path: Path) -> str:
    """The line of the file at which importing it failed."""
    if isinstance(error, SyntaxError):
        return ""
    own = path.resolve()
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename) == own]
    return f" (line {lines[-1]})" if lines else ""
