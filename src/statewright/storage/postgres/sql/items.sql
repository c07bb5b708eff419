-- Statements of ../../sql/items.sql in the dialect of Postgres.

-- id
-- Locks the item, so that its id is still the same when it is replaced or deleted.
SELECT id, created_at, until FROM items WHERE namespace = :namespace AND key = :key FOR UPDATE;

-- put
-- Replaces an item, with an id larger than all before. Does nothing if it is not the one that is to be replaced, but one
-- that another process has just inserted.
INSERT INTO items (namespace, key, created_at, updated_at, ttl, until, value)
VALUES (:namespace, :key, coalesce(:created_at::BIGINT, :now::BIGINT), :now, :ttl::BIGINT, :now + :ttl, :value)
ON CONFLICT (namespace, key) DO UPDATE SET id = DEFAULT,
    created_at = excluded.created_at, updated_at = excluded.updated_at, ttl = excluded.ttl, until = excluded.until,
    value = excluded.value
WHERE items.id = :replaced::BIGINT;

-- under
-- The unexpired items of a range of namespaces, the last updated first.
SELECT id, namespace FROM items
WHERE namespace >= :first AND (:beyond::TEXT IS NULL OR namespace < :beyond) AND (until IS NULL OR until > :now)
ORDER BY id DESC;

-- vectors
-- The vectors of the unexpired items of a range of namespaces.
SELECT id, namespace, dims, parts FROM items JOIN vectors ON item = id
WHERE namespace >= :first AND (:beyond::TEXT IS NULL OR namespace < :beyond) AND (until IS NULL OR until > :now);

-- namespaces
-- The namespaces of a range that have unexpired items.
SELECT DISTINCT namespace FROM items
WHERE namespace >= :first AND (:beyond::TEXT IS NULL OR namespace < :beyond) AND (until IS NULL OR until > :now);

-- delete_vectors_of
DELETE FROM vectors WHERE item IN (SELECT value::BIGINT FROM json_array_elements_text(?::JSON));

-- refresh
UPDATE items SET until = greatest(until, ? + ttl) WHERE id = ?;
