"""What the service answers, as values: named as in Python, read from JSON, the JSON kept beside."""
