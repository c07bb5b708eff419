"""`transform_node`: computes JSON fields from other JSON, without a model. See `docs/guide/custom-nodes.md`."""
