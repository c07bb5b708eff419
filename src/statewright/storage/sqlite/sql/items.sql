-- Statements of store/items.py, each after its name.

-- item
-- The item at a place, unless its time is over.
SELECT id, namespace, key, created_at, updated_at, ttl, value FROM items
WHERE namespace = :namespace AND key = :key AND (until IS NULL OR until > :now);

-- found
-- The item of a number that a search found.
SELECT id, namespace, key, created_at, updated_at, ttl, value FROM items
WHERE id = :id;

-- put
-- An item in place of what was there, with a number larger than all before.
INSERT OR REPLACE INTO items (namespace, key, created_at, updated_at, ttl, until, value)
VALUES (:namespace, :key, coalesce(:created_at, :now), :now, :ttl, :now + :ttl, :value);

-- all
-- All items, the last updated first; those whose time is over left out.
SELECT id, namespace FROM items
WHERE until IS NULL OR until > :now
ORDER BY id DESC;

-- under
-- The items of some namespaces, the last updated first; those whose time is over left out.
SELECT id, namespace FROM items
WHERE namespace >= :first AND namespace < :beyond AND (until IS NULL OR until > :now)
ORDER BY id DESC;

-- vectors
-- What the items of some namespaces mean; those whose time is over left out.
SELECT id, namespace, dims, parts FROM items JOIN vectors ON item = id
WHERE namespace >= :first AND namespace < :beyond AND (until IS NULL OR until > :now);

-- namespaces
-- The namespaces that hold an item whose time is not over.
SELECT DISTINCT namespace FROM items
WHERE namespace >= :first AND namespace < :beyond AND (until IS NULL OR until > :now);

-- vectors_over
-- What items mean whose time is over: forgotten.
DELETE FROM vectors
WHERE item IN (SELECT id FROM items WHERE until <= :now);

-- id
SELECT id, created_at, until FROM items WHERE namespace = :namespace AND key = :key;

-- delete
DELETE FROM items WHERE id = ?;

-- delete_over
DELETE FROM items WHERE until <= :now;

-- refresh
UPDATE items SET until = max(until, ? + ttl) WHERE id = ?;

-- put_vectors
INSERT INTO vectors VALUES (?, ?, ?);

-- delete_vectors
DELETE FROM vectors WHERE item = ?;
