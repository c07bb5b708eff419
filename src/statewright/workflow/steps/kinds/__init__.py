"""What steps do, one module a kind that needs no model."""
