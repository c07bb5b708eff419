"""Commands on the files of graphs and workflows: `run`, `resume`, `check`, `test`, `draw`, `init`, `schema`."""
