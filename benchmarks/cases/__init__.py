"""One module per case. Each has `FIGURES`; to import it loads no engine. `benchmarks.catalogue` lists them."""
