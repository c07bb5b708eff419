"""`statewright db vacuum`: give the room back that deleted threads have left."""

from __future__ import annotations

from statewright.cli.options import DatabaseOption, KeyOption
from statewright.cli.printing import say


def vacuum(database: DatabaseOption = None, key_file: KeyOption = None) -> None:
    """Shrink the database file after `threads prune` or `threads rm`. Others cannot write meanwhile."""
    from statewright.cli.database import existing_path, opened

    path = existing_path(database)
    with opened(database, key_file) as saver:
        freed = saver.database.vacuum()
    say(f"Vacuumed {path}: {path.stat().st_size} bytes, {max(freed, 0)} fewer than before.")
