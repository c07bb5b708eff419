"""What a superstep costs here, beside what it costs elsewhere: a table, not an assertion.

`run` is the command, `harness` measures, `report` writes; each module of `cases` holds one case.
"""
