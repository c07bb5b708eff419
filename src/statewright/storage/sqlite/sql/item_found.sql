-- The item of a number that a search found.
SELECT id, namespace, key, created_at, updated_at, ttl, value FROM items
WHERE id = :id
