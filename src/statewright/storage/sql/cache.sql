-- Statements of cache.py, each after its name.

-- get
-- The result of a key, unless it has expired.
SELECT value FROM cache
WHERE node = :node AND input = :input AND until > :now;

-- forget_over
DELETE FROM cache WHERE until <= ?;

-- forget_node
DELETE FROM cache WHERE node = ?;

-- forget_all
DELETE FROM cache;
