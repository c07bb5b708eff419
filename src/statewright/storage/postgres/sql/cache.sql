-- Statements of ../../sql/cache.sql in the dialect of Postgres.

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
