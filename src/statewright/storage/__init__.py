"""Persistence of threads, stores, caches and records of runs in databases.

`checkpoints/`, `store/`, `ledger/` and `cache.py` define how this data is stored in tables, without depending on a
particular database. They use a database through the port in `database.py`. Each adapter to the port is a package, such
as `sqlite/`.
"""
