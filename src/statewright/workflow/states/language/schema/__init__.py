"""Maps with declared keys: the declarations on the classes of the model, the types of values, and reading."""
