-- What the items of some namespaces mean; those whose time is over left out.
SELECT id, namespace, dims, parts FROM items JOIN vectors ON item = id
WHERE namespace >= :first AND namespace < :beyond AND (until IS NULL OR until > :now)
