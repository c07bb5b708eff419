"""Reading of YAML as plain values with their positions in the file. Size, depth and aliases are limited."""
