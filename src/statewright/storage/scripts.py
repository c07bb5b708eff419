"""SQL in files: statements by name, and scripts that create tables.

Most statements are the same in all dialects. They are in `sql/` beside this module; an adapter has, in its own folder
`sql/`, those that differ, in files of the same names.

`NUMBER_BITS` and `LAST_NUMBER` in a statement stand for the division of row ids (`row_ids.py`), which depends on the
database.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from pkgutil import get_data  # importlib.resources takes much longer to import
from typing import Final, cast

from statewright.storage.row_ids import RowIds

SHARED: Final = "statewright.storage"
"""The package whose folder `sql` has the statements of all dialects."""
_NAME: Final = re.compile(r"^-- ([a-z0-9_]+)$", re.MULTILINE)


@cache
def script(package: str, name: str) -> str:
    """Return the text of a file in the folder `sql` of a package."""
    return cast(bytes, get_data(package, f"sql/{name}.sql")).decode()


@cache
def statements(package: str, name: str, row_ids: RowIds) -> Mapping[str, str]:
    """Return a group of statements by name, for the database of a package: each follows a line `-- name`.

    Raises FileNotFoundError if there is no such group.
    """
    texts = [text for text in map(_text_of, (SHARED, package), (name, name)) if text is not None]
    if not texts:
        raise FileNotFoundError(f"neither {SHARED} nor {package} has statements {name!r}")
    return {key: row_ids.fill_in(sql) for text in texts for key, sql in _split_statements(text)}


def _text_of(package: str, name: str) -> str | None:
    try:
        return script(package, name)
    except FileNotFoundError:
        return None


def _split_statements(text: str) -> Iterator[tuple[str, str]]:
    _, *parts = _NAME.split(text)
    for index in range(0, len(parts), 2):
        yield parts[index], parts[index + 1].strip().rstrip(";")


def split_script(package: str, name: str) -> Iterator[str]:
    """Yield the statements of a script without comments, which a database would store with the text of its tables.

    A statement ends with a semicolon at the end of a line. Bodies of functions, between `$$`, and of triggers, from a
    line `BEGIN` to `END;`, stay unchanged.
    """
    part, in_function, in_trigger = "", False, False
    for line in script(package, name).splitlines():
        in_function = in_function != (line.count("$$") % 2 == 1)
        if not in_function:
            in_trigger = (in_trigger or line == "BEGIN") and line != "END;"
        part += f"{line}\n" if in_function or in_trigger else line.partition("--")[0].strip() + " "
        if not in_function and not in_trigger and part.rstrip().endswith(";"):
            yield part.strip().removesuffix(";")
            part = ""
