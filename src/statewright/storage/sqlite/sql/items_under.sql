-- The items of some namespaces, the last updated first; those whose time is over left out.
SELECT id, namespace FROM items
WHERE namespace >= :first AND namespace < :beyond AND (until IS NULL OR until > :now)
ORDER BY id DESC
