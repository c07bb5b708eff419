"""Databases that keep threads, stores, caches and records of runs.

`checkpoints/`, `store/`, `ledger/` and `cache` lay out these in tables, and know no particular database. They use one
through the port in `database.py`; each adapter is a package, such as `sqlite/`.
"""
