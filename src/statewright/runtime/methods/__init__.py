"""The methods of compiled graphs, grouped by purpose; `CompiledGraph` inherits them all."""
