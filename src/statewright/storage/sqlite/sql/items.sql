-- Statements of ../../sql/items.sql in the dialect of SQLite.

-- id
SELECT id, created_at, until FROM items WHERE namespace = :namespace AND key = :key;

-- put
-- Replaces an item, with an id larger than all before.
INSERT OR REPLACE INTO items (namespace, key, created_at, updated_at, ttl, until, value)
VALUES (:namespace, :key, coalesce(:created_at, :now), :now, :ttl, :now + :ttl, :value);

-- under
-- The unexpired items of a range of namespaces, the last updated first.
SELECT id, namespace FROM items
WHERE namespace >= :first AND namespace < :beyond AND (until IS NULL OR until > :now)
ORDER BY id DESC;

-- vectors
-- The vectors of the unexpired items of a range of namespaces.
SELECT id, namespace, dims, parts FROM items JOIN vectors ON item = id
WHERE namespace >= :first AND namespace < :beyond AND (until IS NULL OR until > :now);

-- namespaces
-- The namespaces of a range that have unexpired items.
SELECT DISTINCT namespace FROM items
WHERE namespace >= :first AND namespace < :beyond AND (until IS NULL OR until > :now);

-- delete_vectors_of
DELETE FROM vectors WHERE item IN (SELECT value FROM json_each(?));

-- refresh
UPDATE items SET until = max(until, ? + ttl) WHERE id = ?;
