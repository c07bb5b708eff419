"""Maps of keys: their declaration on the classes of the model, the types of values, and reading."""
