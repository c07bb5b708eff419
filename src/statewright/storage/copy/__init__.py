"""Copying everything that is stored in a database to another one, of any kind."""

from statewright.storage.copy.copy import CopyReport, check_is_idle, copy_database

__all__ = ["CopyReport", "check_is_idle", "copy_database"]
