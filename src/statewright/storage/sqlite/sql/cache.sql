-- Statements of cache.py, each after its name.

-- get
-- The result that is kept under a key, unless its time is over.
SELECT value FROM cache
WHERE node = :node AND input = :input AND until > :now;

-- put
-- A result in place of what was there. Where it has no end, one later than those of all before.
INSERT OR REPLACE INTO cache (node, input, value, until)
VALUES (:node, :input, :value, coalesce(:until, max(:never, (SELECT coalesce(max(until), 0) FROM cache) + 1)));

-- surplus
-- What is more than fits: forgotten, what would end first before the rest.
DELETE FROM cache
WHERE (node, input) IN (
    SELECT node, input FROM cache
    ORDER BY until
    LIMIT max(0, (SELECT count(*) FROM cache) - :max_size)
);

-- forget_over
DELETE FROM cache WHERE until <= ?;

-- forget_node
DELETE FROM cache WHERE node = ?;

-- forget_all
DELETE FROM cache;
