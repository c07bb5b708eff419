-- Statements of store/items.py, each after its name.

-- item
-- An item, unless it has expired.
SELECT id, namespace, key, created_at, updated_at, ttl, value FROM items
WHERE namespace = :namespace AND key = :key AND (until IS NULL OR until > :now);

-- found
-- An item that a search has found.
SELECT id, namespace, key, created_at, updated_at, ttl, value FROM items
WHERE id = :id;

-- all
-- All unexpired items, the last updated first.
SELECT id, namespace FROM items
WHERE until IS NULL OR until > :now
ORDER BY id DESC;

-- delete
DELETE FROM items WHERE id = ?;

-- delete_over
DELETE FROM items WHERE until <= :now RETURNING id;

-- put_vectors
INSERT INTO vectors VALUES (?, ?, ?);

-- delete_vectors
DELETE FROM vectors WHERE item = ?;
