"""The methods of compiled graphs, by what they do; `CompiledGraph` inherits them all."""
