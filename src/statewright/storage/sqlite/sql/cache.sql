-- Statements of ../../sql/cache.sql in the dialect of SQLite.

-- put
-- Replaces a result. One that does not expire gets an expiry after those of all earlier results.
INSERT OR REPLACE INTO cache (node, input, value, until)
VALUES (:node, :input, :value, coalesce(:until, max(:never, (SELECT coalesce(max(until), 0) FROM cache) + 1)));

-- surplus
-- Deletes what exceeds the maximal size, results that expire first before others.
DELETE FROM cache
WHERE (node, input) IN (
    SELECT node, input FROM cache
    ORDER BY until
    LIMIT max(0, (SELECT count(*) FROM cache) - :max_size)
);
