"""`transform_node`: fields of JSON made from other JSON, without a model. See `docs/guide/custom-nodes.md`."""
