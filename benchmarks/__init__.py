"""The cost of a superstep, compared with other libraries: a table, not an assertion.

`run` is the command, `harness` measures, `report` writes; each module of `cases` holds one case.
"""
