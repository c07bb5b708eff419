"""One module per case. Each has `FIGURES`; importing it loads no engine. `benchmarks.catalogue` lists them."""
