-- The namespaces that hold an item whose time is not over.
SELECT DISTINCT namespace FROM items
WHERE namespace >= :first AND namespace < :beyond AND (until IS NULL OR until > :now)
