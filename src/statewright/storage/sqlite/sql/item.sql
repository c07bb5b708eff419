-- The item at a place, unless its time is over.
SELECT id, namespace, key, created_at, updated_at, ttl, value FROM items
WHERE namespace = :namespace AND key = :key AND (until IS NULL OR until > :now)
