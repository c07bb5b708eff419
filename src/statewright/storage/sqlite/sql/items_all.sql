-- All items, the last updated first; those whose time is over left out.
SELECT id, namespace FROM items
WHERE until IS NULL OR until > :now
ORDER BY id DESC
