"""SQL in files: statements by name, and scripts that create tables."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files

_NAME = re.compile(r"^-- ([a-z0-9_]+)$", re.MULTILINE)


@cache
def script(package: str, name: str) -> str:
    """Return the text of a file in the folder `sql` of a package."""
    return files(package).joinpath(f"sql/{name}.sql").read_text("utf-8")


@cache
def statements(package: str, name: str) -> Mapping[str, str]:
    """Return the statements of a file by name: each follows a line `-- name`."""
    _, *parts = _NAME.split(script(package, name))
    return {parts[index]: parts[index + 1].strip().rstrip(";") for index in range(0, len(parts), 2)}


def split_script(package: str, name: str) -> Iterator[str]:
    """Yield the statements of a script without comments, which a database would store with the text of its tables.

    A statement ends with a semicolon at the end of a line. Bodies of functions, between `$$`, stay unchanged.
    """
    part, in_body = "", False
    for line in script(package, name).splitlines():
        in_body = in_body != (line.count("$$") % 2 == 1)
        part += f"{line}\n" if in_body else line.partition("--")[0].strip() + " "
        if not in_body and part.rstrip().endswith(";"):
            yield part.strip().removesuffix(";")
            part = ""
