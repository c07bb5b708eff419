"""`[serve]`: how the project is served."""

from __future__ import annotations

from typing import Any, Final

from statewright.project.form import COUNT, DURABILITY, DURATION, METRICS_ACCESS, PORT, TEXT, TEXTS
from statewright.project.model import Serving
from statewright.project.reader import Reader

_SERVE: Final = {
    "host": TEXT,
    "port": PORT,
    "database": TEXT,
    "cors_origins": TEXTS,
    "allowed_hosts": TEXTS,
    "max_body": COUNT,
    "capacity": COUNT,
    "durability": DURABILITY,
    "drain": DURATION,
    "retention_days": COUNT,
    "webhook_hosts": TEXTS,
    "metrics": METRICS_ACCESS,
    "metrics_host": TEXT,
    "metrics_port": PORT,
    "keep_alive": DURATION,
    "read_timeout": DURATION,
    "write_timeout": DURATION,
    "max_connections": COUNT,
    "max_streams": COUNT,
}
_LISTS: Final = ("cors_origins", "allowed_hosts", "webhook_hosts")


def read_serving(given: Any, reader: Reader) -> Serving:
    """What the project says about being served."""
    values = reader.table(given, ("serve",), _SERVE, strict=True)
    if "database" in values:
        values["database"] = _database(values["database"], reader)
    for name in _LISTS:
        values[name] = tuple(values.get(name, ()))
    return Serving(**values)


def _database(name: str, reader: Reader) -> Any:
    if "\0" in name or not name:
        reader.problem(("serve", "database"), "It is no path.", "Name a file, such as 'runs.db'.")
        return None
    return reader.folder / name.removeprefix("sqlite:///")
