"""Maps with declared keys: their declarations on the classes of the model, the types of their values, and reading."""
