"""Results of the service as dataclasses with Python names; `raw` has the original JSON."""
