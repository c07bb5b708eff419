"""Reading of YAML as plain values with their positions in the file, with limits on size, depth and aliases."""
