"""YAML texts read as plain values, each with its position in the file. Size, depth and aliases are bounded."""
