"""The checks of the parent: the notes of the children against the contents of the file."""
