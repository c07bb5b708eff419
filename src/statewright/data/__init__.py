"""Data from and for the outside: as JSON, checked against schemas, compared by fingerprints."""
