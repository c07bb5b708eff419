-- Statements of cache.py, each after its name.

-- get
-- The result of a key, unless it has expired.
SELECT value FROM cache
WHERE node = :node AND input = :input AND until > :now;

-- put
-- Replaces a result. One that does not expire gets an expiry after those of all earlier results.
INSERT INTO cache (node, input, value, until)
VALUES (:node, :input, :value,
    coalesce(:until::BIGINT, greatest(:never::BIGINT, (SELECT coalesce(max(until), 0) FROM cache) + 1)))
ON CONFLICT (node, input) DO UPDATE SET value = excluded.value, until = excluded.until;

-- surplus
-- Deletes what exceeds the maximal size, results that expire first before others.
DELETE FROM cache
WHERE (node, input) IN (
    SELECT node, input FROM cache
    ORDER BY until
    LIMIT greatest(0, (SELECT count(*) FROM cache) - :max_size)
);

-- forget_over
DELETE FROM cache WHERE until <= ?;

-- forget_node
DELETE FROM cache WHERE node = ?;

-- forget_all
DELETE FROM cache;
